import { asRecord, type Loose } from "./wire/loose-record.ts";

/** What can be read off an error, whichever package, server or socket it came from. */
export interface ErrorFacts {
  /** Of a response that was refused; a stream that broke after 200 has none. */
  readonly status: number | undefined;
  /** The provider's own words for the kind of error, lower case. */
  readonly codes: string;
  readonly message: string;
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Names and system codes of the error and its causes. */
  readonly names: readonly string[];
  readonly causeCodes: readonly string[];
  /** A wait that the body, not a header, asks for. */
  readonly retryDelayMs: number | undefined;
}

/** Never throws: an error about an error would hide the first one. */
export function readErrorFacts(thrown: unknown): ErrorFacts {
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
    message: textOf(payload.message) || bodyText(chain) || ownMessage(thrown),
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

/** The provider's error object: parsed by the SDK, or inside the body, or what a stream chunk held. */
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

/** FastAPI's servers say in `detail` what is wrong: in words, in a list with a row a field, or in an object. */
function readDetail(detail: unknown): unknown {
  if (!Array.isArray(detail)) return asRecord(detail).error ?? detail;
  return detail.flatMap((row) => asRecord(row).msg ?? []).join("; ");
}

const BODY_LENGTH_MAX = 100_000;

function parseBody(body: unknown): unknown {
  if (typeof body !== "string" || body.length > BODY_LENGTH_MAX) return undefined;
  try {
    const parsed: unknown = JSON.parse(body);
    // Gemini answers some refusals with a list of one.
    return Array.isArray(parsed) ? parsed[0] : parsed;
  } catch {
    return undefined;
  }
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** What a server said in a form we do not know; the text of a web page is for browsers. */
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
