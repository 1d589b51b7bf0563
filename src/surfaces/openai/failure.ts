import { asRuntimeError, ERRORS, type RuntimeError } from "../../contract/error.ts";
import { sessionIdIn } from "../wire/events.ts";
import { type Answer, type HttpDetail, jsonAnswer } from "../wire/http-answer.ts";

/** A failure as OpenAI's clients read it; `code` is ours. */
interface OpenAiError {
  readonly message: string;
  readonly type: string;
  readonly param: string | null;
  readonly code: string;
}

/** A failure as an answer; a session that a failed turn left behind is named in the header, as everywhere. */
export function openAiFailure(thrown: unknown, detail: HttpDetail = {}): Answer {
  const error = asRuntimeError(thrown);
  const status = detail.status ?? ERRORS[error.code].http;
  const session_id = sessionIdIn(error.details);
  const named = session_id === undefined ? {} : { [SESSION_HEADER]: session_id };
  return { ...jsonAnswer({ error: errorOf(error, status) }, status), headers: { ...named, ...detail.headers }, error };
}

/** The header that says which session an answer is of. */
export const SESSION_HEADER = "x-rkat-session";

export function errorOf(error: RuntimeError, status: number = ERRORS[error.code].http): OpenAiError {
  return { message: error.message, type: typeOf(status), param: paramIn(error), code: error.code };
}

function typeOf(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 404) return "not_found_error";
  if (status === 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

/** The field that a sentence begins with; our sentences about inputs begin with theirs. */
function paramIn({ code, message }: RuntimeError): string | null {
  if (code !== "INVALID_PARAMS" && code !== "CAPABILITY_UNAVAILABLE") return null;
  return /^([\w.[\]-]{1,200}): /.exec(message)?.[1] ?? null;
}
