import type { Operation, Schema } from "./openapi.ts";

/** A value of the kind that a field takes, for somebody to change. */
export function exampleOf(name: string, schema: Schema): unknown {
  const { examples, enum: values, type, items, anyOf, oneOf, properties } = schema;
  if (examples?.[0] !== undefined) return examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  if (values?.[0] !== undefined) return values[0];
  const known = KNOWN[name];
  if (known !== undefined) return known;
  const [shape] = anyOf ?? oneOf ?? [];
  if (shape !== undefined) return exampleOf(name, shape);
  if (items !== undefined) return [exampleOf(name, items)];
  const kind = typeof type === "string" ? type : type?.[0];
  if (kind === "integer" || kind === "number") return 1;
  if (kind === "boolean") return true;
  if (kind === "object") return bodyExample({ ...schema, properties: properties ?? {} });
  return name;
}

const KNOWN: Readonly<Record<string, unknown>> = {
  session_id: "SESSION_ID",
  prompt: "Hello!",
  agent: "ada",
  content: "The port is 7443.",
  query: "which port does staging use",
};

/** What must be said, and the prompt where there is one. */
export function bodyExample({ properties = {}, required = [] }: Schema): Record<string, unknown> {
  const fields = Object.entries(properties).filter(([name]) => required.includes(name) || name === "prompt");
  return Object.fromEntries(fields.map(([name, field]) => [name, exampleOf(name, field)]));
}

/** What an operation is given, as clients give it: all of it by its names, wherever HTTP puts it. */
function inputExample({ parameters, body }: Operation): Record<string, unknown> {
  const needed = parameters.filter((one) => one.required && one.in !== "header");
  const said = needed.map((one) => [one.name, exampleOf(one.name, one.schema)] as const);
  return { ...Object.fromEntries(said), ...(body === undefined ? {} : bodyExample(body)) };
}

/** What is asked of a server: the path with what belongs into it, what is in the query, and the body. */
interface Asked {
  readonly path: string;
  readonly body: string | undefined;
}

function askedOf({ path, parameters, body }: Operation): Asked {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const schema = parameters.find((one) => one.name === name)?.schema ?? {};
    return String(exampleOf(name, schema));
  });
  const needed = parameters.filter((one) => one.in === "query" && one.required);
  const said = needed.map((one): [string, string] => [one.name, String(exampleOf(one.name, one.schema))]);
  const query = new URLSearchParams(said);
  return {
    path: query.size === 0 ? filled : `${filled}?${query}`,
    body: body === undefined ? undefined : JSON.stringify(bodyExample(body)),
  };
}

export const LANGUAGES = ["curl", "TypeScript", "Python"] as const;
type Language = (typeof LANGUAGES)[number];

interface Place {
  readonly url: string;
  readonly hasToken: boolean;
}

/** How it is asked for; undefined where a language's client has no such call. */
export function exampleIn(language: Language, operation: Operation, place: Place): string | undefined {
  if (language === "curl") return curlOf(operation, place);
  if (operation.scope === undefined) return undefined;
  return language === "TypeScript" ? typeScriptOf(operation, place) : pythonOf(operation, place);
}

function curlOf(operation: Operation, { url, hasToken }: Place): string {
  const { path, body } = askedOf(operation);
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

function typeScriptOf(operation: Operation, { url, hasToken }: Place): string {
  const idiom = IDIOMS[operation.name]?.typeScript;
  const call = idiom ?? `client.dispatch("${operation.name}", ${JSON.stringify(inputExample(operation))})`;
  const token = hasToken ? ", token: process.env.RKAT_TOKEN" : "";
  return [
    'import { connect } from "rkat/client";',
    "",
    `const client = await connect({ url: "${url}"${token} });`,
    `const answer = await ${call};`,
  ].join("\n");
}

function pythonOf(operation: Operation, { url, hasToken }: Place): string {
  const idiom = IDIOMS[operation.name]?.python;
  const call = idiom ?? `client.call("${operation.name}", ${pythonValue(inputExample(operation))})`;
  const token = hasToken ? ', token=os.environ["RKAT_TOKEN"]' : "";
  return [
    ...(hasToken ? ["import os", ""] : []),
    "from rkat import connect",
    "",
    `async with connect(url="${url}"${token}) as client:`,
    `    answer = await ${call}`,
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

/** Calls that have more words of their own than their name. */
export const IDIOMS: Readonly<Record<string, { readonly typeScript: string; readonly python: string }>> = {
  createSession: {
    typeScript: 'client.createSession("Hello!", { model: "offline" })',
    python: 'client.create_session("Hello!", model="offline")',
  },
  startTurn: {
    typeScript: 'client.session("SESSION_ID").turn("And then?")',
    python: 'client.session("SESSION_ID").turn("And then?")',
  },
  listSessions: { typeScript: "client.listSessions({ limit: 20 })", python: "client.list_sessions(limit=20)" },
  readSession: {
    typeScript: 'client.session("SESSION_ID").read()',
    python: 'client.session("SESSION_ID").read()',
  },
  readHistory: {
    typeScript: 'client.session("SESSION_ID").history()',
    python: 'client.session("SESSION_ID").history()',
  },
  readContext: {
    typeScript: 'client.session("SESSION_ID").context()',
    python: 'client.session("SESSION_ID").context()',
  },
  compactSession: {
    typeScript: 'client.session("SESSION_ID").compact({ preview: true })',
    python: 'client.session("SESSION_ID").compact(preview=True)',
  },
  searchMemory: {
    typeScript: 'client.searchMemory("which port does staging use")',
    python: 'client.search_memory("which port does staging use")',
  },
  searchHistory: {
    typeScript: 'client.searchMemory("which port does staging use", { everything: true })',
    python: 'client.search_memory("which port does staging use", everything=True)',
  },
  remember: {
    typeScript: 'client.agent("ada").remember("The port is 7443.")',
    python: 'client.agent("ada").remember("The port is 7443.")',
  },
  readAgentContext: { typeScript: 'client.agent("ada").context()', python: 'client.agent("ada").context()' },
  readConfig: { typeScript: "client.readConfig()", python: "client.config()" },
};
