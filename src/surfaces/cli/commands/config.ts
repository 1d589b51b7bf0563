import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { RuntimeError } from "../../../contract/error.ts";
import { isJsonTable, type JsonTable } from "../../../contract/input.ts";
import type { OperationOutput } from "../../../contract/operations.ts";
import { requireCapability } from "../../../service/dispatch.ts";
import { isErrno, readIfThere } from "../../wire/realm.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { addFieldFlags, fieldsOf } from "../flags.ts";
import { describeHelp, holdCommands } from "../help.ts";
import { linesOf, writeJson } from "../io.ts";
import { readConfiguration, withConfiguration, withRuntime } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";

type Envelope = OperationOutput<"readConfig">;

/** Declares `rkat config`. */
export function addConfigCommand(program: Command, invocation: Invocation): void {
  const config = holdCommands(program.command("config"))
    .summary("read and change this project's configuration")
    .description(
      "Reads the configuration that holds here, and changes the layer that is the realm's own: it wins over rkat.toml and .rkat/config.toml, and RKAT_* variables and flags win over it.",
    );
  const get = config
    .command("get")
    .summary("show the configuration")
    .description("Shows the configuration that holds, defaults filled in.")
    .addOption(new Option("--format <name>", "toml or json").choices(["toml", "json"]).default("toml"))
    .option("--json", "the same as --format json")
    .option("--with-generation", "and how often the realm's own layer has changed")
    .action((flags: GetFlags) => show(invocation, flags));
  const set = config
    .command("set")
    .summary("replace what this folder configures")
    .description("Replaces the realm's own layer; what it leaves out is as if it had never been set.")
    .option("--toml <text>", "the layer itself, as TOML");
  const patch = config
    .command("patch")
    .summary("change some of it")
    .description("Changes the realm's own layer by a merge patch: null takes a key out of it.");
  addFieldFlags(addTableFile(set), "setConfig");
  addFieldFlags(addTableFile(patch), "patchConfig");
  set.action((file: string | undefined, flags: TableFlags) => change(invocation, "setConfig", { file, ...flags }));
  patch.action((file: string | undefined, flags: TableFlags) => change(invocation, "patchConfig", { file, ...flags }));
  describeHelp(get, { examples: [["rkat config get > rkat.toml", "everything there is to set, with its value"]] });
  describeHelp(set, { examples: [["rkat config set team.toml", "or - for what is piped in"]] });
  describeHelp(patch, {
    examples: [[`rkat config patch --json '{"agent":{"model":null}}'`, "back to the model of the files below"]],
  });
  describeHelp(config, {
    examples: [
      ["rkat config get", "what holds here"],
      [`rkat config patch --json '{"agent":{"model":"offline"}}'`, "from the next turn on, in every process"],
      [`rkat config set --toml ''`, "as if nothing had ever been set"],
    ],
  });
}

interface GetFlags {
  readonly format: "toml" | "json";
  readonly json?: boolean;
  readonly withGeneration?: boolean;
}

async function show(invocation: Invocation, { format, json, withGeneration }: GetFlags): Promise<void> {
  const { io, parts } = invocation;
  const answer = await withConfiguration(invocation, ({ runtime }) => runtime.dispatch("readConfig", {}));
  if (json || format === "json") return writeJson(io, withGeneration ? answer : answer.config);
  const head = withGeneration ? `# generation ${answer.generation}\n` : "";
  const text = `${head}${(await parts.toml()).format(answer.config)}`;
  io.stdout.write(io.stdout.isTerminal ? withoutControls(text) : text);
}

async function change(
  invocation: Invocation,
  operation: "setConfig" | "patchConfig",
  given: TableFlags,
): Promise<void> {
  const table = await readTable(invocation, given);
  const { config } = await readConfiguration(invocation);
  requireCapability(new Set(config.features), "session-store");
  const input = { ...fieldsOf(operation, given), [operation === "setConfig" ? "config" : "patch"]: table };
  const answer = await withRuntime(invocation, ({ runtime }) => runtime.dispatch(operation, input));
  tell(invocation, answer);
}

function tell({ io }: Invocation, { generation: count, restart_required, resolved_paths, ...realm }: Envelope): void {
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

function addTableFile(command: Command): Command {
  return command.argument("[file]", "TOML, or JSON where its name ends so; - reads stdin").usage("[FILE] [options]");
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
