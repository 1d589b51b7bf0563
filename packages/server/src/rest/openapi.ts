import type { Scope } from "@rkat/core/contract/caller";
import { CAPABILITY_ABSENT } from "@rkat/core/contract/capability";
import { ERRORS } from "@rkat/core/contract/error";
import { OPERATION_NAMES, OPERATIONS, type OperationName } from "@rkat/core/contract/operations";
import type { JsonSchema } from "@rkat/core/contract/wire/requests";
import { WIRE_TABLE } from "@rkat/core/contract/wire/wire-table";
import { type InputPlaces, inputPlaces, restSchema } from "./operation-shape.ts";

/** As much of an OpenAPI document as a page of it needs; everything else is in `operation`'s other fields. */
export interface OpenApi {
  readonly openapi: string;
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly description: string;
    readonly license: object;
  };
  readonly servers: readonly { readonly url: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>>; readonly [kind: string]: unknown };
  readonly security: readonly object[];
}

interface OpenApiOperation {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly parameters: readonly OpenApiParameter[];
  readonly requestBody?: unknown;
  readonly responses: Readonly<Record<string, unknown>>;
  readonly security?: readonly object[];
  /** The scope that a token needs; absent for routes outside the table. */
  readonly "x-scope"?: Scope;
}

interface OpenApiParameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly schema: JsonSchema;
  readonly description?: string;
}

const DESCRIPTION = [
  "Sessions of agents over HTTP. A turn continues when its client leaves; its events can be read again from any place.",
  "Failures are `{error, code, category, message, details?}` with the status of their code.",
].join(" ");

/** The document of everything that is served there, made from the table of operations when it is first asked for. */
export function openApiDocument(version: string): (url: string) => OpenApi {
  let document: Omit<OpenApi, "servers"> | undefined;
  return (url) => {
    document ??= makeDocument(version);
    return { ...document, servers: [{ url }] };
  };
}

function makeDocument(version: string): Omit<OpenApi, "servers"> {
  const schemas: Record<string, JsonSchema> = { Error: errorSchema() };
  const paths: Record<string, Record<string, OpenApiOperation>> = {};
  for (const name of OPERATION_NAMES) {
    const places = inputPlaces(name);
    const methods = paths[places.path] ?? {};
    paths[places.path] = methods;
    const method = places.method.toLowerCase();
    // Of two rows with one route the first is served.
    if (methods[method] !== undefined) continue;
    schemas[`${pascal(name)}Result`] = restSchema(name);
    const hasBody = Object.keys(places.inBody).length > 0;
    if (hasBody) schemas[`${pascal(name)}Request`] = bodySchema(name, places);
    methods[method] = operationOf(name, places, hasBody);
  }
  for (const [path, methods] of Object.entries(EXTRA_PATHS)) paths[path] = { ...paths[path], ...methods };
  return {
    openapi: "3.1.0",
    info: { title: "rkat", version, description: DESCRIPTION, license: { name: "MIT", identifier: "MIT" } },
    paths,
    components: { schemas, securitySchemes: { bearer: { type: "http", scheme: "bearer" } } },
    // A server on loopback may have no token.
    security: [{ bearer: [] }, {}],
  };
}

function operationOf(name: OperationName, places: InputPlaces, hasBody: boolean): OpenApiOperation {
  const operation = OPERATIONS[name];
  const requires = "requires" in operation ? operation.requires : undefined;
  const absent = requires === undefined ? undefined : CAPABILITY_ABSENT[requires].code;
  const need = absent === undefined ? {} : { description: `Needs ${requires}; without it the answer is ${absent}.` };
  const body = {
    required: places.required.some((field) => field in places.inBody),
    content: json(`${pascal(name)}Request`),
  };
  return {
    operationId: name,
    summary: operation.summary,
    "x-scope": operation.scope,
    ...need,
    parameters: [
      ...parametersOf(places.inPath, "path", () => true),
      ...parametersOf(places.inQuery, "query", (field) => places.required.includes(field)),
      ...(WIRE_TABLE[name].runsTurn ? turnHeaders : []),
    ],
    ...(hasBody ? { requestBody: body } : {}),
    responses: {
      200: { description: "Done.", content: { ...json(`${pascal(name)}Result`), ...eventsOf(name) } },
      ...FAILURES,
    },
  };
}

