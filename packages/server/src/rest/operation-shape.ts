import { invalid } from "@rkat/core/contract/error";
import { isRecord } from "@rkat/core/contract/json";
import { type OperationName, operationOf } from "@rkat/core/contract/operations";
import { type JsonSchema, operationSchema } from "@rkat/core/contract/wire/requests";
import { fieldsOf } from "../http/body.ts";
import { withPlainIds, withSessionRefs } from "../http/events.ts";
import type { RestRequest } from "../http/router.ts";

type Fields = Readonly<Record<string, unknown>>;

/** How an operation's input is spread over a request. */
export interface InputPlaces {
  readonly method: string;
  readonly path: string;
  readonly inPath: Readonly<Record<string, JsonSchema>>;
  readonly inQuery: Readonly<Record<string, JsonSchema>>;
  readonly inBody: Readonly<Record<string, JsonSchema>>;
  readonly required: readonly string[];
  /** Whether the session is an object that names it, as that of events is. */
  readonly hasScope: boolean;
}

const WITH_BODY: readonly string[] = ["POST", "PUT", "PATCH"];
const LABEL: JsonSchema = { type: "array", items: { type: "string" }, description: "key=value; may be repeated" };
const SEQUENCE: JsonSchema = { type: "integer", minimum: 0, description: "only events after this one" };
const SESSION_ID: JsonSchema = { type: "string", format: "uuid", description: "the session, by its id" };

/** Where the fields of an operation's input stand. What a query cannot hold has a form of its own there. */
export function inputPlaces(name: OperationName): InputPlaces {
  const [method = "", path = ""] = operationOf(name).http.split(" ");
  const { properties = {}, required = [] } = operationSchema(name, "input");
  const { scope, labels, cursor, ...plain } = properties;
  const all: Readonly<Record<string, JsonSchema>> = {
    // The scope of events is an object that names their session; that of a search is a word.
    ...(scope === undefined ? {} : scope.type === "object" ? { session_id: SESSION_ID } : { scope }),
    // And so is the cursor of events; that of a list is a word.
    ...(cursor === undefined ? {} : { cursor: cursor.type === "object" ? SEQUENCE : cursor }),
    ...(labels === undefined ? {} : method === "GET" ? { label: LABEL } : { labels }),
    ...plain,
  };
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, field = ""]) => field);
  const rest = without(all, names);
  const hasBody = WITH_BODY.includes(method);
  return {
    method,
    path,
    inPath: Object.fromEntries(names.map((field) => [field, all[field] ?? { type: "string" }])),
    inQuery: hasBody ? {} : rest,
    inBody: hasBody ? rest : {},
    required,
    hasScope: scope?.type === "object",
  };
}

/** Makes the input of an operation from a request; throws INVALID_PARAMS for what the request has no place for. */
export function createInputReader(name: OperationName, realm: string): (request: RestRequest) => Fields {
  let places: InputPlaces | undefined;
  return ({ params, query, body }) => {
    // Only what is called is looked up: all of it would be felt at the start.
    places ??= inputPlaces(name);
    const { method, inPath, inQuery } = places;
    const fromPath = withPlainIds(convertAll(params, inPath), realm);
    const fromBody = withPlainIds(fieldsOf(body), realm);
    for (const [field, value] of Object.entries(fromPath)) requireSame(field, fromBody[field], value);
    const stray = WITH_BODY.includes(method) ? undefined : Object.keys(fromBody).find((field) => !(field in inPath));
    if (stray !== undefined) throw invalid(`${stray}: write it in the query, not in a body`);
    const fromQuery = readQuery(query, inQuery);
    return inWireForm(places, { ...fromBody, ...withPlainIds(fromQuery, realm), ...fromPath });
  };
}

function requireSame(field: string, inBody: unknown, inPath: unknown): void {
  if (inBody === undefined || inBody === inPath) return;
  const message = `${field}: the body has ${JSON.stringify(inBody)} and the path ${JSON.stringify(inPath)}`;
  throw invalid(message);
}

