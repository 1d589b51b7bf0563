import type { IncomingHttpHeaders } from "node:http";
import { asRuntimeError, hasCode, invalid } from "@rkat/core/contract/error";
import { OpenStream, parseParams } from "@rkat/core/contract/wire/requests";
import type { Clock } from "@rkat/core/ports/clock";
import { createEventQueue, type Delivery, type Listener } from "@rkat/core/sessions/event-queue";
import type { CallerRuntime } from "../http/calls.ts";
import { createEventWriter, type EventWriter } from "../http/event-writer.ts";
import { listenTo, parseSessionRef, sessionIdIn, toEnvelope } from "../http/events.ts";
import type { HttpResponse } from "../http/exchange.ts";
import { type Answer, busyAnswer, errorAnswer } from "../http/http-answer.ts";
import type { RestRequest, StreamedRoute } from "../http/router.ts";
import { readQuery } from "./operation-shape.ts";

interface StreamParts {
  readonly realm: string;
  readonly clock: Clock;
  readonly log: (sentence: string) => void;
}

/** The events of sessions, for any number of readers. */
interface EventStreams {
  readonly route: StreamedRoute;
  closeAll(): Promise<void>;
}

const STREAMS_MAX = 2_048;
const RESUME: Readonly<Record<string, { type: string }>> = { last_event_id: { type: "string" } };

/**
 * `GET /sessions/{session_id}/events`. The turn never waits for a reader: one that lags is caught up from the log, one
 * that takes nothing at all is let go, and finds its place again by the id it saw last.
 */
export function createEventStreams(parts: StreamParts): EventStreams {
  const streams = new Map<AbortController, Promise<void>>();

  const stream = async (request: RestRequest, response: HttpResponse): Promise<Answer | undefined> => {
    const session_id = parseSessionRef(request.params.session_id ?? "", parts.realm);
    parseParams(OpenStream, { session_id });
    const asked = askedAfter(request);
    if (streams.size >= STREAMS_MAX) return busyAnswer(`this server has ${STREAMS_MAX} event streams, its limit`);
    const stopping = new AbortController();
    const { promise: sent, resolve: end } = Promise.withResolvers<void>();
    streams.set(stopping, sent);
    // Also when it is gone already, while the session was looked up.
    response.on("close", () => stopping.abort("the reader left"));
    const { caller, runtime } = request;
    const onEnd = (): void => stopping.abort("the reader may not listen any more");
    caller.until?.addEventListener("abort", onEnd);
    if (caller.until?.aborted) onEnd();
    try {
      await streamEvents(parts, { session_id, asked, response, stopping, runtime });
    } finally {
      caller.until?.removeEventListener("abort", onEnd);
      streams.delete(stopping);
      end();
    }
  };
  return {
    // The same events as the operation's, as they happen.
    route: { method: "GET", path: "/sessions/{session_id}/events", operation: "listEvents", scope: "read", stream },
    closeAll: async () => {
      const all = [...streams];
      for (const [stopping] of all) stopping.abort("the server is ending");
      await Promise.all(all.map(([, sent]) => sent));
    },
  };
}

interface Stream {
  readonly session_id: string;
  readonly asked: number | undefined;
  readonly response: HttpResponse;
  readonly stopping: AbortController;
  readonly runtime: CallerRuntime;
}

/** Sends a session's events until the reader leaves or the server ends; it throws only before anything was sent. */
async function streamEvents(
  parts: StreamParts,
  { session_id, asked, response, stopping, runtime }: Stream,
): Promise<void> {
  const { signal } = stopping;
  const { loaded, after } = await place(runtime, session_id, asked);
  const deliveries = await listenTo(runtime.subscribe, session_id, { ...after, signal });
  const writer = createEventWriter({ response, clock: parts.clock, giveUp: (why) => stopping.abort(why) });
  let end = {};
  try {
    await writer.write({ type: "session_loaded", data: loaded });
    for await (const delivery of deliveries) {
      if (signal.aborted) break;
      await writeDelivery(writer, delivery, { session_id, newId: parts.clock.newId });
    }
    // Events end by themselves only where none can come any more; a reader need not come back for them.
    if (!signal.aborted) end = { archived: true };
  } catch (thrown) {
    const error = asRuntimeError(thrown);
    parts.log(`the events of session ${session_id} broke off: ${error.message}`);
    await writer.write({ type: "error", data: { error: error.message, ...error.toWire() } });
  } finally {
    await deliveries.return?.();
    writer.end({ type: "done", data: end });
  }
}

