import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setImmediate as nextRound } from "node:timers/promises";
import { type Caller, hasScope, requireScope } from "@rkat/core/contract/caller";
import { invalid, messageOf, RuntimeError } from "@rkat/core/contract/error";
import type { OperationName } from "@rkat/core/contract/operations";
import type { Clock } from "@rkat/core/ports/clock";
import { requireFitting } from "./body.ts";
import { type Callers, createCallers } from "./callers.ts";
import { IS_ENDING, within } from "./calls.ts";
import { type Admission, createCrossOrigin, createGuard, urlHost } from "./guard.ts";
import {
  type Answer,
  type AnswerFailure,
  answerBrokenRequest,
  busyAnswer,
  type HttpDetail,
  jsonAnswer,
  sendAnswer,
} from "./http-answer.ts";
import { isRecord } from "./incoming.ts";
import { METRICS_TYPE } from "./metrics.ts";
import type { Operator, SeenRequest } from "./operator.ts";

export type Target = {
  readonly isOpen?: boolean;
  /** Whether pages of other origins may link to it. */
  readonly isPage?: boolean;
  readonly isLasting?: boolean;
  /** Whether it starts a turn, which a stopping server refuses. */
  readonly beginsTurn?: boolean;
  /** The route's template and its operation, for the log. */
  readonly route?: string;
  readonly operation?: OperationName;
} & (
  | {
      readonly refusal: Answer;
    }
  | {
      answer(response: ServerResponse, caller: Caller): Promise<Answer | undefined>;
    }
);

export interface HttpService extends Admission {
  readonly port: number;
  readonly clock: Clock;
  /** Logs a sentence about failures that reach no client. */
  readonly log: (sentence: string) => void;
  /** Finds the route of a request, before the caller is identified. */
  find(request: IncomingMessage): Target;
  readonly answerFailure: AnswerFailure;
  /** How failures at a path are worded, where not as all others. */
  answerFailureAt?(path: string): AnswerFailure | undefined;
  /** The operator's log and metrics; without it requests are not logged, and `/metrics` and `/ready` do not exist. */
  readonly operator?: Operator | undefined;
}

export interface HttpServer {
  readonly address: AddressInfo;
  /** Refuses new turns; requests that running turns need are served. */
  drain(): void;
  /** Accepts no more connections, and refuses requests on open ones. */
  refuse(): void;
  /** Closes every connection, after a moment for the answers that are on their way; calling it twice does no harm. */
  close(): Promise<void>;
}

const CONNECTIONS_MAX = 4_096;
/** As many as the system lets wait; a flood of connections cannot hold a turn back for longer. */
const ACCEPT_ROUNDS_MAX = 512;
const REQUESTS_MAX = 4_096;
/** How often connections are looked at for having taken too long. */
const CHECK_MS = 1_000;
/** How long answers may take to leave once everything has ended. */
export const FLUSH_MS_MAX = 1_000;
const FLUSH_STEP_MS = 20;

const LIMITS = {
  maxHeaderSize: 16 * 1_024,
  headersTimeout: 10_000,
  requestTimeout: 60_000,
  keepAliveTimeout: 5_000,
  connectionsCheckingInterval: CHECK_MS,
  keepAlive: true,
  // Node would refuse a request without one in no words at all.
  requireHostHeader: false,
} as const;

