import type { EntryBody, TurnEnd } from "../contract/entry.ts";
import { RuntimeError } from "../contract/error.ts";
import type { TerminalCause, Usage } from "../contract/event.ts";
import type { AssistantBlock, StopReason, ToolUseBlock } from "../contract/message.ts";
import type { Clock } from "../ports/clock.ts";
import type { ModelClient, ModelFailure } from "../ports/model.ts";
import { foldAhead, isWaiting, type SessionState } from "../state/session-state.ts";
import { isQuestion, requireNotWaiting } from "./approval.ts";
import type { Extraction } from "./extraction.ts";
import type { ModelAnswer } from "./model-call.ts";
import { causeOfFailure } from "./retry.ts";
import { checkBudget, type Run, stillUnsaved, type Turn } from "./run.ts";
import { estimateTokens } from "./tokens.ts";
import { closeCalls, INTERRUPTED, interruptedIn, UNANSWERED } from "./tool-batch.ts";

export const CANCELLED: TurnEnd = { status: "failed", error_class: "cancelled", error: "the turn was interrupted" };

function outOfTime({ message }: ModelFailure): TurnEnd {
  return {
    status: "failed",
    error_class: "budget",
    error: `the time budget ran out before the model answered (last failure: ${message})`,
    cause: "time_budget_exceeded",
  };
}

/** The end of a turn whose model failed, after retries and recovery. */
function endOfFailure(failure: ModelFailure, turn: FailedTurn): TurnEnd {
  const { kind, message, retryAfterMs, status } = failure;
  const retry_after_ms = retryAfterMs === undefined ? {} : { retry_after_ms: Math.ceil(retryAfterMs) };
  const said = status === undefined ? {} : { provider_status: status };
  return {
    status: "failed",
    error_class: kind === "auth" ? "auth" : kind === "content_filtered" ? "content_filtered" : "llm",
    error: kind === "context_exceeded" ? `${message}; ${whyTooLong(turn)}` : message,
    cause: causeOfFailure(kind),
    reason: { reason_type: REASON_TYPES[kind] ?? "llm_provider_error", failure_kind: kind, ...retry_after_ms, ...said },
  };
}

interface FailedTurn {
  readonly state: SessionState;
  readonly model: ModelClient;
  readonly compacting: object | undefined;
}

/** Explains what fills a context that cannot be reduced. */
function whyTooLong({ state, model, compacting }: FailedTurn): string {
  const largest = state.shown.reduce(
    (most, { seq, message }) => {
      const tokens = estimateTokens([message]);
      return tokens > most.tokens ? { seq, role: message.role, tokens } : most;
    },
    { seq: 0, role: "user", tokens: 0 },
  );
  const { contextWindow, modelId } = model;
  const isWrong = contextWindow !== undefined && state.shownTokens < contextWindow;
  const window = contextWindow === undefined || isWrong ? "" : ` of the model's ${contextWindow}`;
  const why = compacting === undefined ? "compaction is off" : "nothing more can be removed";
  const section = /^[\w-]+$/.test(modelId) ? modelId : JSON.stringify(modelId);
  const advice = isWrong
    ? `set context_window under [models.${section}] to what the model has, which is less than the ${contextWindow} it is taken for`
    : largest.role === "user"
      ? "send it in parts"
      : "start a new session, or use a model with a larger window";
  return (
    `the context is about ${state.shownTokens} tokens${window}, of which the ${largest.role} message at seq ` +
    `${largest.seq} takes ${largest.tokens}, and ${why}: ${advice}`
  );
}

const REASON_TYPES: Readonly<Record<string, string>> = {
  rate_limited: "llm_rate_limited",
  context_exceeded: "llm_context_exceeded",
  auth: "llm_auth_error",
  model_not_found: "llm_invalid_model",
  network: "llm_network_timeout",
  call_timeout: "llm_call_timeout",
  stalled: "llm_call_timeout",
};

const CUT_SHORT: TurnEnd = {
  status: "failed",
  error_class: "terminal",
  error: "the process ended before the turn did",
  cause: "fatal_failure",
};

