import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { ErrorCode, isJSONRPCRequest, isJSONRPCResultResponse } from "@modelcontextprotocol/sdk/types.js";
import { messageOf } from "../../contract/error.ts";
import type { Clock } from "../../ports/clock.ts";
import type { McpAddress } from "../../ports/tool.ts";

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
export async function createUrlTransport(
  server: McpAddress,
  headers: Record<string, string>,
  clock: Clock,
): Promise<Line> {
  const url = new URL(server.url);
  const requestInit = { headers };
  if (server.transport === "sse") return createEventLine(url, requestInit);
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const answers = watchAnswers();
  const http = new StreamableHTTPClientTransport(url, { requestInit, fetch: answers.fetch });
  // `as`: the SDK's own class, whose optional fields differ from its interface.
  const transport = answers.over(http as Transport);
  const farewell = async (): Promise<void> => {
    const done = new AbortController();
    // A server that no longer answers need not be notified.
    await Promise.race([http.terminateSession().catch(() => {}), clock.sleep(FAREWELL_MS, done.signal)]);
    done.abort("done");
  };
  return { transport, ending: () => undefined, farewell };
}

/** All answers come over one stream: when it ends, the server is gone, even if another could be opened. */
async function createEventLine(url: URL, requestInit: RequestInit): Promise<Line> {
  const { SSEClientTransport, SseError } = await import("@modelcontextprotocol/sdk/client/sse.js");
  const transport = new SSEClientTransport(url, { requestInit });
  let ending: string | undefined;
  transport.onerror = (error) => {
    if (!(error instanceof SseError) || ending !== undefined) return;
    ending = `its stream of answers broke off: ${messageOf(error)}`;
    void transport.close();
  };
  return { transport, ending: () => ending, farewell: async () => {} };
}

interface Waiting {
  /** State of the stream for its answer. */
  stream: "none" | "open" | "ended";
  /** The server promised to resume the stream; the SDK asks it to. */
  isResumable: boolean;
}

const RESUMED_IN_VAIN = /^Maximum reconnection attempts/;

/** Answers a request with an error as soon as its own answer can no longer come. */
function watchAnswers() {
  const waiting = new Map<string | number, Waiting>();
  let inner: Transport | undefined;

  const lose = (id: string | number, why: string): void => {
    if (!waiting.delete(id)) return;
    inner?.onmessage?.({ jsonrpc: "2.0", id, error: { code: ErrorCode.ConnectionClosed, message: why, data: LOST } });
  };
  const loseResumed = (why: string): void => {
    for (const [id, { stream }] of waiting) if (stream === "ended") lose(id, why);
  };
  /** Data that arrived with the end of a stream is read after it: let the SDK process it first. */
  const endLater = (id: string | number, how: string): void => {
    setImmediate(() => {
      const request = waiting.get(id);
      if (request === undefined) return;
      request.stream = "ended";
      if (!request.isResumable) lose(id, how);
    });
  };
  return {
    fetch: async (url: string | URL, init?: RequestInit): Promise<Response> => {
      const response = await fetch(url, init);
      const id = init?.method === "POST" ? idOf(init.body) : undefined;
      const request = id === undefined ? undefined : waiting.get(id);
      const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
      if (id === undefined || request === undefined || !response.ok || !isStream || response.body === null)
        return response;
      request.stream = "open";
      const { status, statusText, headers } = response;
      return new Response(
        watched(response.body, (how) => endLater(id, how)),
        { status, statusText, headers },
      );
    },
    over: (transport: Transport): Transport => {
      inner = transport;
      transport.onmessage = (message) => {
        if (isJSONRPCResultResponse(message) || "error" in message) waiting.delete(message.id ?? "");
      };
      transport.onerror = (error) => {
        if (RESUMED_IN_VAIN.test(error.message)) loseResumed("its answer broke off and could not be resumed");
      };
      const send = transport.send.bind(transport);
      transport.send = async (message, options) => {
        if (!isJSONRPCRequest(message)) return send(message, options);
        const request: Waiting = { stream: "none", isResumable: false };
        waiting.set(message.id, request);
        const onresumptiontoken = (): void => {
          request.isResumable = true;
        };
        try {
          await send(message, { ...options, onresumptiontoken });
        } catch (thrown) {
          waiting.delete(message.id);
          throw thrown;
        }
        if (request.stream === "none") lose(message.id, "it accepted the request and sent no answer");
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

function watched(body: ReadableStream<Uint8Array>, ended: (how: string) => void): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream({
    pull: async (controller) => {
      try {
        const { value, done } = await reader.read();
        if (!done) return controller.enqueue(value);
        ended("it ended the stream of its answer before the answer");
        controller.close();
      } catch (thrown) {
        const cause = thrown instanceof Error && thrown.cause instanceof Error ? `: ${messageOf(thrown.cause)}` : "";
        ended(`its answer broke off: ${messageOf(thrown)}${cause}`);
        controller.error(thrown);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}
