import { invalid, RuntimeError } from "../contract/error.ts";
import { defined } from "../contract/json.ts";
import type {
  SessionContext,
  SessionHistory,
  SessionInfo,
  SessionSummary,
  UnfinishedTurn,
} from "../contract/session-info.ts";
import { CONTRACT_VERSION } from "../contract/wire/version.ts";
import type { Clock } from "../ports/clock.ts";
import type { SessionRow, Store } from "../ports/store.ts";
import type { Service } from "../runtime/dispatch.ts";
import { type Hash, isIn } from "../state/context.ts";
import { describeContext } from "../state/describe-context.ts";
import { textOfEntry } from "../state/entry-events.ts";
import { describeGoal } from "../state/goal.ts";
import type { SessionState } from "../state/session-state.ts";
import { foldLongSession, type WholeState } from "../state/whole-state.ts";
import { addUsage, NO_USAGE, totalTokens } from "../turn/cost.ts";
import type { LiveSession, LiveSessions } from "./live-sessions.ts";
import { readEvents } from "./subscriptions.ts";

interface ReaderParts {
  readonly store: Store;
  readonly live: LiveSessions;
  readonly hash: Hash;
  readonly yieldToEventLoop: Clock["yieldToEventLoop"];
  sizesOf(session: LiveSession, state: SessionState): ContextSizes;
  unfinishedIn(session: LiveSession): Promise<UnfinishedTurn | undefined>;
}

/** The context's limit and the tokens of its tools. */
export type ContextSizes = Pick<
  SessionContext,
  "tools" | "tool_tokens" | "context_window" | "auto_compact_threshold" | "next_call_cost"
>;

type Reads = "readSession" | "listSessions" | "readHistory" | "readContext" | "readEventCursor" | "listEvents";

/**
 * The read operations: answered from rows, and from the log if necessary. Messages are copied, since a caller may
 * change them.
 */
export function createSessionReader(parts: ReaderParts): Pick<Service, Reads> {
  const { store, live, hash, yieldToEventLoop, sizesOf, unfinishedIn } = parts;
  return {
    readSession: async ({ session_id }) => {
      const row = await rowOf(store, session_id);
      const { goal } = row.goal_phase === undefined ? {} : (await live.findFresh(session_id)).state;
      const info = { ...(await describeSession(store, row)), ...(goal && { goal: describeGoal(goal) }) };
      if (info.state !== "interrupted") return info;
      const unfinished_turn = await unfinishedIn(await live.findFresh(session_id));
      return unfinished_turn === undefined ? info : { ...info, unfinished_turn };
    },
    listSessions: async ({ labels = {}, limit, offset, archived, cursor }) => {
      const after = cursor === undefined ? {} : { after: readCursor(cursor) };
      if (cursor !== undefined && offset > 0) {
        throw invalid("offset: a cursor says where to go on; leave out offset, or give no cursor");
      }
      // One more than requested shows whether there are more.
      const max = limit === undefined ? Number.MAX_SAFE_INTEGER : offset + limit + 1;
      const found = await store.sessions.page({ ...(archived ? {} : { archived: false }), labels, ...after, max });
      const rows = found.slice(offset, limit === undefined ? undefined : offset + limit);
      const last = rows.at(-1);
      const hasMore = last !== undefined && found.length > offset + rows.length;
      const sessions = await Promise.all(rows.map((row) => summarise(store, row)));
      return { sessions, ...(hasMore ? { next_cursor: writeCursor(last) } : {}) };
    },
    readHistory: async ({ session_id, offset, limit }) =>
      structuredClone(pageOf(await live.whole(await live.findFresh(session_id)), offset, limit)),
    readContext: async ({ session_id, at_seq }) => {
      const session = await live.findFresh(session_id);
      const past = at_seq === undefined ? undefined : await stateAt(parts, session_id, at_seq);
      const shown = past?.state ?? session.state;
      const row = await store.sessions.get(session_id);
      const forgotten = row?.forgotten === true ? holesAmong(await live.whole(session), shown) : {};
      const sizes = structuredClone({ ...forgotten, ...sizesOf(session, shown), ...past?.sizes });
      return { ...(await describeContext(shown, hash, yieldToEventLoop)), ...sizes };
    },
    readEventCursor: async ({ scope }) => {
      const { last_seq } = await rowOf(store, scope.session_id);
      return { contract_version: CONTRACT_VERSION, cursor: { scope, sequence: last_seq } };
    },
    listEvents: async ({ scope, cursor, limit }) => {
      const { session_id } = scope;
      const { last_seq } = await rowOf(store, session_id);
      const after = cursor?.sequence ?? 0;
      const deliveries = await readEvents(store.log, session_id, { after, max: limit + 1 });
      const source = { type: "session" as const, session_id };
      const events = deliveries.slice(0, limit).map(({ seq, timestamp_ms, event }) => ({
        event_id: eventId(session_id, seq),
        cursor: { scope, sequence: seq },
        timestamp_ms,
        source,
        session_id,
        payload: event,
      }));
      return {
        contract_version: CONTRACT_VERSION,
        scope,
        from_cursor: { scope, sequence: after },
        latest_cursor: { scope, sequence: last_seq },
        events,
        has_more: deliveries.length > limit,
      };
    },
  };
}

/** The shown messages and summaries that were changed by an erasure. */
function holesAmong({ holes }: WholeState, { shown }: SessionState): Pick<SessionContext, "forgotten"> {
  if (holes.length === 0) return {};
  const seqs = [...new Set(shown.map(({ seq }) => seq))].filter((seq) => isIn(holes, seq));
  return seqs.length === 0 ? {} : { forgotten: seqs };
}

