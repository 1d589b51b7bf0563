import type { TurnEnd } from "../../contract/entry.ts";
import type { ModelClient, ModelFailure } from "../../ports/model.ts";
import { causeOfFailure } from "../model/retry.ts";
import type { SessionState } from "../session/session-state.ts";
import { estimateTokens } from "../tokens.ts";

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
  const { kind, message, retryAfterMs } = failure;
  const retry_after_ms = retryAfterMs === undefined ? {} : { retry_after_ms: Math.ceil(retryAfterMs) };
  return {
    status: "failed",
    error_class: kind === "auth" ? "auth" : kind === "content_filtered" ? "content_filtered" : "llm",
    error: kind === "context_exceeded" ? `${message}; ${whyTooLong(turn)}` : message,
    cause: causeOfFailure(kind),
    reason: { reason_type: REASON_TYPES[kind] ?? "llm_provider_error", failure_kind: kind, ...retry_after_ms },
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
  const window = model.contextWindow === undefined ? "" : ` of the model's ${model.contextWindow}`;
  const why = compacting === undefined ? "compaction is off" : "nothing more can be taken out";
  const advice =
    largest.role === "user" ? "send it in parts" : "begin a new session, or use a model with a larger window";
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
