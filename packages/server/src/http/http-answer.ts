import { Buffer } from "node:buffer";
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import { asRuntimeError, ERRORS, type ErrorCode, RuntimeError, STORE_AWAY } from "@rkat/core/contract/error";
import { isRecord } from "@rkat/core/contract/json";
import { sessionIdIn } from "./events.ts";
import { type HttpRequest, type HttpResponse, TOOK_TOO_LONG } from "./exchange.ts";

export interface Answer {
  readonly status: number;
  readonly type: string;
  readonly text: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  /** What went wrong, for the line of the log; the text says it to the client. */
  readonly error?: Pick<RuntimeError, "code" | "message">;
}

/** Where HTTP has a status or a header for a failure that the table of errors cannot name. */
export type HttpDetail = Pick<Answer, "headers"> & { readonly status?: number };

export function jsonAnswer(value: unknown, status = 200): Answer {
  return { status, type: "application/json", text: JSON.stringify(value) };
}

/** A failure as its answer; `error` and `message` say the same, for clients that look for the one or the other. */
export function errorAnswer(thrown: unknown, given?: HttpDetail): Answer {
  const error = asRuntimeError(thrown);
  const detail = { ...awayDetail(error), ...given };
  // The session of a failed turn can be continued; it is named at the top.
  const session_id = sessionIdIn(error.details);
  const body = { error: error.message, ...error.toWire(), ...(session_id === undefined ? {} : { session_id }) };
  return { ...jsonAnswer(body, detail.status ?? ERRORS[error.code].http), headers: detail.headers ?? {}, error };
}

/** A failure as JSON-RPC has it, also of what never became a message. */
export function rpcErrorAnswer(thrown: unknown, { status, headers = {} }: HttpDetail = {}): Answer {
  const error = asRuntimeError(thrown);
  const { rpc, http } = ERRORS[error.code];
  const body = { jsonrpc: "2.0", id: null, error: { code: rpc, message: error.message, data: error.toWire() } };
  return { ...jsonAnswer(body, status ?? http), headers, error };
}

/** Sets Retry-After where the store cannot be reached. */
export function awayDetail({ details }: RuntimeError): HttpDetail {
  return reasonIn(details).reason_type === STORE_AWAY ? { status: 503, headers: retryAfter() } : {};
}

/** Why something failed, as the details of its error have it. */
export function reasonIn(details: unknown): Readonly<Record<string, unknown>> {
  return isRecord(details) && isRecord(details.reason) ? details.reason : {};
}

export function retryAfter(ms = RETRY_AFTER_MS): Readonly<Record<string, string>> {
  return { "retry-after": String(Math.max(1, Math.ceil(ms / 1_000))) };
}

/** A failure as a surface words it. */
export type AnswerFailure = (thrown: unknown, detail?: HttpDetail) => Answer;

const RETRY_AFTER_MS = 1_000;

/** The answer to what a server that is full, or about to end, cannot begin. */
export function busyAnswer(message: string, answerFailure: AnswerFailure = errorAnswer): Answer {
  return answerFailure(new RuntimeError("AGENT_ERROR", message), { status: 503, headers: retryAfter() });
}

/** A client that reads nothing of its answer for so long is disconnected. */
const ANSWER_STALL_MS_MAX = 60_000;
/** How long, and how much, a refused body is still read, so that the client can read the answer. */
const LINGER_MS_MAX = 1_000;
const LINGER_BYTES_MAX = 64 * 1_024 * 1_024;

const NO_CONTENT = 204;

/** Sends an answer and resolves when it is handed to the socket; does nothing where the client is gone. */
export async function sendAnswer(request: HttpRequest, response: HttpResponse, answer: Answer): Promise<void> {
  if (response.destroyed || response.writableEnded) return;
  // A failure in the middle of an answer can only close the connection.
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const bytes = Buffer.from(answer.text);
  // An unread body would be taken for the next request.
  const isRead = request.complete;
  response.setTimeout(ANSWER_STALL_MS_MAX, () => response.destroy());
  const about = { "content-type": answer.type, "content-length": bytes.length };
  response.writeHead(answer.status, {
    // Where there is nothing, nothing may be said of it.
    ...(answer.status === NO_CONTENT ? {} : about),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    ...(isRead ? {} : { connection: "close" }),
    ...answer.headers,
  });
  if (isRead) {
    response.end(bytes);
    return;
  }
  response.write(bytes);
  await linger(request);
  response.end();
}

/** Closing at once would reset the connection, and the client would never see why. */
async function linger(request: HttpRequest): Promise<void> {
  const done = new AbortController();
  const end = (): void => done.abort("done");
  let bytes = 0;
  request.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > LINGER_BYTES_MAX) end();
  });
  for (const event of ["end", "close", "error"]) request.once(event, end);
  await wait(LINGER_MS_MAX, undefined, { signal: done.signal }).catch(() => {});
}

interface Fault {
  readonly status: number;
  readonly code: ErrorCode;
  readonly message: string;
}

/** What the parser of HTTP calls a failure, and what it is to the client. */
const FAULTS: Readonly<Record<string, Fault>> = {
  HPE_HEADER_OVERFLOW: { status: 431, code: "PAYLOAD_TOO_LARGE", message: "the request's headers are too large" },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, code: "INVALID_PARAMS", message: TOOK_TOO_LONG },
};
const NO_HTTP: Fault = { status: 400, code: "INVALID_PARAMS", message: "this is not an HTTP/1.1 request" };

/** Answers input that is not a valid request, and closes; undefined when the client is gone. */
export function answerBrokenRequest(
  thrown: NodeJS.ErrnoException,
  socket: Duplex,
  answerFailure: AnswerFailure = errorAnswer,
): number | undefined {
  if (!socket.writable || thrown.code === "ECONNRESET") {
    socket.destroy();
    return undefined;
  }
  const fault = FAULTS[thrown.code ?? ""] ?? NO_HTTP;
  const { text, type } = answerFailure(new RuntimeError(fault.code, fault.message));
  const lines = [
    `HTTP/1.1 ${fault.status} ${STATUS_CODES[fault.status]}`,
    `content-type: ${type}`,
    `content-length: ${Buffer.byteLength(text)}`,
    "connection: close",
  ];
  socket.end(`${lines.join("\r\n")}\r\n\r\n${text}`, () => socket.destroy());
  return fault.status;
}
