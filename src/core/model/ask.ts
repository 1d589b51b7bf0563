import type { EntryBody } from "../../contract/entry.ts";
import type { AgentEvent } from "../../contract/event.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ModelClient, ModelFailure, ModelRequest } from "../../ports/model.ts";
import { textOf } from "../message-text.ts";
import type { Redact } from "../redact.ts";
import { totalTokens } from "../session/session-state.ts";
import { type CallLimits, callModel, type ModelAnswer } from "./model-call.ts";
import { isRetryable, planRetry, type RetryPolicy } from "./retry.ts";

export interface Asking {
  readonly model: ModelClient;
  readonly clock: Clock;
  readonly retry: RetryPolicy;
  readonly calls: CallLimits;
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
  readonly redact: Redact;
  /** Whether an answer with nothing in it is an answer. */
  readonly acceptsEmpty: boolean;
  emit(event: AgentEvent): void;
  append(bodies: readonly EntryBody[]): Promise<void>;
}

/** Asks until the model answers, asking again cannot help, or time is up; every retry is announced first. */
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
    // What this attempt streamed is in the log already: it is not the text the turn ends with.
    if (signal.aborted) return { ...answer, failure, text: "", because: "interrupted" };
    if (clock.now() >= deadlineMs) return { ...answer, failure, text: "", because: "out_of_time" };
  }
}

/** A failure, when what it took is in the log: budgets count it, whoever asked. */
async function given(asking: Asking, answer: ModelAnswer, cost: readonly EntryBody[]): Promise<ModelAnswer> {
  if (cost.length > 0) await asking.append(cost);
  return answer;
}

/** An answer with nothing in it, or a filtered one, is a failure although the call went through. */
function judge(answer: ModelAnswer, acceptsEmpty: boolean): ModelAnswer {
  if (!answer.ok) return answer;
  const text = textOf(answer);
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
