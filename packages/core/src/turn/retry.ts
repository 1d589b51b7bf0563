import type { AgentEventOf, TerminalCause } from "../contract/event.ts";
import type { FailureKind, ModelFailure } from "../ports/model.ts";

export interface RetryPolicy {
  readonly maxRetries: number;
  readonly initialDelayMs: number;
  readonly maxDelayMs: number;
  readonly multiplier: number;
  /** A provider that asks for a longer wait is not retried. */
  readonly retryAfterMaxMs: number;
}

const JITTER = 0.1;

/** Whether retrying can help. A wrong request stays wrong; unknown failures are retried within the bound. */
export function isRetryable(kind: FailureKind): boolean {
  switch (kind) {
    case "rate_limited":
    case "overloaded":
    case "server_error":
    case "network":
    case "call_timeout":
    case "stalled":
    case "empty_response":
    case "malformed_stream":
    case "unknown":
      return true;
    case "answer_too_long":
    case "context_exceeded":
    case "auth":
    case "invalid_request":
    case "model_not_found":
    case "content_filtered":
      return false;
  }
}

export function causeOfFailure(kind: FailureKind): TerminalCause {
  return isRetryable(kind) ? "retry_exhausted" : "llm_failure";
}

interface Attempt {
  /** 1 for the first retry. */
  readonly attempt: number;
  readonly failure: ModelFailure;
  readonly provider: string;
  /** Time the budget still allows; Infinity without one. */
  readonly remainingMs: number;
  /** A number in [0, 1) that spreads the delays of many clients. */
  readonly random: number;
}

/** The event that announces the next attempt, after `delay_ms`. */
export function planRetry(policy: RetryPolicy, next: Attempt): AgentEventOf<"retrying"> {
  const { attempt, failure } = next;
  const backoff = Math.min(policy.maxDelayMs, policy.initialDelayMs * policy.multiplier ** (attempt - 1));
  const computed = Math.round(backoff * (1 - JITTER + 2 * JITTER * next.random));
  const wanted = Math.max(computed, Math.ceil(failure.retryAfterMs ?? 0));
  const selected = Math.max(0, Math.min(wanted, Math.ceil(next.remainingMs)));
  return {
    type: "retrying",
    attempt,
    max_attempts: policy.maxRetries,
    error: failure.message,
    delay_ms: selected,
    retry: {
      failure: {
        provider: next.provider,
        kind: failure.kind,
        ...(failure.retryAfterMs === undefined ? {} : { retry_after_ms: Math.ceil(failure.retryAfterMs) }),
        message: failure.message,
      },
      plan: {
        attempt,
        max_retries: policy.maxRetries,
        computed_delay_ms: computed,
        selected_delay_ms: selected,
        ...(failure.retryAfterMs === undefined ? {} : { retry_after_hint_ms: Math.ceil(failure.retryAfterMs) }),
        rate_limit_floor_applied: false,
        budget_capped: selected < wanted,
      },
    },
  };
}
