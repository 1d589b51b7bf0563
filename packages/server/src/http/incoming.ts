import { isRecord } from "@rkat/core/contract/json";
/** The id of a request as it was written: a number beyond the exact ones must come back digit for digit. */
export type RequestId = string;

export type Incoming =
  | { readonly kind: "request"; readonly id: RequestId; readonly method: string; readonly params: unknown }
  | { readonly kind: "notification"; readonly method: string; readonly params: unknown }
  | { readonly kind: "response"; readonly id: unknown; readonly answer: Answer }
  | { readonly kind: "fault"; readonly id: RequestId; readonly fault: Fault };

export type Answer = { readonly result: unknown } | { readonly error: unknown };

/** A line that is not a request, with the error code of JSON-RPC. */
export interface Fault {
  readonly code: "PARSE_ERROR" | "INVALID_REQUEST" | "INVALID_PARAMS";
  readonly message: string;
}

export const NO_ID: RequestId = "null";

/** Deeper values would overflow the stack; the reference server has the same limit. */
export const DEPTH_MAX = 128;
const VALUES_MAX = 250_000;

/** Reads a line; undefined when it is blank. It does not throw. */
export function parseIncoming(bytes: Uint8Array): Incoming | undefined {
  const text = decode(bytes);
  if (text === undefined) return parseFault("the line is not UTF-8");
  if (text.trim() === "") return undefined;
  const excess = excessOf(text);
  if (excess !== undefined) return tooMuch(text, `the line ${excess}`);
  const parsed = parseJson(text);
  if ("problem" in parsed) return parseFault(`the line is not JSON: ${parsed.problem}`);
  return classify(parsed.value, text);
}

function classify(value: unknown, text: string): Incoming {
  if (Array.isArray(value)) return invalid(NO_ID, "batches are not served: send one request a line");
  if (!isRecord(value)) return invalid(NO_ID, "a request is an object");
  const { jsonrpc, id, method, params } = value;
  const isAnswer = method === undefined && ("result" in value || "error" in value);
  if (isAnswer)
    return { kind: "response", id, answer: "error" in value ? { error: value.error } : { result: value.result } };
  const requestId = idText(id, text);
  if (requestId === undefined) return invalid(NO_ID, "id: expected a string or a number");
  if (jsonrpc !== "2.0") return invalid(requestId, 'jsonrpc: expected "2.0"');
  if (typeof method !== "string") return invalid(requestId, "method: expected a string");
  if (typeof params !== "object" && params !== undefined) return invalid(requestId, "params: expected an object");
  if ("id" in value) return { kind: "request", id: requestId, method, params };
  return { kind: "notification", method, params };
}

function parseFault(message: string): Incoming {
  return { kind: "fault", id: NO_ID, fault: { code: "PARSE_ERROR", message } };
}

/** Where clients write it, in front of what is too much to be parsed. */
const LEADING_ID = /^\{"jsonrpc": ?"2\.0", ?"id": ?(\d{1,15}|"[\w-]{1,64}"),/;

/** The fault with the request's id where it can be read, since the client waits for it. */
function tooMuch(text: string, message: string): Incoming {
  const [, id] = LEADING_ID.exec(text) ?? [];
  return id === undefined ? parseFault(message) : { kind: "fault", id, fault: { code: "INVALID_PARAMS", message } };
}

function invalid(id: RequestId, message: string): Incoming {
  return { kind: "fault", id, fault: { code: "INVALID_REQUEST", message } };
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

function decode(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

function parseJson(text: string): { readonly value: unknown } | { readonly problem: string } {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (thrown) {
    return { problem: thrown instanceof Error ? thrown.message : String(thrown) };
  }
}

/**
 * What a JSON text has too much of, in words; undefined when it may be parsed. Sixteen megabytes of empty lists would be
 * hundreds of megabytes once they are values. Marks in strings do not count; what is no JSON is left for the parser to refuse.
 */
export function excessOf(text: string): string | undefined {
  let depth = 0;
  let values = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at += 1) {
    const mark = text[at];
    if (isInString) {
      if (mark === "\\") at += 1;
      else isInString = mark !== '"';
      continue;
    }
    if (mark === '"') isInString = true;
    else if (mark === ",") values += 1;
    else if (mark === "[" || mark === "{") {
      depth += 1;
      values += 1;
    } else if (mark === "]" || mark === "}") depth -= 1;
    if (depth > DEPTH_MAX) return `is nested deeper than ${DEPTH_MAX}`;
    if (values > VALUES_MAX) return `holds more than ${VALUES_MAX} values`;
  }
  return undefined;
}

/** The id as it is to be echoed; undefined when it is of no kind an id may be. */
function idText(id: unknown, text: string): RequestId | undefined {
  if (id === undefined || id === null) return NO_ID;
  if (typeof id === "string" || Number.isSafeInteger(id)) return JSON.stringify(id);
  return typeof id === "number" ? sourceOfId(text) : undefined;
}

// Node hands a reviver the source of a number; the compiler's library does not know of it yet.
const parseWithSource = JSON.parse as (
  text: string,
  reviver: (this: unknown, key: string, value: unknown, context: { readonly source?: string }) => unknown,
) => unknown;

/** The digits of the top-level id, which a number of this language may have rounded. */
function sourceOfId(text: string): RequestId | undefined {
  const sources = new Map<unknown, string | undefined>();
  const root = parseWithSource(text, function (key, value, { source }) {
    if (key === "id") sources.set(this, source);
    return value;
  });
  return sources.get(root);
}
