import { Buffer } from "node:buffer";
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type ErrorCode, RuntimeError } from "../../contract/error.ts";
import { errorAnswer } from "./http-answer.ts";

interface Fault {
  readonly status: number;
  readonly code: ErrorCode;
  readonly message: string;
}

/** What the parser of HTTP calls a failure, and what it is to the client. */
const FAULTS: Readonly<Record<string, Fault>> = {
  HPE_HEADER_OVERFLOW: { status: 431, code: "PAYLOAD_TOO_LARGE", message: "the request's headers are too large" },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, code: "INVALID_PARAMS", message: "the request took too long to arrive" },
};
const NO_HTTP: Fault = { status: 400, code: "INVALID_PARAMS", message: "this is no request of HTTP/1.1" };

/** Answers what never became a request, and closes. */
export function answerBrokenRequest(thrown: NodeJS.ErrnoException, socket: Duplex): void {
  if (!socket.writable || thrown.code === "ECONNRESET") {
    socket.destroy();
    return;
  }
  const fault = FAULTS[thrown.code ?? ""] ?? NO_HTTP;
  const { text, type } = errorAnswer(new RuntimeError(fault.code, fault.message));
  const lines = [
    `HTTP/1.1 ${fault.status} ${STATUS_CODES[fault.status]}`,
    `content-type: ${type}`,
    `content-length: ${Buffer.byteLength(text)}`,
    "connection: close",
  ];
  socket.end(`${lines.join("\r\n")}\r\n\r\n${text}`, () => socket.destroy());
}
