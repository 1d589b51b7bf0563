import { RuntimeError } from "../../contract/error.ts";
import type { OperationName } from "../../contract/operations.ts";
import { WIRE_TABLE } from "../../contract/wire-table.ts";
import { type Fields, isRecord, jsonOf } from "../fields.ts";

/** What is sent for an operation. */
export interface HttpRequest {
  readonly method: string;
  /** With its query. */
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
  throw new RuntimeError("INVALID_PARAMS", `labels: over HTTP a label with = in its name, ${key}, cannot be asked for`);
}
