import type { Capability } from "@rkat/core/contract/capability";
import { RuntimeError } from "@rkat/core/contract/error";
import { isRecord } from "@rkat/core/contract/json";
import { OPERATIONS, type OperationName, operationOf } from "@rkat/core/contract/operations";
import { type Start, withinTime } from "./child.ts";
import {
  type Driver,
  eventIn,
  type Fields,
  lackOfTurns,
  type Outcome,
  type ReportedEvent,
  runsTurn,
} from "./driver.ts";
import { sseFrames } from "./rest-driver.ts";
import { createCallsBySession, openPeer } from "./rpc-driver.ts";
import type { Ability } from "./scenario.ts";

/** A connection with a server of MCP. */
export interface McpConnection {
  /** Calls a tool; `listener` is told the events of the turn it runs. */
  callTool(
    operation: OperationName,
    call: { readonly name: string; readonly arguments: Fields },
    listener: ((event: ReportedEvent) => void) | undefined,
  ): Promise<Fields>;
  close(): Promise<void>;
}

export interface McpTarget {
  readonly surface: "mcp" | "mcp-http";
  lacks(ability: Ability): string | undefined;
  open(): Promise<McpConnection>;
  restart(): Promise<void>;
  close(): Promise<void>;
}

/** Tells scenarios through a server of MCP, however it is connected to. */
export async function openMcpDriver(target: McpTarget): Promise<Driver> {
  let connection = await target.open();
  return {
    surface: target.surface,
    lacks: (ability, present) => target.lacks(ability) ?? lackOfTools(ability, present),
    hasEvents: (operation) => runsTurn(operation),
    call: async (operation, input, onEvent) => {
      const row = OPERATIONS[operation];
      if (!("mcp" in row)) return { ok: false, code: "no tool", message: `${operation} has no tool` };
      const stream = onEvent === undefined ? {} : { stream: true };
      const answer = await connection.callTool(
        operation,
        { name: row.mcp, arguments: { ...asTool(operation, input), ...stream } },
        onEvent,
      );
      return outcomeOf(operation, answer);
    },
    restart: async () => {
      await connection.close();
      await target.restart();
      connection = await target.open();
    },
    close: async () => {
      await connection.close();
      await target.close();
    },
  };
}

/** One tool has both operations on skills (contract §6). */
function asTool(operation: OperationName, input: Fields): Fields {
  if (operation === "listSkills") return { action: "list", source: input.source_uuid };
  if (operation !== "readSkill") return withTools(input);
  const { file, ...skill_key } = input;
  return { action: "inspect", skill_key, file };
}

/** Tools that the client runs have another name here (contract §6). */
function withTools({ client_tools, ...input }: Fields): Fields {
  return client_tools === undefined ? input : { ...input, tools: client_tools };
}

/** Pins are for people to decide (contract §15). */
function lackOfTools(ability: Ability, present: ReadonlySet<Capability>): string | undefined {
  if (ability === "questions") return "a person answers, whom the client asks, so there is no tool for it";
  if (ability === "pins") return "messages are pinned by people, so there is no tool for it";
  if (ability === "servers") return "people decide what is started, so there is no tool for it";
  if (ability === "pruning") return "people decide what goes for good, so there is no tool for it";
  return lackOfTurns(ability, present);
}

/** The event in a notice of a turn's. */
function eventOf({ method, params }: Fields): { readonly session: unknown; readonly event: ReportedEvent } | undefined {
  if (method !== "notifications/message" || !isRecord(params) || !isRecord(params.data)) return undefined;
  const { source, session_id, event } = params.data;
  return source === "meerkat" ? { session: session_id, event: eventIn(event) } : undefined;
}

function outcomeOf(operation: OperationName, { result, error }: Fields): Outcome {
  // A failure of a tool is a result (contract §2, C13); an error of the protocol is none of the table's.
  if (!isRecord(result)) return { ok: false, code: "an error of the protocol", message: JSON.stringify(error) };
  const [block] = Array.isArray(result.content) ? result.content : [];
  const payload: unknown = JSON.parse(String(Object(block).text));
  if (result.isError !== true) return { ok: true, result: asTable(operation, payload) };
  const { code, error: message, details } = Object(payload);
  return { ok: false, code: String(code), message: String(message), ...(details === undefined ? {} : { details }) };
}

