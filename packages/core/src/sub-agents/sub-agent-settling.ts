import { RuntimeError } from "../contract/error.ts";
import type { Usage } from "../contract/event.ts";
import type { Clock } from "../ports/clock.ts";
import type { EventLog, SessionRow, Store } from "../ports/store.ts";
import { appendEntries, type LiveSession, type LiveSessions, type LockedWork } from "../sessions/live-sessions.ts";
import { foldRow } from "../state/session-row.ts";
import { isWaiting } from "../state/session-state.ts";
import { addUsage, NO_USAGE } from "../turn/cost.ts";
import { closeLeftovers } from "../turn/turn-end.ts";

/** The usage of a task, including its own sub-agents. */
export interface TaskUse {
  readonly usage: Usage;
  readonly toolCalls: number;
  readonly modelCalls: number;
}

/** Reads the usage after a seq from the log, whichever process ran the task. */
export async function readUse(log: EventLog, sessionId: string, fromSeq: number): Promise<TaskUse> {
  let row: SessionRow | undefined;
  let modelCalls = 0;
  for (const entry of await log.read(sessionId, fromSeq + 1, Number.MAX_SAFE_INTEGER)) {
    row = foldRow(row, sessionId, entry);
    if (entry.body.kind === "model_called") modelCalls += 1;
  }
  const { usage = NO_USAGE, delegated, budget } = row ?? {};
  return {
    usage: addUsage(usage, delegated?.usage ?? NO_USAGE),
    toolCalls: (budget?.tool_calls ?? 0) + (delegated?.tool_calls ?? 0),
    modelCalls,
  };
}

const NO_USE: TaskUse = { usage: NO_USAGE, toolCalls: 0, modelCalls: 0 };

export interface SettlingParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly live: LiveSessions;
  readonly locked: LockedWork;
  /** Stops the session's background preparation, which costs, too. */
  readonly preparations: { stop(sessionId: string): Promise<void> };
  /** Ends a wait for approval. */
  giveUp(session: LiveSession): Promise<void>;
}

export interface Settling {
  /** Ends the tasks of a held session whose processes ended, and counts their usage. */
  settle(parent: LiveSession): Promise<void>;
  /** Waits until a task's session spends nothing more; false after a timeout. */
  quiet(child: LiveSession): Promise<boolean>;
}

/** How long another process may take to release an interrupted session. */
const LETTING_GO_MS_MAX = 5_000;
const STEP_MS = 20;

export function createSettling(parts: SettlingParts): Settling {
  const { store, clock, live, locked, preparations } = parts;

  const quiet = async (child: LiveSession): Promise<boolean> => {
    const { sessionId } = child.state;
    await preparations.stop(sessionId);
    const never = new AbortController().signal;
    for (let waitedMs = 0; await store.locks.isHeld(sessionId); waitedMs += STEP_MS) {
      if (waitedMs >= LETTING_GO_MS_MAX) return false;
      await store.locks.interrupt(sessionId);
      await clock.sleep(STEP_MS, never);
    }
    await live.refresh(child);
    if (isWaiting(child.state)) await parts.giveUp(child);
    return !(await store.locks.isHeld(sessionId));
  };

  /** The outcome of a task whose process ended; its own sub-agents' tasks end first, since their usage counts. */
  const useOf = async (parentId: string, childId: string, fromSeq: number): Promise<TaskUse> => {
    const child = await live.findFresh(childId).catch((thrown: unknown) => {
      if (thrown instanceof RuntimeError && thrown.code === "SESSION_NOT_FOUND") return undefined;
      throw thrown;
    });
    // An imported copy of the parent does not own the child and did not pay for it.
    if (child === undefined || child.state.settings.sub_agent?.parent !== parentId) return NO_USE;
    if (!(await quiet(child))) {
      const message = `sub-agent session ${childId} of session ${parentId} still runs elsewhere; interrupt it first`;
      throw new RuntimeError("SESSION_BUSY", message);
    }
    if (!child.state.archived) {
      await locked.run(child, {}, async () => {
        await settle(child);
        await appendEntries(store.log, child, () => closeLeftovers(child.state, clock));
      });
    }
    return readUse(store.log, childId, fromSeq);
  };

  const settle = async (parent: LiveSession): Promise<void> => {
    const { sessionId, children } = parent.state;
    for (const { callId: call_id, childId: child_id, agent, fromSeq, isOpen } of children) {
      if (!isOpen) continue;
      const { usage, toolCalls: tool_calls } = await useOf(sessionId, child_id, fromSeq);
      const closed = { call_id, child_id, agent, status: "interrupted" as const, usage, tool_calls };
      await appendEntries(store.log, parent, [{ kind: "child_closed", ...closed }]);
    }
  };

  return { settle, quiet };
}
