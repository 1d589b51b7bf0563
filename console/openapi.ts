/** As much of JSON Schema as the server's document uses. */
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

interface Written {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: Content }>>;
  readonly "x-scope"?: string;
}
type Content = Readonly<Record<string, { readonly schema: Schema }>>;

/** The document that the server tells of itself. */
export interface Document {
  readonly info: { readonly version: string; readonly description: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Written>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema & { readonly "x-codes"?: Readonly<Record<string, Code>> }>>;
  };
}

/** A code of failure, as it is told. */
interface Code {
  readonly status: number;
  readonly meaning: string;
}

/** A route of the server. */
export interface Operation {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly summary: string;
  readonly description: string | undefined;
  readonly parameters: readonly Parameter[];
  readonly body: Schema | undefined;
  readonly result: Schema | undefined;
  /** What the answer is, besides JSON. */
  readonly types: readonly string[];
  /** What the token must be allowed to do; undefined for what is no operation of the clients. */
  readonly scope: string | undefined;
}

export function operationsOf(document: Document): readonly Operation[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, written]) => {
      const answered = written.responses["200"]?.content ?? {};
      return {
        name: written.operationId,
        method: method.toUpperCase(),
        path,
        summary: written.summary,
        description: written.description,
        parameters: written.parameters,
        body: resolved(document, written.requestBody?.content["application/json"]?.schema),
        result: resolved(document, answered["application/json"]?.schema),
        types: Object.keys(answered),
        scope: written["x-scope"],
      };
    }),
  );
}

function resolved({ components }: Document, schema: Schema | undefined): Schema | undefined {
  const [, name] = /^#\/components\/schemas\/(.+)$/.exec(schema?.$ref ?? "") ?? [];
  return name === undefined ? schema : components.schemas[name];
}

/** Several shapes where one of them is meant. */
function shapesOf({ anyOf, oneOf }: Schema): readonly Schema[] {
  return anyOf ?? oneOf ?? [];
}

/** The object within a schema whose fields are worth telling: its own, its items', or one of its shapes'. */
export function fieldsOf(schema: Schema | undefined): readonly (readonly [string, Schema, boolean])[] {
  if (schema === undefined) return [];
  const { properties, required = [], items, allOf = [] } = schema;
  if (properties !== undefined) {
    return Object.entries(properties).map(([name, field]) => [name, field, required.includes(name)] as const);
  }
  if (items !== undefined) return fieldsOf(items);
  const inside = [...allOf, ...shapesOf(schema)].flatMap((shape) => fieldsOf(shape));
  // Shapes have fields in common; the first says what it is.
  return [...new Map(inside.map((field) => [field[0], field])).values()];
}

/** A type as one writes it. */
export function typeOf(schema: Schema): string {
  const { type, enum: values, items, additionalProperties, format } = schema;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (values !== undefined) return values.map((value) => JSON.stringify(value)).join(" | ");
  const shapes = shapesOf(schema);
  if (shapes.length > 0) return [...new Set(shapes.map(typeOf))].join(" | ");
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
