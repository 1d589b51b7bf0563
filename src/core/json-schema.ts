import type { OutputUnit } from "@cfworker/json-schema";
import { messageOf, RuntimeError } from "../contract/error.ts";
import type { JsonObject } from "../contract/session.ts";
import { schemaFault } from "./schema-fault.ts";

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
