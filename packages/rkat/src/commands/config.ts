import { lstat } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { invalid } from "@rkat/core/contract/error";
import { isJsonTable, type JsonTable } from "@rkat/core/contract/json";
import type { OperationOutput } from "@rkat/core/contract/operations";
import { requireCapability } from "@rkat/core/runtime/dispatch";
import { withoutControls } from "@rkat/core/text/terminal-text";
import type { LoadedConfig } from "@rkat/node/config/load-config";
import { isErrno, readIfThere } from "@rkat/node/config/realm";
import { Option } from "commander";
import { type Call, type CommandRow, command, operation } from "../command-row.ts";
import { fieldOptions, fieldsOf, placed } from "../flags.ts";
import { jsonText, linesOf } from "../io.ts";
import { loadHere, readConfiguration, withConfiguration, withRuntime } from "../open-runtime.ts";
import type { Invocation, Place } from "../parts.ts";
import { alone, replaceFile } from "./output-file.ts";

type Envelope = OperationOutput<"readConfig">;

export const configRows: readonly CommandRow[] = [
  command("config", {
    text: "Read and change this project's configuration: the realm's own layer wins over rkat.toml and .rkat/config.toml, and RKAT_* variables and flags win over it.",
  }),
  operation<"readConfig", GetFlags>("config get", "readConfig", {
    text: "Show the effective configuration, defaults filled in.",
    opens: withConfiguration,
    flags: () => [
      new Option("--format <name>", "toml or json").choices(["toml", "json"]).default("toml"),
      new Option("--with-generation", "and how often the realm's own layer has changed"),
    ],
    examples: [["rkat config get > rkat.toml", "every setting, with its value"]],
    json: shownConfig,
    view: async (answer, call) => {
      const { io, flags } = call;
      if (flags.format === "json") return jsonText(shownConfig(answer, call), 2);
      const text = (await import("@rkat/node/config/config-file")).formatToml(answer.config).trimEnd();
      const head = flags.withGeneration ? `# generation ${answer.generation}\n` : "";
      return head + (io.stdout.isTerminal ? withoutControls(text) : text);
    },
  }),
  command("config set [FILE]", {
    text: "Replace the realm's own layer; settings that it leaves out return to the files below and the defaults.",
    flags: () => [new Option("--toml <text>", "the layer itself, as TOML"), ...fieldOptions("setConfig")],
    examples: [["rkat config set team.toml", "or - for stdin"]],
    run: (call) => change(call, "setConfig"),
  }),
  command("config patch [FILE]", {
    text: "Change the realm's own layer by a merge patch: null removes a key from it.",
    flags: () => fieldOptions("patchConfig"),
    examples: [[`rkat config patch --json '{"agent":{"model":null}}'`, "back to the model of the files below"]],
    run: (call) => change(call, "patchConfig"),
  }),
];

interface GetFlags {
  readonly format?: "toml" | "json";
  readonly json?: boolean;
  readonly withGeneration?: boolean;
}

function shownConfig(answer: Envelope, { flags }: Call<GetFlags>): object {
  return flags.withGeneration ? answer : answer.config;
}

async function change({ invocation, self, arg }: Call, operation: "setConfig" | "patchConfig"): Promise<void> {
  const flags: TableFlags = self.opts();
  const table = await readTable(invocation, { ...flags, file: arg("file") });
  const { config } = await readConfiguration(invocation);
  requireCapability(new Set(config.features), "session-store");
  const input = { ...fieldsOf(operation, flags), [operation === "setConfig" ? "config" : "patch"]: table };
  print(invocation, await withRuntime(invocation, ({ runtime }) => runtime.dispatch(operation, input)));
}

function print({ io }: Invocation, { generation: count, restart_required, resolved_paths, ...realm }: Envelope): void {
  const elsewhere = realm.backend === "postgres" ? `the database, realm ${realm.realm_id}` : "this process";
  const path = withoutControls(resolved_paths?.config_path ?? elsewhere);
  io.stdout.write(`Kept in ${path}, generation ${count}.\n`);
  if (restart_required === undefined) return;
  io.stdout.write(`A server that runs follows ${restart_required.join(", ")} after its next start.\n`);
}

