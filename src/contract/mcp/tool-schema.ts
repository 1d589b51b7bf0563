import { z } from "zod";

/** A JSON schema of an object, which is what a tool's arguments and structured results are. */
export interface ObjectSchema {
  readonly [keyword: string]: unknown;
  readonly type: "object";
}

/**
 * The JSON schema of what may be written; undefined when that is not one object. It stands for outputs, too: what may
 * be written of an output may also grow.
 */
export function objectSchemaOf(schema: z.ZodType): ObjectSchema | undefined {
  const options = { io: "input", unrepresentable: "any", override: shorten } as const;
  // Clients check results with validators of older drafts, which refuse a `$schema` they do not know.
  const { $schema: _, type, ...keywords } = z.toJSONSchema(schema, options);
  return type === "object" ? { type, ...keywords } : undefined;
}

/** Leaves out what says nothing to a reader: clients show these schemas to models, who pay by the word. */
function shorten({ jsonSchema }: { readonly jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  // Validators warn of this one, which `contentEncoding` says as well.
  if (jsonSchema.format === "base64") delete jsonSchema.format;
  delete jsonSchema.propertyNames;
}
