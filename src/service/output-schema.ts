import { messageOf, RuntimeError } from "../contract/error.ts";
import type { JsonObject } from "../contract/session.ts";

/** As much of Standard Schema 1 (standardschema.dev) as a result needs: zod, Valibot, ArkType and others follow it. */
interface StandardSchema<T> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly types?: { readonly input: T } | undefined;
    readonly jsonSchema?: { readonly input: (options: { readonly target: string }) => JsonObject };
  };
}

/** What a result must look like: a JSON schema, or a schema of a library that can be written as one. */
export type OutputSchema<T = unknown> = StandardSchema<T> | Readonly<JsonObject>;

/** The JSON schema of what a model is to write; throws INVALID_PARAMS, saying what to do, where there is none. */
export function jsonSchemaOf(schema: unknown): unknown {
  if (!isStandard(schema)) return schema;
  const { jsonSchema, vendor } = schema["~standard"];
  if (jsonSchema === undefined) throw notJson(vendor, "this version of it cannot");
  try {
    // A validator that does not know the dialect by its address refuses the whole schema.
    const { $schema: _dialect, ...written } = jsonSchema.input({ target: "draft-2020-12" });
    return written;
  } catch (cause) {
    throw notJson(vendor, messageOf(cause), cause);
  }
}

function isStandard(schema: unknown): schema is StandardSchema<unknown> {
  return schema instanceof Object && "~standard" in schema && schema["~standard"] instanceof Object;
}

function notJson(vendor: string, why: string, cause?: unknown): RuntimeError {
  const message = `outputSchema: give this ${vendor} schema as a JSON schema, which it is not written as by itself: ${why}`;
  return new RuntimeError("INVALID_PARAMS", message, { cause });
}
