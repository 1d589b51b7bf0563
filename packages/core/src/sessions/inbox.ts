import { FORGOTTEN, FORGOTTEN_SHORT, FORGOTTEN_SHORTER } from "../contract/compaction.ts";
import { EntryBody, type EntryBodyOf } from "../contract/entry.ts";
import { asRuntimeError, type ErrorCode, hasCode, invalid, RuntimeError } from "../contract/error.ts";
import { INBOX_MAX, type InboxSource } from "../contract/input.ts";
import type { RunResult } from "../contract/session.ts";
import type { InboxMessage } from "../contract/session-operations.ts";
import type { Clock } from "../ports/clock.ts";
import type { Store } from "../ports/store.ts";
import type { CallContext, Service } from "../runtime/dispatch.ts";
import { isActive } from "../state/goal.ts";
import {
  inOrder,
  isFree,
  isUnfinished,
  isWaiting,
  type QueuedMessage,
  type SessionState,
  sentLately,
} from "../state/session-state.ts";
import { contentText } from "../turn/tokens.ts";
import type { TurnEvents } from "./approvals.ts";
import { appendEntries, type LiveSession, type LiveSessions, type LockedWork } from "./live-sessions.ts";

interface InboxParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly live: LiveSessions;
  readonly locked: LockedWork;
  /** Whether this process begins turns that no caller here waits for. */
  readonly carriesOn: boolean;
  readonly resumesTurns: boolean;
  /** Runs the turn of a message in a held session. */
  begin(session: LiveSession, message: EntryBodyOf<"message_queued">, signal: AbortSignal): Promise<unknown>;
  /** Ends a turn that waits for approval or for results of a client. */
  giveUp(session: LiveSession): Promise<void>;
  /** The end of a turn, and its events from a seq on. */
  untilOver(session: LiveSession, call: CallContext, of: Required<TurnEvents>): Promise<RunResult>;
  readonly ending: AbortSignal;
}

export type NewMessage = Omit<EntryBodyOf<"message_queued">, "kind">;
type Recorded = EntryBodyOf<"message_queued" | "message_removed" | "goal_ended">;

export interface Inbox extends Pick<Service, "readInbox" | "removeInboxMessage"> {
  /** Resolves when the message is in the session's log; an id that is known there is not queued again. */
  enqueue(session: LiveSession, message: NewMessage): Promise<void>;
  /** The end of the turn that a message reaches. */
  untilOver(session: LiveSession, id: string, call: CallContext): Promise<RunResult>;
  /** Appends an entry, or has the process that holds the session do that; `isThere` says when it need not. */
  record(session: LiveSession, body: Recorded, isThere: () => boolean): Promise<void>;
  /** Begins the next message of a held session that is free; undefined if none waits that this process may begin. */
  next(session: LiveSession): ((signal: AbortSignal) => Promise<void>) | undefined;
  /** Records what another process asks the holder to record. */
  accept(session: LiveSession, note: string): Promise<void>;
}

/** How often a note to the holder of a session is repeated, and for how long. */
const NOTE_MS = 100;
const NOTE_MS_MAX = 60_000;
const LOOK_MS = 1_000;
export const STUCK_MS = 30_000;
const TEXT_CHARS_MAX = 500;

/**
 * Messages that wait in the logs of their sessions. Only the holder of a session appends to its log: another process
 * stores the message as a blob and leaves the holder its id.
 */
