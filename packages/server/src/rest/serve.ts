import { readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { type Caller, requireScope } from "@rkat/core/contract/caller";
import { RuntimeError } from "@rkat/core/contract/error";
import { defined } from "@rkat/core/contract/json";
import { OPERATION_NAMES, type OperationName, operationOf } from "@rkat/core/contract/operations";
import { WIRE_TABLE } from "@rkat/core/contract/wire/wire-table";
import type { Runtime } from "@rkat/core/runtime/runtime-calls";
import type { Listener } from "@rkat/core/sessions/event-queue";
import { createBodyReader } from "../http/body.ts";
import {
  CANCELLED_BY_CLIENT,
  type CallerRuntime,
  forCaller,
  furtherTurn,
  serveCalls,
  takeBack,
  within,
} from "../http/calls.ts";
import { parseSessionRef, sessionLeftBy } from "../http/events.ts";
import type { HttpRequest, HttpResponse } from "../http/exchange.ts";
import { urlHost } from "../http/guard.ts";
import { builtConsoleFolder, consoleNotBuilt, describeHost, type Host } from "../http/host.ts";
import { type Answer, errorAnswer, jsonAnswer } from "../http/http-answer.ts";
import {
  type Answering,
  createAnswering,
  type HttpService,
  type ListeningService,
  openHttpServer,
  type Target,
} from "../http/http-server.ts";
import { createOnce, type Outcome } from "../http/once.ts";
import {
  type AnsweredRoute,
  createRouter,
  type OpenMount,
  parseTarget,
  type RestRequest,
  type Route,
} from "../http/router.ts";
import { createTurnRequests, type TurnRequests } from "../http/turn-requests.ts";
import { createDocsRoutes } from "./docs-routes.ts";
import { createEventStreams, streamTurn, wantsEvents } from "./event-streams.ts";
import { docsPage, openApiDocument } from "./openapi.ts";
import { createInputReader, readQuery, restShape } from "./operation-shape.ts";

/** What is served, and to whom. */
export interface RestService extends Omit<ListeningService, "find" | "answerFailure" | "answerFailureAt"> {
  readonly runtime: CallerRuntime;
  readonly about: Host;
  readonly version: string;
  readonly console?: boolean;
  readonly mounts?: readonly OpenMount[];
  /** Where another application has it, such as `/api/agent`. */
  readonly basePath?: string;
}

export interface RestServer {
  readonly url: string;
  /** Begins no more turns and waits for those that run, for as long as `graceMs`; then it takes no more requests. */
  drain(graceMs: number): Promise<void>;
  /** Ends every stream and connection; calling it twice does no harm. */
  close(): Promise<void>;
}

/** How long it may take to end the streams. */
const STREAMS_MS_MAX = 1_000;

/** Serves a runtime over HTTP in Node. The runtime stays open when the server ends. */
export async function openRestServer(service: RestService): Promise<RestServer> {
  const surface = createSurface(service);
  const server = await openHttpServer({ ...service, ...surface });
  return {
    url: `http://${urlHost(service.host)}:${server.address.port}`,
    drain: (graceMs) => surface.drain(server, graceMs),
    close: () => surface.close(server),
  };
}

export type RestHandler = Omit<RestServer, "url"> & Pick<Answering, "fetch">;

/** The same without a listener: another program hands in its requests. */
export function createRestHandler(service: Omit<RestService, "port">): RestHandler {
  const surface = createSurface(service);
  const answering = createAnswering({ ...service, ...surface });
  return {
    fetch: answering.fetch,
    drain: (graceMs) => surface.drain(answering, graceMs),
    close: () => surface.close(answering),
  };
}

type Ending = Pick<Answering, "drain" | "refuse" | "close">;

/** The routes, and how they end together with what answers their requests. */
export function createSurface(service: Omit<RestService, "port">) {
  const { about, clock, log, version, basePath = "" } = service;
  const runtime = serveCalls(service.runtime, service);
  const { realm } = about;
  const turns = createTurnRequests();
  const streams = createEventStreams({ realm, clock, log });
  const mounts = (service.mounts ?? []).map((open) => open({ runtime, realm, clock, log, turns }));
  const mountAt = (path: string) => mounts.find(({ prefix }) => path.startsWith(prefix));
  const answerFailureAt = (path: string) => mountAt(path)?.answerFailure;
  const routes = [
    // First: where there is a console, it shows what the plain page does.
    ...(service.console === true ? createConsoleRoutes() : []),
    ...createDocsRoutes(),
    ...createHostRoutes({ runtime, host: about, version, turns, basePath }),
    ...createOperationRoutes({ realm, turns }),
    streams.route,
    ...mounts.flatMap((mount) => mount.routes),
  ];
  return {
    routes,
    find: createFind({ ...service, runtime, answerFailureAt }, routes),
    answerFailure: errorAnswer,
    answerFailureAt,
    drain: async (server: Ending, graceMs: number): Promise<void> => {
      server.drain();
      await runtime.drain(graceMs);
      server.refuse();
    },
    close: async (server: Ending): Promise<void> => {
      server.refuse();
      // What a turn said last is still on its way to those who follow it.
      await new Promise((resolve) => setImmediate(resolve));
      const ended = [streams.closeAll(), ...mounts.map((mount) => mount.close?.())];
      await within(clock, STREAMS_MS_MAX, Promise.all(ended));
      await server.close();
    },
  };
}

/** What a request asks for: the route, once its body was read. */
function createFind(
  { about, clock, runtime, answerFailureAt }: Omit<RestService, "port"> & Pick<HttpService, "answerFailureAt">,
  routes: readonly Route[],
): HttpService["find"] {
  const findRoute = createRouter(routes);
  const readBody = createBodyReader();
  return (request: HttpRequest): Target => {
    const { method = "", url = "", headers } = request;
    const { path, query } = parseTarget(url);
    const found = findRoute(method, path);
    const refuse = answerFailureAt?.(path) ?? errorAnswer;
    if (found.kind === "unknown") {
      return { refusal: refuse(new RuntimeError("METHOD_NOT_FOUND", `there is nothing at ${path}`)) };
    }
    if (found.kind === "wrong_method") {
      const error = new RuntimeError("METHOD_NOT_FOUND", `${path} does not take ${method}; it takes ${found.allow}`);
      return { refusal: refuse(error, { status: 405, headers: { allow: found.allow } }) };
    }
    const { route, params } = found;
    const answer = async (response: HttpResponse, caller: Caller) => {
      if (route.scope !== undefined) requireScope(caller, route.scope, `${method} ${route.path}`);
      const body = await readBody(request);
      const { source } = request;
      const rest = { path, params, query, headers, body, source, caller, runtime: forCaller(runtime, caller) };
      if ("serve" in route) {
        if (route.hasEvents !== true || !wantsEvents(headers)) return route.serve(rest);
        const sessionId = params.session_id && parseSessionRef(params.session_id, about.realm);
        return streamTurn({ response, clock, sessionId }, (listener) => route.serve(rest, listener));
      }
      // HEAD has no body.
      return method === "HEAD" ? { status: 200, type: "text/event-stream", text: "" } : route.stream(rest, response);
    };
    const { operation } = route;
    return {
      isOpen: route.scope === undefined,
      isPage: route.isPage === true,
      isLasting: route.isLasting === true,
      route: route.path,
      beginsTurn: operation !== undefined && WIRE_TABLE[operation].hasEvents,
      ...(operation === undefined ? {} : { operation }),
      answer,
    };
  };
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Allows its own files only, nothing inline and no frames: content of a session stays text. */
const CONSOLE_HEADERS = {
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; "),
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  // Not cached: it names the current files.
  "cache-control": "no-cache",
};
/** A file of another content has another name. */
const FILE_HEADERS = { "cache-control": "public, max-age=31536000, immutable" };

interface PageFile {
  readonly type: string;
  readonly bytes: Uint8Array;
  readonly gzipped: Uint8Array;
}

/** The console's page and files, served without a token; its requests need one, as any client's. */
function createConsoleRoutes(folder = builtConsoleFolder()): readonly AnsweredRoute[] {
  const page = readPage(folder);
  const open = { method: "GET", scope: undefined, isPage: true } as const;
  // Without a build the console's path says so; the plain page of operations still works.
  if (page === undefined) return [{ ...open, path: "/", serve: notBuilt }];
  const files = readFiles(join(folder, "assets"));
  return [
    { ...open, path: "/", serve: (request) => send(page, request, CONSOLE_HEADERS) },
    {
      ...open,
      path: "/assets/{file}",
      serve: (request) => {
        const file = files.get(request.params.file ?? "");
        return file === undefined ? nothingAt(request.path) : send(file, request, FILE_HEADERS);
      },
    },
    { ...open, path: "/docs", serve: () => REFERENCE },
  ];
}

/** Relative, so that it works behind a proxy's prefix. */
const REFERENCE: Answer = {
  status: 302,
  type: "text/plain; charset=utf-8",
  text: "the operations are shown at ./#/api\n",
  headers: { location: "./#/api" },
};

function readPage(folder: string): PageFile | undefined {
  try {
    return readPageFile(join(folder, "index.html"));
  } catch {
    return undefined;
  }
}

function readFiles(folder: string): ReadonlyMap<string, PageFile> {
  return new Map(readdirSync(folder).map((name) => [name, readPageFile(join(folder, name))]));
}

function readPageFile(path: string): PageFile {
  const bytes = readFileSync(path);
  return { type: TYPES[extname(path)] ?? "application/octet-stream", bytes, gzipped: gzipSync(bytes) };
}

function send({ type, bytes, gzipped }: PageFile, { headers }: RestRequest, more: Answer["headers"]): Answer {
  const isGzipped = /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(String(headers["accept-encoding"] ?? ""));
  const encoding = isGzipped ? { "content-encoding": "gzip" } : {};
  return {
    status: 200,
    type,
    text: isGzipped ? gzipped : bytes,
    headers: { ...more, ...encoding, vary: "accept-encoding" },
  };
}

function notBuilt(): Answer {
  return errorAnswer(consoleNotBuilt());
}

function nothingAt(path: string): Answer {
  return errorAnswer(new RuntimeError("METHOD_NOT_FOUND", `there is nothing at ${path}`));
}

interface HostParts {
  readonly runtime: Pick<Runtime, "dispatch">;
  readonly host: Host;
  readonly version: string;
  readonly turns: TurnRequests;
  readonly basePath: string;
}

function createHostRoutes({ runtime, host, version, turns, basePath }: HostParts): readonly AnsweredRoute[] {
  const endpoints = () => ({ rest_transport: "http", openapi: "/openapi.json" });
  const about = describeHost(runtime, host, { process_name: "meerkat-rest", endpoints });
  const reported = [
    { ...get("/runtime/host_info"), serve: async () => jsonAnswer(await about["runtime/host_info"]()) },
    { ...get("/runtime/capabilities"), serve: async () => jsonAnswer(await about["runtime/capabilities"]()) },
    { ...get("/runtime/health"), serve: () => jsonAnswer(about["runtime/health"]()) },
  ];
  const readStatus = createInputReader("readSession", host.realm);
  const document = openApiDocument(version);
  return [
    {
      ...get("/health"),
      scope: undefined,
      isLasting: true,
      serve: () => ({ status: 200, type: "text/plain; charset=utf-8", text: "ok" }),
    },
    ...reported,
    {
      ...get("/sessions/{session_id}/status"),
      serve: async (request) => {
        const { session_id, state } = await request.runtime.dispatch("readSession", readStatus(request));
        return jsonAnswer({ session_id, state });
      },
    },
    {
      method: "POST",
      path: "/requests/{request_id}/cancel",
      scope: "run",
      serve: ({ params, query, caller }) => {
        readQuery(query, {});
        return turns.cancel(params.request_id ?? "", caller);
      },
    },
    { ...get("/openapi.json"), serve: (request) => jsonAnswer(document(`${urlOf(request)}${basePath}`)) },
    {
      ...get("/docs"),
      isPage: true,
      serve: (request) => ({
        status: 200,
        type: "text/html; charset=utf-8",
        text: docsPage(document(`${urlOf(request)}${basePath}`)),
        headers: DOCS_HEADERS,
      }),
    },
  ];
}

/** A page that is made of text alone needs nothing but its own style, and is shown in no other's frame. */
const DOCS_HEADERS = {
  "content-security-policy":
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-frame-options": "DENY",
};

/** Where the client found this server, which has been let in by that name. */
function urlOf({ headers, source }: RestRequest): string {
  return `${source === undefined ? "http:" : new URL(source.url).protocol}//${headers.host}`;
}

function get(path: string) {
  return { method: "GET", path, scope: "read" } as const;
}

interface OperationParts {
  readonly realm: string;
  readonly turns: TurnRequests;
}

/** A route a row of the table; of two rows with the same route, the first is found. */
function createOperationRoutes(parts: OperationParts): readonly AnsweredRoute[] {
  const once = createOnce();
  return OPERATION_NAMES.map((name) => {
    const { http, scope, runs } = operationOf(name);
    const [method = "", path = ""] = http.split(" ");
    const call = createCall(parts, name);
    const { hasEvents } = WIRE_TABLE[name];
    if (runs !== "turn") {
      const serve = async (request: RestRequest, listener?: Listener) => jsonAnswer(await call(request, { listener }));
      return { method, path, operation: name, scope, hasEvents, serve };
    }
    const serve = (request: RestRequest, listener?: Listener) =>
      once(request, () => runTurn(parts.turns, request, (asked, signal) => call(asked, { signal, listener })));
    return { method, path, operation: name, scope, hasEvents, serve };
  });
}

type Call = (
  request: RestRequest,
  listening: { readonly signal?: AbortSignal | undefined; readonly listener: Listener | undefined },
) => Promise<unknown>;

function createCall({ realm }: OperationParts, name: OperationName): Call {
  const readInput = createInputReader(name, realm);
  return async (request, { signal, listener }) => {
    const input = withRequestKey(readInput(request), name, request);
    const { dispatch } = request.runtime;
    const traceparent = request.headers.traceparent?.toString();
    try {
      const context = {
        traceparent,
        ...defined({ signal, listener }),
      };
      const output = await (name === "startTurn"
        ? furtherTurn(dispatch, input, context)
        : dispatch(name, input, context));
      return restShape(name, output, { input, realm });
    } catch (thrown) {
      const isTakenBack = name === "createSession" && signal?.reason === CANCELLED_BY_CLIENT;
      const session_id = sessionLeftBy(thrown);
      if (isTakenBack && session_id !== undefined) await takeBack(dispatch, session_id);
      throw thrown;
    }
  };
}

/** The header `Idempotency-Key` as the field of the operation: every server of the realm knows the request by it. */
function withRequestKey<I extends object>(input: I, name: OperationName, { headers }: RestRequest): I {
  const key = headers["idempotency-key"];
  if (key === undefined || !("idempotency_key" in WIRE_TABLE[name].fields)) return input;
  return { idempotency_key: String(key), ...input };
}

/** Runs a turn to its end, also when the client has left meanwhile: what was asked for is done and kept. */
async function runTurn(
  turns: TurnRequests,
  request: RestRequest,
  call: (request: RestRequest, signal: AbortSignal) => Promise<unknown>,
): Promise<Outcome> {
  const id = request.headers["x-meerkat-request-id"];
  // What was refused before a turn began has changed nothing, so the same key may try again.
  let isFinal = false;
  const work = async (signal: AbortSignal) => {
    try {
      const result = await call(request, signal);
      isFinal = true;
      return jsonAnswer(result);
    } catch (thrown) {
      isFinal = sessionLeftBy(thrown) !== undefined;
      return errorAnswer(thrown);
    }
  };
  const answer = await turns.run(Array.isArray(id) ? id.join() : id, request.caller, work);
  return { answer, isFinal };
}
