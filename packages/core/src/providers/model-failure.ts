import { defined } from "../contract/json.ts";
import type { FailureKind, ModelFailure } from "../ports/model.ts";
import { asRecord, type Loose } from "./http-stream.ts";

export interface FailureContext {
  readonly provider: string;
  readonly secrets?: readonly string[] | undefined;
  readonly isKeyless?: boolean | undefined;
  /** For a Retry-After with a date. */
  readonly now?: (() => number) | undefined;
}

/** Classifies a failed call: a kind for the retry policy and a sentence for people. */
export function classifyFailure(thrown: unknown, context: FailureContext): ModelFailure {
  const facts = readErrorFacts(thrown);
  const kind = kindOf(facts);
  const retryAfterMs = readRetryAfter(facts, context.now ?? Date.now);
  return {
    kind,
    message: describe(kind, facts, context),
    ...defined({ status: facts.status, retryAfterMs }),
  };
}

/** The failure of an aborted call; the signal's reason tells a timeout from a cancel. */
export function abortFailure(signal: AbortSignal): ModelFailure {
  const reason: unknown = signal.reason;
  if (reason instanceof Error && reason.name === "TimeoutError") {
    return { kind: "call_timeout", message: "the call took longer than it was allowed to" };
  }
  return { kind: "unknown", message: "the call was aborted" };
}

/** An answer without an end: the connection closed normally, but no finish came. */
export const CUT_OFF: ModelFailure = {
  kind: "malformed_stream",
  message: "the stream ended before the answer was finished",
};

function kindOf(facts: ErrorFacts): FailureKind {
  const { status, codes, message } = facts;
  // An exhausted quota has status 429 like a rate limit, but waiting does not help.
  if (/insufficient_quota|billing|credit_balance/.test(codes)) return "invalid_request";
  if (/credit balance is too low|exceeded your current quota, please check your plan/i.test(message)) {
    return status === 429 && /resource_exhausted/.test(codes) ? "rate_limited" : "invalid_request";
  }
  if (status !== 429 && isContextOverflow(facts)) return "context_exceeded";
  if (isFiltered(facts)) return "content_filtered";
  if (/api_key_invalid|invalid_api_key/.test(codes) || /api key not valid/i.test(message)) return "auth";
  if (/overload|slow_down/.test(codes)) return "overloaded";
  if (status !== undefined) return kindOfStatus(status);
  return kindOfCodes(codes) ?? kindOfThrown(facts);
}

const OVERFLOW_CODES =
  /context_length_exceeded|request_too_large|model_context_window_exceeded|string_above_max_length/;
const OVERFLOW_WORDS =
  /prompt is too long|maximum context length|context (?:length|window|size)|input token count.*exceeds|exceeds the maximum number of (?:input )?tokens|too many (?:input )?tokens|input is too long|input length and `?max_tokens`? exceed|exceed_context_size/i;

function isContextOverflow({ status, codes, message }: ErrorFacts): boolean {
  if (status === 413 || OVERFLOW_CODES.test(codes)) return true;
  return (status === undefined || (status >= 400 && status <= 500)) && OVERFLOW_WORDS.test(message);
}

function isFiltered({ status, codes, message }: ErrorFacts): boolean {
  if (/content_filter|content_policy|moderation_blocked|prohibited_content|\bsafety\b/.test(codes)) return true;
  return status === 400 && /content management policy|content filter|blocked by .*(?:safety|policy)/i.test(message);
}

function kindOfStatus(status: number): FailureKind {
  if (status === 429) return "rate_limited";
  if (status === 529 || status === 503) return "overloaded";
  if (status >= 500 || status === 408 || status === 409 || status === 425) return "server_error";
  if (status === 401 || status === 403) return "auth";
  if (status === 404) return "model_not_found";
  return "invalid_request";
}

/** Errors inside a stream come after status 200, so only their text classifies them. */
function kindOfCodes(codes: string): FailureKind | undefined {
  if (/rate_limit|resource_exhausted|too_many_requests/.test(codes)) return "rate_limited";
  if (/unavailable/.test(codes)) return "overloaded";
  if (/server_error|api_error|\binternal|deadline_exceeded|timeout_error/.test(codes)) return "server_error";
  if (/authentication|permission|unauthenticated|unauthorized/.test(codes)) return "auth";
  if (/not_found/.test(codes)) return "model_not_found";
  if (/invalid_request|invalid_argument|failed_precondition|bad_request/.test(codes)) return "invalid_request";
  return undefined;
}

const NETWORK_CODE =
  /^(?:E(?:CONN|NOTF|AI_|PIPE|TIMED|HOST|NET|PROTO)\w*|UND_ERR_\w+|ERR_(?:SSL|TLS)\w*|CERT_\w+|\w*SELF_SIGNED\w*)$/;
