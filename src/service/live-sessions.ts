import type { EntryBody } from "../contract/entry.ts";
import { messageOf, RuntimeError } from "../contract/error.ts";
import type { AgentEvent } from "../contract/event.ts";
import { eventsOf, toNewEntries } from "../core/entry-events.ts";
import type { SessionState } from "../core/session-state.ts";
import { applyEntry, applyTo, beginFold, foldLongSession, isWhole, type WholeState } from "../core/whole-state.ts";
import type { Clock } from "../ports/clock.ts";
import type { EventLog, Hold, LogRow, Store } from "../ports/store.ts";
import type { Tool } from "../ports/tool.ts";
import { type CheckpointParts, createCheckpoints } from "./checkpoints.ts";
import type { CallContext } from "./dispatch.ts";
import type { Listener } from "./event-queue.ts";

/** The sessions this process has folded and keeps at hand. */
export interface LiveSessions {
  /** A session at hand, or by its checkpoint or its log; rejects with SESSION_NOT_FOUND. */
  find(sessionId: string): Promise<LiveSession>;
  /** The same, with what another process appended since. */
  findFresh(sessionId: string): Promise<LiveSession>;
  /** Takes in a session that is being made, unless nothing can give way to one more. */
  admit(making: () => Promise<LiveSession>): Promise<LiveSession>;
  /** Takes in what another process appended since; to be called by whoever holds the session. */
  refresh(session: LiveSession): Promise<void>;
  /** Takes in, of a session at hand, that some of it was forgotten. */
  renew(sessionId: string): Promise<void>;
  /** Its state with everything that was ever said: the log is read when that is first asked for. */
  whole(session: LiveSession): Promise<WholeState>;
  /** Called when nothing of this process holds it any more: what the next process finds it by is kept. */
  rest(session: LiveSession): void;
  /** Resolves when what is being kept of them is. */
  close(): Promise<void>;
}

const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;

/** Without a store that lasts, a session that is let go is gone, so none ever is. */
export function createLiveSessions(
  store: Store,
  options: {
    sessionsMax: () => number;
    isStored: boolean;
    keeping: Pick<CheckpointParts, "hash" | "yieldToEventLoop">;
  },
): LiveSessions {
  const { sessionsMax, isStored, keeping } = options;
  const { log } = store;
  const { yieldToEventLoop } = keeping;
  const checkpoints = createCheckpoints({ ...keeping, log, store: isStored ? store.checkpoints : undefined });
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
      const count = sessions.size + arriving;
      const message = `this runtime holds ${count} sessions, its limit; raise limits.max_sessions or use fewer`;
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
    const state = isStored
      ? ((await checkpoints.resume(sessionId)) ?? (await foldFrom(log, sessionId, yieldToEventLoop)))
      : undefined;
    if (state === undefined) throw new RuntimeError("SESSION_NOT_FOUND", `Session not found: ${sessionId}`);
    const raced = sessions.get(sessionId);
    if (raced !== undefined) return raced;
    makeRoom();
    return add(liveSession(state, []));
  };
  /** Between two appends: what one of them has written and not yet taken in must not be taken in twice. */
  const refresh = (session: LiveSession): Promise<void> => {
    const refreshed = session.appending.then(() => refreshNow(session));
    session.appending = refreshed.catch(() => {});
    return refreshed;
  };
  const refreshNow = async ({ state, onRest }: LiveSession): Promise<void> => {
    const row = isStored ? await store.sessions.get(state.sessionId) : undefined;
    if (row === undefined || row.last_seq <= state.lastSeq) return;
    for (const entry of await log.read(state.sessionId, state.lastSeq + 1, ENTRIES_MAX)) {
      if (entry.seq > state.lastSeq && !applyTo(state, entry)) await makeWhole(log, state, entry.seq + entry.span - 1);
    }
    if (state.archived) for (const wake of onRest) wake();
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
    renew: async (sessionId) => {
      const known = sessions.get(sessionId);
      if (known !== undefined) await refresh(known);
    },
    whole: async (session) => {
      if (isWhole(session.state)) return session.state;
      // Between two appends, as a refresh: what one of them has written must be in it once.
      const whole = session.appending.then(() =>
        isWhole(session.state) ? session.state : makeWhole(log, session.state, session.state.lastSeq, yieldToEventLoop),
      );
      session.appending = whole.then(noted, noted);
      return whole;
    },
    rest: ({ state }) => checkpoints.consider(state),
    close: checkpoints.close,
  };
}

