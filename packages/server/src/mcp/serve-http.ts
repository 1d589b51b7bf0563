import {
  createMcpHandler,
  type EventStore,
  isLegacyRequest,
  type JSONRPCMessage,
  type McpHttpHandler,
  type Transport,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import type { Caller } from "@rkat/core/contract/caller";
import { asRuntimeError, invalid, RuntimeError } from "@rkat/core/contract/error";
import { isRecord } from "@rkat/core/contract/json";
import type { Clock } from "@rkat/core/ports/clock";
import { createBodyReader, type ReadBody } from "../http/body.ts";
import { currentRequest, within } from "../http/calls.ts";
import { type HttpRequest, type HttpResponse, sendResponse, toRequest } from "../http/exchange.ts";
import { faultFrame } from "../http/frames.ts";
import { urlHost } from "../http/guard.ts";
import { type Answer, rpcErrorAnswer } from "../http/http-answer.ts";
import {
  FLUSH_MS_MAX,
  type HttpServer,
  type ListeningService,
  openHttpServer,
  type Target,
} from "../http/http-server.ts";
import { NO_ID } from "../http/incoming.ts";
import { checkRequests, refusalOf } from "./checked-requests.ts";
import { type ClientState, type CreateServer, createClientState, endClient, type McpServer } from "./server.ts";

interface HttpOptions extends Omit<ListeningService, "find" | "answerFailure"> {
  readonly createServer: CreateServer;
}

interface HttpListener extends Pick<HttpServer, "drain" | "refuse" | "close"> {
  readonly url: string;
}

/** Serves streamable HTTP at `/mcp`; `/health` needs no token. */
export async function listenHttp(options: HttpOptions): Promise<HttpListener> {
  const { createServer, clock } = options;
  const connections = createConnections({ createServer, clock });
  const readBody = createBodyReader();

  const find = (request: HttpRequest): Target => {
    const path = request.url?.split("?", 1)[0];
    if (path === "/health") return HEALTH;
    if (path !== "/mcp")
      return { refusal: rpcErrorAnswer(new RuntimeError("METHOD_NOT_FOUND", "MCP is served at /mcp")) };
    const answer = async (response: HttpResponse, caller: Caller): Promise<Answer | undefined> => {
      // An unread body emits no end, and hides that the connection closed.
      if (request.method !== "POST") request.resume();
      const read = await messageIn(request, readBody);
      if ("refusal" in read) return read.refusal;
      await connections.handle(toRequest(request), response, { message: read.message, caller });
      return undefined;
    };
    return { route: path, answer };
  };
  const server = await openHttpServer({ ...options, find, answerFailure: rpcErrorAnswer }).catch((thrown: unknown) => {
    throw cannotListen(asRuntimeError(thrown), options);
  });
  const { address, port } = server.address;
  return {
    url: `http://${urlHost(address)}:${port}/mcp`,
    drain: server.drain,
    refuse: server.refuse,
    close: async () => {
      server.refuse();
      await connections.close();
      await server.close();
    },
  };
}

/** What was posted: nothing where there is nothing to read, or what the SDK refuses by its headers. */
async function messageIn(
  request: HttpRequest,
  readBody: ReadBody,
): Promise<{ readonly message?: unknown } | { readonly refusal: Answer }> {
  const isJson = /^application\/json\b/i.test(request.headers["content-type"] ?? "");
  if (request.method !== "POST" || !isJson) return {};
  try {
    const { value } = await readBody(request);
    return value === undefined ? unreadable("the body is empty: send a message of JSON-RPC") : { message: value };
  } catch (thrown) {
    const { code, message } = asRuntimeError(thrown);
    if (code !== "INVALID_PARAMS") throw thrown;
    return unreadable(message);
  }
}

function unreadable(message: string): { readonly refusal: Answer } {
  const text = faultFrame(NO_ID, { code: "PARSE_ERROR", message });
  return { refusal: { status: 400, type: "application/json", text } };
}

const HEALTH: Target = {
  isOpen: true,
  isLasting: true,
  route: "/health",
  answer: async () => ({ status: 200, type: "text/plain", text: "ok" }),
};

function cannotListen({ cause, message }: RuntimeError, { host, port }: HttpOptions): RuntimeError {
  const { code, message: said = message } = (cause ?? {}) as Partial<NodeJS.ErrnoException>; // What listening fails with.
  const why = code === "EADDRINUSE" ? "something else listens there" : said;
  const sentence = `--port ${port}: cannot listen on ${host} (${why}); choose another, or 0 for a free one`;
  return invalid(sentence, cause);
}

/** The clients that are connected, each with a server of its own. */
export interface Connections {
  /** Answers a request for MCP; throws when there is no such connection or no room for another. */
  handle(request: Request, response: HttpResponse, asked: RequestCaller): Promise<void>;
  /** Ends them, after a moment for the answers that are on their way. */
  close(): Promise<void>;
}

interface RequestCaller {
  readonly message: unknown;
  readonly caller: Caller;
}

interface Connection {
  readonly caller: Caller;
  readonly server: McpServer;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  /** Requests that are being answered, the standing one for notices included. */
  open: number;
  /** The ids of requests without an answer: the SDK would answer the newest of an id and leave the others waiting. */
  readonly pending: Set<unknown>;
}

/** A caller whose requests stand for themselves: since 2026-07-28 there is no connection. */
interface Requester {
  readonly handler: McpHttpHandler;
  readonly state: ClientState;
}

/** Clients rarely say goodbye: when there are this many, the one that was quiet for longest makes room. */
const CONNECTIONS_MAX = 256;
/** How soon a client whose stream broke asks for the rest. */
const RETRY_MS = 1_000;

export function createConnections(parts: { readonly createServer: CreateServer; readonly clock: Clock }): Connections {
  const { clock } = parts;
  /** The answers that are on their way; a standing stream of notices is none. */
  const answers = new Set<Promise<void>>();
  // In the order of their last request: the quietest is the first.
  const connections = new Map<string, Connection>();
  // In the order of their last request, too.
  const requesters = new Map<Caller, Requester>();

  const connect = async (caller: Caller): Promise<Connection> => {
    await makeRoom();
    const server = parts.createServer(caller);
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: clock.newId,
      eventStore: createSentMessages(),
      retryInterval: RETRY_MS,
      onsessioninitialized: (id) => {
        connections.set(id, connection);
      },
    });
    const connection: Connection = { caller, server, transport, open: 0, pending: new Set() };
    const onEnd = (): void => void server.close();
    caller.until?.addEventListener("abort", onEnd);
    transport.onclose = () => {
      caller.until?.removeEventListener("abort", onEnd);
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
  const find = (id: string, caller: Caller): Connection => {
    const connection = connections.get(id);
    // A connection belongs to its caller, even if others know its id.
    if (connection?.caller !== caller)
      throw new RuntimeError("SESSION_NOT_FOUND", "no connection has this Mcp-Session-Id");
    connections.delete(id);
    connections.set(id, connection);
    return connection;
  };
  const endRequester = async ({ handler, state }: Requester): Promise<void> => {
    endClient(state);
    await handler.close();
  };
  const requesterOf = (caller: Caller): Requester => {
    const state = createClientState();
    const createServer = () => parts.createServer(caller, { era: "modern", shared: state });
    const known = requesters.get(caller);
    const requester = known ?? { state, handler: createMcpHandler(createServer, { legacy: "reject" }) };
    requesters.delete(caller);
    requesters.set(caller, requester);
    const quiet = [...requesters].find(([, one]) => requesters.size > CONNECTIONS_MAX && one.state.running === 0);
    if (quiet !== undefined) {
      requesters.delete(quiet[0]);
      void endRequester(quiet[1]);
    }
    return requester;
  };
  /** Answers a request that needs no connection; its client cancels it by leaving. */
  const answerAlone = async (request: Request, response: HttpResponse, { message, caller }: RequestCaller) => {
    const refused = refusalOf(message);
    if (refused !== undefined) return sendResponse(response, Response.json(refused, { status: 400 }));
    const { promise: closed, resolve: close } = Promise.withResolvers<void>();
    const leaving = new AbortController();
    answers.add(closed);
    response.once("close", () => {
      leaving.abort("the client left");
      answers.delete(closed);
      close();
    });
    const { method, url, headers } = request;
    const asked = new Request(url, { method, headers, signal: leaving.signal });
    await sendResponse(response, await requesterOf(caller).handler.fetch(asked, { parsedBody: message }));
  };
  return {
    handle: async (request, response, { message, caller }) => {
      if (message !== undefined && !(await isLegacyRequest(request, message))) {
        return answerAlone(request, response, { message, caller });
      }
      const id = request.headers.get("mcp-session-id");
      const connection = id === null ? await connect(caller) : find(id, caller);
      const { transport, server, pending } = connection;
      const own = new Set<unknown>();
      for (const one of requestIds(message)) {
        if (pending.has(one) || own.has(one)) {
          const problem = `id: ${one} belongs to a request that has no answer yet; give each request its own id`;
          throw invalid(problem);
        }
        own.add(one);
      }
      for (const one of own) pending.add(one);
      connection.open += 1;
      const { promise: closed, resolve: close } = Promise.withResolvers<void>();
      // The standing stream of notices lasts as long as the client likes; a posted message ends with its answer.
      if (request.method === "GET") currentRequest()?.streams();
      else answers.add(closed);
      response.once("close", () => {
        close();
        answers.delete(closed);
        connection.open -= 1;
        for (const one of own) pending.delete(one);
        // What was no greeting has begun nothing.
        if (transport.sessionId === undefined) void server.close();
      });
      await sendResponse(response, await transport.handleRequest(request, { parsedBody: message }));
    },
    close: async () => {
      await within(clock, FLUSH_MS_MAX, Promise.all(answers));
      await Promise.all([...connections.values()].map(({ server }) => server.close()));
      await Promise.all([...requesters.values()].map(endRequester));
    },
  };
}

function requestIds(message: unknown): readonly (string | number)[] {
  return (Array.isArray(message) ? message : [message]).flatMap((one) => {
    const id: unknown = isRecord(one) && "method" in one ? one.id : undefined;
    return typeof id === "string" || typeof id === "number" ? [id] : [];
  });
}

interface Sent {
  readonly id: string;
  readonly streamId: string;
  readonly message: JSONRPCMessage;
  readonly chars: number;
}

const MESSAGES_MAX = 1_024;
const CHARS_MAX = 1_048_576;

/**
 * Keeps what was last sent to a client, for when its connection breaks within a long turn and it asks for the rest. A
 * client that asks for messages that were dropped is refused rather than sent fewer.
 */
export function createSentMessages(bounds = { messagesMax: MESSAGES_MAX, charsMax: CHARS_MAX }): EventStore {
  const sent: Sent[] = [];
  let count = 0;
  let chars = 0;
  const find = (id: string) => sent.findIndex((one) => one.id === id);
  return {
    storeEvent: async (streamId, message) => {
      count += 1;
      const one = { id: `${streamId}_${count}`, streamId, message, chars: JSON.stringify(message).length };
      sent.push(one);
      chars += one.chars;
      // The newest is kept whatever its size: the client may wait for it.
      while (sent.length > bounds.messagesMax || (chars > bounds.charsMax && sent.length > 1)) {
        chars -= sent.shift()?.chars ?? 0;
      }
      return one.id;
    },
    getStreamIdForEventId: async (id) => sent[find(id)]?.streamId,
    replayEventsAfter: async (lastId, { send }) => {
      const at = find(lastId);
      const streamId = sent[at]?.streamId ?? "";
      const missed = sent.slice(at + 1).filter((one) => one.streamId === streamId);
      // A stream begins with an empty message that says nothing.
      for (const { id, message } of missed) if ("jsonrpc" in message) await send(id, message);
      return streamId;
    },
  };
}
