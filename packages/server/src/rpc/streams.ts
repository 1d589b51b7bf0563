import { asRuntimeError, RuntimeError } from "@rkat/core/contract/error";
import { CloseStream, OpenStream, parseParams } from "@rkat/core/contract/wire/requests";
import type { Runtime } from "@rkat/core/runtime/runtime-calls";
import type { Delivery } from "@rkat/core/sessions/event-queue";
import { listenTo, type Params, toEnvelope } from "../http/events.ts";
import { notificationFrame, streamEventFrame } from "../http/frames.ts";
import type { Outbox } from "../http/lines.ts";

/** The event streams a client has opened. */
export interface Streams {
  /** `session/stream_open`: events from now on, of turns in any process. */
  open(params: Params): Promise<{ stream_id: string; session_id: string; opened: true }>;
  /** `session/stream_close`: the stream's end has been sent when this resolves. */
  close(params: Params): Promise<{ stream_id: string; closed: true; already_closed: boolean }>;
  /** Ends every stream. */
  closeAll(): Promise<void>;
}

interface StreamParts {
  readonly runtime: Pick<Runtime, "dispatch" | "subscribe">;
  readonly outbox: Outbox;
  readonly newId: () => string;
}

type Outcome = "explicit_close" | "remote_end" | "terminal_error";

interface OpenedStream {
  readonly sent: Promise<void>;
  end(outcome: Outcome): void;
}

const STREAMS_MAX = 256;

export function createStreams(parts: StreamParts): Streams {
  const { runtime, outbox, newId } = parts;
  const streams = new Map<string, OpenedStream>();

  const open = async (params: Params) => {
    const { session_id } = parseParams(OpenStream, params);
    if (streams.size >= STREAMS_MAX) {
      throw new RuntimeError("AGENT_ERROR", `this connection has ${STREAMS_MAX} streams open, its limit; close one`);
    }
    const stopping = new AbortController();
    const after = await lastSeq(runtime, session_id);
    const deliveries = await listenTo(runtime.subscribe, session_id, { ...after, signal: stopping.signal });
    const stream_id = newId();
    let outcome: Outcome = "remote_end";
    const sent = send({ stream_id, session_id, deliveries }, () => outcome);
    const end = (why: Outcome): void => {
      outcome = why;
      stopping.abort(why);
    };
    streams.set(stream_id, { sent, end });
    return { stream_id, session_id, opened: true as const };
  };

  const send = async (
    source: { stream_id: string; session_id: string; deliveries: AsyncIterable<Delivery> },
    outcome: () => Outcome,
  ): Promise<void> => {
    const { stream_id, session_id } = source;
    const ended = { stream_id, session_id, ended: true };
    try {
      let sequence = 0;
      for await (const delivery of source.deliveries) {
        sequence += 1;
        await outbox.send(streamEventFrame(stream_id, sequence, toEnvelope(session_id, delivery, newId)));
      }
      await outbox.send(notificationFrame("session/stream_end", { ...ended, outcome: outcome() }));
    } catch (thrown) {
      const { code, message } = asRuntimeError(thrown);
      const failed = { ...ended, outcome: "terminal_error", error: { code, message } };
      await outbox.send(notificationFrame("session/stream_end", failed));
    } finally {
      streams.delete(stream_id);
    }
  };

  return {
    open,
    close: async (params) => {
      const { stream_id } = parseParams(CloseStream, params);
      const stream = streams.get(stream_id);
      stream?.end("explicit_close");
      await stream?.sent;
      return { stream_id, closed: true, already_closed: stream === undefined };
    },
    closeAll: async () => {
      const all = [...streams.values()];
      for (const stream of all) stream.end("remote_end");
      await Promise.all(all.map((stream) => stream.sent));
    },
  };
}

/** Where a session's events end now, so that none can slip by before they are listened to. */
async function lastSeq(runtime: StreamParts["runtime"], session_id: string): Promise<{ after?: number }> {
  try {
    const { cursor } = await runtime.dispatch("readEventCursor", { scope: { type: "session", session_id } });
    return { after: cursor.sequence };
  } catch (thrown) {
    // Without a store nothing has to be read before listening, so nothing can slip by.
    if (thrown instanceof RuntimeError && thrown.code === "SESSION_PERSISTENCE_DISABLED") return {};
    throw thrown;
  }
}
