import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setImmediate as nextRound } from "node:timers/promises";
import { type Caller, hasScope, requireScope } from "@rkat/core/contract/caller";
import { invalid, messageOf, RuntimeError } from "@rkat/core/contract/error";
import { isRecord } from "@rkat/core/contract/json";
import type { OperationName } from "@rkat/core/contract/operations";
import type { Clock } from "@rkat/core/ports/clock";
import { requireFitting } from "./body.ts";
import { type Callers, createCallers } from "./callers.ts";
import { IS_ENDING, within } from "./calls.ts";
import { createFetchExchange, type HttpRequest, type HttpResponse, TOOK_TOO_LONG } from "./exchange.ts";
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
      answer(response: HttpResponse, caller: Caller): Promise<Answer | undefined>;
    }
);

export interface ListeningService extends HttpService {
  readonly port: number;
}

export interface HttpService extends Admission {
  readonly clock: Clock;
  /** Logs a sentence about failures that reach no client. */
  readonly log: (sentence: string) => void;
  /** Finds the route of a request, before the caller is identified. */
  find(request: HttpRequest): Target;
  readonly answerFailure: AnswerFailure;
  /** How failures at a path are worded, where not as all others. */
  answerFailureAt?(path: string): AnswerFailure | undefined;
  /** The operator's log and metrics; without it requests are not logged, and `/metrics` and `/ready` do not exist. */
  readonly operator?: Operator | undefined;
}

/** What answers the requests of a service, however they come. */
export interface Answering {
  /** Answers a request of Node's; resolves when its answer was handed over. It does not reject. */
  take(exchange: Exchange): Promise<void>;
  /** The answer to a `Request`; `path` is its path below the place where this is mounted. It does not reject. */
  fetch(request: Request, path: string): Promise<Response>;
  /** Refuses new turns; requests that running turns need are served. */
  drain(): void;
  /** Refuses requests. */
  refuse(): void;
  /** Ends what watches the tokens, and gives answers on their way a moment. */
  close(): Promise<void>;
}

