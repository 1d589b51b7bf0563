import type { AgentEventOf, BudgetType } from "../contract/event.ts";
import type { SessionSettings } from "../contract/session.ts";

type Limits = SessionSettings["budget_limits"];

export interface Spent {
  readonly tokens: number;
  readonly toolCalls: number;
  readonly elapsedMs: number;
}

export interface BudgetReading {
  /** Warnings that are due now and were not given before. */
  readonly warnings: readonly AgentEventOf<"budget_warning">[];
  readonly exhausted: BudgetType | undefined;
}

/** Reads the budget in the contract's order: tokens, time, tool calls. */
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
        // Time is told in whole seconds; the share is taken before rounding.
        const perUnit = type === "time" ? 1_000 : 1;
        return {
          type: "budget_warning",
          budget_type: type,
          used: Math.floor(used / perUnit),
          limit: Math.ceil(limit / perUnit),
          percent: limit === 0 ? 100 : Math.round((1_000 * used) / limit) / 10,
        };
      }),
    exhausted: gauges.find((gauge) => gauge.used >= gauge.limit)?.type,
  };
}

function gaugesOf(limits: Limits, spent: Spent): { type: BudgetType; used: number; limit: number }[] {
  const gauges: { type: BudgetType; used: number; limit: number | undefined }[] = [
    { type: "tokens", used: spent.tokens, limit: limits.max_tokens },
    { type: "time", used: spent.elapsedMs, limit: limits.max_duration_ms },
    { type: "tool_calls", used: spent.toolCalls, limit: limits.max_tool_calls },
  ];
  return gauges.flatMap(({ type, used, limit }) => (limit === undefined ? [] : [{ type, used, limit }]));
}
