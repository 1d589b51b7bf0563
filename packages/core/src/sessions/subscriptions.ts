import type { Caller } from "../contract/caller.ts";
import type { Entry } from "../contract/entry.ts";
import type { EventLog, Store } from "../ports/store.ts";
import type { CallerView } from "../runtime/caller-view.ts";
import { yieldToEventLoop } from "../runtime/system-clock.ts";
import { eventsOf, spokenOf, textOfEntry } from "../state/entry-events.ts";
import type { Delivery } from "./event-queue.ts";
import type { LiveSessions } from "./live-sessions.ts";

/** Entries per read, so that a replay is never held whole. */
const PAGE_ENTRIES = 256;
const QUEUE_EVENTS_MAX = 4_096;

/** The durable events of a session after a seq, oldest first, at most `max`. */
export async function readEvents(
  log: EventLog,
  sessionId: string,
  range: { after: number; max: number },
): Promise<readonly Delivery[]> {
  const events: Delivery[] = [];
  let { after } = range;
  const page = Math.min(PAGE_ENTRIES, range.max);
  // The end of a turn refers to the entry with its text, usually the one just read.
  let newest: Entry | undefined;
  while (events.length < range.max) {
    const entries = await log.read(sessionId, after + 1, page);
    for (const entry of entries) {
      const text = await textFor(entry, newest, (seq) => log.read(sessionId, seq, 1));
      events.push(...deliveriesOf(sessionId, entry, text).filter(({ seq }) => seq > after));
      if (entry.body.kind === "assistant") newest = entry;
    }
    const last = entries.at(-1);
    if (last === undefined || entries.length < page) break;
    after = last.seq + last.span - 1;
    // Entries without events, such as a fork's messages, may be many.
    await yieldToEventLoop();
  }
  return events.slice(0, range.max);
}

async function textFor(
  entry: Entry,
  newest: Entry | undefined,
  read: (seq: number) => Promise<readonly Entry[]>,
): Promise<string> {
  const seq = spokenOf(entry.body);
  if (seq === 0) return "";
  const reported = newest?.seq === seq ? newest : (await read(seq))[0];
  return reported === undefined ? "" : textOfEntry(reported, seq);
}

/** The events of an entry with their numbers. */
function deliveriesOf(sessionId: string, { body, seq, timestamp_ms }: Entry, text: string): readonly Delivery[] {
  return eventsOf(body, { sessionId, textAt: () => text }).map((event, index) => ({
    seq: seq + index,
    timestamp_ms,
    event,
  }));
}

/** Emitted once per turn; durable events follow anyway. */
const ELSEWHERE = "the turn runs in another process: what it says is told message by message, not as it is written";

/**
 * A session's events from any process: those after `after` from the log, then live ones, without gaps or repeats. A
 * slow reader catches up from the log; it loses only live events and receives `stream_truncated`. Ends when the session
 * is archived.
 */
export async function* subscribe(
  parts: { store: Store; live: LiveSessions; view: CallerView },
  sessionId: string,
  options: { after: number | undefined; signal: AbortSignal; caller: Caller | undefined },
): AsyncGenerator<Delivery> {
  const { log, locks, signals } = parts.store;
  const { live } = parts;
  const { caller } = options;
  if (caller !== undefined) await parts.view.requireListening(caller, sessionId);
  const signal = caller?.until === undefined ? options.signal : AbortSignal.any([options.signal, caller.until]);
  const session = await live.findFresh(sessionId);
  let queue: Delivery[] = [];
  let hasOverflown = false;
  let wake: (() => void) | undefined;
  /** The last event known to have happened here. */
  let lastHere = 0;
  const listener = (delivery: Delivery): void => {
    lastHere = Math.max(lastHere, delivery.seq);
    if (queue.length < QUEUE_EVENTS_MAX) queue.push(delivery);
    else hasOverflown = true;
    wake?.();
  };
  const onEnd = (): void => wake?.();
  signal.addEventListener("abort", onEnd);
  session.onRest.add(onEnd);
  session.listeners.add(listener);
  let grownTo = 0;
  const unsubscribe = signals.subscribe(sessionId, (seq) => {
    grownTo = Math.max(grownTo, seq);
    wake?.();
  });
  try {
    let seen = options.after ?? session.state.lastSeq;
    /** The seq up to which the log was read: its last entry may have no event. */
    let readTo = 0;
    const catchUp = async function* (upTo = Number.POSITIVE_INFINITY): AsyncGenerator<Delivery> {
      for (;;) {
        const missed = await readEvents(log, sessionId, { after: seen, max: PAGE_ENTRIES });
        for (const delivery of missed) {
          if (delivery.seq > upTo) return;
          seen = delivery.seq;
          yield delivery;
        }
        if (missed.length < PAGE_ENTRIES) return;
      }
    };
    /** Delivers entries of another process and reports a turn that begins there. */
    const catchUpElsewhere = async function* (): AsyncGenerator<Delivery> {
      // A signal may exceed the log, so it is not remembered.
      grownTo = 0;
      await live.refresh(session);
      readTo = session.state.lastSeq;
      for await (const delivery of catchUp()) {
        yield delivery;
        if (delivery.event.type === "run_started" && delivery.seq > lastHere) yield elsewhere(delivery.timestamp_ms);
      }
    };
    yield* catchUp();
    if (session.state.isTurnOpen && !session.isRunning && (await locks.isHeld(sessionId)))
      yield elsewhere(session.state.updatedAtMs);
    while (!signal.aborted) {
      const arrived = queue;
      queue = [];
      if (hasOverflown) {
        hasOverflown = false;
        const reason = "the reader lagged behind: live events were dropped";
        yield { seq: 0, timestamp_ms: arrived[0]?.timestamp_ms ?? 0, event: { type: "stream_truncated", reason } };
        yield* catchUp();
        continue;
      }
      for (const delivery of arrived) {
        // Another process may have appended entries in between.
        if (delivery.seq > seen + 1) yield* catchUp(delivery.seq);
        // Events already read from the log are skipped.
        if (delivery.seq !== 0 && delivery.seq <= seen) continue;
        if (delivery.seq !== 0) seen = delivery.seq;
        yield delivery;
      }
      if (arrived.length > 0 || signal.aborted) continue;
      // Events of this process came through the queue.
      if (grownTo > Math.max(seen, readTo) && !session.isRunning) {
        yield* catchUpElsewhere();
        continue;
      }
      if (session.state.archived) {
        // Another reader of this process may have read further than this one.
        yield* catchUp();
        return;
      }
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
      wake = undefined;
    }
  } finally {
    unsubscribe();
    session.listeners.delete(listener);
    session.onRest.delete(onEnd);
    signal.removeEventListener("abort", onEnd);
  }
}

function elsewhere(timestamp_ms: number): Delivery {
  return { seq: 0, timestamp_ms, event: { type: "stream_truncated", reason: ELSEWHERE } };
}
