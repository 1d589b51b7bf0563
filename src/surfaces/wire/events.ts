import type { EventEnvelope } from "../../contract/event-page.ts";
import type { Delivery } from "../../service/event-queue.ts";
import type { Runtime } from "../../service/runtime-calls.ts";

/** An event as it crosses a wire: with its place, and an id; what one reader alone is told gets one of its own. */
export function toEnvelope(sessionId: string, delivery: Delivery, newId: () => string): EventEnvelope {
  const { seq, timestamp_ms, event } = delivery;
  return {
    event_id: seq === 0 ? (delivery.event_id ?? newId()) : durableEventId(sessionId, seq),
    source: { type: "session", session_id: sessionId },
    source_id: `session:${sessionId}`,
    seq,
    timestamp_ms,
    payload: event,
  };
}

/** The same on every listening and every replay: the session's id, its last digits replaced by the event's number. */
function durableEventId(sessionId: string, seq: number): string {
  return `${sessionId.slice(0, 24)}${seq.toString(16).padStart(12, "0")}`;
}

/**
 * Envelope and event in one object: clients of the wire's 0.6 line read the event's own fields from it, others find
 * it under `payload`. Where an event has a field of that name itself, the event's wins.
 */
export function toHybrid(envelope: EventEnvelope): Record<string, unknown> {
  return { ...envelope, ...envelope.payload };
}

/** Listens to a session. One that is not there is refused now; one that is there may have nothing to say for hours. */
export async function listenTo(
  subscribe: Runtime["subscribe"],
  ...asked: Parameters<Runtime["subscribe"]>
): Promise<AsyncIterableIterator<Delivery>> {
  const deliveries = subscribe(...asked)[Symbol.asyncIterator]();
  let first: Promise<IteratorResult<Delivery>> | undefined = deliveries.next();
  first.catch(() => {}); // Whoever reads it hears of it.
  await Promise.race([first, new Promise((resolve) => setImmediate(resolve))]);
  const next = (): Promise<IteratorResult<Delivery>> => {
    const delivery = first ?? deliveries.next();
    first = undefined;
    return delivery;
  };
  const heard: AsyncIterableIterator<Delivery> = {
    next,
    return: async () => (await deliveries.return?.()) ?? { done: true, value: undefined },
    [Symbol.asyncIterator]: () => heard,
  };
  return heard;
}
