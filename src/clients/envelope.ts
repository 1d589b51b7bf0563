import type { AgentEvent } from "../contract/event.ts";
import type { Delivery } from "../service/event-queue.ts";
import { type Fields, isRecord } from "./fields.ts";

/** An event out of its envelope; undefined for what is none. */
export function deliveryOf(envelope: unknown): Delivery | undefined {
  if (!isRecord(envelope)) return undefined;
  const event = eventIn(envelope);
  if (event === undefined) return undefined;
  const { seq, timestamp_ms } = envelope;
  return {
    seq: typeof seq === "number" ? seq : 0,
    timestamp_ms: typeof timestamp_ms === "number" ? timestamp_ms : 0,
    event,
  };
}

const ENVELOPE_FIELDS = ["event_id", "source", "source_id", "seq", "timestamp_ms"];

/** The event stands under `payload`, unless its fields lie beside the envelope's and one of them is called that, too. */
function eventIn(envelope: Fields): AgentEvent | undefined {
  const { payload, type } = envelope;
  const isWhole = isRecord(payload) && typeof payload.type === "string" && (type ?? payload.type) === payload.type;
  // What has a type is an event, of a kind this client may not know yet.
  if (isWhole) return payload as unknown as AgentEvent;
  if (typeof type !== "string") return undefined;
  const own = Object.entries(envelope).filter(([field]) => !ENVELOPE_FIELDS.includes(field));
  return Object.fromEntries(own) as unknown as AgentEvent;
}