export async function openHttpServer(service: HttpService): Promise<HttpServer> {
  const { clock, log, answerFailure } = service;
  const callers = createCallers(service);
  const admit = createAdmission(service, callers);
  const answering = new Set<Promise<void>>();
  const { operator } = service;
  let isDraining = false;
  let isEnding = false;

  const answer = async ({ request, response, asksFirst, seen }: Asking): Promise<Answer | undefined> => {
    const answerFailure = service.answerFailureAt?.(request.url ?? "") ?? service.answerFailure;
    if (answering.size >= REQUESTS_MAX) {
      return busyAnswer(`this server serves ${REQUESTS_MAX} requests, its limit`, answerFailure);
    }
    try {
      const { target, caller } = admit(request, response, seen);
      // A surface that must read the body to know whether it starts a turn leaves this undefined.
      if (target.beginsTurn ?? request.method === "POST") await connections.accepted();
      // Of a client that has left meanwhile neither a body nor its end would ever be heard.
      if (request.destroyed) return undefined;
      const isRefused = target.beginsTurn === true ? isDraining : isEnding && target.isLasting !== true;
      if (isRefused) return busyAnswer(IS_ENDING, answerFailure);
      if ("refusal" in target) return target.refusal;
      if (asksFirst) {
        requireFitting(request);
        response.writeContinue();
      }
      endWith(caller, response, clock);
      return await target.answer(response, caller);
    } catch (thrown) {
      return answerFailure(thrown, detailOf(thrown));
    }
  };
  const serve = async (asking: Asking): Promise<void> => {
    const answered = await answer(asking);
    if (asking.seen !== undefined && answered?.error !== undefined) asking.seen.record.error = answered.error;
    if (answered !== undefined) await sendAnswer(asking.request, asking.response, answered);
  };
  const take = (request: IncomingMessage, response: ServerResponse, asksFirst: boolean): void => {
    const seen = operator?.begin(request, response);
    const asking: Asking = { request, response, asksFirst, seen };
    connections.hold(request.socket, response);
    // A client that leaves early; an unhandled error would end the process.
    request.on("error", () => {});
    response.on("error", () => {});
    const served = (seen === undefined ? serve(asking) : seen.serve(() => serve(asking))).catch((thrown: unknown) => {
      log(`a request could not be answered: ${messageOf(thrown)}`);
      response.destroy();
    });
    answering.add(served);
    void served.then(() => answering.delete(served));
  };
  const server = createServer(LIMITS, (request, response) => take(request, response, false));
  const connections = watchConnections(server);
  server.maxConnections = CONNECTIONS_MAX;
  // `Expect: 100-continue` is answered once the request is accepted, and not for a body that is too large.
  server.on("checkContinue", (request, response) => take(request, response, true));
  server.on("clientError", (thrown: NodeJS.ErrnoException, socket) => {
    // In the middle of an answer there is no place for another.
    if (connections.isBusy(socket)) {
      socket.destroy();
      return;
    }
    const status = answerBrokenRequest(thrown, socket, answerFailure);
    if (status !== undefined) operator?.refuseBroken(status);
  });
  await listen(server, service).catch((thrown: unknown) => {
    callers.close();
    throw thrown;
  });
  // Such as a connection that cannot be accepted; unhandled, it would end the process.
  server.on("error", (thrown) => log(thrown.message));
  let isOpen = true;
  const closed = new Promise<void>((resolve) => {
    server.once("close", () => {
      isOpen = false;
      resolve();
    });
  });
  const drain = (): void => {
    isDraining = true;
    operator?.end();
  };
  const refuse = (): void => {
    if (isEnding) return;
    drain();
    isEnding = true;
    server.close();
  };
  return {
    // A listening server has an address of this shape.
    address: server.address() as AddressInfo,
    drain,
    refuse,
    close: async () => {
      refuse();
      callers.close();
      await within(clock, FLUSH_MS_MAX, Promise.all(answering));
      // A connection is idle only a moment after its answer was handed over.
      for (let waitedMs = 0; waitedMs < FLUSH_MS_MAX && isOpen; waitedMs += FLUSH_STEP_MS) {
        connections.closeIdle();
        await within(clock, FLUSH_STEP_MS, closed);
      }
      server.closeAllConnections();
      await closed;
    },
  };
}

interface Asking {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Whether the client waits for `100 Continue`. */
  readonly asksFirst: boolean;
  readonly seen: SeenRequest | undefined;
}

/** The route of an accepted request, or the answer to a preflight; throws where the caller may not. */
function createAdmission(
  service: HttpService,
  callers: Callers,
): (
  request: IncomingMessage,
  response: ServerResponse,
  seen: SeenRequest | undefined,
) => { readonly target: Target; readonly caller: Caller } {
  const guard = createGuard(service, callers);
  const mayKnow = (request: IncomingMessage): boolean => {
    try {
      return hasScope(guard(request, { isOpen: false }), "read");
    } catch {
      return false;
    }
  };
  const crossOrigin = createCrossOrigin(service.allowedOrigins ?? []);
  return (request, response, seen) => {
    const { method = "", headers, httpVersion } = request;
    for (const [name, value] of Object.entries(crossOrigin.headersFor(headers))) response.setHeader(name, value);
    if (headers.host === undefined && httpVersion === "1.1") {
      throw invalid("the request has no Host header; HTTP/1.1 asks for one");
    }
    const target = operatorTarget(service, request, () => mayKnow(request)) ?? service.find(request);
    if (seen !== undefined) {
      seen.record.route = target.route;
      seen.record.operation = target.operation;
    }
    const preflight = crossOrigin.preflight(method, headers);
    // A browser that asks first does not send the token yet.
    const isOpen = target.isOpen === true || preflight !== undefined;
    const caller = guard(request, { isOpen, isPage: target.isPage === true });
    if (seen !== undefined && !isOpen) seen.record.caller = caller.name;
    if (preflight === undefined) return { target, caller };
    return { target: { refusal: { status: 200, type: "text/plain", text: "", headers: preflight } }, caller };
  };
}

