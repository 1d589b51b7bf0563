import type { EntryBody } from "../contract/entry.ts";
import type { AgentEvent, Usage } from "../contract/event.ts";
import type { AssistantBlock, StopReason } from "../contract/message.ts";
import type { Clock } from "../ports/clock.ts";
import type { FailureKind, ModelClient, ModelFailure, ModelPart, ModelRequest } from "../ports/model.ts";
import { totalTokens, withCost } from "./cost.ts";
import type { Redact } from "./redact.ts";
import { isRetryable, planRetry, type RetryPolicy } from "./retry.ts";
import { assistantText, estimateTokens, toolTokens } from "./tokens.ts";

export interface CallLimits {
  /** How long one call may take; Infinity for no limit. */
  readonly callTimeoutMs: number;
  /** How long a stream may be silent. */
  readonly stallTimeoutMs: number;
}

export interface ModelCall {
  readonly model: ModelClient;
  readonly request: ModelRequest;
  readonly clock: Clock;
  readonly limits: CallLimits;
  /** When the turn's time is up, in clock time; Infinity without a budget. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
  /** Receives the deltas as they arrive. */
  emit(event: AgentEvent): void;
}

export type ModelAnswer =
  | {
      readonly ok: true;
      readonly blocks: readonly AssistantBlock[];
      readonly stopReason: StopReason;
      readonly usage: Usage;
    }
  | {
      readonly ok: false;
      readonly failure: ModelFailure;
      /** Everything that was streamed before the failure. */
      readonly text: string;
      readonly because: "failure" | "interrupted" | "out_of_time";
      /** The known usage; undefined if there was none or the call was never made. */
      readonly usage: Usage | undefined;
    };

/** Calls the model once. Never rejects: a client that throws, stalls, ends early or ignores its signal is a failure. */
export async function callModel(call: ModelCall): Promise<ModelAnswer> {
  const partAtMs = call.clock.now();
  const received: Received = {
    blocks: [],
    text: "",
    pending: "",
    deltaChars: 0,
    blockChars: 0,
    partAtMs,
    end: undefined,
  };
  const attempt = new AbortController();
  const stopped = Promise.withResolvers<void>();
  let because: "failure" | "interrupted" | "out_of_time" = "failure";
  const stop = (why: typeof because, failure: ModelFailure): void => {
    if (received.end !== undefined) return;
    because = why;
    received.end = { ok: false, failure };
    attempt.abort();
    stopped.resolve();
  };
  const isMade = !call.signal.aborted;
  const onInterrupt = (): void => stop("interrupted", { kind: "unknown", message: "interrupted" });
  if (call.signal.aborted) onInterrupt();
  call.signal.addEventListener("abort", onInterrupt, { once: true });
  const finished = new AbortController();
  const watch = watchClock(call, received, { signal: finished.signal, stop });
  try {
    // Do not wait for a client that is slow to end after its last part.
    await Promise.race([
      listen(call, received, { signal: attempt.signal, stop, ended: stopped.resolve }),
      stopped.promise,
    ]);
  } finally {
    call.signal.removeEventListener("abort", onInterrupt);
    finished.abort("finished"); // A word: without a reason each call would make an error, stack and all, for nobody.
    await watch;
  }
  const end = received.end ?? { ok: false, failure: CUT_SHORT };
  const { prices } = call.model;
  if (end.ok) {
    return { ok: true, blocks: received.blocks, stopReason: end.stopReason, usage: withCost(end.usage, prices) };
  }
  const isCut = because !== "failure" || CUT_KINDS.includes(end.failure.kind) || received.deltaChars > 0;
  const usage = isMade && isCut ? withCost(estimateUsage(call.request, received), prices) : undefined;
  return { ok: false, failure: end.failure, text: received.text, because, usage };
}

/** Failures after the provider started work; refused requests cost nothing. */
const CUT_KINDS: readonly FailureKind[] = ["call_timeout", "stalled", "malformed_stream"];

function estimateUsage({ messages, tools }: ModelRequest, received: Received): Usage {
  const chars = Math.max(received.deltaChars, received.blockChars);
  return {
    input_tokens: estimateTokens(messages) + toolTokens(tools),
    output_tokens: Math.ceil(chars / CHARS_PER_TOKEN),
    estimated: true,
  };
}

const CHARS_PER_TOKEN = 4;

