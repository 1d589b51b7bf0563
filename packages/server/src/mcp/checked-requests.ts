import {
  CallToolRequestSchema,
  InitializeRequestSchema,
  ListToolsRequestSchema,
  PingRequestSchema,
  SetLevelRequestSchema,
} from "@modelcontextprotocol/core";
import {
  type JSONRPCMessage,
  type JSONRPCRequest,
  PROTOCOL_VERSION_META_KEY,
  type Transport,
} from "@modelcontextprotocol/server";
import { ERRORS, invalid, type RuntimeError } from "@rkat/core/contract/error";
import { invalidInput } from "@rkat/core/contract/input";
import { isRecord } from "@rkat/core/contract/json";
import { DEPTH_MAX } from "../http/incoming.ts";
import { declaredIn, tasksMissing } from "./tasks.ts";

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

/** Those that 2026-07-28 has, too; it has no others, whatever they look like. */
const MODERN: ReadonlySet<string> = new Set(["tools/list", "tools/call"]);

/**
 * Answers a request that is not as MCP has it, before the SDK looks at it: that one would call what a client got wrong
 * an internal error, and show the client the list of its schema's complaints.
 */
export function checkRequests(transport: Transport): void {
  const handOn = transport.onmessage;
  transport.onmessage = (message, extra) => {
    const asked = withGreeting(message);
    const refused = refusalOf(asked);
    if (refused === undefined) handOn?.(asked, extra);
    else transport.send(refused).catch(() => {}); // The client may be gone.
  };
}

/** The error that answers a request that is not as MCP has it; undefined for any other message. */
export function refusalOf(message: unknown): JSONRPCMessage | undefined {
  if (!isRecord(message) || typeof message.method !== "string") return undefined;
  const { id, method } = message;
  if (typeof id !== "string" && typeof id !== "number") return undefined;
  if (isTooDeep(message)) return refusal(id, invalid(`params: nested deeper than ${DEPTH_MAX}`));
  const asked = isRecord(message.params) ? message.params : {};
  const isModern = isRecord(asked._meta) && PROTOCOL_VERSION_META_KEY in asked._meta;
  if (method === "subscriptions/listen" && isForTasks(asked.notifications) && !declaredIn(asked._meta).hasTasks) {
    const { code, message: said, data } = tasksMissing();
    return { jsonrpc: "2.0", id, error: { code, message: said, data } };
  }
  if (isModern && !MODERN.has(method)) return undefined;
  const parsed = REQUESTS.get(method)?.safeParse(message);
  return parsed === undefined || parsed.success ? undefined : refusal(id, invalidInput(parsed.error));
}

/** The state of tasks is not pushed; a client that does not know tasks must be refused rather than told so. */
function isForTasks(notifications: unknown): boolean {
  return isRecord(notifications) && notifications.taskIds !== undefined;
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