type ListPlace = Pick<SessionRow, "session_id" | "updated_at_ms">;

/** The position of a list; opaque to the caller. */
function writeCursor({ session_id, updated_at_ms }: ListPlace): string {
  return `${updated_at_ms.toString(CURSOR_RADIX)}_${session_id}`;
}

function readCursor(cursor: string): ListPlace {
  const [, time = "", session_id = ""] =
    /^([0-9a-z]{1,10})_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/.exec(cursor) ?? [];
  if (session_id !== "") return { session_id, updated_at_ms: Number.parseInt(time, CURSOR_RADIX) };
  throw invalid("cursor: give the next_cursor of an earlier answer as it was, or none");
}

const CURSOR_RADIX = 36;

/** The id of a durable event: the session's id with its last digits replaced by the event's number. */
function eventId(sessionId: string, seq: number): string {
  return `${sessionId.slice(0, 24)}${seq.toString(16).padStart(12, "0")}`;
}

/** A session's row; rejects with SESSION_NOT_FOUND. */
export async function rowOf(store: Store, sessionId: string): Promise<SessionRow> {
  const row = await store.sessions.get(sessionId);
  if (row === undefined) throw new RuntimeError("SESSION_NOT_FOUND", `Session not found: ${sessionId}`);
  return row;
}

/** The state when the call at `seq` was made, including the call's own entry. */
async function stateAt({ store, yieldToEventLoop }: ReaderParts, sessionId: string, seq: number) {
  const entries = await store.log.read(sessionId, 1, Number.MAX_SAFE_INTEGER);
  const call = entries.find((entry) => entry.seq <= seq && seq < entry.seq + entry.span);
  if (call?.body.kind !== "model_called") {
    const calls = entries.filter((entry) => entry.body.kind === "model_called").map((entry) => entry.seq);
    const near = calls.findLast((at) => at < seq) ?? calls[0];
    const hint = near === undefined ? "the session has made none" : `the call before it is at ${near}`;
    throw invalid(`at_seq: no model call was made at ${seq}; ${hint}`);
  }
  const { tool_tokens } = call.body;
  const until = entries.filter((entry) => entry.seq <= call.seq);
  const state: WholeState = await foldLongSession(sessionId, until, yieldToEventLoop);
  return { state, sizes: tool_tokens === undefined ? {} : { tool_tokens } };
}

async function summarise(store: Store, row: SessionRow): Promise<SessionSummary> {
  const { total_tokens, model, title, goal_phase } = row;
  return { ...(await commonOf(store, row)), total_tokens, model, title, ...defined({ goal_phase }) };
}

async function describeSession(store: Store, row: SessionRow): Promise<SessionInfo> {
  const [last] = row.text_seq === 0 ? [] : await store.log.read(row.session_id, row.text_seq, 1);
  return {
    ...(await commonOf(store, row)),
    total_tokens: row.total_tokens,
    model: row.model,
    provider: row.provider,
    title: row.title,
    ...budgetsOf(row),
    ...defined({ delegated: row.delegated, usage: row.usage }),
    session_compaction_cadence: row.cadence,
    ...(last === undefined ? {} : { last_assistant_text: textOfEntry(last, row.text_seq) }),
  };
}

function budgetsOf({ budget, total_tokens, usage, delegated }: SessionRow): Pick<SessionInfo, "budgets"> {
  const { max_tokens, max_duration_ms, max_tool_calls, max_cost } = budget?.limits ?? {};
  const { usage: theirs = NO_USAGE, tool_calls: theirCalls = 0 } = delegated ?? {};
  const { cost } = addUsage(usage ?? NO_USAGE, theirs);
  const budgets = [
    ...(max_tokens === undefined
      ? []
      : [{ type: "tokens" as const, limit: max_tokens, used: total_tokens + totalTokens(theirs) }]),
    ...(max_duration_ms === undefined ? [] : [{ type: "time" as const, limit: max_duration_ms }]),
    ...(max_tool_calls === undefined
      ? []
      : [{ type: "tool_calls" as const, limit: max_tool_calls, used: (budget?.tool_calls ?? 0) + theirCalls }]),
    ...(max_cost === undefined ? [] : [{ type: "cost" as const, limit: max_cost, used: cost?.amount ?? 0 }]),
  ];
  return budgets.length === 0 ? {} : { budgets };
}

async function commonOf(store: Store, row: SessionRow) {
  const isWaiting = row.has_open_turn && (row.waiting_calls ?? 0) > 0;
  // The approval is reported before the process that asked releases the session.
  const is_active = !isWaiting && (await store.locks.isHeld(row.session_id));
  const open = isWaiting ? "waiting" : "interrupted";
  const closed = row.has_failed === true ? "failed" : "idle";
  const idle = row.archived ? "archived" : row.has_open_turn ? open : closed;
  return {
    session_id: row.session_id,
    created_at: Math.floor(row.created_at_ms / 1_000),
    updated_at: Math.floor(row.updated_at_ms / 1_000),
    message_count: row.message_count,
    ...(row.usage?.cost === undefined ? {} : { cost: row.usage.cost }),
    is_active,
    state: is_active ? ("running" as const) : (idle as "archived" | "interrupted" | "waiting" | "failed" | "idle"),
    ...(Object.keys(row.labels).length === 0 ? {} : { labels: { ...row.labels } }),
  };
}

export function pageOf(
  state: Pick<WholeState, "sessionId" | "transcript">,
  offset: number,
  limit: number | undefined,
): SessionHistory {
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
