import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import {
  CallToolRequestSchema,
  InitializeRequestSchema,
  type JSONRPCMessage,
  type JSONRPCRequest,
  ListToolsRequestSchema,
  PingRequestSchema,
  SetLevelRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { ERRORS, invalid, type RuntimeError } from "@rkat/core/contract/error";
import { invalidInput } from "@rkat/core/contract/input";
import { DEPTH_MAX, isRecord } from "../http/incoming.ts";

/** What each request that is served looks like; any other is refused by its name. */
const REQUESTS = new Map(
  [
    InitializeRequestSchema,
    PingRequestSchema,
    ListToolsRequestSchema,
    CallToolRequestSchema,
    SetLevelRequestSchema,
  ].map((schema): readonly [string, typeof schema] => [schema.shape.method.value, schema]),
);

/**
 * Answers a request that is not as MCP has it, before the SDK looks at it: that one would call what a client got wrong
 * an internal error, and show the client the list of its schema's complaints.
 */
export function checkRequests(transport: Transport): void {
  const handOn = transport.onmessage;
  transport.onmessage = (message, extra) => {
    const asked = withGreeting(withoutTask(message));
    const problem = problemOf(asked);
    if (problem === undefined) handOn?.(asked, extra);
    else transport.send(refusal(problem.id, problem.error)).catch(() => {}); // The client may be gone.
  };
}

/** Tasks are not supported, so requests for one are served as plain requests; the SDK would refuse them. */
function withoutTask<M extends JSONRPCMessage>(message: M): M {
  if (!("params" in message) || !isRecord(message.params) || !("task" in message.params)) return message;
  const { task: _, ...params } = message.params;
  return { ...message, params };
}

/** The greeting of a client that sends an empty one: existing servers of these tools answer it. */
const GREETING = {
  protocolVersion: "2024-11-05",
  capabilities: {},
  clientInfo: { name: "unnamed", version: "0" },
};

/** A greeting with what it leaves out; what is there and wrong stays wrong. */
function withGreeting<M>(message: M): M {
  if (!isRecord(message) || message.method !== "initialize") return message;
  const { params = {} } = message;
  return isRecord(params) ? { ...message, params: { ...GREETING, ...params } } : message;
}

function problemOf(message: JSONRPCMessage): { id: JSONRPCRequest["id"]; error: RuntimeError } | undefined {
  if (!("method" in message && "id" in message)) return undefined;
  if (isTooDeep(message)) {
    const error = invalid(`params: nested deeper than ${DEPTH_MAX}`);
    return { id: message.id, error };
  }
  const parsed = REQUESTS.get(message.method)?.safeParse(message);
  if (parsed === undefined || parsed.success) return undefined;
  return { id: message.id, error: invalidInput(parsed.error) };
}

/** Whether a value that was parsed is nested deeper than a line may be; one level is held at a time. */
function isTooDeep(value: unknown): boolean {
  let level: readonly unknown[] = [value];
  for (let depth = 0; depth < DEPTH_MAX && level.length > 0; depth += 1) {
    level = level.flatMap((one) => (typeof one === "object" && one !== null ? Object.values(one) : []));
  }
  return level.some((one) => typeof one === "object" && one !== null);
}

function refusal(id: JSONRPCRequest["id"], error: RuntimeError): JSONRPCMessage {
  return { jsonrpc: "2.0", id, error: { code: ERRORS[error.code].rpc, message: error.message, data: error.toWire() } };
}