/** The ways to write a table on the command line; each command declares those it has. */
interface TableFlags {
  readonly file?: string | undefined;
  readonly json?: string;
  readonly toml?: string;
}

/** The table that was given, once and in one way; throws INVALID_PARAMS otherwise. */
async function readTable(invocation: Invocation, { file, json, toml }: TableFlags): Promise<JsonTable> {
  if ([file, json, toml].filter((given) => given !== undefined).length !== 1) {
    throw invalid("write what to keep once: a FILE, - for stdin, --json or --toml");
  }
  if (json !== undefined) return parseJson(json, "--json");
  const { parseToml } = await import("@rkat/node/config/config-file");
  if (toml !== undefined) return parseToml(toml, "--toml");
  const { text, name } = await readText(invocation, file ?? "-");
  // What is piped in may be either; TOML never begins with a brace.
  const isJson = name.endsWith(".json") || (file === "-" && text.trimStart().startsWith("{"));
  return isJson ? parseJson(text, name) : parseToml(text, name);
}

async function readText({ io }: Invocation, file: string): Promise<{ readonly text: string; readonly name: string }> {
  if (file === "-") {
    const lines: string[] = [];
    for await (const line of linesOf(io.stdin, "a setting")) lines.push(line);
    return { text: lines.join("\n"), name: "stdin" };
  }
  const text = await readIfThere(resolve(io.cwd, file)).catch((cause) => {
    const why = isErrno(cause) ? cause.code : "it failed";
    throw invalid(`${file} cannot be read: ${why}; give a file of settings`, cause);
  });
  if (text === undefined) {
    const hint = /[{=]/.test(file) ? "; to write the settings themselves, use --json" : "";
    throw invalid(`there is no file ${file}${hint}`);
  }
  return { text, name: file };
}

function parseJson(text: string, name: string): JsonTable {
  try {
    const value: unknown = JSON.parse(text);
    if (isJsonTable(value)) return value;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw invalid(`${name} is not valid JSON: ${why}`, cause);
  }
  throw invalid(`${name} is not a configuration: it must be an object`);
}

/** A file of settings as a text and as what it says; a change of the one must be that of the other. */
export interface ConfigText {
  readonly text: string;
  readonly table: JsonTable;
}

type Path = readonly string[];

/** The file with a key more, in its section; everything else stays as it is, to the byte. */
export function withKey({ text, table }: ConfigText, path: Path, value: string): ConfigText {
  const [section, key = ""] = [path.slice(0, -1), path.at(-1)];
  const line = `${key} = ${quoted(value)}`;
  const lines = text.split("\n");
  const at = lines.findIndex((one) => HEADER.exec(one)?.[1] === "[" && isSame(headerPath(one), section));
  const end = lines[at]?.endsWith("\r") ? "\r" : "";
  const added = `${text.trim() === "" ? text : `${text.replace(/(?<!\n)\n*$/, "")}\n\n`}[${section.join(".")}]\n${line}\n`;
  return {
    text: at < 0 ? added : lines.toSpliced(at + 1, 0, `${line}${end}`).join("\n"),
    table: placed(table, path, value),
  };
}

/** The file with a key, or a section, under another name, if it has it; undefined where that stands there already. */
export function withKeyRenamed({ text, table }: ConfigText, from: Path, to: Path): ConfigText | undefined {
  const value = valueAt(table, from);
  if (value === undefined) return { text, table };
  if (valueAt(table, to) !== undefined) return undefined;
  let section: Path = [];
  const lines = text.split("\n").map((line) => {
    const header = headerPath(line);
    if (header === undefined) return renamedIn(line, section, from, to);
    section = header;
    return isSame(header.slice(0, from.length), from) ? line.replace(from.join("."), to.join(".")) : line;
  });
  return { text: lines.join("\n"), table: placed(without(table, from), to, value) };
}

/** A line of a section that sets the key, or something in it. */
function renamedIn(line: string, section: Path, from: Path, to: Path): string {
  if (section.length >= from.length || !isSame(from.slice(0, section.length), section)) return line;
  const [was, is] = [from, to].map((path) => path.slice(section.length).join(".")) as [string, string]; // one for each
  const rest = line.trimStart();
  if (!rest.startsWith(was) || !/^\s*[=.]/.test(rest.slice(was.length))) return line;
  return `${line.slice(0, line.length - rest.length)}${is}${rest.slice(was.length)}`;
}

const HEADER = /^\s*(\[\[?)([^[\]]+)\]/;

/** The section that a line begins; undefined for another line. */
function headerPath(line: string): Path | undefined {
  const [, , name] = HEADER.exec(line) ?? [];
  return name?.split(".").map((part) => part.trim());
}

function isSame(path: Path | undefined, other: Path): boolean {
  return path?.length === other.length && path.every((part, index) => part === other[index]);
}

function valueAt(table: JsonTable, path: Path): unknown {
  return path.reduce<unknown>((at, key) => (isJsonTable(at) && Object.hasOwn(at, key) ? at[key] : undefined), table);
}

function without(table: JsonTable, [key = "", ...rest]: Path): JsonTable {
  const { [key]: inner, ...others } = table;
  return rest.length === 0 || !isJsonTable(inner) ? others : { ...others, [key]: without(inner, rest) };
}

/** A JSON text is a TOML text but for one sign that only TOML wants escaped. */
export function quoted(text: string): string {
  return JSON.stringify(text).replaceAll("\u007f", "\\u007f");
}

export function userFileOf({ userRoot }: Place): string {
  return join(userRoot, ".rkat", "config.toml");
}

/** The project's file of settings, where it has one: of its folder, or of the nearest above it. */
export function projectFileOf({ sources }: LoadedConfig, place: Place): string | undefined {
  return sources.find((path) => isProjectFile(path, place));
}

/** Whether a configuration file is a project's: neither the user's own nor a realm's. */
export function isProjectFile(path: string, place: Place): boolean {
  const isNamed = basename(path) === "rkat.toml" || path.endsWith(join(".rkat", "config.toml"));
  return isNamed && path !== userFileOf(place);
}

/** A path as a person in this folder would write it. */
export function shownPath({ io }: Invocation, path: string): string {
  const near = relative(io.cwd, path);
  if (!near.startsWith("..")) return near;
  const fromHome = relative(io.home, path);
  return fromHome.startsWith("..") ? path : join("~", fromHome);
}

/**
 * Changes a file of settings, which is written whole or not at all. Throws INVALID_PARAMS, and leaves it, where the text would
 * then say something else than was meant. A file that was trusted as it was is trusted as it is then.
 */
export async function changeConfigFile(
  invocation: Invocation,
  path: string,
  change: (before: ConfigText) => ConfigText | undefined,
): Promise<void> {
  const { place } = invocation;
  const shown = shownPath(invocation, path);
  const isProjects = isProjectFile(path, place());
  if (isProjects) await refuseLinks(path, shown);
  const { parseToml } = await import("@rkat/node/config/config-file");
  await alone(path, async () => {
    const text = (await readIfThere(path)) ?? "";
    const wanted = change({ text, table: parseToml(text, shown) });
    const isMeant = wanted !== undefined && isDeepStrictEqual(plain(parsedOr(wanted.text)), plain(wanted.table));
    if (!isMeant) throw invalid(`${shown} was not changed: its text must be edited by hand`);
    // A configuration that cannot be read cannot be asked what was trusted of it; it is asked about again then.
    const loaded = await loadHere(invocation).catch(() => undefined);
    const before = loaded?.brought.find((file) => file.path === path);
    await replaceFile(path, wanted.text, isProjects ? 0o644 : 0o600);
    if (before?.state === "trusted" && before.text === text) loaded?.trust.remember({ path, text: wanted.text });
  });

  function parsedOr(text: string): unknown {
    try {
      return parseToml(text, shown);
    } catch {
      return undefined;
    }
  }
}

function plain(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}

/** What a clone has put in our place may lead to a file of the user's that is overwritten then. */
async function refuseLinks(path: string, shown: string): Promise<void> {
  const inside = dirname(path);
  for (const one of basename(inside) === ".rkat" ? [inside, path] : [path]) {
    const found = await lstat(one).catch(() => undefined);
    if (found?.isSymbolicLink() !== true) continue;
    throw invalid(
      `${one === path ? shown : dirname(shown)} is a link, and is not written through; edit the file it leads to`,
    );
  }
}
