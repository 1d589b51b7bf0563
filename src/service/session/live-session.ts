import type { EntryBody } from "../../contract/entry.ts";
import type { AgentEvent } from "../../contract/event.ts";
import { eventsOf, toNewEntries } from "../../core/session/entry-events.ts";
import { applyEntry, foldSession, type SessionState } from "../../core/session/session-state.ts";
import type { Clock } from "../../ports/clock.ts";
import type { EventLog } from "../../ports/store.ts";
import type { Tool } from "../../ports/tool.ts";
import type { Listener } from "../event-queue.ts";

/** A session this process works on: its folded state, its custom tools and who listens. */
export interface LiveSession {
  readonly state: SessionState;
  /** Its custom tools. */
  tools: readonly Tool[];
  /** Whether those are what it was last given here; a session that was folded from its log has not been given any. */
  hasTools: boolean;
  readonly listeners: Set<Listener>;
  /** Called when the session is archived: nothing will be told of it any more. */
  readonly onArchived: Set<() => void>;
  /** Settles when the newest append has. */
  appending: Promise<void>;
  /** Whether this process runs a turn of it. */
  isRunning: boolean;
}

/** Starts a session's log. */
export async function beginSession(
  log: EventLog,
  sessionId: string,
  created: { bodies: readonly EntryBody[]; tools: readonly Tool[] },
): Promise<LiveSession> {
  const entries = await log.append(sessionId, 0, toNewEntries(created.bodies));
  return { ...liveSession(foldSession(sessionId, entries), created.tools), hasTools: true };
}

export function liveSession(state: SessionState, tools: readonly Tool[]): LiveSession {
  return {
    state,
    tools,
    hasTools: false,
    listeners: new Set(),
    onArchived: new Set(),
    appending: Promise.resolve(),
    isRunning: false,
  };
}

/**
 * Makes entries durable, advances the state, then tells listeners what they stand for; one append at a time. Bodies that
 * speak of the state are made when their turn comes: a text may have been injected since they were thought of.
 */
export function appendEntries(
  log: EventLog,
  live: LiveSession,
  bodies: readonly EntryBody[] | (() => readonly EntryBody[]),
): Promise<void> {
  const appended = live.appending.then(() => appendNow(log, live, typeof bodies === "function" ? bodies() : bodies));
  live.appending = appended.catch(() => {}); // Whoever asked for it hears of it; the next one starts from the state.
  return appended;
}

async function appendNow(log: EventLog, live: LiveSession, bodies: readonly EntryBody[]): Promise<void> {
  if (bodies.length === 0) return;
  const { state } = live;
  const entries = await log.append(state.sessionId, state.lastSeq, toNewEntries(bodies));
  const texts = new Map(state.lastText === undefined ? [] : [[state.lastText.seq, state.lastText.text]]);
  const source = { sessionId: state.sessionId, textAt: (seq: number) => texts.get(seq) ?? "" };
  for (const entry of entries) {
    applyEntry(state, entry);
    if (state.lastText !== undefined) texts.set(state.lastText.seq, state.lastText.text);
    let { seq } = entry;
    for (const event of eventsOf(entry.body, source)) {
      for (const listener of live.listeners) listener({ seq, timestamp_ms: entry.timestamp_ms, event });
      seq += 1;
    }
  }
  if (state.archived) for (const wake of live.onArchived) wake();
}

/** Tells listeners something that is not kept. */
export function emitLive(live: LiveSession, clock: Clock, event: AgentEvent): void {
  if (live.listeners.size === 0) return;
  const timestamp_ms = clock.now();
  const event_id = clock.newId();
  for (const listener of live.listeners) listener({ seq: 0, event_id, timestamp_ms, event });
}

/** Gives a session its custom tools, and returns the names of those it did not have when it was last given some. */
export function giveTools(live: LiveSession, tools: readonly Tool[]): readonly string[] {
  const had = new Set(live.tools.map(({ name }) => name));
  const added = live.hasTools ? tools.map(({ name }) => name).filter((name) => !had.has(name)) : [];
  live.tools = tools;
  live.hasTools = true;
  return added;
}
