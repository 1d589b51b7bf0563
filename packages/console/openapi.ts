import type { Scope } from "@rkat/core/contract/caller";

export function exampleOf(name: string, schema: Schema): unknown {
  const { examples, enum: values, type, items, anyOf, oneOf, properties } = schema;
  if (examples?.[0] !== undefined) return examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  if (values?.[0] !== undefined) return values[0];
  const byName = BY_NAME[name];
  if (byName !== undefined) return byName;
  const [first] = anyOf ?? oneOf ?? [];
  if (first !== undefined) return exampleOf(name, first);
  if (items !== undefined) return [exampleOf(name, items)];
  const kind = typeof type === "string" ? type : type?.[0];
  if (kind === "integer" || kind === "number") return 1;
  if (kind === "boolean") return true;
  if (kind === "object") return bodyExample({ ...schema, properties: properties ?? {} });
  return name;
}

const BY_NAME: Readonly<Record<string, unknown>> = {
  session_id: "SESSION_ID",
  prompt: "Hello!",
  agent: "ada",
  content: "The port is 7443.",
  query: "which port does staging use",
};

/** An example body: the required fields, and the prompt if the body has one. */
export function bodyExample({ properties = {}, required = [] }: Schema): Record<string, unknown> {
  const fields = Object.entries(properties).filter(([name]) => required.includes(name) || name === "prompt");
  return Object.fromEntries(fields.map(([name, field]) => [name, exampleOf(name, field)]));
}

/** The example input of an operation as clients pass it: path, query and body fields in one object. */
function inputExample({ parameters, body }: Operation): Record<string, unknown> {
  const needed = parameters.filter((one) => one.required && one.in !== "header");
  const values = needed.map((one) => [one.name, exampleOf(one.name, one.schema)] as const);
  return { ...Object.fromEntries(values), ...(body === undefined ? {} : bodyExample(body)) };
}

/** The example HTTP request of an operation: the path with its parameters and query, and the body. */
function httpExample({ path, parameters, body }: Operation): { path: string; body: string | undefined } {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const schema = parameters.find((one) => one.name === name)?.schema ?? {};
    return String(exampleOf(name, schema));
  });
  const needed = parameters.filter((one) => one.in === "query" && one.required);
  const values = needed.map((one): [string, string] => [one.name, String(exampleOf(one.name, one.schema))]);
  const query = new URLSearchParams(values);
  return {
    path: query.size === 0 ? filled : `${filled}?${query}`,
    body: body === undefined ? undefined : JSON.stringify(bodyExample(body)),
  };
}

export const LANGUAGES = ["curl", "TypeScript", "Python"] as const;
type Language = (typeof LANGUAGES)[number];

interface Server {
  readonly url: string;
  readonly hasToken: boolean;
}

export function exampleIn(language: Language, operation: Operation, server: Server): string | undefined {
  if (language === "curl") return curlOf(operation, server);
  if (operation.scope === undefined) return undefined;
  return language === "TypeScript" ? typeScriptOf(operation, server) : pythonOf(operation, server);
}

function curlOf(operation: Operation, { url, hasToken }: Server): string {
  const { path, body } = httpExample(operation);
  const method = operation.method === "GET" || operation.method === "POST" ? "" : ` -X ${operation.method}`;
  const lines = [
    `curl${operation.method === "POST" && body === undefined ? " -X POST" : method} ${shellWord(url + path)}`,
    ...(hasToken ? ['-H "Authorization: Bearer $RKAT_TOKEN"'] : []),
    ...(body === undefined ? [] : ['-H "Content-Type: application/json"', `-d ${shellWord(body)}`]),
  ];
  return lines.join(" \\\n  ");
}

function shellWord(text: string): string {
  return /^[\w:/.?=&-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function typeScriptOf(operation: Operation, { url, hasToken }: Server): string {
  const [idiom] = IDIOMS[operation.name] ?? [];
  const call = idiom ?? `client.dispatch("${operation.name}", ${JSON.stringify(inputExample(operation))})`;
  const token = hasToken ? ", token: process.env.RKAT_TOKEN" : "";
  return [
    'import { connect } from "rkat/client";',
    "",
    `const client = await connect({ url: "${url}"${token} });`,
    `const result = await ${call};`,
  ].join("\n");
}

function pythonOf(operation: Operation, { url, hasToken }: Server): string {
  const [typeScript, idiom = typeScript] = IDIOMS[operation.name] ?? [];
  const call = idiom ?? `client.call("${operation.name}", ${pythonValue(inputExample(operation))})`;
  const token = hasToken ? ', token=os.environ["RKAT_TOKEN"]' : "";
  return [
    ...(hasToken ? ["import os", ""] : []),
    "from rkat import connect",
    "",
    `async with connect(url="${url}"${token}) as client:`,
    `    result = await ${call}`,
  ].join("\n");
}

function pythonValue(value: unknown): string {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null) return "None";
  if (Array.isArray(value)) return `[${value.map(pythonValue).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([key, inner]) => `${JSON.stringify(key)}: ${pythonValue(inner)}`)
    .join(", ")}}`;
}

/** Calls for which the clients have a method of their own: in TypeScript, and in Python if it differs. */
export const IDIOMS: Readonly<Record<string, readonly [typeScript: string, python?: string]>> = {
  createSession: [
    'client.createSession("Hello!", { model: "offline" })',
    'client.create_session("Hello!", model="offline")',
  ],
  startTurn: ['client.session("SESSION_ID").turn("And then?")'],
  listSessions: ["client.listSessions({ limit: 20 })", "client.list_sessions(limit=20)"],
  readSession: ['client.session("SESSION_ID").read()'],
  readHistory: ['client.session("SESSION_ID").history()'],
  readContext: ['client.session("SESSION_ID").context()'],
  compactSession: [
    'client.session("SESSION_ID").compact({ preview: true })',
    'client.session("SESSION_ID").compact(preview=True)',
  ],
  searchMemory: [
    'client.searchMemory("which port does staging use")',
    'client.search_memory("which port does staging use")',
  ],
  searchHistory: [
    'client.searchMemory("which port does staging use", { everything: true })',
    'client.search_memory("which port does staging use", everything=True)',
  ],
  remember: ['client.agent("ada").remember("The port is 7443.")'],
  readAgentContext: ['client.agent("ada").context()'],
  readConfig: ["client.readConfig()", "client.config()"],
};

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

export interface Document {
  readonly info: { readonly version: string; readonly description: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema & { readonly "x-codes"?: Readonly<Record<string, Code>> }>>;
  };
}

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

type FieldRow = ReturnType<typeof fieldsOf>[number];

/** Fields that most requests use, in the order in which they are explained. */
const COMMON = [
  "prompt",
  "model",
  "tool_preset",
  "system_prompt",
  "output_schema",
  "labels",
  "budget_limits",
  "permissions",
  "query",
  "limit",
];
const RETIRED = /^(?:retired|leave it out|set when the session was created|the same as in the path)/;

/** The fields of a request: required and common ones first, and apart from them those that need not be sent any more. */
export function orderedFields(fields: readonly FieldRow[]): {
  readonly current: readonly FieldRow[];
  readonly retired: readonly FieldRow[];
} {
  const rank = ([name, , isRequired]: FieldRow): number => {
    const common = COMMON.indexOf(name);
    return isRequired ? -1 : common < 0 ? COMMON.length : common;
  };
  const isRetired = ([, { description = "" }]: FieldRow): boolean => RETIRED.test(description);
  return {
    current: fields.filter((field) => !isRetired(field)).sort((one, other) => rank(one) - rank(other)),
    retired: fields.filter(isRetired),
  };
}

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
