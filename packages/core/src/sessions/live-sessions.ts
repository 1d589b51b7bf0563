import type { EntryBody } from "../contract/entry.ts";
import { hasCode, messageOf, RuntimeError } from "../contract/error.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { Clock } from "../ports/clock.ts";
import type { EventLog, Hold, LogRow, Store } from "../ports/store.ts";
import type { Tool } from "../ports/tool.ts";
import type { CallContext } from "../runtime/dispatch.ts";
import { eventsOf, toNewEntries } from "../state/entry-events.ts";
import { hasNext, isFree, isUnfinished, isWaiting, type SessionState } from "../state/session-state.ts";
import { applyEntry, applyTo, beginFold, foldLongSession, isWhole, type WholeState } from "../state/whole-state.ts";
import { type CheckpointParts, createCheckpoints } from "./checkpoints.ts";
import type { Listener } from "./event-queue.ts";

/** The folded sessions in memory. */
export interface LiveSessions {
  /** A session from memory, its checkpoint or its log; rejects with SESSION_NOT_FOUND. */
  find(sessionId: string): Promise<LiveSession>;
  /** Likewise, with entries that another process appended since. */
  findFresh(sessionId: string): Promise<LiveSession>;
  /** Admits a session that is being created, unless no other can be evicted. */
  admit(making: () => Promise<LiveSession>): Promise<LiveSession>;
  /** Reads entries of other processes; the caller holds the session. */
  refresh(session: LiveSession, isHeld?: boolean): Promise<void>;
  /** Applies an erasure to a session in memory. */
  renew(sessionId: string): Promise<void>;
  /** The state with its whole transcript; reads the log on first use. */
  whole(session: LiveSession): Promise<WholeState>;
  /** Called when this process releases the session: writes its checkpoint. */
  rest(session: LiveSession): void;
  /** Resolves when running checkpoints are written. */
  close(): Promise<void>;
}

const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;

/** Without a durable store an evicted session would be lost, so none is evicted. */
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
  // In order of use: the first key is the least recently used.
  const sessions = new Map<string, LiveSession>();
  // Sessions being created: concurrent ones must not exceed the limit together.
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
  /**
   * Between two appends, or an appended entry could be read twice. While a turn runs here, entries of another process
   * mean that the session was lost to it: with them the next append would succeed, and two processes would write.
   */
  const refresh = (session: LiveSession, isHeld = false): Promise<void> => {
    const refreshed = session.appending.then(() => (session.isRunning && !isHeld ? undefined : refreshNow(session)));
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
      await refresh(session);
      return session;
    },
    refresh,
    renew: async (sessionId) => {
      const known = sessions.get(sessionId);
      if (known !== undefined) await refresh(known, true);
    },
    whole: async (session) => {
      if (isWhole(session.state)) return session.state;
      // Between two appends, as in a refresh.
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

/** Reads the whole transcript up to a seq into the same state object, which its users share. */
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

/** The first session that can be evicted unnoticed. */
function firstIdle(sessions: Iterable<LiveSession>): LiveSession | undefined {
  for (const session of sessions) {
    if (!session.isRunning && session.tools.length + session.listeners.size === 0) return session;
  }
  return undefined;
}

/** A session in use: its folded state, custom tools and listeners. */
export interface LiveSession {
  readonly state: SessionState;
  tools: readonly Tool[];
  /** Whether the tools were given in this process; a session folded from its log has none. */
  hasTools: boolean;
  readonly listeners: Set<Listener>;
  /** Called when a turn of this process ends and when the session is archived. */
  readonly onRest: Set<() => void>;
  /** Settles with the newest append. */
  appending: Promise<void>;
  /** Whether this process runs a turn of it. */
  isRunning: boolean;
  /** Whether this process opened, resumed or adopted the newest turn. */
  ownsTurn: boolean;
  /** The approval that a turn of this process asked for last. */
  askedId?: string;
  /** Whether this process stops and has left the open turn to another one: it appends nothing more. */
  isReleased: boolean;
  /** Settles when this process no longer holds it briefly; the next holder waits for that. */
  moment: Promise<void>;
}

/** Starts a session's log, possibly with many messages of another session. */
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
    ownsTurn: false,
    isReleased: false,
    moment: Promise.resolve(),
  };
}

/**
 * Appends entries durably, advances the state, then emits their events; one append at a time. Bodies that depend on the
 * state are made at their turn, since a text may have been injected meanwhile.
 */
export function appendEntries(
  log: EventLog,
  live: LiveSession,
  bodies: readonly EntryBody[] | (() => readonly EntryBody[]),
): Promise<void> {
  const appended = live.appending.then(() => appendNow(log, live, typeof bodies === "function" ? bodies() : bodies));
  live.appending = appended.catch(() => {}); // The caller receives the error; the next append starts from the state.
  return appended;
}