export function createInbox(parts: InboxParts): Inbox {
  const { store, clock, live, locked } = parts;
  /** The messages that callers of this process wait for. */
  const awaited = new Map<string, number>();
  /** Messages that this process could not begin, until it tries again. */
  const stuck = new Map<string, number>();

  /** The session is held by this process, or its turn runs here. */
  const append = async (session: LiveSession, body: Recorded): Promise<void> => {
    const { state } = session;
    await appendEntries(store.log, session, () => {
      if (body.kind === "goal_ended")
        return isActive(state.goal) && state.goal.record.goal_id === body.goal_id ? [body] : [];
      const known = state.messages.get(body.id);
      if (body.kind === "message_removed") return known === 0 ? [body] : [];
      if (known !== undefined) return [];
      requireRoom(state, body.source, clock.now());
      return [body];
    });
    const isNext =
      body.kind === "message_queued" && body.when_busy === "interrupt" && state.messages.get(body.id) === 0;
    if (isNext && session.isRunning && state.isTurnOpen) await store.locks.interrupt(state.sessionId);
  };

  const record: Inbox["record"] = async (session, body, isThere) => {
    const { sessionId } = session.state;
    let note: string | undefined;
    try {
      for (let waitedMs = 0; ; waitedMs += NOTE_MS) {
        if (session.isRunning) return await append(session, body);
        try {
          return await locked.brief(session, () => append(session, body));
        } catch (thrown) {
          if (!hasCode(thrown, "SESSION_BUSY") || waitedMs >= NOTE_MS_MAX) throw thrown;
        }
        const data = new TextEncoder().encode(JSON.stringify(body));
        note ??= await store.blobs.put({ mediaType: "application/json", data });
        await store.locks.note?.(sessionId, note);
        await clock.sleep(NOTE_MS, parts.ending);
        if (parts.ending.aborted) throw new RuntimeError("REQUEST_CANCELLED", "the runtime closes");
        await live.refresh(session);
        if (isThere()) return;
      }
    } finally {
      if (note !== undefined) await store.blobs.remove(note).catch(() => {});
    }
  };

  const isWaitingHere = ({ state }: LiveSession, id: string): boolean => state.messages.get(id) === 0;

  const start = async (session: LiveSession, { body }: QueuedMessage, signal: AbortSignal): Promise<void> => {
    if (!isWaitingHere(session, body.id) || isWaiting(session.state)) return;
    try {
      if (isErased(body)) throw new RuntimeError("INVALID_PARAMS", "it was erased");
      await parts.begin(session, body, signal);
    } catch (thrown) {
      if (!isWaitingHere(session, body.id) || signal.aborted) return;
      const { code, message: why } = asRuntimeError(thrown);
      if (KEPT_AFTER.has(code)) stuck.set(body.id, clock.now() + STUCK_MS);
      else await append(session, { kind: "message_removed", id: body.id, why });
    }
  };

  const next: Inbox["next"] = (session) => {
    const first = inOrder(session.state.inbox)[0];
    if (first === undefined || clock.now() < (stuck.get(first.body.id) ?? 0)) return undefined;
    if (!isFree(session.state) || !(parts.carriesOn || awaited.has(first.body.id))) return undefined;
    return (signal) => start(session, first, signal);
  };

  /** Begins the next message of a session that no process holds. */
  const startFree = async (session: LiveSession): Promise<void> => {
    const { state } = session;
    const first = inOrder(state.inbox)[0];
    if (first === undefined || isWaiting(state) || state.pending.length > 0) return;
    // An unfinished turn is continued where turns are resumed; elsewhere a new turn closes it.
    if (isUnfinished(state) && parts.resumesTurns) return;
    await locked.run(session, {}, (signal) => start(session, first, signal)).catch(ignoreBusy);
  };

  const untilReached = async (session: LiveSession, id: string, call: CallContext): Promise<number> => {
    const { state } = session;
    const signal = AbortSignal.any([call.signal, call.leaving, parts.ending].filter((one) => one !== undefined));
    let woken = Promise.withResolvers<void>();
    const wake = (): void => woken.resolve();
    signal.addEventListener("abort", wake);
    const unsubscribe = store.signals.subscribe(state.sessionId, wake);
    awaited.set(id, (awaited.get(id) ?? 0) + 1);
    let wasHeld = true;
    try {
      for (;;) {
        await live.refresh(session);
        const seq = state.messages.get(id);
        if (seq === -1) throw new RuntimeError("REQUEST_CANCELLED", `message ${id} was removed from the inbox`);
        if (seq !== undefined && seq > 0) return seq;
        if (state.archived) throw new RuntimeError("SESSION_NOT_FOUND", `session ${state.sessionId} is archived`);
        if (signal.aborted) {
          const details = { session_id: state.sessionId, message_id: id };
          throw new RuntimeError("REQUEST_CANCELLED", `message ${id} waits in the inbox`, { details });
        }
        const isHeld = session.isRunning || (await store.locks.isHeld(state.sessionId));
        // Twice: the holder may just be releasing the session.
        if (!isHeld && !wasHeld) await startFree(session);
        wasHeld = isHeld;
        if (state.messages.get(id) !== 0) continue;
        const look = new AbortController();
        await Promise.race([woken.promise, clock.sleep(wasHeld ? LOOK_MS : NOTE_MS, look.signal)]);
        look.abort("woken");
        woken = Promise.withResolvers<void>();
        // The signal of an append comes before its entries are folded.
        await session.appending;
      }
    } finally {
      unsubscribe();
      signal.removeEventListener("abort", wake);
      const left = (awaited.get(id) ?? 1) - 1;
      if (left === 0) awaited.delete(id);
      else awaited.set(id, left);
    }
  };

  return {
    record,
    enqueue: async (session, message) => {
      const body = { kind: "message_queued" as const, ...message };
      await record(session, body, () => session.state.messages.has(message.id));
      if (message.when_busy === "interrupt" && isWaitingHere(session, message.id)) await parts.giveUp(session);
    },
    untilOver: async (session, id, call) => {
      const { lastSeq } = session.state;
      const turn = await untilReached(session, id, call);
      const { sessionId } = session.state;
      const [opening] = await store.log.read(sessionId, turn, 1);
      const isOwn = opening !== undefined && "setup" in opening.body && opening.body.setup?.inbox_id === id;
      // Of a turn of its own all events, of one that it steers those from now on.
      const after = isOwn ? turn - 1 : lastSeq;
      return parts.untilOver(session, call, { turn, after }).catch(async (thrown: unknown) => {
        const isRunning = session.state.isTurnOpen && session.state.turn?.seq === turn;
        if (isOwn && isRunning && call.signal?.aborted === true) await store.locks.interrupt(sessionId);
        throw thrown;
      });
    },
    next,
    accept: async (session, note) => {
      const blob = await store.blobs.get(note);
      if (blob === undefined || !session.isRunning) return;
      const parsed = EntryBody.safeParse(JSON.parse(new TextDecoder().decode(blob.data)));
      const body = parsed.success ? parsed.data : undefined;
      if (body?.kind === "message_queued" || body?.kind === "message_removed") await append(session, body);
      if (body?.kind === "goal_ended") await append(session, body);
    },
    readInbox: async ({ session_id }) => {
      const { state } = await live.findFresh(session_id);
      return { messages: inOrder(state.inbox).map((one) => describe(one)) };
    },
    removeInboxMessage: async ({ session_id, message_id }, { caller }) => {
      const session = await live.findFresh(session_id);
      const by = caller === undefined ? {} : { by: caller.name };
      const isGone = () => !isWaitingHere(session, message_id);
      if (!isGone()) await record(session, { kind: "message_removed", id: message_id, ...by }, isGone);
      if (session.state.messages.get(message_id) === -1) return { removed: true };
      throw invalid(`message_id: no message ${message_id} waits in session ${session_id}`);
    },
  };
}

