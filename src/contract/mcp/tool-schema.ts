import { z } from "zod";

/** A JSON schema of an object, which is what a tool's arguments and structured results are. */
export interface ObjectSchema {
  readonly [keyword: string]: unknown;
  readonly type: "object";
}

/** The JSON schema of what may be written; undefined when that is not one object. */
export function objectSchemaOf(schema: z.ZodType, override: Override = shorten): ObjectSchema | undefined {
  const options = { io: "input", unrepresentable: "any", override } as const;
  // Clients check results with validators of older drafts, which refuse a `$schema` they do not know.
  const { $schema: _, type, ...keywords } = z.toJSONSchema(schema, options);
  return type === "object" ? { type, ...keywords } : undefined;
}

/** The JSON schema of a result: what may be written of it, since it may grow, without words: its names say enough. */
export function resultSchemaOf(schema: z.ZodType): ObjectSchema | undefined {
  return objectSchemaOf(schema, (context) => {
    shorten(context);
    delete context.jsonSchema.description;
  });
}

type Override = (context: { readonly jsonSchema: z.core.JSONSchema.BaseSchema }) => void;

/** Leaves out what says nothing to a reader: clients show these schemas to models, who pay by the word. */
const shorten: Override = ({ jsonSchema }) => {
  delete jsonSchema.examples;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  // Validators warn of this one, which `contentEncoding` says as well.
  if (jsonSchema.format === "base64") delete jsonSchema.format;
  delete jsonSchema.propertyNames;
};
