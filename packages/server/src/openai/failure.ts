import { asRuntimeError, ERRORS, type RuntimeError } from "@rkat/core/contract/error";
import { sessionIdIn } from "../http/events.ts";
import { type Answer, awayDetail, type HttpDetail, jsonAnswer, reasonIn, retryAfter } from "../http/http-answer.ts";

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
  const detail = { ...detailOf(error), ...given };
  const status = detail.status ?? ERRORS[error.code].http;
  const session_id = sessionIdIn(error.details);
  const named = session_id === undefined ? {} : { [SESSION_HEADER]: session_id };
  return { ...jsonAnswer({ error: errorOf(error, status) }, status), headers: { ...named, ...detail.headers }, error };
}

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

/** Failures that a retry cannot fix, whatever their status. */
function isFinal({ code }: RuntimeError): boolean {
  return code === "BUDGET_EXHAUSTED" || ERRORS[code].http === 501;
}

/** Kinds of a provider's failure that pass, and those of which it is sure; it may have said so with another status. */
const PASSES: Readonly<Record<string, number>> = { rate_limited: 429, overloaded: 503 };
const STAYS: Readonly<Record<string, number>> = {
  auth: 401,
  [MODEL_NOT_FOUND]: 404,
  invalid_request: 400,
  context_exceeded: 400,
  content_filtered: 400,
};

/** The HTTP status of a failure, and whether and when to retry. */
function detailOf(error: RuntimeError): HttpDetail {
  const { failure_kind, provider_status, retry_after_ms = RATE_LIMIT_MS } = reasonIn(error.details);
  const [passes, stays] = [PASSES[String(failure_kind)], STAYS[String(failure_kind)]];
  if (passes !== undefined) return { status: passes, headers: retryAfter(Number(retry_after_ms)) };
  if (stays === undefined) return isFinal(error) ? { headers: NO_RETRY } : awayDetail(error);
  const said = Number(provider_status);
  return { status: said >= 400 && said < 500 ? said : stays, headers: NO_RETRY };
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
