import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { type Command, Option } from "commander";
import type { BroughtFile, Config } from "../../../config/load-config.ts";
import { RuntimeError } from "../../../contract/error.ts";
import { failurePolicyFor, HookPoint } from "../../../contract/hook.ts";
import { isJsonTable, type JsonTable } from "../../../contract/input.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { jsonFlag } from "../flags.ts";
import { describeHelp, holdCommands } from "../help.ts";
import { alignColumns, createPaint, writeJson } from "../io.ts";
import { readConfiguration } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";

/** Declares `rkat hooks`. */
export function addHooksCommand(program: Command, invocation: Invocation): void {
  const hooks = holdCommands(program.command("hooks").alias("hook"))
    .summary("commands that watch and guard turns: list them, try one")
    .description("Shows the commands of [[hooks.entries]] that are called at steps of a turn, and tries one.");
  const list = hooks
    .command("list")
    .summary("the hooks that turns of this folder have")
    .description("Lists hooks by the point they are called at, in their order there; nothing is started.")
    .addOption(jsonFlag())
    .action((flags: { readonly json?: boolean }) => listHooks(invocation, flags.json === true));
  describeHelp(list, { examples: [["rkat hooks list", "what is called when, and what nobody trusted"]] });
  const test = hooks
    .command("test")
    .summary("call one hook, as a turn would")
    .description("Starts the command of a hook with a payload and shows what a turn would make of its answer.")
    .argument("<id>")
    .usage("ID [options]")
    .addOption(new Option("--point <point>", "call it at this point; its own without it").choices(HookPoint.options))
    .option("--payload <file>", "a JSON file with what it is told, besides point and session_id")
    .addOption(jsonFlag())
    .action((id: string, flags: TestFlags) => testHook(invocation, id, flags));
  describeHelp(test, {
    examples: [["rkat hooks test no-rm --payload call.json", "what it says to a call of a tool"]],
    notes: [["Exit codes", "0 the step would be taken · 22 it would be refused · 1 the hook failed, and is let fail"]],
  });
  describeHelp(hooks, {
    examples: [["rkat hooks list", "what is called when, and what nobody trusted"]],
    notes: [["A hook is made by", "[[hooks.entries]] of rkat.toml; see docs/hooks.md"]],
  });
}

interface TestFlags {
  readonly point?: HookPoint;
  readonly payload?: string;
  readonly json?: boolean;
}

type Entry = Config["hooks"]["entries"][number];

async function listHooks(invocation: Invocation, isJson: boolean): Promise<void> {
  const { io } = invocation;
  const { config, hookFiles, brought } = await readConfiguration(invocation);
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
  if (isJson) return writeJson(io, { hooks, left_out });
  const { dim, yellow } = createPaint(io.stdout, io.env);
  if (hooks.length + left_out.length === 0)
    io.stdout.write("No hooks. [[hooks.entries]] of rkat.toml names them; see docs/hooks.md\n");
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
  const [first = "", ...lines] = alignColumns([head, ...rows]);
  if (hooks.length > 0) io.stdout.write(`${dim(first)}\n`);
  for (const [index, line] of lines.entries()) {
    io.stdout.write(`${withoutControls(line)}  ${dim(withoutControls(hooks[index]?.from ?? ""))}\n`);
  }
  for (const sentence of left_out) io.stdout.write(`${yellow(`– ${withoutControls(sentence)}`)}\n`);
}

function placeOf(point: HookPoint): number {
  return HookPoint.options.indexOf(point);
}

function commandOf({ runtime }: Entry): string {
  return [runtime.command, ...(runtime.args ?? [])].join(" ");
}

/** Hooks that are not called: nobody trusted the file that names them. */
function untrusted(brought: readonly BroughtFile[]): readonly string[] {
  const requests = brought.filter(({ isObeyed }) => !isObeyed).flatMap((file) => file.requests);
  return requests.filter(({ name }) => name.startsWith("hook ")).map(({ text }) => `not called: it ${text}`);
}

async function testHook(invocation: Invocation, id: string, flags: TestFlags): Promise<void> {
  const { io, parts, place } = invocation;
  const { config } = await readConfiguration(invocation);
  const { entries } = config.hooks;
  const found = entries.find((entry) => entry.id === id);
  if (found === undefined) {
    const known = entries.map((entry) => entry.id).join(", ") || "none";
    throw new RuntimeError("INVALID_PARAMS", `there is no hook ${id} here; there are: ${known}`);
  }
  const entry = { ...found, point: flags.point ?? found.point };
  const payload = flags.payload === undefined ? {} : await readPayload(flags.payload, io.cwd);
  const { projectRoot: root } = place();
  const trial = await parts.tryHook(entry, payload, { root, env: io.env, config, signal: io.interrupt });
  const hasFailed = trial.events.some(({ type }) => type === "hook_failed");
  invocation.exitWith(trial.denied !== undefined ? 22 : hasFailed ? 1 : 0);
  if (flags.json) return writeJson(io, trial);
  for (const event of trial.events) io.stdout.write(`${withoutControls(JSON.stringify(event))}\n`);
  const { args, result, denied } = trial;
  if (args !== undefined) io.stdout.write(`The tool would be given ${withoutControls(JSON.stringify(args))}\n`);
  if (result !== undefined) io.stdout.write(`The model would be told ${withoutControls(JSON.stringify(result))}\n`);
  io.stdout.write(denied === undefined ? "The step would be taken.\n" : `Refused: ${withoutControls(denied)}\n`);
}

async function readPayload(path: string, cwd: string): Promise<JsonTable> {
  try {
    const payload: unknown = JSON.parse(await readFile(resolve(cwd, path), "utf8"));
    if (isJsonTable(payload)) return payload;
  } catch (cause) {
    throw new RuntimeError("INVALID_PARAMS", `--payload ${path}: it cannot be read as JSON`, { cause });
  }
  throw new RuntimeError("INVALID_PARAMS", `--payload ${path}: write a JSON object, like {"tool_call": {…}}`);
}
