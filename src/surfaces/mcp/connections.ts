import type { IncomingMessage, ServerResponse } from "node:http";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { RuntimeError } from "../../contract/error.ts";
import { checkRequests } from "./checked-requests.ts";
import { createSentMessages } from "./sent-messages.ts";
import type { McpServer } from "./server.ts";

/** The clients that are connected, each with a server of its own. */
export interface Connections {
  /** Answers a request for MCP; throws when there is no such connection or no room for another. */
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>;
  close(): Promise<void>;
}

interface Connection {
  readonly server: McpServer;
  readonly transport: StreamableHTTPServerTransport;
  /** Requests that are being answered, the standing one for notices included. */
  open: number;
}

/** Clients rarely say goodbye: when there are this many, the one that was quiet for longest makes room. */
const CONNECTIONS_MAX = 256;
/** The limit of a body on every surface. */
const BODY_BYTES_MAX = 16 * 1_024 * 1_024;
/** How soon a client whose stream broke asks for the rest. */
const RETRY_MS = 1_000;

export function createConnections(parts: {
  readonly createServer: () => McpServer;
  readonly newId: () => string;
}): Connections {
  // In the order of their last request: the quietest is the first.
  const connections = new Map<string, Connection>();

  const connect = async (): Promise<Connection> => {
    await makeRoom();
    const server = parts.createServer();
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: parts.newId,
      maxRequestBodySize: BODY_BYTES_MAX,
      eventStore: createSentMessages(),
      retryInterval: RETRY_MS,
      onsessioninitialized: (id) => {
        connections.set(id, connection);
      },
    });
    const connection: Connection = { server, transport, open: 0 };
    transport.onclose = () => {
      if (transport.sessionId !== undefined) connections.delete(transport.sessionId);
    };
    // Its accessors may answer undefined, where the interface has the same fields absent.
    await server.connect(transport as Transport);
    checkRequests(transport as Transport);
    return connection;
  };
  const makeRoom = async (): Promise<void> => {
    if (connections.size < CONNECTIONS_MAX) return;
    const quiet = [...connections.values()].find(({ open }) => open === 0) ?? connections.values().next().value;
    await quiet?.server.close();
  };
  const find = (id: string): Connection => {
    const connection = connections.get(id);
    if (connection === undefined) throw new RuntimeError("SESSION_NOT_FOUND", "no connection has this Mcp-Session-Id");
    connections.delete(id);
    connections.set(id, connection);
    return connection;
  };
  return {
    handle: async (request, response) => {
      const id = request.headers["mcp-session-id"];
      const connection = typeof id === "string" ? find(id) : await connect();
      const { transport, server } = connection;
      connection.open += 1;
      response.once("close", () => {
        connection.open -= 1;
        // What was no greeting has begun nothing.
        if (transport.sessionId === undefined) void server.close();
      });
      await transport.handleRequest(request, response);
    },
    close: async () => {
      await Promise.all([...connections.values()].map(({ server }) => server.close()));
    },
  };
}