/** Where HTTP says more of a failure than the table of errors can. */
function detailOf(thrown: unknown): HttpDetail {
  if (!(thrown instanceof RuntimeError)) return {};
  if (thrown.code === "UNAUTHORIZED") return { headers: { "www-authenticate": "Bearer" } };
  const { details } = thrown;
  if (!isRecord(details) || typeof details.retry_after_secs !== "number") return {};
  return { status: 429, headers: { "retry-after": String(details.retry_after_secs) } };
}

/** Ends an answer whose caller may not have it any more, after a moment to end by itself. */
function endWith({ until }: Caller, response: ServerResponse, clock: Clock): void {
  if (until === undefined) return;
  const closed = new AbortController();
  const onEnd = async (): Promise<void> => {
    await clock.sleep(FLUSH_MS_MAX, closed.signal);
    response.destroy();
  };
  until.addEventListener("abort", onEnd, { once: true });
  response.once("close", () => {
    until.removeEventListener("abort", onEnd);
    closed.abort("closed");
  });
}

/** The operator's routes, the same on every surface over HTTP; undefined for other paths. */
function operatorTarget(
  { operator, answerFailure }: HttpService,
  { method, url = "" }: IncomingMessage,
  mayKnow: () => boolean,
): Target | undefined {
  const route = url.split("?", 1)[0] ?? "";
  if (operator === undefined || (route !== "/metrics" && route !== "/ready")) return undefined;
  if (method !== "GET" && method !== "HEAD") {
    const error = new RuntimeError("METHOD_NOT_FOUND", `${route} does not take ${method}; it takes GET, HEAD`);
    return { route, refusal: answerFailure(error, { status: 405, headers: { allow: "GET, HEAD" } }) };
  }
  if (route === "/metrics") {
    const answer = async (_: ServerResponse, caller: Caller) => {
      requireScope(caller, "read", route);
      if (Object.keys(caller.labels).length > 0) {
        throw new RuntimeError("PERMISSION_DENIED", `${route} is of the whole server, and this token has labels`);
      }
      return { status: 200, type: METRICS_TYPE, text: operator.numbers() };
    };
    return { route, isLasting: true, answer };
  }
  // Process managers have no token, and need only the status.
  const answer = async () => {
    const { status, checks } = await operator.ready();
    return jsonAnswer(mayKnow() ? { status, checks } : { status }, status === "unready" ? 503 : 200);
  };
  return { route, isOpen: true, isLasting: true, answer };
}

/** The connections of a server, and those with an answer on its way; several requests may be under way on one. */
function watchConnections(server: Server) {
  const open = new Set<Socket>();
  const busy = new Map<Duplex, number>();
  let count = 0;
  let countBefore = 0;
  let accepting: Promise<void> | undefined;
  const accept = async (): Promise<void> => {
    for (let round = 0; round < ACCEPT_ROUNDS_MAX; round += 1) {
      await nextRound();
      if (count === countBefore) return;
      countBefore = count;
    }
  };
  server.on("connection", (socket) => {
    count += 1;
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  return {
    /**
     * Resolves when no connection waits to be accepted. Node accepts one in each round of the event loop and reads all that
     * are accepted: rounds are long while turns run, and the first clients would have many before the last has one.
     */
    accepted: (): Promise<void> => {
      accepting ??= accept().finally(() => {
        accepting = undefined;
      });
      return accepting;
    },
    isBusy: (socket: Duplex) => busy.has(socket),
    hold: (socket: Duplex, response: ServerResponse) => {
      busy.set(socket, (busy.get(socket) ?? 0) + 1);
      response.once("close", () => {
        const left = (busy.get(socket) ?? 1) - 1;
        if (left > 0) busy.set(socket, left);
        else busy.delete(socket);
      });
    },
    /** Also those that never asked for anything, which Node does not take for idle. */
    closeIdle: () => {
      for (const socket of open) if (!busy.has(socket)) socket.destroySoon();
    },
  };
}

/** Why an address cannot be listened at, by what the system says. */
const LISTEN_FAULTS: Readonly<Record<string, string>> = {
  EADDRINUSE: "something else listens there; choose another with --port, or any free one with --port 0",
  EACCES: "that needs more rights; choose a --port above 1023",
  EADDRNOTAVAIL: "this machine has no such address; choose another --host",
  ENOTFOUND: "no machine has that name; choose another --host",
};

function listen(server: Server, { host, port }: Pick<HttpService, "host" | "port">): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const why = LISTEN_FAULTS[cause.code ?? ""] ?? cause.message;
      reject(invalid(`cannot listen at ${urlHost(host)}:${port}: ${why}`, cause));
    });
    server.listen({ host: host.replace(/^\[(.*)\]$/, "$1"), port }, resolve);
  });
}
