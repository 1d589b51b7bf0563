import { lstat, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import type { Config } from "@rkat/core/config/config-schema";
import { invalid } from "@rkat/core/contract/error";
import { failurePolicyFor, HookPoint } from "@rkat/core/contract/hook";
import { isJsonTable, type JsonTable } from "@rkat/core/contract/json";
import type { JsonSchema } from "@rkat/core/contract/wire/requests";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { AGENTS_MD } from "@rkat/node/config/agents-md";
import type { BroughtFile, LoadedConfig } from "@rkat/node/config/load-config";
import { isErrno, readIfThere } from "@rkat/node/config/realm";
import { Option } from "commander";
import { canAsk, isAgreed } from "../chat/ask-person.ts";
import { type Call, type CommandRow, command, show } from "../command-row.ts";
import { jsonFlag } from "../flags.ts";
import { counted, createPaint, type Io, table, writeJson } from "../io.ts";
import { loadHere, readConfiguration } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";

interface TrustFlags {
  readonly status?: boolean;
  readonly revoke?: boolean;
  readonly json?: boolean;
}

export const trustRow = command("trust", {
  text: "Allow this project's config, hooks and MCP servers: show what its rkat.toml, .rkat/config.toml and .rkat/mcp.toml start or send elsewhere, its skills and sub-agents, and its AGENTS.md, and trust them as they are now. The decision is kept in ~/.rkat/trust; a file that changes is asked about again.",
  flags: () => [new Option("--status", "only show it"), new Option("--revoke", "withdraw the trust"), jsonFlag()],
  examples: [
    ["rkat trust", "on a terminal it asks first"],
    ["rkat trust --status", "what is trusted here, and what is left out"],
    ["RKAT_TRUST=1 rkat run hello", "for one command, without keeping it; --trust does the same"],
  ],
  notes: [["Exit codes", "0 everything here is trusted · 1 something is left out"]],
  run: ({ invocation, flags }: Call<TrustFlags>) => act(invocation, flags),
});

async function act(invocation: Invocation, flags: TrustFlags): Promise<void> {
  if (flags.status && flags.revoke) throw invalid("--status only shows and --revoke changes; use one of them");
  const loaded = await loadHere(invocation);
  if (flags.revoke) revoke(invocation, loaded);
  else if (!flags.status) await grant(invocation, loaded, flags.json === true);
  const { brought } = await loadHere(invocation);
  invocation.exitWith(brought.every(({ isObeyed }) => isObeyed) ? 0 : 1);
  print(invocation, brought, flags.json === true);
}

async function grant({ io }: Invocation, { brought, trust }: LoadedConfig, isJson: boolean): Promise<void> {
  const unknown = brought.filter(({ state }) => state !== "trusted");
  if (unknown.length === 0) return;
  if (canAsk(io)) {
    showRequests(io, unknown);
    if (!(await isAgreed(io, "Trust these files as they are now?"))) {
      io.stderr.write("Nothing changed: these files are left out until they are trusted.\n");
      return;
    }
  }
  for (const file of unknown) trust.remember(file);
  if (!isJson) io.stdout.write(`Trusted ${counted(unknown.length, "file")}; a change is asked about again.\n`);
}

/** Also for files that are gone: a later file of that name must be asked about. */
function revoke({ place }: Invocation, { brought, trust }: LoadedConfig): void {
  const { projectRoot, stateFolder } = place();
  const hidden = ["config.toml", "mcp.toml", "sub-agents"].map((name) => join(".rkat", name));
  const names = ["rkat.toml", ...hidden, ...AGENTS_MD];
  const known = [...names.map((name) => join(projectRoot, name)), join(stateFolder, "config.toml")];
  for (const path of new Set([...known, ...brought.map((file) => file.path)])) trust.forget(path);
}

function print({ io }: Invocation, brought: readonly BroughtFile[], isJson: boolean): void {
  if (isJson) {
    const files = brought.map(({ path, state, isObeyed, requests }) => {
      return { path, state, obeyed: isObeyed, wants: requests.map(({ text }) => text) };
    });
    writeJson(io, { ok: brought.every(({ isObeyed }) => isObeyed), files });
    return;
  }
  if (brought.length === 0)
    io.stdout.write("Nothing here needs trust: no file starts a program or names an address.\n");
  showRequests(io, brought, io.stdout);
}

/** Asks at a terminal whether to trust the project's files; without one it does nothing. */
export async function askForTrust(invocation: Invocation): Promise<void> {
  const { io } = invocation;
  if (!canAsk(io)) return;
  const { brought, trust } = await loadHere(invocation);
  const unknown = brought.filter(({ isObeyed }) => !isObeyed);
  if (unknown.length === 0) return;
  showRequests(io, unknown);
  if (!(await isAgreed(io, "Trust these files as they are now?"))) return;
  for (const file of unknown) trust.remember(file);
}

const STATES = {
  trusted: "trusted",
  untrusted: "not trusted",
  changed: "changed since it was trusted",
  damaged: "not trusted: its record in ~/.rkat/trust is damaged",
} as const;

function showRequests(io: Io, files: readonly BroughtFile[], output = io.stderr): void {
  const { bold, dim } = createPaint(output, io.env);
  for (const { path, requests, state } of files) {
    output.write(`${bold(withoutControls(path))} ${dim(`(${STATES[state]})`)}\n`);
    for (const { text } of requests) output.write(`  ${withoutControls(text)}\n`);
  }
}

export const initRow = command("init", {
  text: "Write a commented configuration for this folder: .rkat/config.toml with every common setting.",
  flags: () => [new Option("-f, --force", "overwrite an existing file")],
  examples: [["rkat init", "then edit .rkat/config.toml"]],
  run: ({ invocation, flags }: Call<{ readonly json?: never; readonly force?: boolean }>) =>
    writeConfiguration(invocation, flags.force === true),
});

async function writeConfiguration({ io }: Invocation, isForced: boolean): Promise<void> {
  const path = join(io.cwd, ".rkat", "config.toml");
  const shown = relative(io.cwd, path);
  if ((await readIfThere(join(io.cwd, "rkat.toml"))) !== undefined) {
    throw invalid("rkat.toml configures this folder already; edit it, or remove it first");
  }
  await writeOnce(path, {
    shown,
    isForced,
    text: configTemplate((await import("@rkat/core/config/spell-config")).configFileSchema()),
  });
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
    throw invalid(message, cause);
  }
}