/** Throws INVALID_PARAMS unless the query's names are known, and each is there once. */
export function readQuery(query: URLSearchParams, known: Readonly<Record<string, JsonSchema>>): Fields {
  const names = [...new Set(query.keys())];
  const unknown = names.find((name) => !Object.hasOwn(known, name));
  if (unknown !== undefined) {
    const allowed = Object.keys(known);
    const hint = allowed.length === 0 ? "this route takes none" : `there are ${allowed.join(", ")}`;
    throw invalid(`${unknown}: there is no such query parameter; ${hint}`);
  }
  const repeated = names.find((name) => known[name]?.type !== "array" && query.getAll(name).length > 1);
  if (repeated !== undefined) throw invalid(`${repeated}: write it once`);
  const values = names.map((name) => [name, known[name]?.type === "array" ? query.getAll(name) : query.get(name)]);
  return convertAll(Object.fromEntries(values), known);
}

function convertAll(values: Fields, schemas: Readonly<Record<string, JsonSchema>>): Fields {
  return Object.fromEntries(
    Object.entries(values).map(([field, value]) => [field, convert(value, schemas[field]?.type)]),
  );
}

/** A text as what the schema wants; one that is nothing of the kind is left for the schema to refuse. */
function convert(value: unknown, type: JsonSchema["type"]): unknown {
  if (typeof value !== "string") return value;
  const isNumber = type === "integer" || type === "number";
  if (isNumber && /^-?\d+(?:\.\d+)?$/.test(value)) return Number(value);
  if (type === "boolean" && /^(?:true|false)$/.test(value)) return value === "true";
  return value;
}

/** The fields as the operation's schema has them: labels as a map, a session's events by their scope. */
function inWireForm({ inQuery, hasScope }: InputPlaces, fields: Fields): Fields {
  if (hasScope) {
    const { session_id, cursor, ...rest } = fields;
    const scope = { type: "session", session_id };
    return { ...rest, scope, ...(cursor === undefined ? {} : { cursor: { scope, sequence: cursor } }) };
  }
  if (!("label" in inQuery && "label" in fields)) return fields;
  const { label, ...rest } = fields;
  return { ...rest, labels: labelsOf(label) };
}

function labelsOf(texts: unknown): Record<string, string> {
  const pairs = (Array.isArray(texts) ? texts : [texts]).map((text: unknown) => {
    const [key, ...value] = String(text).split("=");
    if (!key || value.length === 0) throw invalid("label: write it as key=value");
    return [key, value.join("=")] as const;
  });
  return Object.fromEntries(pairs);
}

function without<T>(fields: Readonly<Record<string, T>>, names: readonly string[]): Record<string, T> {
  return Object.fromEntries(Object.entries(fields).filter(([field]) => !names.includes(field)));
}

const TIMES = ["created_at", "updated_at"];

/** An operation's output as REST sends it: where it differs from the table, it is in these two functions. */
export function restShape(name: OperationName, output: unknown, context: { input: Fields; realm: string }): unknown {
  if (operationOf(name).namesSession && isRecord(output)) return { session_id: context.input.session_id, ...output };
  const reported = withSessionRefs(output, context.realm);
  if (name !== "readSession" || !isRecord(reported)) return reported;
  return { ...reported, ...Object.fromEntries(TIMES.map((field) => [field, rfc3339(reported[field])])) };
}

/** The schema of what {@link restShape} makes. */
export function restSchema(name: OperationName): JsonSchema {
  const schema = operationSchema(name, "output");
  const { properties = {}, required = [] } = schema;
  if (operationOf(name).namesSession) {
    const session_id = { type: "string", description: "the session" };
    return { ...schema, properties: { session_id, ...properties }, required: ["session_id", ...required] };
  }
  if (name !== "readSession") return schema;
  const times = Object.fromEntries(TIMES.map((field) => [field, timeSchema(properties[field])]));
  return { ...schema, properties: { ...properties, ...times } };
}

/** Said as the field is, but for the form. */
function timeSchema({ description }: JsonSchema = {}): JsonSchema {
  const words = typeof description === "string" ? description.replace(/, in seconds of Unix time$/, "") : "a moment";
  return { type: "string", format: "date-time", description: `${words}, in RFC 3339` };
}

function rfc3339(seconds: unknown): unknown {
  return typeof seconds === "number" ? new Date(seconds * 1_000).toISOString() : seconds;
}
