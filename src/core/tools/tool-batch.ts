import type { EntryBodyOf } from "../../contract/entry.ts";
import type { AgentEvent } from "../../contract/event.ts";
import type { ContentBlock, ToolResult, ToolUseBlock } from "../../contract/message.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Tool, ToolOutput } from "../../ports/tool.ts";
import { compileSchema } from "../json-schema.ts";
import type { Redact } from "../redact.ts";
import { boundText } from "./tool-output.ts";

export interface ToolLimits {
  readonly timeoutMs: number;
  readonly concurrentMax: number;
  /** Longer text is cut in the context and kept whole as a blob. */
  readonly outputBytesMax: number;
  /** How long an aborted tool may take to say what it got done. */
  readonly abortGraceMs: number;
}

export interface ToolBatch {
  readonly sessionId: string;
  readonly tools: ReadonlyMap<string, Tool>;
  readonly clock: Clock;
  readonly limits: ToolLimits;
  /** Aborts when the turn is interrupted or its time is up. */
  readonly signal: AbortSignal;
  readonly shellEnv: Readonly<Record<string, string>>;
  /** How many calls the budget still allows; the rest are answered, not run. */
  readonly callsAllowed: number;
  readonly redact: Redact;
  emit(event: AgentEvent): void;
  keep(text: string): Promise<string>;
}

interface Answered {
  readonly result: ToolResult;
  readonly call: EntryBodyOf<"tool_results">["calls"][number];
}

/** Runs the calls of one answer in parallel; results come in request order, and every call gets one. */
export async function runToolCalls(
  batch: ToolBatch,
  calls: readonly ToolUseBlock[],
): Promise<EntryBodyOf<"tool_results">> {
  const answers: Answered[] = new Array(calls.length);
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let index = next++; index < calls.length; index = next++) {
      const call = calls[index];
      if (call === undefined) return;
      const isAllowed = index < batch.callsAllowed;
      answers[index] = isAllowed ? await answerCall(batch, call) : notRun(call, OUT_OF_CALLS);
    }
  };
  const workers = Math.min(batch.limits.concurrentMax, calls.length);
  await Promise.all(Array.from({ length: workers }, worker));
  return toEntry(batch.clock, answers);
}

/** Answers calls that will not be run, so that the history stays one a provider accepts. */
export function closeCalls(
  calls: readonly ToolUseBlock[],
  sentence: string,
  clock: Clock,
): EntryBodyOf<"tool_results"> {
  return toEntry(
    clock,
    calls.map((call) => notRun(call, sentence)),
  );
}

export const INTERRUPTED = "interrupted: this call may or may not have taken effect";
const OUT_OF_CALLS = "not run: the tool call budget of this session is exhausted";
export const OUT_OF_TOKENS = "not run: the token budget of this session is exhausted";

function toEntry(clock: Clock, answers: readonly Answered[]): EntryBodyOf<"tool_results"> {
  return {
    kind: "tool_results",
    message: {
      role: "tool_results",
      results: answers.map((answer) => answer.result),
      created_at: new Date(clock.now()).toISOString(),
    },
    calls: answers.map((answer) => answer.call),
  };
}

function notRun({ data }: ToolUseBlock, sentence: string): Answered {
  return {
    result: { tool_use_id: data.id, content: sentence, is_error: true },
    call: { name: data.name, duration_ms: 0, counted: false },
  };
}

async function answerCall(batch: ToolBatch, call: ToolUseBlock): Promise<Answered> {
  const { id, name } = call.data;
  const startedMs = batch.clock.now();
  batch.emit({ type: "tool_execution_started", id, name });
  const output = await execute(batch, call);
  const duration_ms = Math.max(0, Math.round(batch.clock.now() - startedMs));
  const { content, isError = false } = typeof output === "string" ? { content: output } : output;
  return {
    result: { tool_use_id: id, content: await bound(batch, content), is_error: isError },
    call: { name, duration_ms, counted: true },
  };
}

async function execute(batch: ToolBatch, call: ToolUseBlock): Promise<ToolOutput> {
  const { id, name, args, args_error } = call.data;
  if (batch.signal.aborted) return failed(INTERRUPTED);
  const tool = batch.tools.get(name);
  if (tool === undefined) {
    const known = [...batch.tools.keys()].join(", ");
    return failed(`there is no tool "${name}"; ${known === "" ? "no tools are available" : `available: ${known}`}`);
  }
  if (args_error !== undefined) return failed(`the arguments of ${name} were not usable: ${args_error}`);
  try {
    const problems = (await compileSchema(tool.inputSchema, `the input schema of tool ${name}`))(args);
    if (problems.length > 0) return failed(`the arguments of ${name} are wrong: ${problems.join("; ")}`);
    return await runBounded(batch, tool, { id, args });
  } catch (thrown) {
    return failed(thrown instanceof Error ? thrown.message : String(thrown));
  }
}

/** Runs a tool until it answers, its time is up, or the turn ends; a tool that ignores its signal is left behind. */
async function runBounded(
  batch: ToolBatch,
  tool: Tool,
  call: { id: string; args: Record<string, unknown> },
): Promise<ToolOutput> {
  const { clock, limits } = batch;
  const timeoutMs = tool.timeoutMs ?? limits.timeoutMs;
  const aborting = new AbortController();
  const done = new AbortController();
  const onAbort = (): void => aborting.abort();
  batch.signal.addEventListener("abort", onAbort, { once: true });
  let hasTimedOut = false;
  const expiry = clock.sleep(timeoutMs, done.signal).then(() => {
    if (done.signal.aborted || aborting.signal.aborted) return;
    hasTimedOut = true;
    aborting.abort();
  });
  const context = {
    sessionId: batch.sessionId,
    toolUseId: call.id,
    signal: aborting.signal,
    shellEnv: batch.shellEnv,
  };
  const running = (async () => tool.execute(call.args, context))();
  try {
    const output = await Promise.race([running, abandoned(aborting.signal, { clock, limits, done: done.signal })]);
    if (output !== undefined && !hasTimedOut) return output;
    running.catch(() => {}); // It lost the race; what it says later has no one to tell.
    if (!hasTimedOut) return failed(INTERRUPTED);
    batch.emit({ type: "tool_execution_timed_out", id: call.id, name: tool.name, timeout_ms: timeoutMs });
    return failed(
      `${tool.name} did not finish within ${timeoutMs} ms and was stopped; it may or may not have taken effect`,
    );
  } finally {
    done.abort("done"); // A word: without a reason each call would make an error, stack and all, for nobody.
    batch.signal.removeEventListener("abort", onAbort);
    await expiry;
  }
}

/** Resolves with nothing once the call has been aborted and its grace has passed. */
function abandoned(
  aborted: AbortSignal,
  { clock, limits, done }: { clock: Clock; limits: ToolLimits; done: AbortSignal },
): Promise<undefined> {
  return new Promise((resolve) => {
    const wait = (): void => {
      void clock.sleep(limits.abortGraceMs, done).then(() => resolve(undefined));
    };
    if (aborted.aborted) wait();
    else aborted.addEventListener("abort", wait, { once: true });
  });
}

function failed(sentence: string): ToolOutput {
  return { content: sentence, isError: true };
}

async function bound(batch: ToolBatch, content: string | readonly ContentBlock[]): Promise<string | ContentBlock[]> {
  const boundOne = async (text: string): Promise<string> =>
    boundText(batch.redact(text), batch.limits.outputBytesMax, batch.keep);
  if (typeof content === "string") return boundOne(content);
  return Promise.all(
    content.map(async (block) => (block.type === "text" ? { ...block, text: await boundOne(block.text) } : block)),
  );
}
