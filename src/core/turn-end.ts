import type { EntryBody, TurnEnd } from "../contract/entry.ts";
import { RuntimeError } from "../contract/error.ts";
import type { Clock } from "../ports/clock.ts";
import type { ModelClient, ModelFailure } from "../ports/model.ts";
import { requireNotWaiting } from "./approval.ts";
import { causeOfFailure } from "./retry.ts";
import { isWaiting, type SessionState } from "./session-state.ts";
import { estimateTokens } from "./tokens.ts";
import { closeCalls, interruptedIn, UNANSWERED } from "./tool-batch.ts";

export const CANCELLED: TurnEnd = { status: "failed", error_class: "cancelled", error: "the turn was interrupted" };

export function outOfTime({ message }: ModelFailure): TurnEnd {
  return {
    status: "failed",
    error_class: "budget",
    error: `the time budget ran out before the model answered (last failure: ${message})`,
    cause: "time_budget_exceeded",
  };
}

/** The end of a turn whose model failed, after retries and recovery where they could help. */
export function endOfFailure(failure: ModelFailure, turn: FailedTurn): TurnEnd {
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

/** Says what fills a context that cannot be made smaller. */
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
  const why = compacting === undefined ? "compaction is off" : "nothing more can be taken out";
  const section = /^[\w-]+$/.test(modelId) ? modelId : JSON.stringify(modelId);
  const advice = isWrong
    ? `set context_window under [models.${section}] to what the model has, which is less than the ${contextWindow} it is taken for`
    : largest.role === "user"
      ? "send it in parts"
      : "begin a new session, or use a model with a larger window";
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

/** As much of a state as says what was left open. */
export type Left = Pick<
  SessionState,
  "sessionId" | "isCompacting" | "isTurnOpen" | "openCalls" | "pending" | "heldResults" | "approval" | "children"
>;

/** Throws SESSION_BUSY while calls wait for results that somebody may bring: what comes now must not stand before those. */
export function requireAnswered({ sessionId, openCalls, pending }: Pick<Left, "sessionId" | "openCalls" | "pending">) {
  if (pending.length === 0) return;
  const names = [...new Set(openCalls.filter(({ data }) => pending.includes(data.id)).map(({ data }) => data.name))];
  const message = `session ${sessionId} waits for the results of ${names.join(", ")}; give them, or go on with a prompt`;
  throw new RuntimeError("SESSION_BUSY", message);
}

/** The ends of what a process that ended first left open: said by whoever holds the session next. */
export function closeLeftovers(state: Left, clock: Clock): readonly EntryBody[] {
  requireNotWaiting(state, clock);
  const ends: EntryBody[] = [];
  if (state.isCompacting) {
    ends.push({ kind: "compaction_failed", error: "the process ended before the compaction did" });
  }
  if (isWaiting(state)) return [...ends, ...closeWaiting(state, "not run: nobody said in time whether it may", clock)];
  if (state.isTurnOpen) ends.push({ kind: "turn_closed", end: CUT_SHORT });
  // Calls are not run again: they may have taken effect.
  if (state.openCalls.length > 0) {
    const sentence = state.pending.length > 0 ? UNANSWERED : interruptedIn(state);
    ends.push(closeCalls(state.openCalls, sentence, clock, state.heldResults));
  }
  return ends;
}

/** The end of a turn that waits for a word which will not come. */
export function closeWaiting(
  { openCalls }: Pick<SessionState, "openCalls">,
  sentence: string,
  clock: Clock,
): readonly EntryBody[] {
  return [{ kind: "turn_closed", end: CANCELLED }, closeCalls(openCalls, sentence, clock)];
}

const WINDOW_SHARE_MAX = 0.5;

/** An answer may take at most half of a window: servers refuse a limit that leaves no room for the question. */
export function outputLimit(maxTokens: number | undefined, contextWindow: number | undefined): number | undefined {
  if (maxTokens === undefined || contextWindow === undefined) return maxTokens;
  return Math.max(1, Math.min(maxTokens, Math.floor(contextWindow * WINDOW_SHARE_MAX)));
}