const noted = (): void => {};

async function foldFrom(
  log: EventLog,
  sessionId: string,
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<WholeState | undefined> {
  const entries = await log.read(sessionId, 1, ENTRIES_MAX);
  return entries.length === 0 ? undefined : foldLongSession(sessionId, entries, yieldToEventLoop);
}

/** Makes a state anew with everything that was said up to a seq; the state itself, which whoever works on the session has. */
async function makeWhole(
  log: EventLog,
  state: SessionState,
  lastSeq: number,
  yieldToEventLoop: Clock["yieldToEventLoop"] = () => undefined,
): Promise<WholeState> {
  const entries = await log.read(state.sessionId, 1, ENTRIES_MAX);
  const said = entries.filter(({ seq }) => seq <= lastSeq);
  return Object.assign(state, await foldLongSession(state.sessionId, said, yieldToEventLoop));
}

/** The first that can be folded again from its log without anyone noticing. */
function firstIdle(sessions: Iterable<LiveSession>): LiveSession | undefined {
  for (const session of sessions) {
    if (!session.isRunning && session.tools.length + session.listeners.size === 0) return session;
  }
  return undefined;
}

/** A session this process works on: its folded state, its custom tools and who listens. */
export interface LiveSession {
  readonly state: SessionState;
  /** Its custom tools. */
  tools: readonly Tool[];
  /** Whether those are what it was last given here; a session that was folded from its log has not been given any. */
  hasTools: boolean;
  readonly listeners: Set<Listener>;
  /** Called when a turn of this process is over, told of or not, and when the session is archived: no other will be. */
  readonly onRest: Set<() => void>;
  /** Settles when the newest append has. */
  appending: Promise<void>;
  /** Whether this process runs a turn of it. */
  isRunning: boolean;
  /** Settles when nothing of this process holds it for a moment only; who wants to hold it waits for that. */
  moment: Promise<void>;
}

/** Starts a session's log. It may begin with the many messages of another: between them others have their turn. */
export async function beginSession(
  log: EventLog,
  sessionId: string,
  created: { bodies: readonly EntryBody[]; tools: readonly Tool[]; yieldToEventLoop: Clock["yieldToEventLoop"] },
): Promise<LiveSession> {
  const entries = await log.append(sessionId, 0, toNewEntries(created.bodies));
  const state = beginFold(sessionId, entries);
  for (const entry of entries) {
    applyEntry(state, entry);
    await created.yieldToEventLoop();
  }
  return { ...liveSession(state, created.tools), hasTools: true };
}

function liveSession(state: SessionState, tools: readonly Tool[]): LiveSession {
  return {
    state,
    tools,
    hasTools: false,
    listeners: new Set(),
    onRest: new Set(),
    appending: Promise.resolve(),
    isRunning: false,
    moment: Promise.resolve(),
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
    if (!applyTo(state, entry)) await makeWhole(log, state, entry.seq + entry.span - 1);
    if (state.lastText !== undefined) texts.set(state.lastText.seq, state.lastText.text);
    let { seq } = entry;
    for (const event of eventsOf(entry.body, source)) {
      for (const listener of live.listeners) listener({ seq, timestamp_ms: entry.timestamp_ms, event });
      seq += 1;
    }
  }
  if (state.archived) for (const wake of live.onRest) wake();
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

/** Work that holds a session while it runs: one at a time per session, also across processes. */
export interface LockedWork {
  /** Runs work as the session's turn, with the caller listening and able to stop it. */
  run<T>(session: LiveSession, call: CallContext, work: (signal: AbortSignal) => Promise<T>): Promise<T>;
  /** Holds the session for a moment, which whoever comes next in this process waits for instead of being refused. */
  brief(session: LiveSession, work: () => Promise<void>): Promise<void>;
  /** Interrupts what runs and resolves when it has ended, or when that takes too long. */
  stop(): Promise<void>;
}

const STOP_MS_MAX = 5_000;

export function createLockedWork(parts: { store: Store; clock: Clock; live: LiveSessions }): LockedWork {
  const { clock, live } = parts;
  const { locks } = parts.store;
  const running = new Set<{ readonly sessionId: string; readonly ended: Promise<void> }>();
  const run: LockedWork["run"] = async (session, call, work) => {
    const { sessionId } = session.state;
    const hold = await locks.hold(sessionId);
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const one = { sessionId, ended };
    running.add(one);
    if (call.listener !== undefined) session.listeners.add(call.listener);
    session.isRunning = true;
    try {
      await live.refresh(session);
      if (session.state.archived)
        throw new RuntimeError("SESSION_NOT_FOUND", `session ${sessionId} is archived and runs no more turns`);
      const { signal } = call;
      return await work(signal === undefined ? hold.interrupted : AbortSignal.any([hold.interrupted, signal]));
    } finally {
      session.isRunning = false;
      for (const wake of session.onRest) wake();
      if (call.listener !== undefined) session.listeners.delete(call.listener);
      // What others append while it runs, such as a text, must not come once somebody else has the session.
      await session.appending;
      await hold.release().finally(() => {
        live.rest(session);
        running.delete(one);
        end();
      });
    }
  };
  return {
    run: async (session, call, work) => {
      await session.moment;
      return run(session, call, work);
    },
    brief: (session, work) => {
      const held = run(session, {}, work);
      session.moment = held.catch(() => {});
      return held;
    },
    stop: async () => {
      const ending = [...running];
      if (ending.length === 0) return;
      // A store that cannot even interrupt must not keep the rest from being closed: the wait below is bounded.
      await Promise.allSettled(ending.map(({ sessionId }) => locks.interrupt(sessionId)));
      const done = new AbortController();
      await Promise.race([Promise.all(ending.map(({ ended }) => ended)), clock.sleep(STOP_MS_MAX, done.signal)]);
      done.abort("done");
    },
  };
}

/**
 * The same store, except that what it throws in its own words is a SESSION_STORE_ERROR with that as its cause, and that
 * every append is told to whoever hears the session.
 */
export function translateFailures<B, R extends LogRow>(store: Store<B, R>): Store<B, R> {
  const { log, sessions, locks, blobs, signals, checkpoints, forgettings, shred } = store;
  const hold = async (sessionId: string): Promise<Hold> => {
    const held = await translated(() => locks.hold(sessionId));
    return { interrupted: held.interrupted, release: () => translated(() => held.release()) };
  };
  return {
    log: {
      append: async (sessionId, after, added, atMs) => {
        const entries = await translated(() => log.append(sessionId, after, added, atMs));
        const last = entries.at(-1);
        if (last !== undefined) signals.emit(sessionId, last.seq + last.span - 1);
        return entries;
      },
      read: (sessionId, fromSeq, max) => translated(() => log.read(sessionId, fromSeq, max)),
      rewrite: (sessionId, entries) => translated(() => log.rewrite(sessionId, entries)),
    },
    sessions: {
      get: (sessionId) => translated(() => sessions.get(sessionId)),
      page: (query) => translated(() => sessions.page(query)),
    },
    locks: {
      hold,
      isHeld: (sessionId) => translated(() => locks.isHeld(sessionId)),
      interrupt: (sessionId) => translated(() => locks.interrupt(sessionId)),
    },
    blobs: {
      put: (blob) => translated(() => blobs.put(blob)),
      get: (blobId) => translated(() => blobs.get(blobId)),
      ids: (after, max) => translated(() => blobs.ids(after, max)),
      remove: (blobId) => translated(() => blobs.remove(blobId)),
    },
    signals,
    checkpoints,
    forgettings,
    shred,
    purge: (sessionIds) => translated(() => store.purge(sessionIds)),
    close: () => translated(() => store.close()),
  };
}

async function translated<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    if (thrown instanceof RuntimeError) throw thrown;
    throw new RuntimeError("SESSION_STORE_ERROR", `the store failed: ${messageOf(thrown)}`, { cause: thrown });
  }
}
