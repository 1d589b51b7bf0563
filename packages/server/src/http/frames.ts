import { ERRORS, RuntimeError, type WireError } from "@rkat/core/contract/error";
import type { EventEnvelope } from "@rkat/core/contract/session-operations";
import { sessionIdIn, toHybrid } from "./events.ts";
import type { Fault, RequestId } from "./incoming.ts";
import { type Frame, LINE_BYTES_MAX } from "./lines.ts";

export function resultFrame(id: RequestId, result: unknown): Frame {
  const frame = `{"jsonrpc":"2.0","id":${id},"result":${JSON.stringify(result)}}\n`;
  if (fits(frame)) return frame;
  const message = `the answer is longer than the ${LINE_BYTES_MAX} bytes of a line; ask for less of it, with limit and offset`;
  return errorFrame(id, new RuntimeError("PAYLOAD_TOO_LARGE", message));
}

export function errorFrame(id: RequestId, error: RuntimeError): Frame {
  const wire = error.toWire();
  // A turn that failed has a session that can go on; the wire names it at the top.
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
