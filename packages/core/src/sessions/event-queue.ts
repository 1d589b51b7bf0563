import { invalid } from "../contract/error.ts";
import type { AgentEvent } from "../contract/event.ts";

/** An event for a listener; `seq` is 0 for a live event that is not in the log. */
export interface Delivery {
  readonly seq: number;
  /** Of live events, the same for every listener. Durable events are identified by seq. */
  readonly event_id?: string;
  readonly timestamp_ms: number;
  readonly event: AgentEvent;
}

/** Receives events as they happen. It must return at once and not throw: the turn does not wait. */
export type Listener = (delivery: Delivery) => void;

export interface EventQueue extends AsyncIterable<Delivery> {
  readonly listener: Listener;
  /** Ends the iteration after the queued events. */
  end(): void;
}

const QUEUE_EVENTS_MAX = 4_096;

/**
 * Turns a listener into an iterator that can be read once. A slow reader loses live events beyond the bound and
 * receives `stream_truncated`; the turn never waits.
 */
export function createEventQueue(eventsMax = QUEUE_EVENTS_MAX): EventQueue {
  const queue: Delivery[] = [];
  let dropped = 0;
  let hasEnded = false;
  // Readers ask for one event at a time, so few promises wait.
  const waiting: ((next: IteratorResult<Delivery>) => void)[] = [];
  let hasReader = false;
  const listener: Listener = (delivery) => {
    if (hasEnded) return;
    if (queue.length >= eventsMax && delivery.seq === 0) dropped += 1;
    else queue.push(flushing(delivery));
    while (waiting.length > 0 && queue.length > 0) waiting.shift()?.(nextOf(queue));
  };
  // Durable events are queued beyond the bound: they are few, and a reader must not miss the end.
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
  // No generator: a turn emits many small deltas, and each would pass through three more promises.
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
