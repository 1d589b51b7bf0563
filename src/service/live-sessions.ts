import { RuntimeError } from "../contract/error.ts";
import { applyEntry, foldSession } from "../core/session/session-state.ts";
import type { Store } from "../ports/store.ts";
import { type LiveSession, liveSession } from "./live-session.ts";

/** The sessions this process has folded and keeps at hand. */
export interface LiveSessions {
  /** A session at hand, or folded from its log; rejects with SESSION_NOT_FOUND. */
  find(sessionId: string): Promise<LiveSession>;
  add(session: LiveSession): LiveSession;
  /** Throws when nothing can give way to one more. */
  makeRoom(): void;
  /** Takes in what another process appended since; to be called by whoever holds the session. */
  refresh(session: LiveSession): Promise<void>;
}

/** A log is read whole when its session is first touched. */
const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;

/** Without a store that lasts, a session that is let go is gone, so none ever is. */
export function createLiveSessions(store: Store, options: { sessionsMax: number; isStored: boolean }): LiveSessions {
  const { sessionsMax, isStored } = options;
  // In order of use: the first key is the one that was not touched for the longest time.
  const sessions = new Map<string, LiveSession>();

  const add = (session: LiveSession): LiveSession => {
    const { sessionId } = session.state;
    sessions.delete(sessionId);
    sessions.set(sessionId, session);
    return session;
  };
  const makeRoom = (): void => {
    if (sessions.size < sessionsMax) return;
    const idle = isStored
      ? [...sessions].find(([, { tools, listeners }]) => tools.length + listeners.size === 0)
      : undefined;
    if (idle === undefined) {
      const message = `this runtime holds ${sessions.size} sessions, its limit; raise limits.max_sessions or use fewer`;
      throw new RuntimeError("AGENT_ERROR", message);
    }
    sessions.delete(idle[0]);
  };
  return {
    add,
    makeRoom,
    find: async (sessionId) => {
      const known = sessions.get(sessionId);
      if (known !== undefined) return add(known);
      const entries = isStored ? await store.log.read(sessionId, 1, ENTRIES_MAX) : [];
      if (entries.length === 0) throw new RuntimeError("SESSION_NOT_FOUND", `Session not found: ${sessionId}`);
      const raced = sessions.get(sessionId);
      if (raced !== undefined) return raced;
      makeRoom();
      return add(liveSession(foldSession(sessionId, entries), []));
    },
    refresh: async ({ state }) => {
      const row = isStored ? await store.sessions.get(state.sessionId) : undefined;
      if (row === undefined || row.last_seq === state.lastSeq) return;
      for (const entry of await store.log.read(state.sessionId, state.lastSeq + 1, ENTRIES_MAX))
        applyEntry(state, entry);
    },
  };
}
