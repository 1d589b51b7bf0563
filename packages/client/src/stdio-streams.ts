import type { RuntimeError } from "@rkat/core/contract/error";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import type { Runtime } from "@rkat/core/runtime/runtime-calls";
import type { Delivery } from "@rkat/core/sessions/event-queue";
import { deliveryOf, type Fields, isRecord, lastSeq, reportedError } from "./answers.ts";
import type { Link } from "./stdio-link.ts";

interface StreamParts {
  readonly name: string;
  readonly request: Link["request"];
  readonly dispatch: Dispatch;
  /** Whether the client was closed, and not its server: what is read then ends. */
  readonly isClosed: () => boolean;
}

/** The event streams of a connection. */
export interface Streams {
  readonly subscribe: Runtime["subscribe"];
  /** Takes `session/stream_event` and `session/stream_end`. */
  take(method: string, params: Fields): void;
  /** Ends every stream: with a failure, or as if its reader had left. */
  endAll(error?: RuntimeError): void;
}

const QUEUE_EVENTS_MAX = 4_096;

/** What has arrived of one stream and was not read yet. */
interface Arrived {
  queue: Delivery[];
  hasOverflown: boolean;
  end: { readonly error?: RuntimeError | undefined } | undefined;
  wake: (() => void) | undefined;
}

export function createStreams({ name, request, dispatch, isClosed }: StreamParts): Streams {
  const streams = new Map<string, Arrived>();
  // The first events of a stream may come before the answer that names it.
  let opening = 0;

  const streamOf = (streamId: string): Arrived | undefined => {
    const known = streams.get(streamId);
    if (known !== undefined || opening === 0) return known;
    const early = arrival();
    streams.set(streamId, early);
    return early;
  };
  const open = async (session_id: string) => {
    opening += 1;
    try {
      const answer = await request("session/stream_open", { session_id });
      const streamId = String(isRecord(answer) ? answer.stream_id : "");
      // There is one from here on: a stream is being opened.
      return { streamId, stream: streamOf(streamId) ?? arrival() };
    } finally {
      opening -= 1;
    }
  };
  /** Opens a stream and says from where on its reader is to be caught up; undefined when the client was closed meanwhile. */
  const begin = async (sessionId: string, after: number | undefined) => {
    try {
      const seen = after ?? (await lastSeq(dispatch, sessionId));
      return { seen, ...(await open(sessionId)) };
    } catch (thrown) {
      if (isClosed()) return undefined;
      throw thrown;
    }
  };
  async function* subscribe(sessionId: string, options: { after?: number; signal?: AbortSignal } = {}) {
    const { after, signal = new AbortController().signal } = options;
    if (signal.aborted || isClosed()) return;
    const begun = await begin(sessionId, after);
    if (begun === undefined) return;
    const { streamId, stream } = begun;
    const onAbort = (): void => stream.wake?.();
    signal.addEventListener("abort", onAbort);
    let { seen } = begun;
    const catchUp = async function* (): AsyncGenerator<Delivery> {
      // Where nothing is kept, what was missed is lost.
      if (seen === undefined) return;
      for await (const delivery of replay(dispatch, sessionId, seen)) {
        if (signal.aborted) return;
        seen = delivery.seq;
        yield delivery;
      }
    };
    try {
      yield* catchUp();
      while (!signal.aborted && !isClosed()) {
        const { queue, hasOverflown, end } = stream;
        stream.queue = [];
        stream.hasOverflown = false;
        for (const delivery of queue) {
          // What the log already gave is not given again.
          if (delivery.seq !== 0 && delivery.seq <= (seen ?? 0)) continue;
          if (delivery.seq !== 0 && seen !== undefined) seen = delivery.seq;
          yield delivery;
        }
        if (hasOverflown) {
          yield lagged(queue.at(-1)?.timestamp_ms ?? 0);
          yield* catchUp();
        }
        if (queue.length > 0 || hasOverflown) continue;
        if (end?.error !== undefined) throw end.error;
        if (end !== undefined) return;
        await new Promise<void>((resolve) => {
          stream.wake = resolve;
        });
        stream.wake = undefined;
      }
    } catch (thrown) {
      if (!isClosed()) throw thrown;
    } finally {
      signal.removeEventListener("abort", onAbort);
      await request("session/stream_close", { stream_id: streamId }).catch(() => {}); // It may have ended before.
      streams.delete(streamId);
    }
  }
  return {
    subscribe,
    take: (method, params) => {
      const stream = streamOf(String(params.stream_id));
      if (stream === undefined) return;
      const delivery = method === "session/stream_event" ? deliveryOf(params.event) : undefined;
      if (method === "session/stream_end") stream.end = { error: failureIn(params, name) };
      else if (delivery === undefined) return;
      else if (stream.queue.length < QUEUE_EVENTS_MAX && !stream.hasOverflown) stream.queue.push(delivery);
      else stream.hasOverflown = true;
      stream.wake?.();
    },
    endAll: (error) => {
      for (const stream of streams.values()) {
        stream.end ??= { error };
        stream.wake?.();
      }
    },
  };
}

function arrival(): Arrived {
  return { queue: [], hasOverflown: false, end: undefined, wake: undefined };
}

function lagged(timestamp_ms: number): Delivery {
  const reason = "the reader lagged behind: live events were dropped";
  return { seq: 0, timestamp_ms, event: { type: "stream_truncated", reason } };
}

function failureIn({ outcome, error }: Fields, name: string): RuntimeError | undefined {
  return outcome === "terminal_error" ? reportedError(error, name) : undefined;
}

/** The durable events of a session after a seq, a page at a time. */
async function* replay(dispatch: Dispatch, session_id: string, after: number): AsyncGenerator<Delivery> {
  const scope = { type: "session", session_id };
  for (let sequence = after, hasMore = true; hasMore; ) {
    const { events, has_more } = await dispatch("listEvents", { scope, cursor: { scope, sequence } });
    for (const { cursor, timestamp_ms, payload } of events) {
      sequence = cursor.sequence;
      yield { seq: cursor.sequence, timestamp_ms, event: payload };
    }
    hasMore = has_more && events.length > 0;
  }
}
