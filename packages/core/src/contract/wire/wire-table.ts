import type { core } from "zod";
import { UNSERVED } from "../input.ts";
import { OPERATION_NAMES, OPERATIONS, type OperationName, operationOf } from "../operations.ts";
import type { z } from "../schema.ts";
import { AT_CREATION } from "../session.ts";

type Written<S extends z.ZodType> = unknown extends z.input<S> ? z.output<S> : z.input<S>;
/** What a caller of an operation writes; where anything may be written, what is read of it. */
export type OperationWritten<N extends OperationName> = Written<(typeof OPERATIONS)[N]["input"]>;

/** The fields of an object by their names, and what is in them; null is a value, or a user's own data. */
export interface FieldNames {
  readonly [field: string]: FieldNames | null;
}

/** What a caller must know of an operation to ask for it; what is wrong with an input, the schemas say. */
interface WireRow {
  readonly rpc: string;
  readonly http: string;
  readonly method: string;
  readonly runsTurn: boolean;
  /** Whether a client may receive events while it waits for the answer. */
  readonly hasEvents: boolean;
  readonly fields: FieldNames;
  readonly required: readonly string[];
  /** The fields of the output, as far as TypeScript spells them in another way. */
  readonly answer: FieldNames | null;
}

/** Fields that are there for older clients alone: they are refused as soon as they ask for something. */
const FOR_OLDER_CLIENTS = { ...UNSERVED, skill_references: null, external_tools: null };
/** Fields that a turn may repeat and that change nothing of it. */
const SAID_AT_CREATION = { ...AT_CREATION, keep_alive: null };

/** Fields of the wire that are no options of the SDK. */
export type NoOption<N extends OperationName> =
  | keyof typeof FOR_OLDER_CLIENTS
  | (N extends "startTurn" | "resumeSession" ? keyof typeof SAID_AT_CREATION : never);

/** The table of operations without its schemas. The package is built with its value, so that no page loads them. */
export const WIRE_TABLE: Readonly<Record<OperationName, WireRow>> = Object.fromEntries(
  OPERATION_NAMES.map((name) => [name, rowOf(name)]),
) as Record<OperationName, WireRow>; // A row for each of them, by the line before.

function rowOf(name: OperationName): WireRow {
  const { rpc, http, input, output, method = name, runs } = operationOf(name);
  const schema = unwrap(input);
  if (schema.def.type !== "object") throw new Error(`the input of ${name} is no object`);
  const isTurn = input === OPERATIONS.startTurn.input;
  const hidden = { ...FOR_OLDER_CLIENTS, ...(isTurn ? SAID_AT_CREATION : {}) };
  const shape = Object.entries(schema.def.shape).filter(([field]) => !(field in hidden));
  return {
    rpc,
    http,
    method,
    runsTurn: runs === "turn",
    hasEvents: runs === "turn" || runs === "compaction",
    fields: Object.fromEntries(shape.map(([field, value]) => [field, namesIn(value)])),
    answer: spelled(outputNames(output)),
    required: shape.flatMap(([field, value]) => (value._zod.optin === undefined ? [field] : [])),
  };
}

/** The names an object's schema knows. What has one of several shapes, as a message has, keeps the wire's names. */
function namesIn(schema: core.$ZodType): FieldNames | null {
  const { def } = unwrap(schema);
  if (def.type === "array") return namesIn(def.element);
  if (def.type !== "object") return null;
  return Object.fromEntries(Object.entries(def.shape).map(([field, value]) => [field, namesIn(value)]));
}

/** The names of an output, which may be one of several objects. */
function outputNames(schema: core.$ZodType): FieldNames | null {
  const { def } = unwrap(schema);
  return def.type === "union" ? Object.assign({}, ...def.options.map(namesIn)) : namesIn(schema);
}

/** Without the fields that are written the same way. */
function spelled(fields: FieldNames | null): FieldNames | null {
  if (fields === null) return null;
  const inner = Object.entries(fields).map(([field, value]) => [field, spelled(value)] as const);
  const kept = inner.filter(([field, value]) => value !== null || field.includes("_"));
  return kept.length === 0 ? null : Object.fromEntries(kept);
}

/** A schema without what wraps it: what is optional, has a default, or is changed before or after it is read. */
function unwrap(schema: core.$ZodType): core.$ZodTypes["_zod"] {
  const inner = schema._zod as core.$ZodTypes["_zod"]; // Every schema is one of the library's kinds.
  const { def } = inner;
  if (def.type === "pipe") return unwrap(unwrap(def.in).def.type === "transform" ? def.out : def.in);
  return "innerType" in def ? unwrap(def.innerType) : inner;
}