const CUT_SHORT: ModelFailure = {
  kind: "malformed_stream",
  message: "the model's stream ended before the answer was finished",
};

/** Several times the length of any real answer; it fits a log record and a small process. */
const ANSWER_CHARS_MAX = 4 * 1_024 * 1_024;

const TOO_LONG: ModelFailure = {
  kind: "answer_too_long",
  message: `the model's answer is longer than ${ANSWER_CHARS_MAX} characters`,
};

/** The parts received so far; `end` is set once, and later parts are ignored. */
interface Received {
  readonly blocks: AssistantBlock[];
  text: string;
  /** Text streamed since the last text block. */
  pending: string;
  deltaChars: number;
  blockChars: number;
  partAtMs: number;
  end:
    | { readonly ok: true; readonly stopReason: StopReason; readonly usage: Usage }
    | { readonly ok: false; readonly failure: ModelFailure }
    | undefined;
}

interface Guard {
  readonly signal: AbortSignal;
  stop(why: "failure" | "out_of_time", failure: ModelFailure): void;
}

async function listen(call: ModelCall, received: Received, guard: Guard & { ended(): void }): Promise<void> {
  try {
    for await (const part of call.model.stream(call.request, guard.signal)) {
      if (received.end !== undefined) return;
      received.partAtMs = call.clock.now();
      const over = measure(received, part) - ANSWER_CHARS_MAX;
      if (over <= 0) receive(call, received, part);
      else {
        // Text up to the bound is kept.
        if (part.type === "text_delta") receive(call, received, { ...part, delta: part.delta.slice(0, -over) });
        guard.stop("failure", TOO_LONG);
      }
      if (received.end !== undefined) return guard.ended();
    }
  } catch (thrown) {
    // A client should report failures as a part; one that throws must not fail the turn.
    const message = thrown instanceof Error ? thrown.message : String(thrown);
    received.end ??= { ok: false, failure: { kind: "unknown", message } };
  }
}

/** The answer's length with this part; deltas and blocks mostly repeat each other. */
function measure(received: Received, part: ModelPart): number {
  if (part.type === "text_delta" || part.type === "reasoning_delta") received.deltaChars += part.delta.length;
  if (part.type === "block") received.blockChars += JSON.stringify(part.block).length;
  return Math.max(received.deltaChars, received.blockChars);
}

function receive(call: ModelCall, received: Received, part: ModelPart): void {
  switch (part.type) {
    case "text_delta":
      if (part.delta === "") return;
      received.text += part.delta;
      received.pending += part.delta;
      call.emit(part);
      return;
    case "reasoning_delta":
      if (part.delta !== "") call.emit(part);
      return;
    case "block":
      if (part.block.block_type === "text") {
        // A client may send a block without deltas: listeners still receive its text.
        const unseen = part.block.data.text.slice(received.pending.length);
        if (unseen !== "") call.emit({ type: "text_delta", delta: unseen });
        received.text += unseen;
        received.pending = "";
      }
      received.blocks.push(part.block);
      return;
    case "finish":
      if (received.pending !== "") received.blocks.push({ block_type: "text", data: { text: received.pending } });
      received.end = { ok: true, stopReason: part.stopReason, usage: part.usage };
      return;
    case "failed":
      received.end = { ok: false, failure: part.failure };
      return;
  }
}

/** One timer for the three limits: silence, the call's timeout, the turn's budget. */
async function watchClock(call: ModelCall, received: Received, guard: Guard): Promise<void> {
  const { clock, limits } = call;
  const callEndsMs = clock.now() + limits.callTimeoutMs;
  while (!guard.signal.aborted) {
    const stallsMs = received.partAtMs + limits.stallTimeoutMs;
    const waitMs = Math.min(stallsMs, callEndsMs, call.deadlineMs) - clock.now();
    if (waitMs > 0) {
      await clock.sleep(waitMs, guard.signal);
      continue;
    }
    if (clock.now() >= call.deadlineMs) {
      guard.stop("out_of_time", { kind: "call_timeout", message: "the time budget ran out" });
    } else if (clock.now() >= callEndsMs) {
      const message = `the model did not finish within ${limits.callTimeoutMs} ms`;
      guard.stop("failure", { kind: "call_timeout", message });
    } else {
      const message = `the model's stream was silent for ${limits.stallTimeoutMs} ms`;
      guard.stop("failure", { kind: "stalled", message });
    }
    return;
  }
}

