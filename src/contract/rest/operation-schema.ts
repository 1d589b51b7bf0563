import { z } from "zod";
import { OPERATIONS, type OperationName } from "../operations.ts";

/** As much of a JSON schema as a surface looks at; the rest is handed on as it is. */
export interface JsonSchema {
  /** A list where one of several will do. */
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly [keyword: string]: unknown;
}

/** What goes into an operation and what comes out, as JSON schemas of their own: nothing in them refers to elsewhere. */
export function operationSchema(name: OperationName, io: "input" | "output"): JsonSchema {
  // zod's type of a JSON schema is this one with every keyword of the standard.
  const { $schema: _dialect, ...schema } = z.toJSONSchema(OPERATIONS[name][io], {
    io,
    override: (context) => {
      withExamples(context);
      withoutTuple(context);
    },
  }) as JsonSchema;
  return schema;
}

/** What is changed after it was read loses its examples in the library; they are of what is written, all the same. */
export function withExamples({ zodSchema, jsonSchema }: Overridden): void {
  const { examples } = z.globalRegistry.get(zodSchema) ?? {};
  if (Array.isArray(examples)) jsonSchema.examples = examples;
}

interface Overridden {
  readonly zodSchema: z.core.$ZodType;
  readonly jsonSchema: z.core.JSONSchema.BaseSchema;
}

/** Common tools stumble over the schema of a tuple: it becomes a list of as many. */
function withoutTuple({ jsonSchema }: Overridden): void {
  const { prefixItems } = jsonSchema;
  if (prefixItems === undefined) return;
  delete jsonSchema.prefixItems;
  const different = [...new Map(prefixItems.map((item) => [JSON.stringify(item), item])).values()];
  const [only] = different;
  const items = different.length === 1 && only !== undefined ? only : { anyOf: different };
  Object.assign(jsonSchema, { items, minItems: prefixItems.length, maxItems: prefixItems.length });
}
