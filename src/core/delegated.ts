import type { EntryBodyOf } from "../contract/entry.ts";
import type { Usage } from "../contract/event.ts";
import { addUsage, NO_USAGE } from "./cost.ts";

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