export interface Asking {
  readonly model: ModelClient;
  readonly clock: Clock;
  readonly retry: RetryPolicy;
  readonly calls: CallLimits;
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
  readonly redact: Redact;
  readonly acceptsEmpty: boolean;
  emit(event: AgentEvent): void;
  append(bodies: readonly EntryBody[]): Promise<void>;
}

/** Waits for external code no longer than a model call or the turn may take. */
export async function waitFor<T>(
  { clock, calls, deadlineMs, signal }: Pick<Asking, "clock" | "calls" | "deadlineMs" | "signal">,
  work: (signal: AbortSignal) => Promise<T> | T,
): Promise<T> {
  const limitMs = Math.min(calls.callTimeoutMs, deadlineMs - clock.now());
  const [done, late] = [new AbortController(), new AbortController()];
  const ending = AbortSignal.any([signal, done.signal]);
  const given = async (): Promise<never> => {
    await clock.sleep(limitMs, ending);
    late.abort("late");
    throw new Error(signal.aborted ? "it was interrupted" : `it did not answer within ${limitMs} ms`);
  };
  const running = (async () => work(AbortSignal.any([signal, late.signal])))();
  const waiting = given();
  try {
    return await Promise.race([running, waiting]);
  } finally {
    // The losing promise has no receiver for its error.
    for (const one of [running, waiting]) one.catch(() => {});
    done.abort("done");
  }
}

/** Calls until the model answers, retrying cannot help, or time is up; every retry is announced first. */
export async function ask(asking: Asking, request: ModelRequest): Promise<ModelAnswer> {
  const { model, clock, retry, signal, deadlineMs } = asking;
  for (let attempt = 1; ; attempt += 1) {
    const call = { model, request, clock, limits: asking.calls, deadlineMs, signal, emit: asking.emit };
    const answer = judge(await callModel(call), asking.acceptsEmpty);
    if (answer.ok) return answer;
    const cost = answer.usage === undefined ? [] : [{ kind: "call_failed" as const, usage: answer.usage }];
    if (answer.because !== "failure") return given(asking, answer, cost);
    const failure = { ...answer.failure, message: asking.redact(answer.failure.message) };
    const isInVain = !isRetryable(failure.kind) || (failure.retryAfterMs ?? 0) > retry.retryAfterMaxMs;
    if (isInVain || attempt > retry.maxRetries) return given(asking, { ...answer, failure }, cost);
    const event = planRetry(retry, {
      attempt,
      failure,
      provider: model.provider,
      remainingMs: deadlineMs - clock.now(),
      random: clock.random(),
    });
    const streamed = answer.text === "" ? {} : { partial_text: answer.text };
    await asking.append([...cost, { kind: "attempt_failed", event, ...streamed }]);
    await clock.sleep(event.delay_ms, signal);
    // The streamed text of this attempt is already in the log and is not the turn's text.
    if (signal.aborted) return { ...answer, failure, text: "", because: "interrupted" };
    if (clock.now() >= deadlineMs) return { ...answer, failure, text: "", because: "out_of_time" };
  }
}

/** A failure, after its usage was logged: budgets count it. */
async function given(asking: Asking, answer: ModelAnswer, cost: readonly EntryBody[]): Promise<ModelAnswer> {
  if (cost.length > 0) await asking.append(cost);
  return answer;
}

/** An empty or filtered answer is a failure although the call succeeded. */
function judge(answer: ModelAnswer, acceptsEmpty: boolean): ModelAnswer {
  if (!answer.ok) return answer;
  const text = assistantText(answer);
  const fail = (failure: ModelFailure): ModelAnswer => ({
    ok: false,
    failure,
    text,
    because: "failure",
    usage: totalTokens(answer.usage) === 0 ? undefined : answer.usage,
  });
  if (answer.stopReason === "content_filter") {
    return fail({ kind: "content_filtered", message: "the provider's content filter stopped the answer" });
  }
  const saysNothing = answer.blocks.every(
    (block) => block.block_type === "reasoning" || (block.block_type === "text" && block.data.text.trim() === ""),
  );
  if (saysNothing && !acceptsEmpty) {
    return fail({ kind: "empty_response", message: "the model answered with no text and no tool call" });
  }
  return answer;
}