export const CUT_COMPACTION = "the process ended before the compaction did";

/** The part of a state that shows what was left open. */
export type Unfinished = Pick<
  SessionState,
  "sessionId" | "isCompacting" | "isTurnOpen" | "openCalls" | "pending" | "heldResults" | "approval" | "children"
>;

/** Throws SESSION_BUSY while calls wait for the client's results, which must come first. */
export function requireAnswered({
  sessionId,
  openCalls,
  pending,
}: Pick<Unfinished, "sessionId" | "openCalls" | "pending">) {
  if (pending.length === 0) return;
  const names = [...new Set(openCalls.filter(({ data }) => pending.includes(data.id)).map(({ data }) => data.name))];
  const message = `session ${sessionId} waits for the results of ${names.join(", ")}; send them, or continue with a prompt`;
  throw new RuntimeError("SESSION_BUSY", message);
}

/** Closes what a process that died left open; the next owner of the session appends this. */
export function closeLeftovers(state: Unfinished, clock: Clock, end = CUT_SHORT): readonly EntryBody[] {
  requireNotWaiting(state, clock);
  const ends: EntryBody[] = [];
  if (state.isCompacting) {
    ends.push({ kind: "compaction_failed", error: CUT_COMPACTION });
  }
  if (isWaiting(state)) return [...ends, ...closeWaiting(state, "not run: approval timed out", clock)];
  if (state.isTurnOpen) ends.push({ kind: "turn_closed", end });
  // Calls are not repeated: they may have taken effect.
  if (state.openCalls.length > 0) {
    const sentence = state.pending.length > 0 ? UNANSWERED : interruptedIn(state);
    ends.push(closeCalls(state.openCalls, sentence, clock, state.heldResults));
  }
  return ends;
}

/** Ends a turn whose approval will not come. */
export function closeWaiting(
  { openCalls, heldResults, approval }: Pick<SessionState, "openCalls" | "heldResults" | "approval">,
  sentence: string,
  clock: Clock,
): readonly EntryBody[] {
  // A call whose server asks has begun.
  const said = (id: string) => (approval && isQuestion(approval.asked, id) ? INTERRUPTED : sentence);
  return [{ kind: "turn_closed", end: CANCELLED }, closeCalls(openCalls, said, clock, heldResults)];
}

const WINDOW_SHARE_MAX = 0.5;

/** An answer may take at most half of the window: servers refuse a limit that leaves no room for the prompt. */
export function outputLimit(maxTokens: number | undefined, contextWindow: number | undefined): number | undefined {
  if (maxTokens === undefined || contextWindow === undefined) return maxTokens;
  return Math.max(1, Math.min(maxTokens, Math.floor(contextWindow * WINDOW_SHARE_MAX)));
}

/** The result of a turn for the waiting caller. */
export interface TurnOutcome {
  readonly end: TurnEnd;
  readonly text: string;
  readonly turns: number;
  readonly toolCalls: number;
  readonly extraction: Extraction;
  /** The calls it ended with, which the client runs. */
  readonly pending?: readonly ToolUseBlock[];
}

/** The result of an answer's calls: entries to save next, and calls that the client runs. */
export interface Served {
  readonly unsaved: EntryBody[];
  readonly pending: readonly ToolUseBlock[];
}

export type Failed = Extract<ModelAnswer, { ok: false }>;

export function assistantEntry(
  turn: Turn,
  blocks: readonly AssistantBlock[],
  how: { stopReason: StopReason; usage?: Usage },
): EntryBody {
  return {
    kind: "assistant",
    message: {
      role: "block_assistant",
      blocks: [...blocks],
      stop_reason: how.stopReason,
      created_at: timestamp(turn.clock),
    },
    ...(how.usage === undefined ? {} : { usage: how.usage }),
  };
}

/** Ends a failed call: its streamed text is kept as a message marked `cancelled`. */
export async function closeFailed(run: Run, answer: Failed): Promise<TurnOutcome> {
  const { turn } = run;
  const unsaved: EntryBody[] =
    answer.text === ""
      ? []
      : [assistantEntry(turn, [{ block_type: "text", data: { text: answer.text } }], { stopReason: "cancelled" })];
  return close(run, unsaved, () => failureEnd(run, unsaved, answer));
}