/** What is told to a client that accepts it; OpenAPI has no other place for that. */
function eventsOf(name: OperationName): object {
  if (!WIRE_TABLE[name].hasEvents) return {};
  const description = "Each event by its type with its envelope as data, as it happens; then `result` or `error`.";
  return { "text/event-stream": { schema: { type: "string", description } } };
}

function parametersOf(
  schemas: Readonly<Record<string, JsonSchema>>,
  place: "path" | "query",
  isRequired: (field: string) => boolean,
): readonly OpenApiParameter[] {
  return Object.entries(schemas).map(([name, { description, ...schema }]) => ({
    name,
    in: place,
    required: isRequired(name),
    schema,
    ...(typeof description === "string" ? { description } : {}),
  }));
}

function bodySchema(name: OperationName, { inBody, inPath, required }: InputPlaces): JsonSchema {
  const description = "the same as in the path; it may be left out here";
  // What existing clients of this wire send.
  const repeated = name === "startTurn" ? { session_id: { ...inPath.session_id, description } } : {};
  const properties = { ...repeated, ...inBody };
  return { type: "object", properties, required: required.filter((field) => field in inBody) };
}

function errorSchema(): JsonSchema {
  return {
    type: "object",
    properties: {
      error: text,
      code: { type: "string", enum: Object.keys(ERRORS) },
      category: text,
      message: text,
      session_id: { type: "string", description: "the session of a turn that failed; it can be continued" },
      details: {},
    },
    required: ["error", "code", "category", "message"],
    "x-codes": Object.fromEntries(
      Object.entries(ERRORS).map(([code, { http, meaning }]) => [code, { status: http, meaning }]),
    ),
  };
}

function json(schema: string): object {
  return { "application/json": { schema: { $ref: `#/components/schemas/${schema}` } } };
}

function pascal(name: string): string {
  return `${name.charAt(0).toUpperCase()}${name.slice(1)}`;
}

const text = { type: "string" };
const sessionId: OpenApiParameter = { name: "session_id", in: "path", required: true, schema: text };

const turnHeaders: readonly OpenApiParameter[] = [
  {
    name: "X-Meerkat-Request-Id",
    in: "header",
    required: false,
    schema: text,
    description: "A name to cancel the request by.",
  },
  {
    name: "Idempotency-Key",
    in: "header",
    required: false,
    schema: text,
    description: "The same request with the same key is given the first answer, as long as the server lives.",
  },
];

const failure = {
  description: "A failure, with the status of its code.",
  content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
};

/** What every route may answer instead; common tools cannot write types for a range such as `4XX`. */
const FAILURES = {
  ...Object.fromEntries(
    Object.values(ERRORS).flatMap(({ http }): [number, object][] => (http < 500 ? [[http, failure]] : [])),
  ),
  default: failure,
};

const resume =
  "The id of the last event that was seen: what follows it is sent first. 0 sends all, without it nothing.";

