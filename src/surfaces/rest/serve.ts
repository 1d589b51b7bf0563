import { RuntimeError } from "../../contract/error.ts";
import type { Clock } from "../../ports/clock.ts";
import type { RpcConnection } from "../rpc/serve.ts";
import { createBodyReader } from "../wire/body.ts";
import { createCrossOrigin } from "../wire/cross-origin.ts";
import { type Admission, createGuard } from "../wire/guard.ts";
import type { Host } from "../wire/host.ts";
import { errorAnswer } from "../wire/http-answer.ts";
import { type Answering, openListener, within } from "../wire/http-server.ts";
import { parseSessionRef } from "../wire/realm.ts";
import { watchTurns } from "../wire/running-turns.ts";
import { createEventStreams } from "./event-streams.ts";
import { createHostRoutes } from "./host-routes.ts";
import { createOperationRoutes } from "./operation-routes.ts";
import { createRouter, parseTarget, type Route } from "./router.ts";
import { createTurnRequests } from "./turn-requests.ts";
import { streamTurn, wantsEvents } from "./turn-stream.ts";

/** What is served, and to whom. */
export interface RestService extends Admission {
  readonly port: number;
  readonly runtime: RpcConnection["runtime"];
  readonly about: Host;
  readonly version: string;
  readonly clock: Clock;
  /** Told, in a sentence, of what no client can be told. */
  readonly log: (sentence: string) => void;
}

export interface RestServer {
  readonly url: string;
  /** Takes no more requests and waits for the turns that run, for as long as `graceMs`. */
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
  const streams = createEventStreams({ runtime, realm, clock, log });
  const routes = [
    ...createHostRoutes({ runtime, host: about, version, turns }),
    ...createOperationRoutes({ runtime, realm, turns }),
    streams.route,
  ];
  const listener = await openListener(service, createAnswering(service, routes));
  return {
    url: listener.url,
    drain: async (graceMs) => {
      listener.refuse();
      await running.drain(graceMs);
    },
    close: async () => {
      listener.refuse();
      // What a turn said last is still on its way to those who follow it.
      await new Promise((resolve) => setImmediate(resolve));
      await within(clock, STREAMS_MS_MAX, streams.closeAll());
      await listener.close();
    },
  };
}

/** What is done for a request: who asks, for what, with which body, and then the route. */
function createAnswering(admission: RestService, routes: readonly Route[]): Answering {
  const guard = createGuard(admission);
  const find = createRouter(routes);
  const readBody = createBodyReader();
  const crossOrigin = createCrossOrigin(admission.allowedOrigins ?? []);
  const answer: Answering = async (request, response) => {
    const { method = "", url = "", headers } = request;
    const { path, query } = parseTarget(url);
    const found = find(method, path);
    const preflight = crossOrigin.preflight(method, headers);
    // A browser that asks first does not send the token yet.
    const { isOpen = false, isPage = false } = found.kind === "found" ? found.route : {};
    guard(request, { isOpen: isOpen || preflight !== undefined, isPage });
    if (preflight !== undefined) return { status: 200, type: "text/plain", text: "", headers: preflight };
    if (found.kind === "unknown") throw new RuntimeError("METHOD_NOT_FOUND", `there is nothing at ${path}`);
    if (found.kind === "wrong_method") {
      const error = new RuntimeError("METHOD_NOT_FOUND", `${path} does not take ${method}; it takes ${found.allow}`);
      return errorAnswer(error, { status: 405, headers: { allow: found.allow } });
    }
    const { route, params } = found;
    const rest = { path, params, query, headers, body: await readBody(request) };
    if ("serve" in route) {
      if (route.hasEvents !== true || !wantsEvents(headers)) return route.serve(rest);
      const sessionId = params.session_id && parseSessionRef(params.session_id, admission.about.realm);
      return streamTurn({ response, clock: admission.clock, sessionId }, (listener) => route.serve(rest, listener));
    }
    // Whoever asks for the head alone does not listen to the rest.
    return method === "HEAD" ? { status: 200, type: "text/event-stream", text: "" } : route.stream(rest, response);
  };
  return async (request, response) => {
    for (const [name, value] of Object.entries(crossOrigin.headersFor(request.headers)))
      response.setHeader(name, value);
    try {
      return await answer(request, response);
    } catch (thrown) {
      const isUnauthorized = thrown instanceof RuntimeError && thrown.code === "UNAUTHORIZED";
      return errorAnswer(thrown, isUnauthorized ? { headers: { "www-authenticate": "Bearer" } } : {});
    }
  };
}
