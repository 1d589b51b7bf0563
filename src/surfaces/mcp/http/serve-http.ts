import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { asRuntimeError, ERRORS, RuntimeError } from "../../../contract/error.ts";
import { createGuard } from "../../http/guard.ts";
import type { McpServer } from "../server.ts";
import { createConnections } from "./connections.ts";

export interface HttpOptions {
  readonly host: string;
  readonly token: string | undefined;
  /** 0 takes a free one. */
  readonly port: number;
  /** Makes the server of one client. */
  readonly createServer: () => McpServer;
  readonly newId: () => string;
}

export interface HttpListener {
  /** Where clients connect to. */
  readonly url: string;
  /** Ends every connection and stops listening. */
  close(): Promise<void>;
}

/** Clients and their streams that may be connected at once. */
const SOCKETS_MAX = 1_024;

/** Listens for clients of streamable HTTP at `/mcp`; `/health` answers whoever asks. */
export async function listenHttp(options: HttpOptions): Promise<HttpListener> {
  const { host, port, newId } = options;
  const guard = createGuard({ ...options, allowedHosts: [] });
  const connections = createConnections({ createServer: options.createServer, newId });

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = request.url?.split("?", 1)[0];
    if (path === "/health") {
      response.writeHead(200, { "content-type": "text/plain" }).end("ok");
      return;
    }
    guard(request.headers, { isOpen: false });
    if (path !== "/mcp") throw new RuntimeError("METHOD_NOT_FOUND", "MCP is served at /mcp");
    // Of a body that nobody reads, neither the end is heard nor that of the connection.
    if (request.method !== "POST") request.resume();
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
    close: async () => {
      const closed = new Promise((resolve) => http.close(resolve));
      await connections.close();
      http.closeAllConnections();
      await closed;
    },
  };
}

function sentenceOf(cause: Error, host: string, port: number): string {
  const { code } = cause as NodeJS.ErrnoException; // What listening fails with.
  const why = code === "EADDRINUSE" ? "something else listens there" : cause.message;
  return `--port ${port}: cannot listen on ${host} (${why}); choose another, or 0 for a free one`;
}

function refuse(response: ServerResponse, error: RuntimeError): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const row = ERRORS[error.code];
  const challenge = error.code === "UNAUTHORIZED" ? { "www-authenticate": "Bearer" } : {};
  const body = { jsonrpc: "2.0", id: null, error: { code: row.rpc, message: error.message, data: error.toWire() } };
  // What is left of the request is not read, so the connection cannot be used again.
  response.writeHead(row.http, { "content-type": "application/json", connection: "close", ...challenge });
  response.end(JSON.stringify(body));
}
