import type { OutputUnit } from "@cfworker/json-schema";
import { messageOf, RuntimeError } from "../contract/error.ts";
import type { JsonObject } from "../contract/session.ts";

/** Checks a value; the sentences say what is wrong, none when it fits. */
export type SchemaCheck = (value: unknown) => readonly string[];

const PROBLEMS_MAX = 5;
const sound = new WeakSet<JsonObject>();
const compiled = new WeakMap<JsonObject, SchemaCheck>();

/** Throws INVALID_PARAMS when a JSON schema is none; each is looked at once. */
export function requireSound(schema: JsonObject, what: string): void {
  if (sound.has(schema)) return;
  const fault = schemaFault(schema);
  if (fault !== undefined) throw unusable(what, fault);
  sound.add(schema);
}

/** Compiles a JSON schema once; rejects with INVALID_PARAMS when it is not one. */
export async function compileSchema(schema: JsonObject, what: string): Promise<SchemaCheck> {
  const known = compiled.get(schema);
  if (known !== undefined) return known;
  requireSound(schema, what);
  const { Validator } = await import("@cfworker/json-schema");
  try {
    // A copy: the validator writes into what it is given.
    const validator = new Validator(structuredClone(schema), "2020-12", false);
    validator.validate(null); // A schema that refers to itself and nothing else has no end.
    const check: SchemaCheck = (value) => {
      try {
        const { valid, errors } = validator.validate(value);
        return valid ? [] : describe(errors);
      } catch (thrown) {
        return [`cannot be checked: ${firstLine(thrown)}`];
      }
    };
    compiled.set(schema, check);
    return check;
  } catch (cause) {
    throw unusable(what, firstLine(cause), cause);
  }
}

function unusable(what: string, problem: string, cause?: unknown): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", `${what} is not a usable JSON schema: ${problem}`, { cause });
}

/** The validator's messages go on to list every schema it knows. */
function firstLine(thrown: unknown): string {
  return messageOf(thrown).split("\n", 1).join("");
}

/** Keywords that only say that something inside them failed, which says so itself. */
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
 * What makes a JSON schema unusable, in words; undefined when nothing does. Found here, a fault costs its author a
 * sentence; found while a value is checked, it has cost a model call and is blamed on the value.
 */
function schemaFault(root: JsonObject): string | undefined {
  const depths = new Map<JsonObject, number>([[root, 0]]);
  const references: string[] = [];
  // The map grows while it is read, by what each schema holds: the loop ends with the last of them.
  for (const [schema, depth] of depths) {
    if (depth > DEPTH_MAX) return `it is nested deeper than ${DEPTH_MAX} levels`;
    const fault = keywordFault(schema);
    if (fault !== undefined) return fault;
    if (schema.$ref !== undefined) references.push(String(schema.$ref));
    for (const { keyword, value } of nestedIn(schema)) {
      if (typeof value === "boolean") continue;
      if (!isObject(value)) return `${keyword} has ${JSON.stringify(value)} where a schema should stand`;
      if (!depths.has(value)) depths.set(value, depth + 1);
    }
  }
  const schemas = [...depths.keys()];
  // A schema with an address of its own is a base for references, which the validator alone keeps account of.
  if (schemas.some((schema) => schema !== root && schema.$id !== undefined)) return undefined;
  const lost = references.find((reference) => !leadsSomewhere(reference, root, schemas));
  return lost === undefined ? undefined : `reference ${JSON.stringify(lost)} leads nowhere`;
}

const TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"];
const LISTS = ["enum", "required", "allOf", "anyOf", "oneOf", "prefixItems"];
/** Under these keywords stand names of the user's own, each with a schema. */
const TABLES = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

function keywordFault(schema: JsonObject): string | undefined {
  // `includes` only compares.
  const unknown = [schema.type].flat().find((type) => type !== undefined && !TYPES.includes(type as string));
  if (unknown !== undefined) return `type ${JSON.stringify(unknown)} is none of ${TYPES.join(", ")}`;
  const list = LISTS.find((keyword) => schema[keyword] !== undefined && !Array.isArray(schema[keyword]));
  if (list !== undefined) return `${list} is no list`;
  const table = TABLES.find((keyword) => schema[keyword] !== undefined && !isObject(schema[keyword]));
  if (table !== undefined) return `${table} is no table of schemas`;
  const pattern = patternsOf(schema).find((source) => !isPattern(source));
  return pattern === undefined ? undefined : `pattern ${JSON.stringify(pattern)} is no regular expression`;
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

/** What stands where a schema should, directly below a schema. */
function nestedIn(schema: JsonObject): readonly { readonly keyword: string; readonly value: unknown }[] {
  return Object.entries(schema).flatMap(([keyword, held]) => {
    if (held === undefined) return [];
    if (HOLDERS.includes(keyword)) return [held].flat().map((value) => ({ keyword, value }));
    if (!TABLES.includes(keyword)) return [];
    const values = Object.values(held ?? {});
    // An older keyword, under which a list of names may stand as well.
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

/** The value a JSON pointer names; undefined when there is none. */
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

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
