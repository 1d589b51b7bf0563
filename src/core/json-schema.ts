import type { OutputUnit } from "@cfworker/json-schema";
import { RuntimeError } from "../contract/error.ts";
import type { JsonObject } from "../contract/session.ts";

/** Checks a value; the sentences say what is wrong, none when it fits. */
export type SchemaCheck = (value: unknown) => readonly string[];

const PROBLEMS_MAX = 5;
const compiled = new WeakMap<JsonObject, SchemaCheck>();

/** Compiles a JSON schema once; rejects with INVALID_PARAMS when it is not one. */
export async function compileSchema(schema: JsonObject, what: string): Promise<SchemaCheck> {
  const known = compiled.get(schema);
  if (known !== undefined) return known;
  refuseUnknownTypes(schema, what);
  const { Validator } = await import("@cfworker/json-schema");
  try {
    const validator = new Validator(schema, "2020-12", false);
    validator.validate(null); // A reference that leads nowhere shows only when it is followed.
    const check: SchemaCheck = (value) => {
      const { valid, errors } = validator.validate(value);
      return valid ? [] : describe(errors);
    };
    compiled.set(schema, check);
    return check;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split("\n")[0] : String(cause);
    throw new RuntimeError("INVALID_PARAMS", `${what} is not a usable JSON schema: ${reason}`, { cause });
  }
}

const TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"];
const DEPTH_MAX = 64;

/** A misspelt type would match nothing and be blamed on every value; it is refused where it stands. */
function refuseUnknownTypes(schema: unknown, what: string, depth = 0): void {
  if (typeof schema !== "object" || schema === null) return;
  if (depth > DEPTH_MAX) throw new RuntimeError("INVALID_PARAMS", `${what} is nested deeper than ${DEPTH_MAX} levels`);
  for (const [key, value] of Object.entries(schema)) {
    // Under these keys stand names and values of the user's own, not keywords.
    if (key === "enum" || key === "const" || key === "default" || key === "examples") continue;
    if (key === "properties" || key === "patternProperties" || key === "$defs" || key === "definitions") {
      for (const nested of Object.values(value ?? {})) refuseUnknownTypes(nested, what, depth + 1);
      continue;
    }
    const types = key === "type" ? [value].flat() : [];
    const unknown = types.find((type) => !TYPES.includes(type as string)); // `includes` only compares.
    if (unknown !== undefined) {
      const message = `${what} is not a usable JSON schema: type ${JSON.stringify(unknown)} is none of ${TYPES.join(", ")}`;
      throw new RuntimeError("INVALID_PARAMS", message);
    }
    refuseUnknownTypes(value, what, depth + 1);
  }
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
        .replace(/^Property ("[^"]*") does not match additional properties schema/, "has the unknown property $1")
        .replace(/\.$/, "");
      return `${where} ${sentence}`;
    });
}
