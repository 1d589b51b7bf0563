import {
  isJSONRPCErrorResponse,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  SSEClientTransport,
  type SSEClientTransportOptions,
  SseError,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { messageOf } from "../../contract/error.ts";
import type { Clock } from "../../ports/clock.ts";
import type { McpAddress, McpLogins } from "../../ports/tool.ts";
import type { Env } from "../shell.ts";
import { authorizeBy, hasOwnAuthorization } from "./login.ts";
import { fillHeaders } from "./variables.ts";

export interface Line {
  readonly transport: Transport;
  /** How the server ended, if known. */
  ending(): string | undefined;
  /** What a server expects before its client leaves. */
  farewell(): Promise<void>;
}

/** Marks errors of requests whose answer can no longer come. */
export const LOST: object = Object.freeze({ reason: "no answer can come" });

const FAREWELL_MS = 300;

/** A server at an address. When the server dies, the SDK lets calls time out; here they fail at once. */
export function createUrlTransport(
  server: McpAddress,
  { env, clock, logins }: { readonly env: Env; readonly clock: Clock; readonly logins: McpLogins | undefined },
): Line {
  const url = new URL(server.url);
  const requestInit = { headers: fillHeaders(server.headers ?? {}, env) };
  const authorized = hasOwnAuthorization(server) ? {} : { authProvider: authorizeBy(server, logins) };
  if (server.transport === "sse") return createEventLine(url, { requestInit, ...authorized });
  const answers = watchAnswers();
  const http = new StreamableHTTPClientTransport(url, { requestInit, ...authorized, fetch: answers.fetch });
  const transport = answers.over(http);
  const farewell = async (): Promise<void> => {
    const done = new AbortController();
    // A server that no longer answers need not be notified.
    await Promise.race([http.terminateSession().catch(() => {}), clock.sleep(FAREWELL_MS, done.signal)]);
    done.abort("done");
  };
  return { transport, ending: () => undefined, farewell };
}

/** All answers come over one stream: when it ends, the server is gone, even if another could be opened. */
function createEventLine(url: URL, options: SSEClientTransportOptions): Line {
  const transport = new SSEClientTransport(url, options);
  let ending: string | undefined;
  transport.onerror = (error) => {
    if (!(error instanceof SseError) || ending !== undefined) return;
    ending = `its stream of answers broke off: ${messageOf(error)}`;
    void transport.close();
  };
  return { transport, ending: () => ending, farewell: async () => {} };
}

const BROKEN = /^SSE stream disconnected: (?:\w*Error: )?/;
const RESUMED_IN_VAIN = /^Maximum reconnection attempts/;
/** JSON-RPC's first code for errors of implementations. */
const SERVER_ERROR = -32_000;

/** Answers a request with an error as soon as its own answer can no longer come. */
function watchAnswers() {
  /** By the request's id, whether its answer is a stream. */
  const waiting = new Map<string | number, { isStream: boolean }>();
  let how: string | undefined;
  return {
    fetch: async (url: string | URL, init?: RequestInit): Promise<Response> => {
      const response = await fetch(url, init);
      const request = init?.method === "POST" ? waiting.get(idOf(init.body) ?? "") : undefined;
      const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
      if (request !== undefined) request.isStream = response.ok && isStream;
      return response;
    },
    over: (transport: Transport): Transport => {
      const lose = (id: string | number, message: string): void => {
        if (!waiting.delete(id)) return;
        transport.onmessage?.({ jsonrpc: "2.0", id, error: { code: SERVER_ERROR, message, data: LOST } });
      };
      transport.onmessage = (message) => {
        if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) waiting.delete(message.id ?? "");
      };
      // The SDK says why a stream has ended right before it says that it has.
      transport.onerror = ({ message }) => {
        if (BROKEN.test(message)) how = `its answer broke off: ${message.replace(BROKEN, "")}`;
        if (RESUMED_IN_VAIN.test(message)) how = "its answer broke off and could not be resumed";
      };
      const send = transport.send.bind(transport);
      transport.send = async (message, options) => {
        // The SDK itself watches the stream of changes.
        if (!isJSONRPCRequest(message) || options?.onRequestStreamEnd !== undefined) return send(message, options);
        const request = { isStream: false };
        waiting.set(message.id, request);
        const onRequestStreamEnd = (): void => {
          lose(message.id, how ?? "it ended the stream of its answer before the answer");
          how = undefined;
        };
        try {
          await send(message, { ...options, onRequestStreamEnd });
        } catch (thrown) {
          waiting.delete(message.id);
          throw thrown;
        }
        if (!request.isStream) lose(message.id, "it accepted the request and sent no answer");
      };
      return transport;
    },
  };
}

/** The id of a request; only the SDK writes these bodies. */
function idOf(body: unknown): string | number | undefined {
  const message: unknown = typeof body === "string" ? JSON.parse(body) : undefined;
  return isJSONRPCRequest(message) ? message.id : undefined;
}
