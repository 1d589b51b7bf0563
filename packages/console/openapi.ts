import type { Scope } from "@rkat/core/contract/caller";

/** The part of JSON Schema that the server's document uses. */
export interface Schema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly additionalProperties?: Schema | boolean;
  readonly format?: string;
  readonly examples?: readonly unknown[];
  readonly $ref?: string;
}

interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly schema: Schema;
  readonly description?: string;
}

interface OpenApiOperation {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: Content }>>;
  readonly "x-scope"?: Scope;
}
type Content = Readonly<Record<string, { readonly schema: Schema }>>;

/** The OpenAPI document of the server. */
export interface Document {
  readonly info: { readonly version: string; readonly description: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema & { readonly "x-codes"?: Readonly<Record<string, Code>> }>>;
  };
}

/** An error code. */
interface Code {
  readonly status: number;
  readonly meaning: string;
}

export interface Operation {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly summary: string;
  readonly description: string | undefined;
  readonly parameters: readonly Parameter[];
  readonly body: Schema | undefined;
  readonly result: Schema | undefined;
  /** The media types of the response. */
  readonly types: readonly string[];
  /** The scope that a token needs; undefined for routes that are not operations. */
  readonly scope: Scope | undefined;
}

export function operationsOf(document: Document): readonly Operation[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => {
      const response = described.responses["200"]?.content ?? {};
      return {
        name: described.operationId,
        method: method.toUpperCase(),
        path,
        summary: described.summary,
        description: described.description,
        parameters: described.parameters,
        body: resolve(document, described.requestBody?.content["application/json"]?.schema),
        result: resolve(document, response["application/json"]?.schema),
        types: Object.keys(response),
        scope: described["x-scope"],
      };
    }),
  );
}

function resolve({ components }: Document, schema: Schema | undefined): Schema | undefined {
  const [, name] = /^#\/components\/schemas\/(.+)$/.exec(schema?.$ref ?? "") ?? [];
  return name === undefined ? schema : components.schemas[name];
}

function alternativesOf({ anyOf, oneOf }: Schema): readonly Schema[] {
  return anyOf ?? oneOf ?? [];
}

/** The fields of a schema, as name, schema and whether required: its own, its items' or its alternatives'. */
export function fieldsOf(schema: Schema | undefined): readonly (readonly [string, Schema, boolean])[] {
  if (schema === undefined) return [];
  const { properties, required = [], items, allOf = [] } = schema;
  if (properties !== undefined) {
    return Object.entries(properties).map(([name, field]) => [name, field, required.includes(name)] as const);
  }
  if (items !== undefined) return fieldsOf(items);
  const nested = [...allOf, ...alternativesOf(schema)].flatMap((one) => fieldsOf(one));
  // Alternatives may share fields; the first description wins.
  return [...new Map(nested.map((field) => [field[0], field])).values()];
}

/** The type in TypeScript notation. */
export function typeOf(schema: Schema): string {
  const { type, enum: values, items, additionalProperties, format } = schema;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (values !== undefined) return values.map((value) => JSON.stringify(value)).join(" | ");
  const alternatives = alternativesOf(schema);
  if (alternatives.length > 0) return [...new Set(alternatives.map(typeOf))].join(" | ");
  if (schema.allOf !== undefined || schema.properties !== undefined) return "object";
  if (items !== undefined) {
    const inner = typeOf(items);
    return inner.includes(" ") ? `(${inner})[]` : `${inner}[]`;
  }
  if (typeof additionalProperties === "object" && Object.keys(additionalProperties).length > 0) {
    return `{ [key]: ${typeOf(additionalProperties)} }`;
  }
  if (type === undefined) return "any";
  return typeof type === "string" ? (format ?? type) : type.join(" | ");
}