const NETWORK_WORDS =
  /fetch failed|failed to fetch|^terminated$|socket hang up|other side closed|network error|cannot connect/i;
const MALFORMED_NAME = /JSONParseError|TypeValidationError|InvalidResponseDataError|EmptyResponseBodyError|SyntaxError/;
const MALFORMED_WORDS =
  /normalized Anthropic stream error|unsupported (?:chunk|delta|content block) type|process successful response/i;
const REFUSED_NAME =
  /WebPageError|UnsupportedFunctionalityError|InvalidPromptError|InvalidArgumentError|UnsupportedModelVersionError/;

function kindOfThrown({ names, causeCodes, message }: ErrorFacts): FailureKind {
  if (names.includes("TimeoutError")) return "call_timeout";
  if (causeCodes.some((code) => NETWORK_CODE.test(code)) || NETWORK_WORDS.test(message)) return "network";
  const name = names.join(" ");
  if (REFUSED_NAME.test(name)) return "invalid_request";
  if (MALFORMED_NAME.test(name) || MALFORMED_WORDS.test(message)) return "malformed_stream";
  if (/LoadAPIKeyError/.test(name)) return "auth";
  return "unknown";
}

/** Follows the provider's name in the sentence. */
const PHRASES: Readonly<Record<FailureKind, string>> = {
  rate_limited: "limits the rate of requests",
  overloaded: "is overloaded",
  server_error: "failed",
  network: "could not be reached, or the connection broke",
  call_timeout: "took too long to answer",
  stalled: "stopped sending",
  empty_response: "gave an empty answer",
  malformed_stream: "sent an answer that cannot be read",
  answer_too_long: "sent an endless answer",
  context_exceeded: "says the conversation is larger than the model's context window",
  auth: "refused the API key",
  invalid_request: "refused the request",
  model_not_found: "does not know the model",
  content_filtered: "filtered the content",
  unknown: "failed for an unknown reason",
};

const MESSAGE_LENGTH_MAX = 500;

function describe(kind: FailureKind, facts: ErrorFacts, context: FailureContext): string {
  if (facts.names.includes("WebPageError")) {
    return `${context.provider} answered with a web page, not a model: check the base URL`;
  }
  const phrase = kind === "auth" && context.isKeyless ? "requires an API key, and none was sent" : PHRASES[kind];
  const status = facts.status === undefined ? "" : ` (${facts.status})`;
  const detail = redact(facts.message, context.secrets ?? [])
    .replace(/\s+/g, " ")
    .trim();
  const sentence = `${context.provider} ${phrase}${status}${detail === "" ? "" : `: ${detail}`}`;
  return sentence.length <= MESSAGE_LENGTH_MAX ? sentence : `${sentence.slice(0, MESSAGE_LENGTH_MAX - 1)}…`;
}

