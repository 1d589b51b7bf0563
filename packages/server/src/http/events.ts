import { invalid, RuntimeError } from "@rkat/core/contract/error";
import { isRecord } from "@rkat/core/contract/json";
import type { EventEnvelope } from "@rkat/core/contract/session-operations";
import type { Runtime } from "@rkat/core/runtime/runtime-calls";
import { createEventQueue, type Delivery, type Listener } from "@rkat/core/sessions/event-queue";

/** An event as it crosses a wire, with its place and an id; an event for one reader alone gets a random id. */
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

/**
 * Sends the events of a turn to its client, one after another, with their session once an event has named it. A client
 * that does not read loses live events only; durable ones wait for it, and the turn's limits bound their number.
 */
export function sendTurnEvents(
  knownSessionId: string | undefined,
  send: (delivery: Delivery, sessionId: string | undefined) => Promise<void>,
): { readonly listener: Listener /** Settles when all are sent, or one could not be. */; finish(): Promise<void> } {
  const queue = createEventQueue();
  const sendAll = async (): Promise<void> => {
    let sessionId = knownSessionId;
    for await (const delivery of queue) {
      sessionId ??= sessionIdIn(delivery.event);
      await send(delivery, sessionId);
    }
  };
  const sending = sendAll();
  sending.catch(() => {}); // `finish` hands the failure on.
  return {
    listener: queue.listener,
    finish: () => {
      queue.end();
      return sending;
    },
  };
}

/** Subscribes to a session. A missing session is refused at once; an existing one may be silent for hours. */
export async function listenTo(
  subscribe: Runtime["subscribe"],
  ...asked: Parameters<Runtime["subscribe"]>
): Promise<AsyncIterableIterator<Delivery>> {
  const deliveries = subscribe(...asked)[Symbol.asyncIterator]();
  let first: Promise<IteratorResult<Delivery>> | undefined = deliveries.next();
  first.catch(() => {}); // The reader gets the failure.
  await Promise.race([first, new Promise((resolve) => setImmediate(resolve))]);
  const next = (): Promise<IteratorResult<Delivery>> => {
    const delivery = first ?? deliveries.next();
    first = undefined;
    return delivery;
  };
  const received: AsyncIterableIterator<Delivery> = {
    next,
    return: async () => (await deliveries.return?.()) ?? { done: true, value: undefined },
    [Symbol.asyncIterator]: () => received,
  };
  return received;
}

/** How a session is named across realms. */
export function formatSessionRef(realm: string, sessionId: string): string {
  return `${realm}:${sessionId}`;
}

/** The session id in `<uuid>` or `<realm>:<uuid>`; throws INVALID_PARAMS when the realm is another. */
export function parseSessionRef(text: string, realm: string): string {
  const colon = text.indexOf(":");
  if (colon < 0) return text;
  const named = text.slice(0, colon);
  if (named === realm) return text.slice(colon + 1);
  throw invalid(`session_id: ${text} is of realm ${named}, and this is realm ${realm}`);
}

export type Params = Readonly<Record<string, unknown>>;

/** Where params name a session: itself, the scope of its events, the cursor in them. */
const ID_FIELDS = ["session_id", "scope", "cursor"];

/** The params with every `<realm>:<uuid>` as a plain id; INVALID_PARAMS when the realm is another. */
export function withPlainIds(params: Params, realm: string): Params {
  const plain = ID_FIELDS.filter((field) => Object.hasOwn(params, field)).map((field) => {
    const value = params[field];
    if (field === "session_id" && typeof value === "string") return [field, parseSessionRef(value, realm)];
    return [field, isRecord(value) ? withPlainIds(value, realm) : value];
  });
  return { ...params, ...Object.fromEntries(plain) };
}

/** The result with a `session_ref` beside the `session_id` of whatever session it is about, or of each it lists. */
export function withSessionRefs(result: unknown, realm: string): unknown {
  if (!isRecord(result)) return result;
  const { session_id, sessions } = result;
  const ref = typeof session_id === "string" ? { session_ref: formatSessionRef(realm, session_id) } : {};
  const rows = Array.isArray(sessions) ? { sessions: sessions.map((row) => withSessionRefs(row, realm)) } : {};
  return { ...result, ...ref, ...rows };
}

/** The session a value speaks of, such as the details of a turn that failed. */
export function sessionIdIn(value: unknown): string | undefined {
  return isRecord(value) && typeof value.session_id === "string" ? value.session_id : undefined;
}

/** The session of a failed turn; it can be continued. */
export function sessionLeftBy(thrown: unknown): string | undefined {
  return thrown instanceof RuntimeError ? sessionIdIn(thrown.details) : undefined;
}
