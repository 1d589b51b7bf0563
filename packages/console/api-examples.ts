import type { Operation, Schema } from "./openapi.ts";

/** An example value for a field. */
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

/** Example code; undefined if the client of that language has no method for the route. */
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