const MASK = "[redacted]";
const SECRET_LENGTH_MIN = 4;
const KEY_SHAPES: readonly RegExp[] = [
  /\b(?:sk|rk|pk|gsk|xai|hf|r8)[-_][\w*-]{6,}/g,
  /\bAIza[\w*-]{10,}/g,
  /(?<=\bBearer\s{1,8})[^\s"',]+/gi,
  /(?<=[?&](?:api_?)?key=)[^&\s"']+/gi,
];

function redact(text: string, secrets: readonly string[]): string {
  let safe = text;
  for (const secret of secrets) {
    if (secret.length >= SECRET_LENGTH_MIN && safe.includes(secret)) safe = safe.replaceAll(secret, MASK);
  }
  for (const shape of KEY_SHAPES) safe = safe.replace(shape, MASK);
  return safe;
}

function readRetryAfter(facts: ErrorFacts, now: () => number): number | undefined {
  const ms = Number.parseFloat(facts.headers["retry-after-ms"] ?? "");
  if (Number.isFinite(ms)) return Math.max(0, Math.round(ms));
  const after = facts.headers["retry-after"];
  if (after === undefined) return facts.retryDelayMs;
  const seconds = Number(after);
  if (after.trim() !== "" && Number.isFinite(seconds)) return Math.max(0, Math.round(seconds * 1_000));
  const moment = Date.parse(after);
  return Number.isFinite(moment) ? Math.max(0, moment - now()) : facts.retryDelayMs;
}

/** What an error tells, from any package, server or socket. */
interface ErrorFacts {
  /** Of an error response; a stream that broke after 200 has none. */
  readonly status: number | undefined;
  /** The provider's error codes, lower case. */
  readonly codes: string;
  readonly message: string;
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Names and system codes of the error and its causes. */
  readonly names: readonly string[];
  readonly causeCodes: readonly string[];
  /** A delay from the body instead of a header. */
  readonly retryDelayMs: number | undefined;
}

/** Never throws: that would hide the original error. */
function readErrorFacts(thrown: unknown): ErrorFacts {
  const chain = causesOf(thrown);
  const top = asRecord(thrown);
  const payload = findPayload(chain);
  const status = chain.map((error) => asStatus(error.statusCode ?? error.status)).find((found) => found !== undefined);
  const codes = [top.type, top.code, payload.type, payload.code, payload.status, ...detailReasons(payload)];
  return {
    status: status ?? asStatus(payload.code),
    codes: codes
      .filter((code) => typeof code === "string")
      .join(" ")
      .toLowerCase(),
    message: asText(payload.message) || bodyText(chain) || ownMessage(thrown),
    headers: asRecord(top.responseHeaders) as ErrorFacts["headers"], // the SDK types them as strings
    names: chain.map((error) => error.name).filter((name) => typeof name === "string"),
    causeCodes: chain.map((error) => error.code).filter((code) => typeof code === "string"),
    retryDelayMs: retryDelay(payload),
  };
}

const CAUSES_MAX = 6;

function causesOf(thrown: unknown): readonly Loose[] {
  const chain: Loose[] = [];
  let current: unknown = thrown;
  while (typeof current === "object" && current !== null && chain.length < CAUSES_MAX) {
    const error = current as Loose; // any object may be read by name
    chain.push(error);
    current = error.cause;
  }
  return chain;
}

/** The provider's error object: parsed by the SDK, in the body, or in a stream chunk. */
function findPayload(chain: readonly Loose[]): Loose {
  for (const error of chain) {
    for (const holder of [error.data, parseBody(error.responseBody), error.value, error]) {
      const found = unwrap(holder);
      if (found !== undefined) return found;
    }
  }
  return {};
}

function unwrap(holder: unknown): Loose | undefined {
  const record = asRecord(holder);
  const inner = record.error ?? asRecord(record.response).error ?? readDetail(record.detail);
  if (typeof inner === "string") return { message: inner };
  if (typeof inner === "object" && inner !== null) return inner as Loose; // any object may be read by name
  const looksLikeError = typeof record.message === "string" && !(holder instanceof Error);
  return looksLikeError ? record : undefined;
}

/** FastAPI servers use `detail`: a text, a list with one row per field, or an object. */
function readDetail(detail: unknown): unknown {
  if (!Array.isArray(detail)) return asRecord(detail).error ?? detail;
  return detail.flatMap((row) => asRecord(row).msg ?? []).join("; ");
}

const BODY_LENGTH_MAX = 100_000;

function parseBody(body: unknown): unknown {
  if (typeof body !== "string" || body.length > BODY_LENGTH_MAX) return undefined;
  try {
    const parsed: unknown = JSON.parse(body);
    // Gemini answers some errors with a list of one.
    return Array.isArray(parsed) ? parsed[0] : parsed;
  } catch {
    return undefined;
  }
}

export function asText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A body of unknown form; web pages are ignored. */
function bodyText(chain: readonly Loose[]): string {
  const body =
    chain
      .map((error) => error.responseBody)
      .find((found) => typeof found === "string")
      ?.trim() ?? "";
  return body.startsWith("<") ? "" : body;
}

function ownMessage(thrown: unknown): string {
  if (typeof thrown === "string") return thrown;
  const top = asRecord(thrown);
  const own = typeof top.message === "string" ? top.message : "";
  const cause = asRecord(top.cause).message;
  const isVague = own === "" || /^(?:fetch failed|terminated|failed to process)/i.test(own);
  return isVague && typeof cause === "string" && cause !== "" ? [own, cause].filter(Boolean).join(": ") : own;
}

function detailReasons(payload: Loose): readonly unknown[] {
  return Array.isArray(payload.details) ? payload.details.map((detail) => asRecord(detail).reason) : [];
}

/** Gemini's RetryInfo, such as "38s". */
function retryDelay(payload: Loose): number | undefined {
  if (!Array.isArray(payload.details)) return undefined;
  for (const detail of payload.details) {
    const delay = asRecord(detail).retryDelay;
    const seconds = typeof delay === "string" ? Number.parseFloat(delay) : Number.NaN;
    if (Number.isFinite(seconds)) return Math.max(0, Math.round(seconds * 1_000));
  }
  return undefined;
}

function asStatus(value: unknown): number | undefined {
  const status = typeof value === "string" && /^\d{3}$/.test(value) ? Number(value) : value;
  return typeof status === "number" && Number.isInteger(status) && status >= 400 && status <= 599 ? status : undefined;
}
