import { invalid } from "../contract/error.ts";
import type { AgentEvent } from "../contract/event.ts";

/** An event on its way to a listener; `seq` is 0 for what is live only and not in the log. */
export interface Delivery {
  readonly seq: number;
  /** Of what is live: the same for everyone who hears it. What is durable is known by its seq. */
  readonly event_id?: string;
  readonly timestamp_ms: number;
  readonly event: AgentEvent;
}

/** Hears events as they happen. It must return at once and not throw: the turn does not wait for it. */
export type Listener = (delivery: Delivery) => void;

export interface EventQueue extends AsyncIterable<Delivery> {
  readonly listener: Listener;
  /** Ends the iteration once what is queued has been read. */
  end(): void;
}

const QUEUE_EVENTS_MAX = 4_096;

/**
 * Turns a listener into something to iterate, once. A reader that lags behind by more than the bound loses live events
 * and is told so by `stream_truncated`; the turn that produces them never waits.
 */
export function createEventQueue(eventsMax = QUEUE_EVENTS_MAX): EventQueue {
  const queue: Delivery[] = [];
  let dropped = 0;
  let hasEnded = false;
  // Readers ask for one event at a time, so this is as long as they ask at once.
  const waiting: ((next: IteratorResult<Delivery>) => void)[] = [];
  let hasReader = false;
  const listener: Listener = (delivery) => {
    if (hasEnded) return;
    if (queue.length >= eventsMax && delivery.seq === 0) dropped += 1;
    else queue.push(flushing(delivery));
    while (waiting.length > 0 && queue.length > 0) waiting.shift()?.(nextOf(queue));
  };
  // What is durable is queued beyond the bound: a turn makes few of those, and a reader must not miss its end.
  const flushing = (delivery: Delivery): Delivery => {
    if (dropped === 0) return delivery;
    const reason = `the reader lagged behind: ${dropped} live events were dropped`;
    dropped = 0;
    queue.push({ seq: 0, timestamp_ms: delivery.timestamp_ms, event: { type: "stream_truncated", reason } });
    return delivery;
  };
  const end = (): void => {
    hasEnded = true;
    for (const wake of waiting.splice(0)) wake(DONE);
  };
  // No generator: what a turn tells comes in many small pieces, and each would pass through three more promises.
  const reader: AsyncIterator<Delivery> = {
    next: async () => {
      if (queue.length > 0) return nextOf(queue);
      return hasEnded ? DONE : new Promise((resolve) => waiting.push(resolve));
    },
    return: async () => {
      queue.length = 0;
      end();
      return DONE;
    },
  };
  return {
    listener,
    end,
    [Symbol.asyncIterator]: () => {
      if (hasReader) {
        const advice = "use subscribe for a second reader";
        throw invalid(`the events of a turn are read once, and someone reads these already; ${advice}`);
      }
      hasReader = true;
      return reader;
    },
  };
}

const DONE: IteratorReturnResult<undefined> = { done: true, value: undefined };

function nextOf(queue: Delivery[]): IteratorResult<Delivery> {
  const value = queue.shift();
  return value === undefined ? DONE : { done: false, value };
}
