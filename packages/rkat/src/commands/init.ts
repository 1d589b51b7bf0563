import { lstat, mkdir, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { RuntimeError } from "@rkat/core/contract/error";
import type { JsonSchema } from "@rkat/core/contract/wire/requests";
import { isErrno, readIfThere } from "@rkat/node/config/realm";
import { Option } from "commander";
import { type Call, command } from "../command-row.ts";
import type { Invocation } from "../parts.ts";

/** `rkat init`. */
export const initRow = command("init", {
  text: "Write a commented configuration for this folder: .rkat/config.toml with every common setting.",
  flags: () => [new Option("-f, --force", "overwrite an existing file")],
  examples: [["rkat init", "then edit .rkat/config.toml"]],
  run: ({ invocation, flags }: Call<{ readonly json?: never; readonly force?: boolean }>) =>
    writeConfiguration(invocation, flags.force === true),
});

async function writeConfiguration({ io, parts }: Invocation, isForced: boolean): Promise<void> {
  const path = join(io.cwd, ".rkat", "config.toml");
  const shown = relative(io.cwd, path);
  if ((await readIfThere(join(io.cwd, "rkat.toml"))) !== undefined) {
    throw new RuntimeError("INVALID_PARAMS", "rkat.toml configures this folder already; edit it, or remove it first");
  }
  await writeOnce(path, { shown, isForced, text: configTemplate(await parts.configFileSchema()) });
  io.stdout.write(
    [
      `Wrote ${shown}. Every line is a comment until you need it.`,
      "",
      "Next:",
      "  rkat doctor    see what works already",
      "  rkat demo      watch a session, without a key",
      "",
    ].join("\n"),
  );
}

async function writeOnce(
  path: string,
  { shown, isForced, text }: { readonly shown: string; readonly isForced: boolean; readonly text: string },
): Promise<void> {
  if (isForced) await refuseLinks([dirname(shown), shown], dirname(dirname(path)));
  try {
    // Private, since the folder will also hold sessions.
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeFile(path, text, { flag: isForced ? "w" : "wx" });
  } catch (cause) {
    const code = isErrno(cause) ? cause.code : undefined;
    const message =
      code === "EEXIST"
        ? `${shown} exists already; rkat init --force overwrites it`
        : `${shown} cannot be written: ${code ?? "it failed"}; check the folder's permissions`;
    throw new RuntimeError("INVALID_PARAMS", message, { cause });
  }
}

/** Refuses links: one in a cloned repository could make us overwrite a file of the user. */
async function refuseLinks(names: readonly string[], folder: string): Promise<void> {
  for (const name of names) {
    const found = await lstat(join(folder, name)).catch(() => undefined);
    if (found?.isSymbolicLink() !== true) continue;
    throw new RuntimeError("INVALID_PARAMS", `${name} is a link, and is not written through; remove it first`);
  }
}

const HEAD = `# Configuration of rkat for this folder and those below it.
# Flags and RKAT_* variables win over this file. Keys never belong here: set ANTHROPIC_API_KEY, OPENAI_API_KEY or
# GEMINI_API_KEY in the environment, and see \`rkat doctor\` for what works.
`;

/** As much of a JSON schema as the configuration uses. */
interface Schema {
  readonly description?: string;
  readonly examples?: readonly unknown[];
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
}

/** What `rkat init` writes: the common keys. Each commented line is valid as it stands once its `#` is removed. */
export function configTemplate({ properties = {} }: JsonSchema): string {
  const sections = Object.entries(properties).flatMap(([name, schema]) => sectionsOf(name, schema));
  return [HEAD, ...sections].join("\n");
}

/** A section with its common keys; a table whose name one chooses is a comment as a whole, under an example's name. */
function sectionsOf(path: string, schema: Schema): readonly string[] {
  const { description = "", examples = [], additionalProperties } = schema;
  const isNamed = typeof additionalProperties === "object" && schema.properties === undefined;
  if (isNamed && examples.length === 0) return [];
  const keys = Object.entries((isNamed ? additionalProperties : schema).properties ?? {});
  const common = keys.filter(([, { examples, additionalProperties }]) => examples && !additionalProperties);
  if (common.length === 0) return keys.flatMap(([name, inner]) => sectionsOf(`${path}.${name}`, inner));
  const lines = common.map(([key, one]) =>
    explained(`# ${key} = ${JSON.stringify(one.examples?.[0] ?? one.default)}`, one.description ?? ""),
  );
  const head = isNamed ? `# [${path}.${examples[0]}]` : `[${path}]`;
  return [`${[explained(head, description), ...lines].join("\n")}\n`];
}

const MEANING_COLUMN = 34;
const COLUMNS_MAX = 120;

/** A line with what it means behind it, in as many lines as that takes; what only a page can show is left out. */
function explained(line: string, meaning: string): string {
  const plain = meaning.replaceAll("`", "").replace(/; \[\S+\]\(\S+\)/, "");
  const [first = "", ...more] = wrapped(plain, COLUMNS_MAX - MEANING_COLUMN - "# ".length);
  const start = line.length < MEANING_COLUMN ? line.padEnd(MEANING_COLUMN) : `${line} `;
  return [
    first === "" ? line : `${start}# ${first}`,
    ...more.map((part) => `${" ".repeat(MEANING_COLUMN)}# ${part}`),
  ].join("\n");
}

function wrapped(text: string, columns: number): readonly string[] {
  return text.match(new RegExp(`\\S.{0,${columns - 1}}(?=\\s|$)`, "g")) ?? [];
}
