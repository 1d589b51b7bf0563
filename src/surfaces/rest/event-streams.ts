import type { ServerResponse } from "node:http";
import { asRuntimeError, RuntimeError } from "../../contract/error.ts";
import { OpenStream, parseParams } from "../../contract/rpc/requests.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Runtime } from "../../service/runtime-calls.ts";
import { listenTo } from "../wire/events.ts";
import { type Answer, busyAnswer } from "../wire/http-answer.ts";
import { parseSessionRef } from "../wire/session-refs.ts";
import { createEventWriter, writeDelivery } from "./event-writer.ts";
import { readQuery } from "./operation-shape.ts";
import type { RestRequest, StreamedRoute } from "./router.ts";

interface StreamParts {
  readonly runtime: Pick<Runtime, "dispatch" | "subscribe">;
  readonly realm: string;
  readonly clock: Clock;
  readonly log: (sentence: string) => void;
}

/** The events of sessions, to as many readers as there may be. */
interface EventStreams {
  readonly route: StreamedRoute;
  /** Ends every stream with `done`. */
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

  const stream = async (request: RestRequest, response: ServerResponse): Promise<Answer | undefined> => {
    const session_id = parseSessionRef(request.params.session_id ?? "", parts.realm);
    parseParams(OpenStream, { session_id });
    const asked = askedAfter(request);
    if (streams.size >= STREAMS_MAX) return busyAnswer(`this server has ${STREAMS_MAX} event streams, its limit`);
    const stopping = new AbortController();
    const { promise: sent, resolve: end } = Promise.withResolvers<void>();
    streams.set(stopping, sent);
    // Also when it is gone already, while the session was looked up.
    response.on("close", () => stopping.abort("the reader left"));
    try {
      await tell(parts, { session_id, asked, response, stopping });
    } finally {
      streams.delete(stopping);
      end();
    }
  };
  return {
    route: { method: "GET", path: "/sessions/{session_id}/events", stream },
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
  readonly response: ServerResponse;
  readonly stopping: AbortController;
}

/** Sends a session's events until the reader leaves or the server ends; it throws only before anything was sent. */
async function tell(parts: StreamParts, { session_id, asked, response, stopping }: Stream): Promise<void> {
  const { signal } = stopping;
  const { loaded, after } = await place(parts.runtime, session_id, asked);
  const deliveries = await listenTo(parts.runtime.subscribe, session_id, { ...after, signal });
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

/** Where a reader stands, and what it is told first. */
async function place(
  runtime: StreamParts["runtime"],
  session_id: string,
  asked: number | undefined,
): Promise<{ readonly loaded: Readonly<Record<string, unknown>>; readonly after: { after?: number } }> {
  try {
    // First the place and then the count, so that nothing can slip by between them.
    const { cursor } = await runtime.dispatch("readEventCursor", { scope: { type: "session", session_id } });
    const { message_count } = await runtime.dispatch("readSession", { session_id });
    if (asked !== undefined && asked > cursor.sequence) {
      const message = `Last-Event-ID: the events of session ${session_id} end at ${cursor.sequence}`;
      throw new RuntimeError("INVALID_PARAMS", message);
    }
    return { loaded: { session_id, message_count }, after: { after: asked ?? cursor.sequence } };
  } catch (thrown) {
    if (!(thrown instanceof RuntimeError && thrown.code === "SESSION_PERSISTENCE_DISABLED")) throw thrown;
    // Without a store a session is in this process or nowhere, and its messages are not counted.
    return { loaded: { session_id }, after: asked === undefined ? {} : { after: asked } };
  }
}

/** The last event a reader saw; undefined for one that wants only what is to come. */
function askedAfter({ headers, query }: RestRequest): number | undefined {
  const { last_event_id } = readQuery(query, RESUME);
  // A browser that connects again sends the header, with the address it was first given.
  const text = headers["last-event-id"] ?? last_event_id;
  if (text === undefined || text === "") return undefined;
  if (typeof text === "string" && /^\d{1,15}$/.test(text)) return Number(text);
  throw new RuntimeError("INVALID_PARAMS", "Last-Event-ID: write the id of an event, or 0 for all of them");
}
