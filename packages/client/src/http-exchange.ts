import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import type { OperationName } from "@rkat/core/contract/operations";
import { WIRE_TABLE } from "@rkat/core/contract/wire/wire-table";
import { type Fields, isRecord, jsonOf, reportedError, sleep } from "./answers.ts";

export interface Exchange {
  readonly url: string;
  /** Resolves with the head of the answer, whatever its status. Its failures are sentences. */
  send(request: HttpRequest, how?: Sending): Promise<Response>;
  /** The JSON of an answer; throws the failure that it reports. */
  read(response: Response): Promise<unknown>;
}

interface Sending {
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export function createExchange({ url, token }: { url: string; token: string | undefined }): Exchange {
  const bearer = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return {
    url,
    send: async ({ method, path, body }, { headers, signal } = {}) => {
      const type = body === undefined ? {} : { "content-type": "application/json" };
      try {
        return await fetch(`${url}${path}`, {
          method,
          headers: { ...bearer, ...type, ...headers },
          ...(body === undefined ? {} : { body }),
          ...(signal === undefined ? {} : { signal }),
        });
      } catch (cause) {
        throw unreachable(url, cause);
      }
    },
    read: async (response) => {
      const body = parseJson(await bodyText(response, url));
      if (body === undefined) throw noJson(url, response);
      if (!response.ok) throw reportedError(body, url);
      return body;
    },
  };
}

async function bodyText(response: Response, url: string): Promise<string> {
  try {
    return await response.text();
  } catch (cause) {
    throw unreachable(url, cause);
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const FAULTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ENOTFOUND: "no machine has that name",
  EAI_AGAIN: "its name cannot be looked up",
  ECONNRESET: "the connection broke",
  UND_ERR_SOCKET: "the connection broke",
  EHOSTUNREACH: "that machine cannot be reached",
  ETIMEDOUT: "it does not answer",
  UND_ERR_CONNECT_TIMEOUT: "it does not answer",
};

/** `fetch` has the reason in its cause, and browsers hide it. */
function unreachable(url: string, cause: unknown): RuntimeError {
  const inner = cause instanceof Error ? cause.cause : undefined;
  const code = isRecord(inner) || inner instanceof Error ? Reflect.get(inner, "code") : undefined;
  const isPage = inner === undefined && cause instanceof TypeError;
  const advice = isPage ? "; is it running, and does it name this page with --allow-origin?" : "";
  const why = FAULTS[String(code)] ?? `${messageOf(inner ?? cause)}${advice}`;
  return new RuntimeError("AGENT_ERROR", `cannot reach ${url}: ${why}`, { cause });
}

function noJson(url: string, { status, headers }: Response): RuntimeError {
  const type = headers.get("content-type")?.split(";")[0] ?? "nothing";
  const advice = "is it the address of an rkat server?";
  return new RuntimeError("AGENT_ERROR", `${url} answered ${status} with ${type}, which is not JSON; ${advice}`);
}

export interface HttpRequest {
  readonly method: string;
  readonly path: string;
  readonly body?: string;
}

const WITH_BODY: readonly string[] = ["POST", "PUT", "PATCH"];

/** An operation's input spread over a request, as the server gathers it again; what is wrong with it, the server says. */
export function requestOf(name: OperationName, input: unknown): HttpRequest {
  const [method = "", pattern = ""] = WIRE_TABLE[name].http.split(" ");
  const fields = withoutScope(isRecord(input) ? input : {});
  const path = pattern.replaceAll(/\{(\w+)\}/g, (_, field: string) => segmentOf(field, fields[field]));
  const rest = Object.entries(fields).filter(
    ([field, value]) => value !== undefined && !pattern.includes(`{${field}}`),
  );
  if (WITH_BODY.includes(method)) return { method, path, body: jsonOf(Object.fromEntries(rest)) };
  const query = new URLSearchParams(rest.flatMap(([field, value]) => queryOf(field, value)));
  return { method, path: query.size === 0 ? path : `${path}?${query}` };
}

/** A session's events are asked for by its id and a number; elsewhere the two have a scope around them. */
function withoutScope({ scope, cursor, ...fields }: Fields): Fields {
  // The scope of a search is a word.
  if (!isRecord(scope)) return { ...fields, scope, cursor };
  return {
    ...fields,
    session_id: scope.session_id,
    cursor: isRecord(cursor) ? cursor.sequence : cursor,
  };
}

/** A path has no way to say that one of its parts is missing, and takes dots for a way up. */
function segmentOf(field: string, value: unknown): string {
  const text = typeof value === "number" ? String(value) : value;
  if (typeof text === "string" && text !== "" && !/^\.{1,2}$/.test(text)) return encodeURIComponent(text);
  const found = value === undefined ? "it is missing" : `${JSON.stringify(value)} is none`;
  throw new RuntimeError("INVALID_PARAMS", `${field}: ${found}`);
}

function queryOf(field: string, value: unknown): [string, string][] {
  if (field === "labels" && isRecord(value)) return Object.entries(value).map(labelOf);
  return [[field, typeof value === "string" ? value : jsonOf(value)]];
}

function labelOf([key, value]: [string, unknown]): [string, string] {
  if (!key.includes("=")) return ["label", `${key}=${value}`];
  throw new RuntimeError(
    "INVALID_PARAMS",
    `labels: over HTTP a label with = in its name, ${key}, cannot be used as a filter`,
  );
}

/** One event of a stream: its name, and what its data says. */
export interface ServerSentEvent {
  readonly type: string;
  readonly data: unknown;
}

/** The longest line that is held; the other wire's bound is the same. */
const LINE_CHARS_MAX = 64 * 1_024 * 1_024;
/** The server sends at least a comment every 15 s. */
const SILENCE_MS_MAX = 60_000;

export function isEventStream({ headers }: Response): boolean {
  return headers.get("content-type")?.startsWith("text/event-stream") === true;
}

/** The events of an answer as they come; ends with it, and throws when the connection breaks or falls silent. */
export async function* readServerSentEvents(response: Response, url: string): AsyncGenerator<ServerSentEvent> {
  let type = "message";
  let data: string[] = [];
  for await (const line of linesOf(response, url)) {
    if (line === "") {
      if (data.length > 0) yield { type, data: parseData(data.join("\n"), url) };
      type = "message";
      data = [];
      continue;
    }
    const { field, value } = fieldOf(line);
    if (field === "event") type = value;
    if (field === "data") data.push(value);
  }
}

function fieldOf(line: string): { readonly field: string; readonly value: string } {
  const colon = line.indexOf(":");
  if (colon < 0) return { field: line, value: "" };
  return { field: line.slice(0, colon), value: line.slice(colon + 1).replace(/^ /, "") };
}

function parseData(text: string, url: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new RuntimeError("AGENT_ERROR", `${url} sent an event that is not JSON`, { cause });
  }
}

async function* linesOf({ body }: Response, url: string): AsyncGenerator<string> {
  if (body === null) return;
  const reader = body.getReader();
  const decoder = new TextDecoder();
  // Pieces of a line are joined once it is whole: adding them up one by one would copy a long one over and over.
  let pieces: string[] = [];
  let heldChars = 0;
  try {
    for (;;) {
      const { done, value } = await readSoon(reader, url);
      if (done) return;
      const [first = "", ...rest] = decoder.decode(value, { stream: true }).split("\n");
      pieces.push(first);
      heldChars += first.length;
      if (heldChars > LINE_CHARS_MAX) throw new RuntimeError("PAYLOAD_TOO_LARGE", `${url} sent a line without an end`);
      for (const next of rest) {
        yield pieces.join("").replace(/\r$/, "");
        pieces = [next];
        heldChars = next.length;
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // The connection may be broken already.
  }
}

async function readSoon(reader: ReadableStreamDefaultReader<Uint8Array>, url: string) {
  const arrived = new AbortController();
  const silence = sleep(SILENCE_MS_MAX, arrived.signal).then(() => undefined);
  try {
    const next = await Promise.race([reader.read(), silence]);
    if (next !== undefined) return next;
  } catch (cause) {
    throw unreachable(url, cause);
  } finally {
    arrived.abort("arrived");
  }
  throw unreachable(url, new Error(`it has been silent for ${SILENCE_MS_MAX / 1_000} s`));
}
