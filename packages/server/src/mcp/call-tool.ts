import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import type { Caller } from "@rkat/core/contract/caller";
import { ConfigTool } from "@rkat/core/contract/config";
import { asRuntimeError, RuntimeError } from "@rkat/core/contract/error";
import type { AgentEvent } from "@rkat/core/contract/event";
import type { PendingCall } from "@rkat/core/contract/message";
import { type OperationName, operationOf } from "@rkat/core/contract/operations";
import type { SystemTime } from "@rkat/core/contract/rewrite";
import type { RunResult } from "@rkat/core/contract/session";
import type { SessionInfo } from "@rkat/core/contract/session-info";
import { SkillsTool } from "@rkat/core/contract/skill";
import { TurnExtras } from "@rkat/core/contract/wire/mcp-tools";
import { parseParams } from "@rkat/core/contract/wire/requests";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import { createEventQueue, type Delivery, type Listener } from "@rkat/core/sessions/event-queue";
import { type Params, toEnvelope, withPlainIds, withSessionRefs } from "../http/events.ts";
import { isRecord } from "../http/incoming.ts";
import { furtherTurn } from "../http/running-turns.ts";
import { askingClient, type Elicit } from "./questions.ts";
import type { OperationTool } from "./tools.ts";

export interface CallParts {
  readonly dispatch: Dispatch;
  readonly realm: string;
  readonly caller: Caller | undefined;
}

/** One call of a tool by a client. */
export interface ToolCall {
  readonly args: Params;
  /** Aborting it interrupts the turn that the call runs. */
  readonly signal: AbortSignal;
  readonly notices: Omit<NoticeParts, "wantsEvents">;
  /** Absent where the client cannot ask its user. */
  readonly elicit?: Elicit | undefined;
  /** Whether the client has not asked for quiet. */
  readonly listensToEvents: () => boolean;
}

/** Calls a tool. A failure is a result, too, so that the model can read it. It does not reject. */
export async function callTool(parts: CallParts, called: OperationTool, call: ToolCall): Promise<CallToolResult> {
  try {
    const { operation, args } = settleOperation(called.operation, call.args);
    const params = withPlainIds(args, parts.realm);
    const output =
      operationOf(operation).runs === "turn"
        ? await runTurn(parts, operation, { ...call, args: params })
        : await parts.dispatch(operation, params, { signal: call.signal });
    const payload = payloadOf(operation, withSessionRefs(output, parts.realm), params);
    return jsonResult(payload);
  } catch (thrown) {
    return toolFailure(asRuntimeError(thrown));
  }
}

/** A result as its JSON, and an object once more as what a program reads. */
export function jsonResult(payload: unknown): CallToolResult {
  const structured = isRecord(payload) ? { structuredContent: payload } : {};
  return { content: [{ type: "text", text: JSON.stringify(payload) }], ...structured };
}

/** One tool stands for three operations on the configuration, one for two on skills; its first argument says which. */
function settleOperation(operation: OperationName, args: Params): { operation: OperationName; args: Params } {
  if (operation === "readSkill") return settleSkills(args);
  if (operation !== "patchConfig") return { operation, args };
  const { action, config, patch, expected_generation } = parseParams(ConfigTool, args);
  if (config !== undefined) requireAction("config", "set", action);
  if (patch !== undefined) requireAction("patch", "patch", action);
  switch (action) {
    case "get":
      return { operation: "readConfig", args: {} };
    case "set":
      return { operation: "setConfig", args: { config, expected_generation } };
    case "patch":
      return { operation: "patchConfig", args: { patch, expected_generation } };
  }
}

function settleSkills(given: Params): { operation: OperationName; args: Params } {
  const { action, skill_key, file, source } = parseParams(SkillsTool, given);
  if (action === "list") return { operation: "listSkills", args: source === undefined ? {} : { source_uuid: source } };
  if (skill_key === undefined) throw new RuntimeError("SKILL_NOT_FOUND", "skill_key: write a key of the list");
  return { operation: "readSkill", args: { ...skill_key, ...(file === undefined ? {} : { file }) } };
}

/** Refuses fields that the action would ignore. */
function requireAction(field: string, wanted: string, action: string): void {
  if (action === wanted) return;
  throw new RuntimeError("INVALID_PARAMS", `${field}: only ${wanted} takes it, and this is ${action}`);
}

/** A failure as a tool result, with its code of the error table. */
export function toolFailure(error: RuntimeError): CallToolResult {
  const reported = { error: error.message, ...error.toWire() };
  return { content: [{ type: "text", text: JSON.stringify(reported) }], isError: true };
}

async function runTurn({ dispatch, caller }: CallParts, operation: OperationName, call: ToolCall): Promise<unknown> {
  const { args, signal, notices, listensToEvents } = call;
  const { stream, builtin_config, tools } = parseParams(TurnExtras, args);
  const { tool_results, ...plain } = args;
  const shell = builtin_config?.enable_shell;
  const input = {
    ...(shell === undefined || shell === null ? {} : { enable_shell: shell }),
    ...plain,
    // Clients that bring none send an empty list.
    ...(Array.isArray(tool_results) && tool_results.length === 0 ? {} : { tool_results }),
    ...(tools === undefined ? {} : { client_tools: tools.map(({ handler: _, ...tool }) => tool) }),
  };
  const sessionId = typeof args.session_id === "string" ? args.session_id : undefined;
  const turnNotices = createTurnNotices({ ...notices, wantsEvents: () => stream && listensToEvents() }, sessionId);
  try {
    const asking =
      call.elicit &&
      askingClient(dispatch, call.elicit, { next: turnNotices.listener, call: caller === undefined ? {} : { caller } });
    const context = { signal, listener: asking ?? turnNotices.listener };
    return await (operation === "resumeSession"
      ? furtherTurn(dispatch, input, context)
      : dispatch(operation, input, context));
  } finally {
    await turnNotices.finish();
  }
}

