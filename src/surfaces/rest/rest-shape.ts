import type { OperationName } from "../../contract/operations.ts";
import { type JsonSchema, operationSchema } from "../../contract/rest/operation-schema.ts";
import { withSessionRefs } from "../rpc/operation-methods.ts";
import { isRecord } from "../wire/incoming.ts";

type Fields = Readonly<Record<string, unknown>>;

const TIMES = ["created_at", "updated_at"];
/** What answers only with what it did also says to which session. */
const NAMES_SESSION: readonly OperationName[] = ["interruptTurn", "archiveSession"];

/** An operation's output as REST sends it: where it differs from the table, it is in these two functions. */
export function restShape(name: OperationName, output: unknown, context: { input: Fields; realm: string }): unknown {
  if (NAMES_SESSION.includes(name) && isRecord(output)) return { session_id: context.input.session_id, ...output };
  const told = withSessionRefs(output, context.realm);
  if (name !== "readSession" || !isRecord(told)) return told;
  return { ...told, ...Object.fromEntries(TIMES.map((field) => [field, rfc3339(told[field])])) };
}

/** The schema of what {@link restShape} makes. */
export function restSchema(name: OperationName): JsonSchema {
  const schema = operationSchema(name, "output");
  const { properties = {}, required = [] } = schema;
  if (NAMES_SESSION.includes(name)) {
    const session_id = { type: "string" };
    return { ...schema, properties: { session_id, ...properties }, required: ["session_id", ...required] };
  }
  if (name !== "readSession") return schema;
  const times = Object.fromEntries(TIMES.map((field) => [field, { type: "string", format: "date-time" }]));
  return { ...schema, properties: { ...properties, ...times } };
}

function rfc3339(seconds: unknown): unknown {
  return typeof seconds === "number" ? new Date(seconds * 1_000).toISOString() : seconds;
}