/** The position of a reader, and its first event. */
async function place(
  runtime: CallerRuntime,
  session_id: string,
  asked: number | undefined,
): Promise<{ readonly loaded: Readonly<Record<string, unknown>>; readonly after: { after?: number } }> {
  try {
    // The position is read before the count, so that no event is missed.
    const { cursor } = await runtime.dispatch("readEventCursor", { scope: { type: "session", session_id } });
    const { message_count } = await runtime.dispatch("readSession", { session_id });
    if (asked !== undefined && asked > cursor.sequence) {
      const message = `Last-Event-ID: the events of session ${session_id} end at ${cursor.sequence}`;
      throw invalid(message);
    }
    return { loaded: { session_id, message_count }, after: { after: asked ?? cursor.sequence } };
  } catch (thrown) {
    if (!hasCode(thrown, "SESSION_PERSISTENCE_DISABLED")) throw thrown;
    // Without a store a session is in this process or nowhere, and its messages are not counted.
    return { loaded: { session_id }, after: asked === undefined ? {} : { after: asked } };
  }
}

/** The last event a reader saw; undefined for new events only. */
function askedAfter({ headers, query }: RestRequest): number | undefined {
  const { last_event_id } = readQuery(query, RESUME);
  // A browser that connects again sends the header, with the address it was first given.
  const text = headers["last-event-id"] ?? last_event_id;
  if (text === undefined || text === "") return undefined;
  if (typeof text === "string" && /^\d{1,15}$/.test(text)) return Number(text);
  throw invalid("Last-Event-ID: write the id of an event, or 0 for all of them");
}

function writeDelivery(
  writer: EventWriter,
  delivery: Delivery,
  { session_id, newId }: { session_id: string; newId: () => string },
): Promise<void> {
  const data = toEnvelope(session_id, delivery, newId);
  // What is live only has no id: a reader that comes back is given what is durable, from where it was.
  const id = delivery.seq === 0 ? {} : { id: delivery.seq };
  return writer.write({ type: delivery.event.type, data, ...id });
}

interface TurnStream {
  readonly response: HttpResponse;
  readonly clock: Clock;
  /** Undefined for a session that is not there yet: its first event names it. */
  readonly sessionId: string | undefined;
}

type Work = (listener: Listener) => Answer | Promise<Answer>;

export function wantsEvents({ accept = "" }: IncomingHttpHeaders): boolean {
  return accept.split(",").some((range) => {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    return type === "text/event-stream" && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter));
  });
}

/**
 * Answers with the events of what `work` runs as they happen, and its answer as the last: `result`, or `error`. What
 * is refused before it begins has no events and is answered as it always is.
 */
export async function streamTurn({ response, clock, sessionId }: TurnStream, work: Work): Promise<Answer | undefined> {
  const queue = createEventQueue();
  const answered = answerOf(work, queue.listener).finally(queue.end);
  const deliveries = queue[Symbol.asyncIterator]();
  const first = await deliveries.next();
  if (first.done === true) {
    const answer = await answered;
    if (answer.status !== OK) return answer;
  }
  // The turn continues when the client leaves.
  const writer = createEventWriter({ response, clock, giveUp: () => {} });
  let session_id = sessionId;
  for (let next = first; next.done !== true; next = await deliveries.next()) {
    session_id ??= sessionIdIn(next.value.event);
    await writeDelivery(writer, next.value, { session_id: session_id ?? "", newId: clock.newId });
  }
  const { status, text } = await answered;
  writer.end({ type: status === OK ? "result" : "error", data: JSON.parse(String(text)) });
  return undefined;
}

const OK = 200;

async function answerOf(work: Work, listener: Listener): Promise<Answer> {
  try {
    return await work(listener);
  } catch (thrown) {
    return errorAnswer(thrown);
  }
}