/** Refuses links: one in a cloned repository could make us overwrite a file of the user. */
async function refuseLinks(names: readonly string[], folder: string): Promise<void> {
  for (const name of names) {
    const found = await lstat(join(folder, name)).catch(() => undefined);
    if (found?.isSymbolicLink() !== true) continue;
    throw invalid(`${name} is a link, and is not written through; remove it first`);
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

export const hookRows: readonly CommandRow[] = [
  command("hooks", {
    text: "List and test the commands that watch and guard turns: those of [[hooks.entries]], called at steps of a turn.",
    also: ["hook"],
    notes: [["A hook is made by", "[[hooks.entries]] of rkat.toml; see docs/hooks.md"]],
  }),
  command("hooks list", {
    text: "List hooks by the point they are called at, in their order there; nothing is started.",
    flags: () => [jsonFlag()],
    examples: [["rkat hooks list", "which hook is called when, and which are not trusted"]],
    run: listHooks,
  }),
  command("hooks test ID", {
    text: "Call one hook with a payload, as a turn would, and show what the turn would make of its answer.",
    flags: () => [
      new Option("--point <point>", "call it at this point; its own without it").choices(HookPoint.options),
      new Option("--payload <file>", "a JSON file with its input, besides point and session_id"),
      jsonFlag(),
    ],
    examples: [["rkat hooks test no-rm --payload call.json", "its answer to a tool call"]],
    notes: [["Exit codes", "0 the step would be taken · 22 it would be refused · 1 the hook failed, and is let fail"]],
    run: testHook,
  }),
];

interface TestFlags {
  readonly point?: HookPoint;
  readonly payload?: string;
  readonly json?: boolean;
}

type Entry = Config["hooks"]["entries"][number];

async function listHooks(call: Call): Promise<void> {
  const { config, hookFiles, brought } = await readConfiguration(call.invocation);
  const { entries, default_timeout_ms } = config.hooks;
  const hooks = entries
    .toSorted((a, b) => placeOf(a.point) - placeOf(b.point) || a.priority - b.priority)
    .map((entry) => ({
      ...entry,
      failure_policy: entry.failure_policy ?? failurePolicyFor(entry.capability),
      timeout_ms: entry.timeout_ms ?? default_timeout_ms,
      from: hookFiles[entry.id] ?? "configuration",
    }));
  const left_out = untrusted(brought);
  const rows = hooks.map((hook) => [
    hook.enabled ? hook.id : `${hook.id} (off)`,
    hook.point,
    hook.tools?.join(" ") ?? "",
    hook.mode === "background" ? `${hook.capability}, in the background` : hook.capability,
    hook.failure_policy,
    `${hook.timeout_ms} ms`,
    commandOf(hook),
  ]);
  const head = ["ID", "POINT", "TOOLS", "MAY", "WHEN IT FAILS", "TIME", "COMMAND"];
  const { dim, yellow } = call.paint;
  show(call, { hooks, left_out }, () => {
    if (hooks.length + left_out.length === 0)
      return "No hooks. [[hooks.entries]] of rkat.toml names them; see docs/hooks.md";
    const [first = "", ...lines] = table(call.paint, head, rows);
    return [
      ...(hooks.length === 0 ? [] : [first]),
      ...lines.map((line, index) => `${line}  ${dim(withoutControls(hooks[index]?.from ?? ""))}`),
      ...left_out.map((sentence) => yellow(`– ${withoutControls(sentence)}`)),
    ];
  });
}

function placeOf(point: HookPoint): number {
  return HookPoint.options.indexOf(point);
}

function commandOf({ runtime }: Entry): string {
  return [runtime.command, ...(runtime.args ?? [])].join(" ");
}

/** Hooks that are not called, since their file is not trusted. */
function untrusted(brought: readonly BroughtFile[]): readonly string[] {
  const requests = brought.filter(({ isObeyed }) => !isObeyed).flatMap((file) => file.requests);
  return requests.filter(({ name }) => name.startsWith("hook ")).map(({ text }) => `not called: it ${text}`);
}

async function testHook({ invocation, io, flags, arg }: Call<TestFlags>): Promise<void> {
  const { place } = invocation;
  const id = arg("id");
  const { config } = await readConfiguration(invocation);
  const { entries } = config.hooks;
  const found = entries.find((entry) => entry.id === id);
  if (found === undefined) {
    const known = entries.map((entry) => entry.id).join(", ") || "none";
    throw invalid(`there is no hook ${id} here; there are: ${known}`);
  }
  const entry = { ...found, point: flags.point ?? found.point };
  const payload = flags.payload === undefined ? {} : await readPayload(flags.payload, io.cwd);
  const { projectRoot: root } = place();
  const { tryHook } = await import("@rkat/core/composed-hooks");
  const trial = await tryHook(entry, payload, { root, env: io.env, config, signal: io.interrupt });
  const hasFailed = trial.events.some(({ type }) => type === "hook_failed");
  invocation.exitWith(trial.denied !== undefined ? 22 : hasFailed ? 1 : 0);
  if (flags.json) return writeJson(io, trial);
  for (const event of trial.events) io.stdout.write(`${withoutControls(JSON.stringify(event))}\n`);
  const { args, result, denied } = trial;
  if (args !== undefined) io.stdout.write(`The tool would be given ${withoutControls(JSON.stringify(args))}\n`);
  if (result !== undefined) io.stdout.write(`The model would get ${withoutControls(JSON.stringify(result))}\n`);
  io.stdout.write(denied === undefined ? "The step would be taken.\n" : `Refused: ${withoutControls(denied)}\n`);
}

async function readPayload(path: string, cwd: string): Promise<JsonTable> {
  try {
    const payload: unknown = JSON.parse(await readFile(resolve(cwd, path), "utf8"));
    if (isJsonTable(payload)) return payload;
  } catch (cause) {
    throw invalid(`--payload ${path}: it cannot be read as JSON`, cause);
  }
  throw invalid(`--payload ${path}: write a JSON object, like {"tool_call": {…}}`);
}
