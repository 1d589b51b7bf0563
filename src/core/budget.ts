import type { AgentEventOf, BudgetType, Usage } from "../contract/event.ts";
import type { SessionSettings } from "../contract/session.ts";
import { nanosOf } from "./cost.ts";
import { totalTokens } from "./session-state.ts";

type Limits = SessionSettings["budget_limits"];

export interface Spent {
  readonly usage: Usage;
  readonly toolCalls: number;
  readonly elapsedMs: number;
}

export interface BudgetReading {
  /** Warnings that are due now and were not given before. */
  readonly warnings: readonly AgentEventOf<"budget_warning">[];
  readonly exhausted: BudgetType | undefined;
}

/** Reads the budget in the contract's order: tokens, time, tool calls; then cost. */
export function readBudget(
  limits: Limits,
  spent: Spent,
  warning: { at: number; given: ReadonlySet<BudgetType> },
): BudgetReading {
  const gauges = gaugesOf(limits, spent);
  return {
    warnings: gauges
      .filter((gauge) => !warning.given.has(gauge.type) && gauge.used >= gauge.limit * warning.at)
      .map(({ type, used, limit }) => {
        // Time is told in whole seconds, cost in dollars; the share is taken before rounding.
        const told = TOLD_AS[type];
        return {
          type: "budget_warning",
          budget_type: type,
          used: told(used, Math.floor),
          limit: told(limit, Math.ceil),
          percent: limit === 0 ? 100 : Math.round((1_000 * used) / limit) / 10,
        };
      }),
    exhausted: gauges.find((gauge) => gauge.used >= gauge.limit)?.type,
  };
}

type Round = (value: number) => number;

/** How each is told of what it is counted in. */
const TOLD_AS: Readonly<Record<BudgetType, (counted: number, round: Round) => number>> = {
  tokens: (tokens) => tokens,
  time: (ms, round) => round(ms / 1_000),
  tool_calls: (calls) => calls,
  cost: (nanos) => nanos / 1_000_000_000,
};

function gaugesOf(limits: Limits, spent: Spent): { type: BudgetType; used: number; limit: number }[] {
  const gauges: { type: BudgetType; used: number; limit: number | undefined }[] = [
    { type: "tokens", used: totalTokens(spent.usage), limit: limits.max_tokens },
    { type: "time", used: spent.elapsedMs, limit: limits.max_duration_ms },
    { type: "tool_calls", used: spent.toolCalls, limit: limits.max_tool_calls },
    {
      type: "cost",
      used: nanosOf(spent.usage.cost ?? FREE),
      limit: limits.max_cost && nanosOf({ amount: limits.max_cost }),
    },
  ];
  return gauges.flatMap(({ type, used, limit }) => (limit === undefined ? [] : [{ type, used, limit }]));
}

const FREE = { amount: 0 };