function failureEnd(run: Run, unsaved: EntryBody[], answer: Failed): TurnEnd {
  switch (answer.because) {
    case "interrupted":
      return CANCELLED;
    case "out_of_time": {
      checkBudget(run, unsaved);
      const end = { ...completed(run, unsaved), cause: "time_budget_exceeded" as const };
      const hasResult = end.text_seq !== undefined || run.turn.state.toolCallsUsed > run.toolCallsBefore;
      return hasResult ? end : outOfTime(answer.failure);
    }
    case "failure":
      return endOfFailure(answer.failure, run.turn);
  }
}

/** A normal end, counting the unsaved entries. */
export function completed(run: Run, unsaved: readonly EntryBody[]): Extract<TurnEnd, { status: "completed" }> {
  const ahead = foldAhead(run.turn.state, unsaved);
  const text = textInTurn(run, ahead);
  return {
    status: "completed",
    extraction_required: false,
    usage: ahead.usage,
    ...(text === undefined ? {} : { text_seq: text.seq }),
  };
}

/** Ends a turn whose calls the client runs: it continues when their results have come. */
export async function closePending(
  run: Run,
  { unsaved, pending }: Served,
  answer?: Extract<ModelAnswer, { ok: true }>,
): Promise<TurnOutcome> {
  const closed = await close(run, unsaved, () => ({
    ...completed(run, unsaved),
    ...(answer === undefined ? {} : { final_call: { stop_reason: answer.stopReason, usage: answer.usage } }),
    pending: pending.map(({ data }) => data.id),
  }));
  return { ...closed, pending };
}

/** Ends an interrupted turn: calls that will not run are answered. */
export function closeCancelled(run: Run, { unsaved, pending }: Served): Promise<TurnOutcome> {
  const { state, clock } = run.turn;
  if (pending.length === 0) return close(run, unsaved, () => CANCELLED);
  const { heldResults } = foldAhead(state, unsaved);
  const answered = closeCalls(state.openCalls, interruptedIn(state), clock, heldResults);
  return close(run, [...unsaved, answered], () => CANCELLED);
}

/** Ends a turn normally for a cause other than the model's own end. */
export function closeBy(run: Run, unsaved: readonly EntryBody[], cause: TerminalCause): Promise<TurnOutcome> {
  return close(run, unsaved, () => ({ ...completed(run, unsaved), cause }));
}

/** Saves the rest together with the end in one append, so that a turn is never seen finished without its answer. */
export async function close(run: Run, unsaved: readonly EntryBody[], endOf: () => TurnEnd): Promise<TurnOutcome> {
  const { turn } = run;
  let end: TurnEnd = CANCELLED;
  await turn.append(() => {
    const { cost } = foldAhead(turn.state, unsaved).turnUsage;
    end = { ...endOf(), ...(cost === undefined ? {} : { turn_cost: cost }) };
    return [...stillUnsaved(run, unsaved), { kind: "turn_closed", end }];
  });
  return {
    end,
    text: textInTurn(run)?.text ?? "",
    turns: run.turns,
    toolCalls: turn.state.toolCallsUsed - run.toolCallsBefore,
    extraction: {},
  };
}

/** The outcome of a turn that a process before this one closed. */
export async function closedOutcome(run: Run): Promise<TurnOutcome> {
  return {
    end: completed(run, []),
    text: textInTurn(run)?.text ?? "",
    turns: run.turns,
    toolCalls: run.turn.state.toolCallsUsed - run.toolCallsBefore,
    extraction: {},
  };
}

export function textInTurn(run: Run, state: Pick<SessionState, "lastText"> = run.turn.state): SessionState["lastText"] {
  const { lastText } = state;
  return lastText !== undefined && lastText.seq > run.seqBefore ? lastText : undefined;
}

export function timestamp(clock: Clock): string {
  return new Date(clock.now()).toISOString();
}
