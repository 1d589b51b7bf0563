import type { OutputUnit } from "@cfworker/json-schema";
import { invalid, messageOf, type RuntimeError } from "../contract/error.ts";
import { isRecord } from "../contract/json.ts";
import type { JsonObject } from "../contract/session.ts";

/** Checks a value; returns one sentence per problem. */
export type SchemaCheck = (value: unknown) => Promise<readonly string[]>;

/** The problems of a value, or why they cannot be determined. */
export type Verdict = { readonly problems: readonly string[] } | { readonly fault: string };

/** Checks a value in a worker that can be stopped: a pattern of ten characters can run forever. */
export type CheckInWorker = (schema: JsonObject, value: unknown) => Promise<Verdict>;

const PROBLEMS_MAX = 5;
const sound = new WeakSet<JsonObject>();
const compiled = new WeakMap<JsonObject, SchemaCheck>();

/** Throws INVALID_PARAMS for an invalid JSON schema; each schema is examined once. */
export function requireSound(schema: JsonObject, what: string): void {
  if (sound.has(schema)) return;
  const fault = schemaFault(schema);
  if (fault !== undefined) throw unusable(what, fault);
  sound.add(schema);
}

/** Compiles a JSON schema once; rejects with INVALID_PARAMS if it is invalid. */
export async function compileSchema(
  schema: JsonObject,
  what: string,
  checkInWorker: CheckInWorker,
): Promise<SchemaCheck> {
  const known = compiled.get(schema);
  if (known !== undefined) return known;
  requireSound(schema, what);
  const validate = isBounded(schema) ? await createValidator(schema) : (value: unknown) => checkInWorker(schema, value);
  const first = await validate(null); // A schema that refers to itself and nothing else has no end.
  if ("fault" in first) throw unusable(what, first.fault);
  const check: SchemaCheck = async (value) => {
    const verdict = await validate(value);
    return "fault" in verdict ? [`cannot be checked: ${verdict.fault}`] : verdict.problems;
  };
  compiled.set(schema, check);
  return check;
}

/** Checks values in this thread, however long that takes. */
export async function createValidator(schema: JsonObject): Promise<(value: unknown) => Verdict> {
  const { Validator } = await import("@cfworker/json-schema");
  try {
    // A copy: the validator modifies its schema.
    const validator = new Validator(structuredClone(schema), "2020-12", false);
    return (value) => {
      try {
        const { valid, errors } = validator.validate(value);
        return { problems: valid ? [] : describe(errors) };
      } catch (thrown) {
        return { fault: faultOf(thrown) };
      }
    };
  } catch (thrown) {
    return () => ({ fault: faultOf(thrown) });
  }
}

/** The validator's messages continue with a list of every schema it knows. */
function faultOf(thrown: unknown): string {
  if (thrown instanceof RangeError) return "it refers to itself endlessly";
  return messageOf(thrown).split("\n", 1).join("");
}

function unusable(what: string, problem: string): RuntimeError {
  return invalid(`${what} is not a usable JSON schema: ${problem}`);
}

/** Keywords that allow unbounded work: backtracking patterns, reference cycles, pairwise comparison. */
const ENDLESS = ["pattern", "patternProperties", "format", "uniqueItems", "$ref", "$dynamicRef", "$recursiveRef"];

/** Whether the cost of a check is linear in schema and value. */
function isBounded(root: JsonObject): boolean {
  return [...schemasIn(root).keys()].every((schema) => ENDLESS.every((keyword) => schema[keyword] === undefined));
}

/** Keywords whose errors only repeat an error inside them. */
const WRAPPERS = ["properties", "items", "prefixItems", "$ref", "allOf", "false"];

function describe(errors: readonly OutputUnit[]): readonly string[] {
  return errors
    .filter((error) => !WRAPPERS.includes(error.keyword))
    .slice(0, PROBLEMS_MAX)
    .map(({ instanceLocation, error }) => {
      const where = instanceLocation === "#" ? "the value" : instanceLocation.slice(2).replaceAll("/", ".");
      const sentence = error
        .replace(/^Instance /, "")
        .replace(/^type "(\w+)" is invalid\. Expected "?([^".]+)"?\.$/, "is a $1, expected $2")
        .replace(/^is a (?=[aeiou])/, "is an ")
        .replace(/^Property ("[^"]*") does not match additional properties schema/, "has the unknown property $1")
        .replace(/\.$/, "");
      return `${where} ${sentence}`;
    });
}

const DEPTH_MAX = 64;

/**
 * Why a JSON schema cannot be used; undefined if it can. Found here, the author gets a sentence; found while checking a
 * value, it has cost a model call and is blamed on the value.
 */
