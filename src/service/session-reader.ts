import { RuntimeError } from "../contract/error.ts";
import type { SessionHistory, SessionInfo, SessionSummary } from "../contract/session.ts";
import { textOfEntry } from "../core/session/entry-events.ts";
import type { SessionState } from "../core/session/session-state.ts";
import type { SessionRow, Store } from "../ports/store.ts";
import type { Service } from "./dispatch.ts";
import type { LiveSessions } from "./live-sessions.ts";

/** The operations that only look: rows answer them, and a log is read where a row does not say enough. */
export function createSessionReader(
  store: Store,
  live: LiveSessions,
): Pick<Service, "readSession" | "listSessions" | "readHistory"> {
  return {
    readSession: async ({ session_id }) => {
      const row = await store.sessions.get(session_id);
      if (row === undefined) throw new RuntimeError("SESSION_NOT_FOUND", `Session not found: ${session_id}`);
      return describeSession(store, row);
    },
    listSessions: async ({ labels = {}, limit, offset }) => {
      const wanted = Object.entries(labels);
      const rows = (await store.sessions.all())
        .filter((row) => !row.archived && wanted.every(([key, value]) => row.labels[key] === value))
        .sort((a, b) => b.updated_at_ms - a.updated_at_ms || (a.session_id < b.session_id ? 1 : -1))
        .slice(offset, limit === undefined ? undefined : offset + limit);
      return { sessions: await Promise.all(rows.map((row) => summarise(store, row))) };
    },
    readHistory: async ({ session_id, offset, limit }) => pageOf((await live.find(session_id)).state, offset, limit),
  };
}

async function summarise(store: Store, row: SessionRow): Promise<SessionSummary> {
  return { ...(await commonOf(store, row)), total_tokens: row.total_tokens };
}

async function describeSession(store: Store, row: SessionRow): Promise<SessionInfo> {
  const [last] = row.text_seq === 0 ? [] : await store.log.read(row.session_id, row.text_seq, 1);
  return {
    ...(await commonOf(store, row)),
    model: row.model,
    provider: row.provider,
    ...(last === undefined ? {} : { last_assistant_text: textOfEntry(last) }),
  };
}

async function commonOf(store: Store, row: SessionRow) {
  return {
    session_id: row.session_id,
    created_at: Math.floor(row.created_at_ms / 1_000),
    updated_at: Math.floor(row.updated_at_ms / 1_000),
    message_count: row.message_count,
    is_active: await store.locks.isHeld(row.session_id),
    ...(Object.keys(row.labels).length === 0 ? {} : { labels: { ...row.labels } }),
  };
}

function pageOf(state: SessionState, offset: number, limit: number | undefined): SessionHistory {
  const end = limit === undefined ? state.transcript.length : Math.min(offset + limit, state.transcript.length);
  return {
    session_id: state.sessionId,
    message_count: state.transcript.length,
    offset,
    ...(limit === undefined ? {} : { limit }),
    has_more: end < state.transcript.length,
    messages: state.transcript.slice(offset, end).map(({ seq, message }) => ({ ...message, seq })),
  };
}
