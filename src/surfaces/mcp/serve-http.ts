import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { asRuntimeError, ERRORS, RuntimeError } from "../../contract/error.ts";
import { createCrossOrigin } from "../wire/cross-origin.ts";
import { type Admission, createGuard } from "../wire/guard.ts";
import { createConnections } from "./connections.ts";
import type { McpServer } from "./server.ts";

export interface HttpOptions extends Admission {
  /** 0 takes a free one. */
  readonly port: number;
  /** Makes the server of one client. */
  readonly createServer: () => McpServer;
  readonly newId: () => string;
}

export interface HttpListener {
  /** Where clients connect to. */
  readonly url: string;
  /** Accepts no more connections, and refuses what comes by those that are open. */
  refuse(): void;
  /** Ends every connection and stops listening. */
  close(): Promise<void>;
}

/** Clients and their streams that may be connected at once. */
const SOCKETS_MAX = 1_024;
const ENDING_STATUS = 503;
/** How long answers may take to leave once everything has ended. */
const FLUSH_MS_MAX = 1_000;

/** Listens for clients of streamable HTTP at `/mcp`; `/health` answers whoever asks. */
export async function listenHttp(options: HttpOptions): Promise<HttpListener> {
  const { host, port, newId } = options;
  const guard = createGuard(options);
  const crossOrigin = createCrossOrigin(options.allowedOrigins ?? []);
  const connections = createConnections({ createServer: options.createServer, newId });

  const answers = watchAnswers();
  let isEnding = false;
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = "", headers } = request;
    for (const [name, value] of Object.entries(crossOrigin.headersFor(headers))) response.setHeader(name, value);
    const path = request.url?.split("?", 1)[0];
    const preflight = crossOrigin.preflight(method, headers);
    guard(request, { isOpen: path === "/health" || preflight !== undefined });
    if (preflight !== undefined) {
      response.writeHead(200, { ...preflight, "content-type": "text/plain" }).end();
      return;
    }
    if (path === "/health") {
      response.writeHead(200, { "content-type": "text/plain" }).end("ok");
      return;
    }
    if (isEnding) {
      refuse(response, new RuntimeError("AGENT_ERROR", "this server is ending"), ENDING_STATUS);
      return;
    }
    if (path !== "/mcp") throw new RuntimeError("METHOD_NOT_FOUND", "MCP is served at /mcp");
    // Of a body that nobody reads, neither the end is heard nor that of the connection.
    if (method === "POST") answers.hold(response);
    else request.resume();
    await connections.handle(request, response);
  };
  const http = createServer((request, response) => {
    answer(request, response).catch((thrown) => refuse(response, asRuntimeError(thrown)));
  });
  http.maxConnections = SOCKETS_MAX;
  await new Promise<void>((resolve, reject) => {
    http.once("error", (cause) => reject(new RuntimeError("INVALID_PARAMS", sentenceOf(cause, host, port), { cause })));
    http.listen(port, host, resolve);
  });
  // A server that listens on a port has an address of this shape.
  const { address, port: taken, family } = http.address() as AddressInfo;
  return {
    url: `http://${family === "IPv6" ? `[${address}]` : address}:${taken}/mcp`,
    refuse: () => {
      isEnding = true;
      http.close();
    },
    close: async () => {
      const closed = new Promise((resolve) => http.close(resolve));
      await answers.sent();
      await connections.close();
      http.closeAllConnections();
      await closed;
    },
  };
}

/** The answers that are on their way; a standing stream of notices is none. */
function watchAnswers() {
  const open = new Set<Promise<void>>();
  return {
    hold: (response: ServerResponse): void => {
      const closed = new Promise<void>((resolve) => response.once("close", resolve)).then(
        () => void open.delete(closed),
      );
      open.add(closed);
    },
    sent: async (): Promise<void> => {
      const done = new AbortController();
      const late = wait(FLUSH_MS_MAX, undefined, { signal: done.signal }).catch(() => {});
      await Promise.race([Promise.all(open), late]);
      done.abort("done");
    },
  };
}

function sentenceOf(cause: Error, host: string, port: number): string {
  const { code } = cause as NodeJS.ErrnoException; // What listening fails with.
  const why = code === "EADDRINUSE" ? "something else listens there" : cause.message;
  return `--port ${port}: cannot listen on ${host} (${why}); choose another, or 0 for a free one`;
}

function refuse(response: ServerResponse, error: RuntimeError, status: number = ERRORS[error.code].http): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const row = ERRORS[error.code];
  const challenge = error.code === "UNAUTHORIZED" ? { "www-authenticate": "Bearer" } : {};
  const body = { jsonrpc: "2.0", id: null, error: { code: row.rpc, message: error.message, data: error.toWire() } };
  // What is left of the request is not read, so the connection cannot be used again.
  response.writeHead(status, { "content-type": "application/json", connection: "close", ...challenge });
  response.end(JSON.stringify(body));
}
