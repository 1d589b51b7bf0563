import type { IncomingMessage, ServerResponse } from "node:http";
import { type Caller, requireScope } from "@rkat/core/contract/caller";
import { RuntimeError } from "@rkat/core/contract/error";
import { WIRE_TABLE } from "@rkat/core/contract/wire/wire-table";
import { createBodyReader } from "../http/body.ts";
import { type CallerRuntime, forCaller } from "../http/caller-runtime.ts";
import { parseSessionRef } from "../http/events.ts";
import { urlHost } from "../http/guard.ts";
import type { Host } from "../http/host.ts";
import { errorAnswer } from "../http/http-answer.ts";
import { type HttpService, openHttpServer, type Target } from "../http/http-server.ts";
import type { OpenMount } from "../http/mount.ts";
import { createRouter, parseTarget, type Route } from "../http/router.ts";
import { watchTurns, within } from "../http/running-turns.ts";
import { createTurnRequests } from "../http/turn-requests.ts";
import { createConsoleRoutes } from "./console-routes.ts";
import { createEventStreams, streamTurn, wantsEvents } from "./event-streams.ts";
import { createHostRoutes } from "./host-routes.ts";
import { createOperationRoutes } from "./operation-routes.ts";

/** What is served, and to whom. */
export interface RestService extends Omit<HttpService, "find" | "answerFailure" | "answerFailureAt"> {
  readonly runtime: CallerRuntime;
  readonly about: Host;
  readonly version: string;
  /** Whether the console is served at `/`. */
  readonly console?: boolean;
  /** What is served beside the operations. */
  readonly mounts?: readonly OpenMount[];
}

export interface RestServer {
  readonly url: string;
  /** Begins no more turns and waits for those that run, for as long as `graceMs`; then it takes no more requests. */
  drain(graceMs: number): Promise<void>;
  /** Ends every stream and connection; calling it twice does no harm. */
  close(): Promise<void>;
}

/** How long streams may take to be told that they end. */
const STREAMS_MS_MAX = 1_000;

/** Serves a runtime over HTTP. The runtime stays open when the server ends. */
export async function openRestServer(service: RestService): Promise<RestServer> {
  const { about, clock, log, version } = service;
  const running = watchTurns(service.runtime.dispatch, { clock, log });
  const runtime = { ...service.runtime, dispatch: running.dispatch };
  const { realm } = about;
  const turns = createTurnRequests();
  const streams = createEventStreams({ realm, clock, log });
  const mounts = (service.mounts ?? []).map((open) => open({ realm, clock, log, turns }));
  const mountAt = (path: string) => mounts.find(({ prefix }) => path.startsWith(prefix));
  const answerFailureAt = (path: string) => mountAt(path)?.answerFailure;
  const routes = [
    // First: where there is a console, it shows what the plain page does.
    ...(service.console === true ? createConsoleRoutes() : []),
    ...createHostRoutes({ runtime, host: about, version, turns }),
    ...createOperationRoutes({ realm, turns }),
    streams.route,
    ...mounts.flatMap((mount) => mount.routes),
  ];
  const find = createFind({ ...service, runtime, answerFailureAt }, routes);
  const server = await openHttpServer({ ...service, find, answerFailure: errorAnswer, answerFailureAt });
  return {
    url: `http://${urlHost(service.host)}:${server.address.port}`,
    drain: async (graceMs) => {
      server.drain();
      await running.drain(graceMs);
      server.refuse();
    },
    close: async () => {
      server.refuse();
      // What a turn said last is still on its way to those who follow it.
      await new Promise((resolve) => setImmediate(resolve));
      await within(clock, STREAMS_MS_MAX, streams.closeAll());
      await server.close();
    },
  };
}

/** What a request asks for: the route, once its body was read. */
function createFind(
  { about, clock, runtime, answerFailureAt }: RestService & Pick<HttpService, "answerFailureAt">,
  routes: readonly Route[],
): HttpService["find"] {
  const findRoute = createRouter(routes);
  const readBody = createBodyReader();
  return (request: IncomingMessage): Target => {
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
    const answer = async (response: ServerResponse, caller: Caller) => {
      if (route.scope !== undefined) requireScope(caller, route.scope, `${method} ${route.path}`);
      const body = await readBody(request);
      const rest = { path, params, query, headers, body, caller, runtime: forCaller(runtime, caller) };
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
