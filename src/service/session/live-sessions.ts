import { RuntimeError } from "../../contract/error.ts";
import { applyEntry, foldSession } from "../../core/session/session-state.ts";
import type { Store } from "../../ports/store.ts";
import { type LiveSession, liveSession } from "./live-session.ts";

/** The sessions this process has folded and keeps at hand. */
export interface LiveSessions {
  /** A session at hand, or folded from its log; rejects with SESSION_NOT_FOUND. */
  find(sessionId: string): Promise<LiveSession>;
  /** The same, with what another process appended since. */
  findFresh(sessionId: string): Promise<LiveSession>;
  /** Takes in a session that is being made, unless nothing can give way to one more. */
  admit(making: () => Promise<LiveSession>): Promise<LiveSession>;
  /** Takes in what another process appended since; to be called by whoever holds the session. */
  refresh(session: LiveSession): Promise<void>;
}

/** A log is read whole when its session is first touched. */
const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;

/** Without a store that lasts, a session that is let go is gone, so none ever is. */
export function createLiveSessions(
  store: Store,
  options: { sessionsMax: () => number; isStored: boolean },
): LiveSessions {
  const { sessionsMax, isStored } = options;
  // In order of use: the first key is the one that was not touched for the longest time.
  const sessions = new Map<string, LiveSession>();
  // Sessions that are being made: many at once must not pass the limit together.
  let arriving = 0;

  const add = (session: LiveSession): LiveSession => {
    const { sessionId } = session.state;
    sessions.delete(sessionId);
    sessions.set(sessionId, session);
    return session;
  };
  const makeRoom = (): void => {
    if (sessions.size + arriving < sessionsMax()) return;
    const idle = isStored ? firstIdle(sessions.values()) : undefined;
    if (idle === undefined) {
      const held = sessions.size + arriving;
      const message = `this runtime holds ${held} sessions, its limit; raise limits.max_sessions or use fewer`;
      throw new RuntimeError("AGENT_ERROR", message);
    }
    sessions.delete(idle.state.sessionId);
  };
  const admit = async (making: () => Promise<LiveSession>): Promise<LiveSession> => {
    makeRoom();
    arriving += 1;
    try {
      return add(await making());
    } finally {
      arriving -= 1;
    }
  };
  const find = async (sessionId: string): Promise<LiveSession> => {
    const known = sessions.get(sessionId);
    if (known !== undefined) return add(known);
    const entries = isStored ? await store.log.read(sessionId, 1, ENTRIES_MAX) : [];
    if (entries.length === 0) throw new RuntimeError("SESSION_NOT_FOUND", `Session not found: ${sessionId}`);
    const raced = sessions.get(sessionId);
    if (raced !== undefined) return raced;
    makeRoom();
    return add(liveSession(foldSession(sessionId, entries), []));
  };
  const refresh = async ({ state, onArchived }: LiveSession): Promise<void> => {
    const row = isStored ? await store.sessions.get(state.sessionId) : undefined;
    if (row === undefined || row.last_seq <= state.lastSeq) return;
    const missed = await store.log.read(state.sessionId, state.lastSeq + 1, ENTRIES_MAX);
    for (const entry of missed) if (entry.seq > state.lastSeq) applyEntry(state, entry);
    if (state.archived) for (const wake of onArchived) wake();
  };
  return {
    admit,
    find,
    findFresh: async (sessionId) => {
      const session = await find(sessionId);
      if (!session.isRunning) await refresh(session);
      return session;
    },
    refresh,
  };
}

/** The first that can be folded again from its log without anyone noticing. */
function firstIdle(sessions: Iterable<LiveSession>): LiveSession | undefined {
  for (const session of sessions) {
    if (!session.isRunning && session.tools.length + session.listeners.size === 0) return session;
  }
  return undefined;
}