/** What is served besides the operations of the table. */
const EXTRA_PATHS: Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>> = {
  "/health": {
    get: {
      ...textOperation("health", "Check that the server is running; no token is needed.", "text/plain"),
      security: [{}],
    },
  },
  "/ready": {
    get: {
      ...textOperation("ready", "Say whether work can be sent here; without the token, in one word."),
      description:
        "503 where it is `unready`: the disk or the store fails, or it is stopping. `checks` has the reasons.",
      security: [{}],
    },
  },
  "/metrics": {
    get: textOperation("metrics", "Read the metrics, in the text format of Prometheus.", "text/plain"),
  },
  "/sessions/{session_id}/status": {
    get: {
      ...textOperation("sessionStatus", "Read whether a session is idle, running, interrupted or archived."),
      parameters: [sessionId],
    },
  },
  "/sessions/{session_id}/events": {
    get: {
      ...textOperation(
        "sessionEvents",
        "Follow a session's events as a stream of server-sent events.",
        "text/event-stream",
      ),
      description:
        "First session_loaded, then each event by its type with its envelope as data, at the end done, with archived true where none can come any more. Durable events have an id.",
      parameters: [
        sessionId,
        { name: "Last-Event-ID", in: "header", required: false, schema: text, description: resume },
        { name: "last_event_id", in: "query", required: false, schema: text, description: resume },
      ],
    },
  },
  "/requests/{request_id}/cancel": {
    post: {
      ...textOperation(
        "cancelRequest",
        "Interrupt the turn of a request that was given a name; the request answers 499.",
      ),
      parameters: [{ name: "request_id", in: "path", required: true, schema: text }],
    },
  },
  "/runtime/host_info": { get: textOperation("hostInfo", "Read what this server is and serves.") },
  "/runtime/capabilities": { get: textOperation("hostCapabilities", "Read which features this server has.") },
  "/runtime/health": { get: textOperation("hostHealth", "Check that the server is running, in JSON.") },
  "/openapi.json": { get: textOperation("openapi", "Read this document.") },
  "/docs": { get: textOperation("docs", "Read this document as a page.", "text/html") },
};

function textOperation(operationId: string, summary: string, type = "application/json"): OpenApiOperation {
  return {
    operationId,
    summary,
    parameters: [],
    responses: {
      200: { description: "Done.", content: { [type]: { schema: type === "application/json" ? {} : text } } },
      ...FAILURES,
    },
  };
}

const STYLE = `
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c1c1c; background: #fff }
  h2 { font-size: 1rem; margin: 2rem 0 .25rem } code { font: .9em ui-monospace, monospace }
  p { margin: .25rem 0 } table { border-collapse: collapse; margin: .5rem 0 }
  th, td { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top } th { font-weight: 600 }
  @media (prefers-color-scheme: dark) { body { color: #e6e6e6; background: #161616 } a { color: #8ab4f8 } }
`;

/** An OpenAPI document as a page that needs no script and nothing from elsewhere. */
export function docsPage(document: OpenApi): string {
  const { info, paths, components } = document;
  const sections = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) =>
      section(`${method.toUpperCase()} ${path}`, operation, components.schemas),
    ),
  );
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escaped(info.title)}</title><style>${STYLE}</style></head>
<body>
<h1>${escaped(info.title)} ${escaped(info.version)}</h1>
<p>${escaped(info.description)}</p>
<p>The same for programs: <a href="openapi.json">openapi.json</a></p>
${sections.join("\n")}
</body>
</html>
`;
}

function section(title: string, operation: OpenApiOperation, schemas: Readonly<Record<string, JsonSchema>>): string {
  const { operationId, summary, description, parameters, requestBody } = operation;
  const name = `${operationId.charAt(0).toUpperCase()}${operationId.slice(1)}Request`;
  const { properties = {}, required = [] } = (requestBody === undefined ? undefined : schemas[name]) ?? {};
  const rows = [
    ...parameters.map((one) => [one.name, one.in, typeText(one.schema), one.required ? "yes" : "no"]),
    ...Object.entries(properties).map(([field, schema]) => [
      field,
      "body",
      typeText(schema),
      required.includes(field) ? "yes" : "no",
    ]),
  ];
  const cells = rows.map((row) => `<tr>${row.map((cell) => `<td><code>${escaped(cell)}</code></td>`).join("")}</tr>`);
  const head = "<tr><th>name</th><th>where</th><th>type</th><th>required</th></tr>";
  return `<section id="${escaped(operationId)}"><h2><code>${escaped(title)}</code></h2>
<p>${escaped([summary, description].filter(Boolean).join(" "))}</p>
${rows.length === 0 ? "" : `<table>${head}${cells.join("")}</table>`}</section>`;
}

function typeText({ type, enum: values, format }: JsonSchema): string {
  if (Array.isArray(values)) return values.map((value) => JSON.stringify(value)).join(" | ");
  if (typeof format === "string") return format;
  return typeof type === "string" ? type : (type ?? ["any"]).join(" | ");
}

function escaped(text = ""): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
