import type { Command } from "commander";
import type { Config } from "../../../config.ts";
import { asRuntimeError, ERRORS, RuntimeError } from "../../../contract/error.ts";
import type { RunResult } from "../../../contract/session.ts";
import type { Runtime } from "../../../runtime.ts";
import type { SessionOptions } from "../../../service/session-handle.ts";
import { readConfiguration } from "../configuration.ts";
import { describeHelp } from "../help.ts";
import type { Io } from "../io.ts";
import { createPaint } from "../paint.ts";
import type { Invocation } from "../parts.ts";
import { grouped } from "../plain-text.ts";
import { readPrompt } from "./prompt.ts";
import { addRunFlags, type RunFlags } from "./run-flags.ts";
import { sessionOptions } from "./session-options.ts";
import { createEventsView, createJsonView, createTextView, type TurnView } from "./turn-view.ts";

/** Declares `rkat run`, which is also meant when no command is named. */
export function addRunCommand(program: Command, invocation: Invocation): void {
  const command = program
    .command("run", { isDefault: true })
    .summary("ask a model; the same as rkat PROMPT")
    .description("Runs one turn: the model answers, uses the tools it is allowed, and stops.")
    .argument("[prompt...]")
    .usage("PROMPT… [options]")
    .action(async (words: readonly string[], flags: RunFlags) => {
      invocation.exitWith(await runTurn(invocation, words, flags));
    });
  addRunFlags(command);
  describeHelp(command, {
    examples: [
      ['rkat run "what time is it?" -m offline', "no key, no network"],
      ['git diff | rkat "review this change"', "what is piped in becomes context"],
      ['rkat "fix the failing test" -t workspace', "with files and a shell"],
      ['rkat "who is Ada?" --schema person.json', "JSON that matches a schema"],
      ['rkat "plan a trip" --max-tokens 10000 -d 30s', "with budgets"],
    ],
    notes: [["Exit codes", ...EXIT_CODES]],
  });
}

const EXIT_CODES = [
  "0 done · 2 wrong input · 20 the provider failed · 21 a budget ran out",
  "30 the output does not match the schema, or too many model calls · 130 interrupted",
] as const;

/** Runs the turn and shows it; returns the exit code. */
async function runTurn({ io, parts }: Invocation, words: readonly string[], flags: RunFlags): Promise<number> {
  refuseContradictions(flags);
  const prompt = await readPrompt(io, words, flags.stdin);
  const { config } = await readConfiguration(io, parts);
  const options = await sessionOptions(flags, { cwd: io.cwd, config });
  const runtime = await parts.createRuntime({ config, env: io.env, projectRoot: io.cwd });
  try {
    if (options.toolPreset === "full") await mentionMissingMemory(io, runtime);
    const view = chooseView(io, flags);
    const result = await watchTurn(runtime, view, { prompt, options: { ...options, signal: io.interrupt } });
    const verdict = judge(result, limitsOf(options, config));
    if (verdict.sentence !== undefined) io.stderr.write(`${createPaint(io.stderr, io.env).yellow(verdict.sentence)}\n`);
    return verdict.exit;
  } finally {
    await runtime.close();
  }
}

function refuseContradictions({ events, output, stream }: RunFlags): void {
  const refuse = (message: string) => new RuntimeError("INVALID_PARAMS", message);
  if (events && output === "text") throw refuse("--events prints JSON; leave out --output text");
  if (stream && output === "json") throw refuse("--stream prints text; to follow a turn in JSON use --events");
}

async function mentionMissingMemory(io: Io, runtime: Runtime): Promise<void> {
  const { capabilities } = await runtime.dispatch("readCapabilities", {});
  const memory = capabilities.find(({ id }) => id === "memory_store");
  if (memory?.status === "Available") return;
  io.stderr.write("This rkat has no memory store, so the turn runs without memory_search.\n");
}

function chooseView(io: Io, flags: RunFlags): TurnView {
  const isVerbose = flags.verbose === true;
  if (flags.events) return createEventsView(io);
  if (flags.output === "json") return createJsonView(io, { isVerbose });
  // With a schema stdout is for the JSON alone, unless the talk was asked for, too.
  const isStreaming = flags.stream ?? (io.stdout.isTerminal && flags.schema === undefined);
  return createTextView(io, { isStreaming, isVerbose });
}

async function watchTurn(
  runtime: Runtime,
  view: TurnView,
  { prompt, options }: { prompt: string; options: SessionOptions },
): Promise<RunResult> {
  const stream = runtime.createSessionStreaming(prompt, options);
  // What the newest model call has said; a retry begins anew.
  let said = "";
  try {
    for await (const event of stream) {
      if (event.type === "turn_started" || event.type === "retrying") said = "";
      if (event.type === "text_delta") said += event.delta;
      view.show(event);
    }
    const result = await stream.result;
    view.end(result);
    return result;
  } catch (thrown) {
    view.breakOff(said);
    throw withPartialText(asRuntimeError(thrown), said);
  }
}

/** The error with what was said before it, for whoever reads it as JSON. */
function withPartialText(error: RuntimeError, said: string): RuntimeError {
  if (said === "") return error;
  const details = { ...(error.details ?? {}), partial_text: said };
  return new RuntimeError(error.code, error.message, { cause: error, details });
}

interface Limits {
  readonly max_tokens?: number | undefined;
}

function limitsOf({ budgetLimits }: SessionOptions, config: Config): Limits {
  return { ...config.budget, ...budgetLimits };
}

/** Whether the turn did what was asked, and if not, why. */
function judge(result: RunResult, { max_tokens }: Limits): { readonly exit: number; readonly sentence?: string } {
  const { terminal_cause_kind: cause, extraction_error: extraction, usage } = result;
  if (cause === "budget_exhausted") {
    const isTokens = max_tokens !== undefined && usage.total_tokens >= max_tokens;
    const which = isTokens ? `token budget of ${grouped(max_tokens)}` : "tool call budget";
    return { exit: ERRORS.BUDGET_EXHAUSTED.exit, sentence: `Stopped: the ${which} is used up.` };
  }
  if (cause === "time_budget_exceeded") {
    return { exit: ERRORS.BUDGET_EXHAUSTED.exit, sentence: "Stopped: the time budget is used up." };
  }
  const { exit } = ERRORS.AGENT_ERROR;
  if (extraction !== undefined) {
    const { attempts, reason } = extraction;
    return { exit, sentence: `Stopped: no output matched the schema after ${attempts} attempts: ${reason}` };
  }
  if (cause === "turn_limit_reached") return { exit, sentence: "Stopped: the limit of model calls is reached." };
  return cause === undefined ? { exit: 0 } : { exit, sentence: `Stopped: ${cause}.` };
}
