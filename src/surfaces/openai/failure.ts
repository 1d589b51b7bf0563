import { asRuntimeError, ERRORS, type RuntimeError } from "../../contract/error.ts";
import { sessionIdIn } from "../wire/events.ts";
import { type Answer, awayDetail, type HttpDetail, jsonAnswer, reasonIn, retryAfter } from "../wire/http-answer.ts";

/** A failure as OpenAI's clients read it; `code` is ours. */
interface OpenAiError {
  readonly message: string;
  readonly type: string;
  readonly param: string | null;
  readonly code: string;
}

/** A failure as an answer; a session that a failed turn left behind is named in the header, as everywhere. */
export function openAiFailure(thrown: unknown, given?: HttpDetail): Answer {
  const error = asRuntimeError(thrown);
  const detail = given ?? detailOf(error);
  const status = detail.status ?? ERRORS[error.code].http;
  const session_id = sessionIdIn(error.details);
  const named = session_id === undefined ? {} : { [SESSION_HEADER]: session_id };
  return { ...jsonAnswer({ error: errorOf(error, status) }, status), headers: { ...named, ...detail.headers }, error };
}

/** The header that says which session an answer is of. */
export const SESSION_HEADER = "x-rkat-session";

export function errorOf(error: RuntimeError, status = detailOf(error).status ?? ERRORS[error.code].http): OpenAiError {
  const code = isModelMissing(error) ? MODEL_NOT_FOUND : error.code;
  return { message: error.message, type: typeOf(status), param: paramIn(error), code };
}

/** The word of OpenAI's for a model that is not there, which clients look for, and ours for one a provider does not have. */
const MODEL_NOT_FOUND = "model_not_found";

function isModelMissing({ details }: RuntimeError): boolean {
  return reasonIn(details).failure_kind === MODEL_NOT_FOUND;
}

/** Clients of OpenAI's would send these again, by their defaults or by the status. */
const NO_RETRY = { "x-should-retry": "false" };
/** What a provider that limits calls is given, where it does not say how long. */
const RATE_LIMIT_MS = 5_000;

/** What a provider's failure is over HTTP: whose fault it is, and whether and when it may be sent again. */
function detailOf(error: RuntimeError): HttpDetail {
  const { failure_kind: kind, provider_status, retry_after_ms } = reasonIn(error.details);
  const waitMs = typeof retry_after_ms === "number" ? retry_after_ms : RATE_LIMIT_MS;
  const status = typeof provider_status === "number" ? provider_status : 0;
  const refused = (otherwise: number) => (status >= 400 && status < 500 ? status : otherwise);
  switch (kind) {
    case "rate_limited":
      return { status: 429, headers: retryAfter(waitMs) };
    case "overloaded":
      return { status: 503, headers: retryAfter(waitMs) };
    case "auth":
      return { status: refused(401), headers: NO_RETRY };
    case MODEL_NOT_FOUND:
      return { status: 404, headers: NO_RETRY };
    case "invalid_request":
    case "context_exceeded":
    case "content_filtered":
      return { status: refused(400), headers: NO_RETRY };
    default:
      return awayDetail(error);
  }
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
