import { RuntimeError } from "../contract/error.ts";
import type { PendingCall, ToolUseBlock } from "../contract/message.ts";
import type { RunResult } from "../contract/session.ts";
import { totalTokens } from "../turn/cost.ts";
import type { TurnOutcome } from "../turn/turn-end.ts";
import type { LiveSession } from "./live-sessions.ts";

/** The result of a turn; throws if it failed. */
export function toResult(live: LiveSession, outcome: TurnOutcome): RunResult {
  const { sessionId: session_id, usage, turnUsage, delegated } = live.state;
  const { end } = outcome;
  if (end.status === "failed") throw failureOf(end, session_id);
  // A turn with an extraction has no finish reason of its own.
  const { cause = end.cause, ...extraction } = outcome.extraction;
  return {
    session_id,
    text: outcome.text,
    turns: outcome.turns,
    tool_calls: outcome.toolCalls,
    usage: { ...usage, total_tokens: totalTokens(usage) },
    ...(totalTokens(delegated.usage) + delegated.toolCalls === 0
      ? {}
      : { delegated: { usage: delegated.usage, tool_calls: delegated.toolCalls } }),
    ...(turnUsage.cost === undefined ? {} : { turn_cost: turnUsage.cost }),
    ...(cause === undefined ? {} : { terminal_cause_kind: cause }),
    ...(outcome.pending === undefined ? {} : { pending_calls: outcome.pending.map(toPendingCall) }),
    ...extraction,
  };
}

function toPendingCall({ data: { id, name, args } }: ToolUseBlock): PendingCall {
  return { id, name, args };
}

function failureOf(end: Extract<TurnOutcome["end"], { status: "failed" }>, session_id: string): RuntimeError {
  const { error, error_class, cause, reason } = end;
  const details = {
    session_id,
    error_class,
    ...(cause === undefined ? {} : { terminal_cause_kind: cause }),
    ...(reason === undefined ? {} : { reason }),
  };
  switch (error_class) {
    case "cancelled":
      return new RuntimeError("REQUEST_CANCELLED", error, { details });
    case "budget":
      return new RuntimeError("BUDGET_EXHAUSTED", error, { details });
    case "hook":
      // The name that wire clients expect.
      return new RuntimeError("HOOK_DENIED", error, { details: { ...details, core_apply_failure_cause: cause } });
    default:
      return new RuntimeError("PROVIDER_ERROR", error, { details });
  }
}
