import type { JsonObject } from "../contract/session.ts";

const DEPTH_MAX = 64;

/**
 * What makes a JSON schema unusable, in words; undefined when nothing does. Found here, a fault costs its author a
 * sentence; found while a value is checked, it has cost a model call and is blamed on the value.
 */
export function schemaFault(root: JsonObject): string | undefined {
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
