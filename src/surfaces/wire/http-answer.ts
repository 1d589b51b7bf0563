import { asRuntimeError, ERRORS, RuntimeError } from "../../contract/error.ts";
import { isRecord } from "./incoming.ts";

/** What is sent back for a request. */
export interface Answer {
  readonly status: number;
  readonly type: string;
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Where HTTP has a status or a header for a failure that the table of errors cannot name. */
export type HttpDetail = Pick<Answer, "headers"> & { readonly status?: number };

export function jsonAnswer(value: unknown, status = 200): Answer {
  return { status, type: "application/json", text: JSON.stringify(value) };
}

/** A failure as its answer; `error` and `message` say the same, for clients that look for the one or the other. */
export function errorAnswer(thrown: unknown, detail: HttpDetail = {}): Answer {
  const error = asRuntimeError(thrown);
  // A turn that failed has a session that can go on; it is named at the top.
  const { details } = error;
  const session = isRecord(details) && typeof details.session_id === "string" ? { session_id: details.session_id } : {};
  const body = { error: error.message, ...error.toWire(), ...session };
  return { ...jsonAnswer(body, detail.status ?? ERRORS[error.code].http), headers: detail.headers ?? {} };
}

const RETRY_AFTER_SECS = 1;

/** The answer to what a server that is full, or about to end, cannot begin. */
export function busyAnswer(message: string): Answer {
  const headers = { "retry-after": String(RETRY_AFTER_SECS) };
  return errorAnswer(new RuntimeError("AGENT_ERROR", message), { status: 503, headers });
}
