import type { EntryBodyOf } from "../contract/entry.ts";
import type { AgentEventOf, BudgetType, Usage } from "../contract/event.ts";
import type { SessionSettings } from "../contract/session.ts";
import { addUsage, NO_USAGE, nanosOf, totalTokens } from "./cost.ts";

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

/** Reads the budget in the contract's order: tokens, time, tool calls, then cost. */
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
        // Time is reported in whole seconds and cost in whole millionths of a dollar, rounded up so that it is never 0.
        // The share is computed before rounding.
        const perUnit = PER_UNIT[type];
        return {
          type: "budget_warning",
          budget_type: type,
          used: Math.ceil(used / perUnit),
          limit: Math.ceil(limit / perUnit),
          percent: limit === 0 ? 100 : Math.round((1_000 * used) / limit) / 10,
        };
      }),
    exhausted: gauges.find((gauge) => gauge.used >= gauge.limit)?.type,
  };
}

/** Existing clients read whole numbers, so each type has a unit that gives them. */
const PER_UNIT: Readonly<Record<BudgetType, number>> = { tokens: 1, time: 1_000, tool_calls: 1, cost: 1_000 };

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

export interface Child {
  readonly callId: string;
  readonly childId: string;
  readonly agent: string;
  /** The task's usage starts after this seq of the child's log. */
  readonly fromSeq: number;
  /** Whether the child runs or its process died: its usage is not counted yet. */
  readonly isOpen: boolean;
}

export interface DelegatedState {
  /** Tasks that are not finished, and those whose calls have no result yet. */
  children: readonly Child[];
  /** Usage of sub-agents at every depth. It counts towards budgets and nothing else. */
  delegated: { readonly usage: Usage; readonly toolCalls: number };
  /** Tasks given to sub-agents since the newest turn was opened. */
  tasksOpened: number;
}

export const NOTHING_DELEGATED: DelegatedState = {
  children: [],
  delegated: { usage: NO_USAGE, toolCalls: 0 },
  tasksOpened: 0,
};

export function openChild(state: DelegatedState, body: EntryBodyOf<"child_opened">): void {
  const { call_id: callId, child_id: childId, agent, from_seq: fromSeq } = body;
  state.children = [...state.children, { callId, childId, agent, fromSeq, isOpen: true }];
  state.tasksOpened += 1;
}

export function closeChild(state: DelegatedState, body: EntryBodyOf<"child_closed">): void {
  const { usage, toolCalls } = state.delegated;
  state.delegated = { usage: addUsage(usage, body.usage), toolCalls: toolCalls + body.tool_calls };
  state.children = state.children.map((child) =>
    child.callId === body.call_id && child.childId === body.child_id ? { ...child, isOpen: false } : child,
  );
}

/** What a session's budgets count: its own calls and those of its sub-agents. */
export function spentIn({
  usage,
  toolCallsUsed,
  delegated,
}: Pick<DelegatedState, "delegated"> & { readonly usage: Usage; readonly toolCallsUsed: number }) {
  return { usage: addUsage(usage, delegated.usage), toolCalls: toolCallsUsed + delegated.toolCalls };
}