/** A turn's text is a block, what is absent is null (contract §6), and a search answers with the list alone (§16). */
function asTable(operation: OperationName, payload: unknown): unknown {
  const { mcpGives } = operationOf(operation);
  if (mcpGives !== undefined) return { [mcpGives]: payload };
  if (operation === "readSession") return readAsTable(payload);
  if (!runsTurn(operation) || !isRecord(payload)) return payload;
  const { content, status, pending_tool_calls, ...rest } = payload;
  const fields = { ...rest, pending_calls: pendingAsTable(pending_tool_calls) };
  const present = Object.entries(fields).filter(([, value]) => value !== null);
  const texts = Array.isArray(content) ? content.map((block: unknown) => String(Object(block).text)) : [];
  // A sentence of its own stands where the calls are told (contract §6).
  const text = status === "pending_tool_call" ? "" : texts.join("");
  if (texts.length > 0) return { ...Object.fromEntries(present), text };
  // A session that has not run has no counts in the table.
  const { turns: _turns, tool_calls: _calls, ...deferred } = Object.fromEntries(present);
  return deferred;
}

/** A call's id stands among its arguments, too (contract §6). */
function pendingAsTable(calls: unknown): unknown {
  if (!Array.isArray(calls)) return null;
  return calls.map((call: unknown) => {
    const { tool_use_id: id, tool_name: name, args } = Object(call);
    const { tool_use_id: _again, ...given } = Object(args);
    return { id, name, args: given };
  });
}

/** What a session has used stands apart from it, and its times are objects (contract §6). */
function readAsTable(payload: unknown): unknown {
  const { state, billing, session_ref } = Object(payload);
  const seconds = (time: unknown): unknown => Object(time).secs_since_epoch ?? "no time";
  if (!isRecord(state) || !isRecord(billing)) return payload;
  const times = { created_at: seconds(state.created_at), updated_at: seconds(state.updated_at) };
  return { ...state, ...times, ...billing, ...(session_ref === undefined ? {} : { session_ref }) };
}

const PROTOCOL = "2025-06-18";
const HELLO = {
  protocolVersion: PROTOCOL,
  capabilities: {},
  clientInfo: { name: "rkat-conformance", version: "1" },
};

/** Starts a server of MCP and speaks over its stdin and stdout. */
export async function connectStdio(start: Start): Promise<McpConnection> {
  const calls = createCallsBySession();
  const listener = (frame: Fields): void => {
    const reported = eventOf(frame);
    if (reported !== undefined) calls.emit(reported.session, reported.event);
  };
  const peer = await openPeer(start, { listener, hello: HELLO });
  peer.notify("notifications/initialized", {});
  return {
    callTool: async (operation, call, listener) => {
      const end = calls.begin(operation, call.arguments.session_id, listener);
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
  const request = async (method: string, params: unknown, listener: (frame: Fields) => void = () => {}) => {
    id += 1;
    const response = await post({ id, method, params });
    const session = response.headers.get("mcp-session-id");
    if (session !== null) headers["mcp-session-id"] = session;
    return answerIn(response, listener);
  };
  const hello = await withinTime(request("initialize", HELLO), url);
  if (!isRecord(hello.result)) throw new RuntimeError("INVALID_PARAMS", `${url} does not speak MCP`);
  headers["mcp-protocol-version"] = String(hello.result.protocolVersion);
  await (await post({ method: "notifications/initialized" })).body?.cancel();
  return {
    callTool: (_, call, listener) =>
      request("tools/call", call, (frame) => {
        const reported = eventOf(frame);
        if (reported !== undefined) listener?.(reported.event);
      }),
    close: async () => {
      await (await fetch(url, { method: "DELETE", headers })).body?.cancel();
    },
  };
}

/** The frame that answers: alone, or the last of a stream. */
async function answerIn(response: Response, listener: (frame: Fields) => void): Promise<Fields> {
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
  if (!isStream || response.body === null) {
    const frame: unknown = await response.json();
    return isRecord(frame) ? frame : { error: frame };
  }
  for await (const { data } of sseFrames(response.body)) {
    if (!isRecord(data)) continue;
    if ("id" in data && !("method" in data)) return data;
    listener(data);
  }
  return { error: "the stream ended without an answer" };
}