async function appendNow(log: EventLog, live: LiveSession, bodies: readonly EntryBody[]): Promise<void> {
  if (live.isReleased)
    throw new RuntimeError("REQUEST_CANCELLED", "this process stops; another one continues the turn");
  if (bodies.length === 0) return;
  const { state } = live;
  for (const body of bodies) {
    const id = "setup" in body ? body.setup?.inbox_id : undefined;
    // It may be removed while its turn is prepared.
    if (id !== undefined && state.messages.get(id) === -1)
      throw new RuntimeError("REQUEST_CANCELLED", `message ${id} was removed from the inbox`);
  }
  const entries = await log.append(state.sessionId, state.lastSeq, toNewEntries(bodies));
  live.ownsTurn ||= bodies.some(({ kind }) => OWNS_TURN.has(kind));
  for (const body of bodies) if (body.kind === "approval_asked") live.askedId = body.approval_id;
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

const OWNS_TURN: ReadonlySet<EntryBody["kind"]> = new Set([
  "turn_opened",
  "turn_continued",
  "turn_adopted",
  "approval_answered",
]);

/** Emits an event that is not stored. */
export function emitLive(live: LiveSession, clock: Clock, event: AgentEvent): void {
  if (live.listeners.size === 0) return;
  const timestamp_ms = clock.now();
  const event_id = clock.newId();
  for (const listener of live.listeners) listener({ seq: 0, event_id, timestamp_ms, event });
}

/** Sets the custom tools of a session; returns the names of new ones. */
export function giveTools(live: LiveSession, tools: readonly Tool[]): readonly string[] {
  const had = new Set(live.tools.map(({ name }) => name));
  const added = live.hasTools ? tools.map(({ name }) => name).filter((name) => !had.has(name)) : [];
  live.tools = tools;
  live.hasTools = true;
  return added;
}

/** Exclusive work on a session, also across processes. */
export interface LockedWork {
  /** Runs a turn, with the caller listening and able to stop it. */
  run<T>(session: LiveSession, call: CallContext, work: (signal: AbortSignal) => Promise<T>): Promise<T>;
  /** Holds the session briefly; the next caller in this process waits instead of being refused. */
  brief(session: LiveSession, work: () => Promise<void>): Promise<void>;
  /** Interrupts the running turns, or leaves them to another process; resolves when they have ended or took too long. */
  stop(leavesTurns: boolean): Promise<void>;
}

const STOP_MS_MAX = 5_000;
const MOMENT_STEP_MS = 10;
const MOMENT_MS_MAX = 200;

/** What the holder of a session does besides its work. */
export interface Holding {
  /** What it begins instead of releasing the session; undefined for nothing. */
  next(session: LiveSession): ((signal: AbortSignal) => Promise<void>) | undefined;
  /** Takes a note of another process. */
  accept(session: LiveSession, note: string): Promise<void>;
}

export function createLockedWork(
  parts: { readonly store: Store; readonly clock: Clock; readonly live: LiveSessions } & Holding,
): LockedWork {
  const { clock, live } = parts;
  const { locks } = parts.store;
  let isStopping = false;
  const running = new Set<{ readonly session: LiveSession; readonly ended: Promise<void> }>();
  const taking = new Set<LiveSession>();
  /** Waits for another process that holds the session without a turn, as it does for a moment to record the end of a job. */
  const take = async (session: LiveSession): Promise<Hold> => {
    const { sessionId } = session.state;
    // The lock may have expired while this process stood still, and its turn is still running.
    if (session.isRunning || taking.has(session))
      throw new RuntimeError("SESSION_BUSY", `session ${sessionId} is already running a turn`);
    taking.add(session);
    try {
      for (let waitedMs = 0; ; waitedMs += MOMENT_STEP_MS) {
        try {
          return await locks.hold(sessionId);
        } catch (thrown) {
          if (!hasCode(thrown, "SESSION_BUSY") || waitedMs >= MOMENT_MS_MAX) throw thrown;
          await live.refresh(session);
          if (!isFree(session.state)) throw thrown;
        }
        await clock.sleep(MOMENT_STEP_MS, new AbortController().signal);
      }
    } finally {
      taking.delete(session);
    }
  };
  const run: LockedWork["run"] = async (session, call, work) => {
    const hold = await take(session);
    const { wasAbandoned = false } = hold;
    hold.onNote?.((note) => void parts.accept(session, note).catch(noted));
    return held(session, { hold, call, wasAbandoned }, async (signal) => {
      await live.refresh(session, true);
      if (session.state.archived)
        throw new RuntimeError(
          "SESSION_NOT_FOUND",
          `session ${session.state.sessionId} is archived and runs no more turns`,
        );
      return work(signal);
    });
  };
  const held = async <T>(
    session: LiveSession,
    { hold, call, wasAbandoned }: { readonly hold: Hold; readonly call: CallContext; readonly wasAbandoned: boolean },
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    const { state } = session;
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const one = { session, ended };
    running.add(one);
    if (call.listener !== undefined) session.listeners.add(call.listener);
    session.isRunning = true;
    try {
      const { signal } = call;
      return await work(signal === undefined ? hold.interrupted : AbortSignal.any([hold.interrupted, signal]));
    } finally {
      session.isRunning = false;
      for (const wake of session.onRest) wake();
      if (call.listener !== undefined) session.listeners.delete(call.listener);
      // Appends of others during the turn, such as an injected text, must finish before the session is released.
      await session.appending;
      const next = isStopping ? undefined : parts.next(session);
      // Released in between, the messages that wait would be lost to other processes if this one ended there.
      if (next !== undefined && !hold.interrupted.aborted)
        void held(session, { hold, call: {}, wasAbandoned: false }, next).catch(noted);
      else {
        // An unfinished turn that has run in this realm is left for another process; one of an import has not.
        const isUnended = isUnfinished(state) && !isWaiting(state) && (wasAbandoned || session.ownsTurn);
        const isLeft = isUnended || (isFree(state) && hasNext(state));
        await (isLeft && hold.abandon ? hold.abandon() : hold.release()).finally(() => live.rest(session));
        // An interrupt ends the hold, too.
        if (next !== undefined) void run(session, {}, next).catch(noted);
      }
      running.delete(one);
      end();
    }
  };
  return {
    run: async (session, call, work) => {
      await session.moment;
      return run(session, call, work);
    },
    brief: (session, work) => {
      // An unfinished turn that this process does not know of yet would be released as if it had ended.
      const brief = live.refresh(session).then(() => run(session, {}, work));
      session.moment = brief.catch(() => {});
      return brief;
    },
    stop: async (leavesTurns) => {
      isStopping = true;
      const ending = [...running];
      if (ending.length === 0) return;
      const done = new AbortController();
      const interrupt = async (): Promise<void> => {
        if (leavesTurns) await Promise.allSettled(ending.map(({ session }) => releaseTurn(parts.store.log, session)));
        await Promise.allSettled(ending.map(({ session }) => locks.interrupt(session.state.sessionId)));
        await Promise.all(ending.map(({ ended }) => ended));
      };
      // A store that does not answer must not block closing.
      await Promise.race([interrupt(), clock.sleep(STOP_MS_MAX, done.signal)]);
      done.abort("done");
    },
  };
}

/** Records that this process leaves the open turn, and refuses its further entries; without an open turn nothing is done. */
function releaseTurn(log: EventLog, session: LiveSession): Promise<void> {
  const released = session.appending.then(async () => {
    if (!isUnfinished(session.state) || isWaiting(session.state)) return;
    await appendNow(log, session, [{ kind: "turn_released" }]);
    session.isReleased = true;
  });
  session.appending = released.catch(() => {});
  return released;
}

/** The store with its errors as SESSION_STORE_ERROR, and with a signal after every append. */
export function translateFailures<B, R extends LogRow>(store: Store<B, R>): Store<B, R> {
  const { log, sessions, locks, blobs, signals, checkpoints, forgettings, shred } = store;
  const hold = async (sessionId: string): Promise<Hold> => {
    const held = await translated(() => locks.hold(sessionId));
    const { interrupted, wasAbandoned = false, abandon, onNote } = held;
    const release = (): Promise<void> => translated(() => held.release());
    const abandoning = abandon && { abandon: () => translated(abandon) };
    return { interrupted, wasAbandoned, release, ...(onNote && { onNote }), ...abandoning };
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
      ...(locks.isAbandoned && { isAbandoned: abandonedIn(locks.isAbandoned) }),
      interrupt: (sessionId) => translated(() => locks.interrupt(sessionId)),
      ...(locks.note && { note: notedIn(locks.note) }),
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

function abandonedIn(isAbandoned: (sessionId: string) => Promise<boolean>) {
  return (sessionId: string): Promise<boolean> => translated(() => isAbandoned(sessionId));
}

function notedIn(note: NonNullable<Store["locks"]["note"]>): NonNullable<Store["locks"]["note"]> {
  return (sessionId, left) => translated(() => note(sessionId, left));
}

async function translated<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    if (thrown instanceof RuntimeError) throw thrown;
    throw new RuntimeError("SESSION_STORE_ERROR", `the store failed: ${messageOf(thrown)}`, { cause: thrown });
  }
}
