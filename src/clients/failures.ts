import { ERRORS, type ErrorCode, RuntimeError } from "../contract/error.ts";
import { isRecord } from "./fields.ts";

/** A failure as a server told it; one whose code this client does not know keeps its words. */
export function toldError(body: unknown, server: string): RuntimeError {
  const { code, message, details } = isRecord(body) ? body : {};
  // A key of the table is a code.
  const known = typeof code === "string" && Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : "INTERNAL_ERROR";
  return new RuntimeError(known, typeof message === "string" ? message : `${server} failed and did not say why`, {
    details,
  });
}

export function closedError(): RuntimeError {
  return new RuntimeError("AGENT_ERROR", "this client is closed");
}

/** As the runtime says it of a call that was given up before it was made. */
export function cancelledError(): RuntimeError {
  return new RuntimeError("REQUEST_CANCELLED", "the request was cancelled before it began");
}