function schemaFault(root: JsonObject): string | undefined {
  const depths = schemasIn(root);
  for (const [schema, depth] of depths) {
    if (depth > DEPTH_MAX) return `it is nested deeper than ${DEPTH_MAX} levels`;
    const fault = keywordFault(schema);
    if (fault !== undefined) return fault;
    const none = nestedIn(schema).find(({ value }) => typeof value !== "boolean" && !isRecord(value));
    if (none !== undefined) return `${none.keyword} has ${JSON.stringify(none.value)} where a schema is expected`;
  }
  const schemas = [...depths.keys()];
  const references = schemas.flatMap(({ $ref }) => ($ref === undefined ? [] : [String($ref)]));
  // A nested `$id` changes the base of references, which only the validator tracks.
  if (schemas.some((schema) => schema !== root && schema.$id !== undefined)) return undefined;
  const lost = references.find((reference) => !leadsSomewhere(reference, root, schemas));
  return lost === undefined ? undefined : `reference ${JSON.stringify(lost)} leads nowhere`;
}

/** A schema and all nested ones with their depth, up to a limit. */
function schemasIn(root: JsonObject): ReadonlyMap<JsonObject, number> {
  const depths = new Map<JsonObject, number>([[root, 0]]);
  // The map grows while it is read: the loop ends with the last nested schema.
  for (const [schema, depth] of depths) {
    if (depth > DEPTH_MAX) break;
    for (const { value } of nestedIn(schema)) if (isRecord(value) && !depths.has(value)) depths.set(value, depth + 1);
  }
  return depths;
}

const TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"];
const LISTS = ["enum", "required", "allOf", "anyOf", "oneOf", "prefixItems"];
/** Keywords that map user-defined names to schemas. */
const TABLES = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

function keywordFault(schema: JsonObject): string | undefined {
  // `includes` only compares.
  const unknown = [schema.type].flat().find((type) => type !== undefined && !TYPES.includes(type as string));
  if (unknown !== undefined) return `type ${JSON.stringify(unknown)} is none of ${TYPES.join(", ")}`;
  const list = LISTS.find((keyword) => schema[keyword] !== undefined && !Array.isArray(schema[keyword]));
  if (list !== undefined) return `${list} is no list`;
  const table = TABLES.find((keyword) => schema[keyword] !== undefined && !isRecord(schema[keyword]));
  if (table !== undefined) return `${table} is not a map of schemas`;
  const pattern = patternsOf(schema).find((source) => !isPattern(source));
  return pattern === undefined ? undefined : `pattern ${JSON.stringify(pattern)} is not a regular expression`;
}

function patternsOf({ pattern, patternProperties }: JsonObject): readonly string[] {
  return [...(pattern === undefined ? [] : [String(pattern)]), ...Object.keys(patternProperties ?? {})];
}

function isPattern(source: string): boolean {
  try {
    new RegExp(source, "u");
    return true;
  } catch {
    return false;
  }
}

const HOLDERS = [
  ...["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "propertyNames"],
  ...["prefixItems", "items", "additionalItems", "unevaluatedItems", "contains"],
  ...["additionalProperties", "unevaluatedProperties"],
];

/** The values in schema positions directly below a schema. */
function nestedIn(schema: JsonObject): readonly { readonly keyword: string; readonly value: unknown }[] {
  return Object.entries(schema).flatMap(([keyword, held]) => {
    if (held === undefined) return [];
    if (HOLDERS.includes(keyword)) return [held].flat().map((value) => ({ keyword, value }));
    if (!TABLES.includes(keyword)) return [];
    const values = Object.values(held ?? {});
    // An older keyword, which may also hold a list of names.
    const schemas = keyword === "dependencies" ? values.filter((value) => !Array.isArray(value)) : values;
    return schemas.map((value) => ({ keyword, value }));
  });
}

function leadsSomewhere(reference: string, root: JsonObject, schemas: readonly JsonObject[]): boolean {
  if (reference === "#") return true;
  if (reference.startsWith("#/")) return at(root, reference) !== undefined;
  if (reference.startsWith("#")) return schemas.some((schema) => schema.$anchor === reference.slice(1));
  return root.$id !== undefined;
}

/** The value that a JSON pointer names, if any. */
function at(root: JsonObject, reference: string): unknown {
  let value: unknown = root;
  for (const step of reference.slice(2).split("/")) {
    const key = decoded(step).replaceAll("~1", "/").replaceAll("~0", "~");
    value = Object.entries(value ?? {}).find(([name]) => name === key)?.[1];
  }
  return value;
}

function decoded(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step; // A bare per cent sign stands for itself.
  }
}