function payloadOf(operation: OperationName, output: unknown, { session_id }: Params): unknown {
  if (!isRecord(output)) return output;
  const { mcpGives, namesSession, runs } = operationOf(operation);
  if (mcpGives !== undefined) return output[mcpGives];
  if (runs === "turn") {
    return turnPayload(output as TurnResult); // The operation's output, which its row's schema describes.
  }
  // The operation's output, which its row's schema describes.
  if (operation === "readSession") return readPayload(output as unknown as SessionInfo);
  return namesSession ? { session_id, ...output } : output;
}

/** A session's times are objects here, and what it has used stands apart. */
function readPayload({ session_ref, total_tokens, cost: _reported, usage, ...session }: SessionInfo) {
  const time = (secs_since_epoch: number): SystemTime => ({ secs_since_epoch, nanos_since_epoch: 0 });
  const { session_id, created_at, updated_at } = session;
  return {
    session_id,
    ...(session_ref === undefined ? {} : { session_ref }),
    state: { ...session, created_at: time(created_at), updated_at: time(updated_at) },
    billing: { total_tokens, ...(usage === undefined ? {} : { usage }) },
  };
}

type TurnResult = Partial<RunResult> & { readonly session_id: string };

/** What the client is to run, under the names existing clients read. */
function pendingPayload(calls: readonly PendingCall[]) {
  return {
    content: [{ type: "text", text: "Agent is waiting for tool results" }],
    status: "pending_tool_call",
    pending_tool_calls: calls.map(({ id, name, args }) => ({
      tool_name: name,
      tool_use_id: id,
      args: { ...args, tool_use_id: id },
    })),
  };
}

/** A deferred session has no text yet. */
function turnPayload(result: TurnResult) {
  const { text, structured_output = null, extraction_error = null, pending_calls, ...rest } = result;
  return {
    content: text === undefined ? [] : [{ type: "text", text }],
    turns: 0,
    tool_calls: 0,
    ...rest,
    structured_output,
    extraction_error,
    schema_warnings: null,
    skill_diagnostics: null,
    ...(pending_calls === undefined ? {} : pendingPayload(pending_calls)),
  };
}

/** What a client is told while its turn runs. */
type Notice =
  | {
      readonly method: "notifications/progress";
      readonly params: {
        readonly progressToken: string | number;
        readonly progress: number;
        readonly message: string;
      };
    }
  | {
      readonly method: "notifications/message";
      readonly params: { readonly level: "info"; readonly data: unknown };
    };

interface NoticeParts {
  /** Resolves when the client has room for more; rejects when it has gone. */
  readonly send: (notice: Notice) => Promise<void>;
  readonly newId: () => string;
  /** The client's progress token. */
  readonly progressToken: string | number | undefined;
  /** Whether every event is wanted, too. */
  readonly wantsEvents: () => boolean;
}

/** Sends a turn's events to its client. */
interface TurnNotices {
  readonly listener: Listener;
  /** Resolves when everything is sent. It does not reject. */
  finish(): Promise<void>;
}

/** Tells of a turn: a step of progress for each call of the model or a tool, and every event when that is wanted. */
function createTurnNotices(parts: NoticeParts, knownSessionId: string | undefined): TurnNotices {
  const queue = createEventQueue();
  // A client that has gone needs no notices; its turn ends by the signal of its request.
  const sending = send().catch(() => {});

  async function send(): Promise<void> {
    let sessionId = knownSessionId;
    let progress = 0;
    for await (const delivery of queue) {
      sessionId ??= "session_id" in delivery.event ? delivery.event.session_id : undefined;
      const message = stepOf(delivery.event);
      if (message !== undefined && parts.progressToken !== undefined) {
        progress += 1;
        const params = { progressToken: parts.progressToken, progress, message };
        await parts.send({ method: "notifications/progress", params });
      }
      // A new session is first heard of by `run_started`, which names it.
      if (sessionId !== undefined && parts.wantsEvents()) await parts.send(eventNotice(sessionId, delivery));
    }
  }
  const eventNotice = (session_id: string, delivery: Delivery): Notice => {
    const data = { source: "meerkat", session_id, event: toEnvelope(session_id, delivery, parts.newId) };
    return { method: "notifications/message", params: { level: "info", data } };
  };
  return {
    listener: queue.listener,
    finish: () => {
      queue.end();
      return sending;
    },
  };
}

function stepOf(event: AgentEvent): string | undefined {
  if (event.type === "turn_started") return `model call ${event.turn_number + 1}`;
  if (event.type === "tool_execution_started") return `tool ${event.name}`;
  if (event.type === "compaction_started") return "compaction";
  return undefined;
}