/** Errors after which a message waits on, for another process or for later. */
export const KEPT_AFTER: ReadonlySet<ErrorCode> = new Set([
  "SESSION_STORE_ERROR",
  "SESSION_BUSY",
  "CAPABILITY_UNAVAILABLE",
]);

/** How many messages one session may send another within a minute. */
const RATE_MAX = 10;

/** Throws unless a further message may wait in the session. */
export function requireRoom(state: SessionState, { type, id = "" }: InboxSource, nowMs: number): void {
  const { sessionId, inbox } = state;
  if (inbox.length >= INBOX_MAX)
    throw invalid(`${INBOX_MAX} messages wait in session ${sessionId}, its limit; remove one or wait`);
  if (type !== "session" || sentLately(state, id, nowMs).length < RATE_MAX) return;
  const why = `session ${id} has sent ${RATE_MAX} messages within a minute, the limit; wait, or say it in one`;
  throw new RuntimeError("BUDGET_EXHAUSTED", `not sent to session ${sessionId}: ${why}`, {
    details: { reason: "rate" },
  });
}

function describe({ body, seq: _ }: QueuedMessage): InboxMessage {
  const { id: message_id, when_busy, source, message } = body;
  const text = message.role === "user" ? contentText(message.content) : (message.body ?? "");
  return { message_id, when_busy, source, text: text.slice(0, TEXT_CHARS_MAX), queued_at: message.created_at };
}

function isErased({ message }: EntryBodyOf<"message_queued">): boolean {
  const text = message.role === "user" ? contentText(message.content) : (message.body ?? "");
  return [FORGOTTEN, FORGOTTEN_SHORT, FORGOTTEN_SHORTER].includes(text);
}

export function ignoreBusy(thrown: unknown): void {
  if (!hasCode(thrown, "SESSION_BUSY")) throw thrown;
}