interface Exchange {
  readonly request: HttpRequest;
  readonly response: HttpResponse;
  /** Resolves when other clients that came at the same time are known. */
  readonly accepted?: () => Promise<void>;
  /** Tells a client that asked first to send its body. */
  readonly onAdmitted?: (() => void) | undefined;
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

export function createAnswering(service: HttpService): Answering {
  const { clock, log } = service;
  const callers = createCallers(service);
  const admit = createAdmission(service, callers);
  const answering = new Set<Promise<void>>();
  const { operator } = service;
  let isDraining = false;
  let isEnding = false;

  const answer = async (exchange: Exchange, seen: SeenRequest | undefined): Promise<Answer | undefined> => {
    const { request, response, accepted, onAdmitted } = exchange;
    const answerFailure = service.answerFailureAt?.(request.url ?? "") ?? service.answerFailure;
    if (answering.size >= REQUESTS_MAX) {
      return busyAnswer(`this server serves ${REQUESTS_MAX} requests, its limit`, answerFailure);
    }
    try {
      const { target, caller } = await admit(request, response, seen);
      // A surface that must read the body to know whether it starts a turn leaves this undefined.
      if (target.beginsTurn ?? request.method === "POST") await accepted?.();
      // Of a client that has left meanwhile neither a body nor its end would ever be heard.
      if (request.destroyed) return undefined;
      const isRefused = target.beginsTurn === true ? isDraining : isEnding && target.isLasting !== true;
      if (isRefused) return busyAnswer(IS_ENDING, answerFailure);
      if ("refusal" in target) return target.refusal;
      if (onAdmitted !== undefined) {
        requireFitting(request);
        onAdmitted();
      }
      endWith(caller, response, clock);
      return await target.answer(response, caller);
    } catch (thrown) {
      return answerFailure(thrown, detailOf(thrown));
    }
  };
  const serve = async (exchange: Exchange, seen: SeenRequest | undefined): Promise<void> => {
    const answered = await answer(exchange, seen);
    if (seen !== undefined && answered?.error !== undefined) seen.record.error = answered.error;
    if (answered !== undefined) await sendAnswer(exchange.request, exchange.response, answered);
  };
  const take = (exchange: Exchange): Promise<void> => {
    const { request, response } = exchange;
    const seen = operator?.begin(request, response);
    // A client that leaves early; an unhandled error would end the process.
    request.on("error", () => {});
    response.on("error", () => {});
    const begun = seen === undefined ? serve(exchange, seen) : seen.serve(() => serve(exchange, seen));
    const served = begun.catch((thrown: unknown) => {
      log(`a request could not be answered: ${messageOf(thrown)}`);
      response.destroy();
    });
    answering.add(served);
    void served.then(() => answering.delete(served));
    return served;
  };
  const drain = (): void => {
    isDraining = true;
    operator?.end();
  };
  return {
    take,
    fetch: (request, path) => {
      const exchange = createFetchExchange(request, path, { bodyMsMax: LIMITS.requestTimeout });
      // A body that broke off is not answered, and no connection ends that would end the wait for it.
      void take(exchange).then(() => exchange.response.headersSent || exchange.response.destroy());
      return exchange.answer;
    },
    drain,
    refuse: () => {
      drain();
      isEnding = true;
    },
    close: async () => {
      callers.close();
      await within(clock, FLUSH_MS_MAX, Promise.all(answering));
    },
  };
}

/** Listens in Node for the requests of a service. */
export async function openHttpServer(service: ListeningService): Promise<HttpServer> {
  const { clock, log, answerFailure, operator } = service;
  const answering = createAnswering(service);
  const take = (request: IncomingMessage, response: ServerResponse, onAdmitted?: () => void): void => {
    connections.hold(request.socket, response);
    void answering.take({ request, response, accepted: connections.accepted, onAdmitted });
  };
  const server = createServer(LIMITS, (request, response) => take(request, response));
  const connections = watchConnections(server);
  server.maxConnections = CONNECTIONS_MAX;
  // `Expect: 100-continue` is answered once the request is accepted, and not for a body that is too large.
  server.on("checkContinue", (request, response) => take(request, response, () => response.writeContinue()));
  server.on("clientError", (thrown: NodeJS.ErrnoException, socket) => {
    // In the middle of an answer there is no place for another.
    if (connections.isBusy(socket)) {
      socket.destroy();
      return;
    }
    const status = answerBrokenRequest(thrown, socket, answerFailure);
    if (status !== undefined) operator?.refuseBroken(status);
  });
  await listen(server, service).catch(async (thrown: unknown) => {
    await answering.close();
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
  const refuse = (): void => {
    answering.refuse();
    if (server.listening) server.close();
  };
  return {
    // A listening server has an address of this shape.
    address: server.address() as AddressInfo,
    drain: answering.drain,
    refuse,
    close: async () => {
      refuse();
      await answering.close();
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

/** The route of an accepted request, or the answer to a preflight; throws where the caller may not. */
function createAdmission(
  service: HttpService,
  callers: Callers,
): (
  request: HttpRequest,
  response: HttpResponse,
  seen: SeenRequest | undefined,
) => Promise<{ readonly target: Target; readonly caller: Caller }> {
  const guard = createGuard(service, callers);
  const mayKnow = async (request: HttpRequest): Promise<boolean> => {
    try {
      return hasScope(await guard(request, { isOpen: false }), "read");
    } catch {
      return false;
    }
  };
  const crossOrigin = createCrossOrigin(service.allowedOrigins ?? []);
  return async (request, response, seen) => {
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
    const isOpen = (target.isOpen === true && service.isMounted !== true) || preflight !== undefined;
    const caller = await guard(request, { isOpen, isPage: target.isPage === true });
    if (seen !== undefined && !isOpen) seen.record.caller = caller.name;
    if (preflight === undefined) return { target, caller };
    return { target: { refusal: { status: 200, type: "text/plain", text: "", headers: preflight } }, caller };
  };
}

/** Where HTTP says more of a failure than the table of errors can. */
function detailOf(thrown: unknown): HttpDetail {
  if (!(thrown instanceof RuntimeError)) return {};
  if (thrown.message === TOOK_TOO_LONG) return { status: 408 };
  if (thrown.code === "UNAUTHORIZED") return { headers: { "www-authenticate": "Bearer" } };
  const { details } = thrown;
  if (!isRecord(details) || typeof details.retry_after_secs !== "number") return {};
  return { status: 429, headers: { "retry-after": String(details.retry_after_secs) } };
}

/** Ends an answer whose caller may not have it any more, after a moment to end by itself. */
function endWith({ until }: Caller, response: HttpResponse, clock: Clock): void {
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
  { method, url = "" }: HttpRequest,
  mayKnow: () => Promise<boolean>,
): Target | undefined {
  const route = url.split("?", 1)[0] ?? "";
  if (operator === undefined || (route !== "/metrics" && route !== "/ready")) return undefined;
  if (method !== "GET" && method !== "HEAD") {
    const error = new RuntimeError("METHOD_NOT_FOUND", `${route} does not take ${method}; it takes GET, HEAD`);
    return { route, refusal: answerFailure(error, { status: 405, headers: { allow: "GET, HEAD" } }) };
  }
  if (route === "/metrics") {
    const answer = async (_: HttpResponse, caller: Caller) => {
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
    return jsonAnswer((await mayKnow()) ? { status, checks } : { status }, status === "unready" ? 503 : 200);
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
    hold: (socket: Duplex, response: HttpResponse) => {
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

function listen(server: Server, { host, port }: Pick<ListeningService, "host" | "port">): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const why = LISTEN_FAULTS[cause.code ?? ""] ?? cause.message;
      reject(invalid(`cannot listen at ${urlHost(host)}:${port}: ${why}`, cause));
    });
    server.listen({ host: host.replace(/^\[(.*)\]$/, "$1"), port }, resolve);
  });
}
