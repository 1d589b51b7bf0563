import type { JsonSchema } from "../../../contract/rest/operation-schema.ts";

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
  const isNamed = typeof additionalProperties === "object";
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
