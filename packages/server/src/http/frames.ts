import type { Readable, Writable } from "node:stream";
import { ERRORS, RuntimeError, type WireError } from "@rkat/core/contract/error";
import type { EventEnvelope } from "@rkat/core/contract/session-operations";
import { sessionIdIn, toHybrid } from "./events.ts";
import type { Fault, RequestId } from "./incoming.ts";

export function resultFrame(id: RequestId, result: unknown): Frame {
  const frame = `{"jsonrpc":"2.0","id":${id},"result":${JSON.stringify(result)}}\n`;
  if (fits(frame)) return frame;
  const message = `the answer is longer than the ${LINE_BYTES_MAX} bytes of a line; ask for less of it, with limit and offset`;
  return errorFrame(id, new RuntimeError("PAYLOAD_TOO_LARGE", message));
}

export function errorFrame(id: RequestId, error: RuntimeError): Frame {
  const wire = error.toWire();
  // The session of a failed turn can be continued; the wire names it at the top.
  const session_id = sessionIdIn(wire.details);
  return errorLine(id, ERRORS[error.code].rpc, { ...wire, ...(session_id === undefined ? {} : { session_id }) });
}

const FAULT_NUMBERS = {
  PARSE_ERROR: -32700,
  INVALID_REQUEST: -32600,
  INVALID_PARAMS: ERRORS.INVALID_PARAMS.rpc,
} as const;

/** The answer to what is no request: JSON-RPC's own numbers, in the form of every other error. */
export function faultFrame(id: RequestId, { code, message }: Fault): Frame {
  return errorLine(id, FAULT_NUMBERS[code], { code, category: "validation", message });
}

function errorLine(id: RequestId, code: number, data: WireError): Frame {
  const error = JSON.stringify({ code, message: data.message, data });
  return `{"jsonrpc":"2.0","id":${id},"error":${error}}\n`;
}

export function notificationFrame(method: string, params: Readonly<Record<string, unknown>>): Frame {
  return `${JSON.stringify({ jsonrpc: "2.0", method, params })}\n`;
}

export function requestFrame(id: string, method: string, params: Readonly<Record<string, unknown>>): Frame {
  return `${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`;
}

/** An event of a turn that this connection runs, and the request that runs it: a new session's id is news to the client. */
export function turnEventFrame(request_id: RequestId, envelope: EventEnvelope): Frame {
  const session_id = JSON.stringify(envelope.source.session_id);
  const frameOf = (event: EventEnvelope): Frame => {
    const params = `{"session_id":${session_id},"request_id":${request_id},"event":${JSON.stringify(toHybrid(event))}}`;
    return `{"jsonrpc":"2.0","method":"session/event","params":${params}}\n`;
  };
  const frame = frameOf(envelope);
  return fits(frame) ? frame : frameOf(shortened(envelope));
}

/** An event of a stream that was opened; `sequence` counts the frames of the stream from 1. */
export function streamEventFrame(stream_id: string, sequence: number, envelope: EventEnvelope): Frame {
  const { session_id } = envelope.source;
  const frame = notificationFrame("session/stream_event", { stream_id, sequence, session_id, event: envelope });
  if (fits(frame)) return frame;
  return notificationFrame("session/stream_event", { stream_id, sequence, session_id, event: shortened(envelope) });
}

/** Stands in for an event that no client could read; it keeps its place, by which it can be asked for. */
function shortened(envelope: EventEnvelope): EventEnvelope {
  const { seq, payload } = envelope;
  const reason = `event ${seq} (${payload.type}) is longer than the ${LINE_BYTES_MAX} bytes of a line`;
  return { ...envelope, payload: { type: "stream_truncated", reason } };
}

const UTF8_BYTES_MAX = 3;

function fits(frame: Frame): boolean {
  return frame.length * UTF8_BYTES_MAX <= LINE_BYTES_MAX || Buffer.byteLength(frame) <= LINE_BYTES_MAX;
}

/** The longest line that is read; the other side's limit is the same. */
export const LINE_BYTES_MAX = 64 * 1_024 * 1_024;

/** One line for the client, its end included. */
export type Frame = string;

/** A line without its end, or the news that one was longer than the bound and is being skipped. */
export type Line = { readonly kind: "line"; readonly bytes: Uint8Array } | { readonly kind: "too_long" };

interface LineReader {
  push(chunk: Uint8Array): Iterable<Line>;
  /** What came after the last line end, once there is no more to come. */
  end(): Iterable<Line>;
}

const NEWLINE = 0x0a;

/** Cuts bytes into lines. At most one line is held, and never more of it than the bound. */
export function createLineReader(lineBytesMax = LINE_BYTES_MAX): LineReader {
  let parts: Uint8Array[] = [];
  let bytesHeld = 0;
  let isSkipping = false;

  const take = (): Line => {
    const [first = new Uint8Array()] = parts;
    const bytes = parts.length === 1 ? first : Buffer.concat(parts);
    parts = [];
    bytesHeld = 0;
    return { kind: "line", bytes };
  };
  /** Adds to the line that is being read; true when that makes it too long. */
  const hold = (bytes: Uint8Array): boolean => {
    if (isSkipping) return false;
    isSkipping = bytesHeld + bytes.length > lineBytesMax;
    if (!isSkipping) parts.push(bytes);
    else parts = [];
    bytesHeld = isSkipping ? 0 : bytesHeld + bytes.length;
    return isSkipping;
  };
  return {
    *push(chunk) {
      let start = 0;
      for (;;) {
        const end = chunk.indexOf(NEWLINE, start);
        if (hold(chunk.subarray(start, end < 0 ? undefined : end))) yield { kind: "too_long" };
        if (end < 0) return;
        if (!isSkipping) yield take();
        isSkipping = false;
        start = end + 1;
      }
    },
    *end() {
      if (bytesHeld > 0) yield take();
    },
  };
}

/** Hands on every line until there are no more; a client that floods waits until it has read what it is owed. */
export async function readLines(input: Readable, take: (line: Line) => Promise<void> | undefined): Promise<void> {
  const reader = createLineReader();
  const takeAll = async (lines: Iterable<Line>): Promise<void> => {
    for (const line of lines) await take(line);
  };
  try {
    for await (const chunk of input) await takeAll(reader.push(chunk));
    await takeAll(reader.end());
  } catch (thrown) {
    // A broken input is treated as its end.
    if (input.errored === null) throw thrown;
  }
}

/** The only output to the client: frames are sent whole and in order. */
export interface Outbox {
  /** Resolves when the client has room for more. After the client has gone it resolves at once. It does not reject. */
  send(frame: Frame): Promise<void>;
}

/**
 * A sender waits for a slow client, so nothing piles up: at most one frame waits for each
 * request, stream and tool call, and their numbers are bounded. `onGone` is called when the client is gone.
 */
export function createOutbox(output: Writable, onGone: () => void): Outbox {
  let isGone = false;
  let onRoom: (() => void) | undefined;
  let sent: Promise<void> = Promise.resolve();

  const room = (): void => onRoom?.();
  const gone = (): void => {
    if (isGone) return;
    isGone = true;
    room();
    onGone();
  };
  output.on("drain", room);
  output.on("error", gone);
  output.on("close", gone);

  const write = async (frame: Frame): Promise<void> => {
    if (isGone || output.write(frame)) return;
    await new Promise<void>((resolve) => {
      onRoom = resolve;
    });
    onRoom = undefined;
  };
  return {
    send: (frame) => {
      sent = sent.then(() => write(frame));
      return sent;
    },
  };
}
