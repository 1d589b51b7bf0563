import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { messageOf, RuntimeError } from "../../contract/error.ts";
import type { Clock } from "../../ports/clock.ts";
import { fitsBody } from "./body.ts";
import { answerBrokenRequest } from "./broken-request.ts";
import { urlHost } from "./guard.ts";
import { type Answer, busyAnswer } from "./http-answer.ts";
import { sendAnswer } from "./send.ts";

/** From a request to its answer; undefined when it was answered piece by piece. It does not throw. */
export type Answering = (request: IncomingMessage, response: ServerResponse) => Promise<Answer | undefined>;

export interface ListenerParts {
  readonly host: string;
  readonly port: number;
  readonly clock: Clock;
  readonly log: (sentence: string) => void;
}

/** A place where requests come in. */
export interface HttpListener {
  readonly url: string;
  /** Accepts no more connections, and refuses what comes by those that are open. */
  refuse(): void;
  /** Closes every connection, after a moment for the answers that are on their way; calling it twice does no harm. */
  close(): Promise<void>;
}

const CONNECTIONS_MAX = 4_096;
const REQUESTS_MAX = 4_096;
/** How often connections are looked at for having taken too long. */
const CHECK_MS = 1_000;
/** How long answers may take to leave once everything has ended. */
const FLUSH_MS_MAX = 1_000;
const FLUSH_STEP_MS = 20;

const LIMITS = {
  maxHeaderSize: 16 * 1_024,
  headersTimeout: 10_000,
  requestTimeout: 60_000,
  keepAliveTimeout: 5_000,
  connectionsCheckingInterval: CHECK_MS,
  keepAlive: true,
} as const;

/** Listens for requests and sends their answers. */
export async function openListener(parts: ListenerParts, answer: Answering): Promise<HttpListener> {
  const { clock, log } = parts;
  const answering = new Set<Promise<void>>();
  let isEnding = false;

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (isEnding) return sendAnswer(request, response, busyAnswer("this server is ending"));
    if (answering.size >= REQUESTS_MAX) {
      return sendAnswer(request, response, busyAnswer(`this server serves ${REQUESTS_MAX} requests, its limit`));
    }
    const answered = await answer(request, response);
    if (answered !== undefined) await sendAnswer(request, response, answered);
  };
  const take = (request: IncomingMessage, response: ServerResponse): void => {
    connections.hold(request.socket, response);
    // A client that leaves in the middle is heard of here; unheard, it would end the process.
    request.on("error", () => {});
    response.on("error", () => {});
    const served = serve(request, response).catch((thrown: unknown) => {
      log(`a request could not be answered: ${messageOf(thrown)}`);
      response.destroy();
    });
    answering.add(served);
    void served.then(() => answering.delete(served));
  };
  const server = createServer(LIMITS, take);
  const connections = watchConnections(server);
  server.maxConnections = CONNECTIONS_MAX;
  // A client that asks before it sends a body is not told to go on with one that is too large.
  server.on("checkContinue", (request, response) => {
    if (fitsBody(request)) response.writeContinue();
    take(request, response);
  });
  server.on("clientError", (thrown: NodeJS.ErrnoException, socket) => {
    // In the middle of an answer there is no place for another.
    if (connections.isBusy(socket)) socket.destroy();
    else answerBrokenRequest(thrown, socket);
  });
  await listen(server, parts);
  // Such as a connection that cannot be accepted: unheard, it would end the process.
  server.on("error", (thrown) => log(thrown.message));
  let isOpen = true;
  const closed = new Promise<void>((resolve) => {
    server.once("close", () => {
      isOpen = false;
      resolve();
    });
  });
  const refuse = (): void => {
    if (isEnding) return;
    isEnding = true;
    server.close();
  };
  return {
    // A listening server has an address of this shape.
    url: `http://${urlHost(parts.host)}:${(server.address() as AddressInfo).port}`,
    refuse,
    close: async () => {
      refuse();
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

/** Waits for work, and not for longer than this. */
export async function within(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  const done = new AbortController();
  await Promise.race([work, clock.sleep(ms, done.signal)]);
  done.abort("done");
}

/** The connections of a server, and those with an answer on its way; several requests may be under way on one. */
function watchConnections(server: Server) {
  const open = new Set<Socket>();
  const busy = new Map<Duplex, number>();
  server.on("connection", (socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  return {
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

function listen(server: Server, { host, port }: Pick<ListenerParts, "host" | "port">): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const why = LISTEN_FAULTS[cause.code ?? ""] ?? cause.message;
      reject(new RuntimeError("INVALID_PARAMS", `cannot listen at ${urlHost(host)}:${port}: ${why}`, { cause }));
    });
    server.listen({ host: host.replace(/^\[(.*)\]$/, "$1"), port }, resolve);
  });
}
