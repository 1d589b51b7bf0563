import { resolve } from "node:path";
import { RuntimeError } from "@rkat/core/contract/error";
import { isJsonTable, type JsonTable } from "@rkat/core/contract/input";
import type { OperationOutput } from "@rkat/core/contract/operations";
import { requireCapability } from "@rkat/core/runtime/dispatch";
import { isErrno, readIfThere } from "@rkat/node/config/realm";
import { withoutControls } from "@rkat/server/http/terminal-text";
import { Option } from "commander";
import { type Call, type CommandRow, command } from "../command-row.ts";
import { fieldOptions, fieldsOf } from "../flags.ts";
import { linesOf, writeJson } from "../io.ts";
import { readConfiguration, withConfiguration, withRuntime } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";

type Envelope = OperationOutput<"readConfig">;

/** `rkat config`. */
export const configRows: readonly CommandRow[] = [
  command("config", {
    text: "Read and change this project's configuration: the realm's own layer wins over rkat.toml and .rkat/config.toml, and RKAT_* variables and flags win over it.",
  }),
  command("config get", {
    text: "Show the effective configuration, defaults filled in.",
    flags: () => [
      new Option("--format <name>", "toml or json").choices(["toml", "json"]).default("toml"),
      new Option("--json", "the same as --format json"),
      new Option("--with-generation", "and how often the realm's own layer has changed"),
    ],
    examples: [["rkat config get > rkat.toml", "every setting, with its value"]],
    run: showConfig,
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

async function showConfig({ invocation, io, flags }: Call<GetFlags>): Promise<void> {
  const { format, json, withGeneration } = flags;
  const answer = await withConfiguration(invocation, ({ runtime }) => runtime.dispatch("readConfig", {}));
  if (json || format === "json") return writeJson(io, withGeneration ? answer : answer.config);
  const head = withGeneration ? `# generation ${answer.generation}\n` : "";
  const text = `${head}${(await invocation.parts.toml()).format(answer.config)}`;
  io.stdout.write(io.stdout.isTerminal ? withoutControls(text) : text);
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
    throw new RuntimeError("INVALID_PARAMS", "write what to keep once: a FILE, - for stdin, --json or --toml");
  }
  if (json !== undefined) return parseJson(json, "--json");
  const { parse } = await invocation.parts.toml();
  if (toml !== undefined) return parse(toml, "--toml");
  const { text, name } = await readText(invocation, file ?? "-");
  // What is piped in may be either; TOML never begins with a brace.
  const isJson = name.endsWith(".json") || (file === "-" && text.trimStart().startsWith("{"));
  return isJson ? parseJson(text, name) : parse(text, name);
}

async function readText({ io }: Invocation, file: string): Promise<{ readonly text: string; readonly name: string }> {
  if (file === "-") {
    const lines: string[] = [];
    for await (const line of linesOf(io.stdin, "a setting")) lines.push(line);
    return { text: lines.join("\n"), name: "stdin" };
  }
  const text = await readIfThere(resolve(io.cwd, file)).catch((cause) => {
    const why = isErrno(cause) ? cause.code : "it failed";
    throw new RuntimeError("INVALID_PARAMS", `${file} cannot be read: ${why}; give a file of settings`, { cause });
  });
  if (text === undefined) {
    const hint = /[{=]/.test(file) ? "; to write the settings themselves, use --json" : "";
    throw new RuntimeError("INVALID_PARAMS", `there is no file ${file}${hint}`);
  }
  return { text, name: file };
}

function parseJson(text: string, name: string): JsonTable {
  try {
    const value: unknown = JSON.parse(text);
    if (isJsonTable(value)) return value;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new RuntimeError("INVALID_PARAMS", `${name} is not valid JSON: ${why}`, { cause });
  }
  throw new RuntimeError("INVALID_PARAMS", `${name} is not a configuration: it must be an object`);
}
