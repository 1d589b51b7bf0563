import { invalid, messageOf, type RuntimeError } from "../contract/error.ts";
import type { JsonObject } from "../contract/session.ts";

/** The part of Standard Schema 1 (standardschema.dev) that is used; zod, Valibot, ArkType and others implement it. */
export interface StandardSchema<Output = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
    readonly validate?: (value: unknown) => Validated<Output> | Promise<Validated<Output>>;
    /** Standard JSON Schema. */
    readonly jsonSchema?: { readonly input: (options: { readonly target: string }) => JsonObject };
  };
}

type Validated<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

export function isStandard(schema: unknown): schema is StandardSchema {
  return schema instanceof Object && "~standard" in schema && schema["~standard"] instanceof Object;
}

/** The JSON schema of what a schema reads; throws INVALID_PARAMS, naming the option, if it cannot be written as one. */
export function jsonSchemaOf(name: string, schema: StandardSchema): JsonObject {
  const { jsonSchema, vendor } = schema["~standard"];
  if (jsonSchema === undefined) throw notJson(name, vendor, "it does not implement Standard JSON Schema");
  try {
    const made: unknown = jsonSchema.input({ target: "draft-2020-12" });
    // A promise or a list would become a schema that accepts anything.
    if (Object.getPrototypeOf(made) !== Object.prototype) throw new TypeError("its JSON schema gives no object");
    // A validator that does not know the dialect's address rejects the whole schema.
    const { $schema: _dialect, ...written } = made as JsonObject; // A plain object, by the line above.
    return written;
  } catch (cause) {
    throw notJson(name, vendor, messageOf(cause), cause);
  }
}

function notJson(name: string, vendor: string, why: string, cause?: unknown): RuntimeError {
  return invalid(
    `${name}: this ${vendor} schema cannot be written as a JSON schema: ${why}; give the JSON schema`,
    cause,
  );
}

/** A value as a schema reads it, or a sentence on what it refuses; one that only describes reads everything. */
export async function readBy<Output>(
  schema: StandardSchema<Output>,
  value: unknown,
): Promise<{ readonly value: Output } | { readonly problem: string }> {
  const read = await schema["~standard"].validate?.(value);
  if (read === undefined) return { value: value as Output }; // Its JSON schema was checked before.
  if (read.issues === undefined) return { value: read.value };
  return { problem: read.issues.map(issueText).join("; ") };
}

function issueText({ message, path = [] }: Issue): string {
  const keys = path.map((part) => String(typeof part === "object" ? part.key : part));
  return keys.length === 0 ? message : `${keys.join(".")}: ${message}`;
}
