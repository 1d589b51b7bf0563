import { RuntimeError } from "../../contract/error.ts";
import { type Fields, isFields } from "./driver.ts";
import { eventOf, type McpConnection } from "./mcp-driver.ts";
import { createCallsBySession } from "./wire/calls-by-session.ts";
import type { Start } from "./wire/child.ts";
import { openPeer } from "./wire/json-lines.ts";
import { sseFrames } from "./wire/sse.ts";
import { withinTime } from "./wire/time-limit.ts";

const PROTOCOL = "2025-06-18";
const HELLO = {
  protocolVersion: PROTOCOL,
  capabilities: {},
  clientInfo: { name: "rkat-conformance", version: "1" },
};

/** Starts a server of MCP and speaks over its stdin and stdout. */
export async function connectStdio(start: Start): Promise<McpConnection> {
  const calls = createCallsBySession();
  const hear = (frame: Fields): void => {
    const told = eventOf(frame);
    if (told !== undefined) calls.tell(told.session, told.event);
  };
  const peer = await openPeer(start, { hear, hello: HELLO });
  peer.notify("notifications/initialized", {});
  return {
    callTool: async (operation, call, hear) => {
      const end = calls.begin(operation, call.arguments.session_id, hear);
      try {
        return await peer.request("tools/call", call);
      } finally {
        end();
      }
    },
    close: () => peer.close(),
  };
}

/** Connects to a server of MCP over streamable HTTP. */
export async function connectHttp(url: string, token: string | undefined): Promise<McpConnection> {
  const headers: Record<string, string> = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  };
  let id = 0;
  const post = (message: Fields) =>
    fetch(url, { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", ...message }) });
  const request = async (method: string, params: unknown, hear: (frame: Fields) => void = () => {}) => {
    id += 1;
    const response = await post({ id, method, params });
    const session = response.headers.get("mcp-session-id");
    if (session !== null) headers["mcp-session-id"] = session;
    return answerIn(response, hear);
  };
  const hello = await withinTime(request("initialize", HELLO), url);
  if (!isFields(hello.result)) throw new RuntimeError("INVALID_PARAMS", `${url} does not speak MCP`);
  headers["mcp-protocol-version"] = String(hello.result.protocolVersion);
  await (await post({ method: "notifications/initialized" })).body?.cancel();
  return {
    callTool: (_, call, hear) =>
      request("tools/call", call, (frame) => {
        const told = eventOf(frame);
        if (told !== undefined) hear?.(told.event);
      }),
    close: async () => {
      await (await fetch(url, { method: "DELETE", headers })).body?.cancel();
    },
  };
}

/** The frame that answers: alone, or the last of a stream. */
async function answerIn(response: Response, hear: (frame: Fields) => void): Promise<Fields> {
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
  if (!isStream || response.body === null) {
    const frame: unknown = await response.json();
    return isFields(frame) ? frame : { error: frame };
  }
  for await (const { data } of sseFrames(response.body)) {
    if (!isFields(data)) continue;
    if ("id" in data && !("method" in data)) return data;
    hear(data);
  }
  return { error: "the stream ended without an answer" };
}
