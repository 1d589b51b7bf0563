import type { EntryBodyOf } from "../contract/entry.ts";
import type { Usage } from "../contract/event.ts";
import { addUsage, NO_USAGE } from "./cost.ts";

/** A task that was handed to a sub-agent. */
export interface Child {
  readonly callId: string;
  readonly childId: string;
  readonly agent: string;
  /** Seq of the child's log after which what it uses is of this task. */
  readonly fromSeq: number;
  /** Whether it runs, or its process ended: what it used is not counted yet. */
  readonly isOpen: boolean;
}

/** What a session has handed to others. */
export interface DelegatedState {
  /** Tasks of sub-agents that are not over, and those whose calls have no result yet. */
  children: readonly Child[];
  /** What sub-agents used, theirs included: it is part of the budgets, and of nothing else that is counted of a session. */
  delegated: { readonly usage: Usage; readonly toolCalls: number };
  /** Tasks that were handed to sub-agents since the newest turn was opened. */
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

/** What a session's budgets count: its own calls, and those of its sub-agents. */
export function spentIn({
  usage,
  toolCallsUsed,
  delegated,
}: Pick<DelegatedState, "delegated"> & { readonly usage: Usage; readonly toolCallsUsed: number }) {
  return { usage: addUsage(usage, delegated.usage), toolCalls: toolCallsUsed + delegated.toolCalls };
}
