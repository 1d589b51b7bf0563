import type { EventEnvelope } from "../../contract/event-page.ts";
import type { Delivery } from "../../service/event-queue.ts";

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
