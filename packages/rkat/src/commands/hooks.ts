import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Config } from "@rkat/core/config/config-schema";
import { RuntimeError } from "@rkat/core/contract/error";
import { failurePolicyFor, HookPoint } from "@rkat/core/contract/hook";
import { isJsonTable, type JsonTable } from "@rkat/core/contract/input";
import type { BroughtFile } from "@rkat/node/config/load-config";
import { withoutControls } from "@rkat/server/http/terminal-text";
import { Option } from "commander";
import { type Call, type CommandRow, command, show } from "../command-row.ts";
import { jsonFlag } from "../flags.ts";
import { table, writeJson } from "../io.ts";
import { readConfiguration } from "../open-runtime.ts";

/** `rkat hooks`. */
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
  const { parts, place } = invocation;
  const id = arg("id");
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
  if (result !== undefined) io.stdout.write(`The model would get ${withoutControls(JSON.stringify(result))}\n`);
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
