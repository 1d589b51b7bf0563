import { type CallToolResult, ProtocolError, type Result, type ServerContext } from "@modelcontextprotocol/server";
import type { Caller } from "@rkat/core/contract/caller";
import { ConfigTool } from "@rkat/core/contract/config";
import { asRuntimeError, invalid, RuntimeError } from "@rkat/core/contract/error";
import { isRecord } from "@rkat/core/contract/json";
import type { PendingCall } from "@rkat/core/contract/message";
import { type OperationName, operationOf } from "@rkat/core/contract/operations";
import type { SystemTime } from "@rkat/core/contract/rewrite";
import type { RunResult } from "@rkat/core/contract/session";
import type { SessionInfo } from "@rkat/core/contract/session-info";
import { SkillsTool } from "@rkat/core/contract/skill";
import { TurnExtras } from "@rkat/core/contract/wire/mcp-tools";
import { parseParams } from "@rkat/core/contract/wire/requests";
import type { CallContext, Dispatch } from "@rkat/core/runtime/dispatch";
import { furtherTurn } from "../http/calls.ts";
import { type Params, sendTurnEvents, toEnvelope, withPlainIds, withSessionRefs } from "../http/events.ts";
import { askingClient, type Elicit, stepOf } from "./questions.ts";
import { Paused, runAlone, type TurnCall } from "./tasks.ts";
import type { OperationTool } from "./tools.ts";

export interface CallParts {
  readonly dispatch: Dispatch;
  readonly realm: string;
  readonly caller: Caller | undefined;
}

export interface ToolCall {
  readonly args: Params;
  /** Aborting it interrupts the turn that the call runs. */
  readonly signal: AbortSignal;
  readonly notices: Omit<NoticeParts, "wantsEvents">;
  /** Absent where the client cannot ask its user. */
  readonly elicit?: Elicit | undefined;
  /** Present for a request without a connection, whose client asks its user by itself. */
  readonly alone?: Omit<TurnCall, "dispatch" | "signal"> | undefined;
}

/** Calls a tool. A failure is a result, too, so that the model can read it; what the client gets wrong of MCP is not. */
export async function callTool(parts: CallParts, called: OperationTool, call: ToolCall): Promise<Result> {
  try {
    const { operation, args } = settleOperation(called.operation, call.args);
    const params = withPlainIds(args, parts.realm);
    const output =
      operationOf(operation).runs === "turn"
        ? await runTurn(parts, operation, { ...call, args: params })
        : await parts.dispatch(operation, params, { signal: call.signal });
    if (output instanceof Paused) return output.answer;
    return jsonResult(payloadOf(operation, withSessionRefs(output, parts.realm), params));
  } catch (thrown) {
    if (thrown instanceof ProtocolError) throw thrown;
    return toolFailure(asRuntimeError(thrown));
  }
}

/** The end of a turn, as the call that began it is answered. */
export function turnResult(output: unknown, realm: string): CallToolResult {
  return jsonResult(payloadOf("finishTurn", withSessionRefs(output, realm), {}));
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

function requireAction(field: string, wanted: string, action: string): void {
  if (action === wanted) return;
  throw invalid(`${field}: only ${wanted} takes it, and this is ${action}`);
}

export function toolFailure(error: RuntimeError): CallToolResult {
  const reported = { error: error.message, ...error.toWire() };
  return { content: [{ type: "text", text: JSON.stringify(reported) }], isError: true };
}

async function runTurn({ dispatch, caller }: CallParts, operation: OperationName, call: ToolCall): Promise<unknown> {
  const { args, signal, notices } = call;
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
  const turnNotices = sendNotices({ ...notices, wantsEvents: stream }, sessionId);
  const start = (context: CallContext): Promise<unknown> =>
    operation === "resumeSession" ? furtherTurn(dispatch, input, context) : dispatch(operation, input, context);
  try {
    const { listener } = turnNotices;
    if (call.alone !== undefined) {
      return await runAlone({ ...call.alone, dispatch, signal }, start, { next: listener, session_id: sessionId });
    }
    const asking =
      call.elicit &&
      askingClient(dispatch, call.elicit, { next: listener, call: caller === undefined ? {} : { caller } });
    return await start({ signal, listener: asking ?? listener });
  } finally {
    // A client that has gone needs no notices; its turn ends by the signal of its request.
    await turnNotices.finish().catch(() => {});
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

interface NoticeParts {
  /** Resolves when the client has room for more; rejects when it has gone. */
  readonly notify: ServerContext["mcpReq"]["notify"];
  /** Sends a message of the level `info`, unless the client wants none. */
  readonly log: (data: unknown) => Promise<void>;
  readonly newId: () => string;
  readonly progressToken: string | number | undefined;
  /** Whether every event is wanted, too. */
  readonly wantsEvents: boolean;
}

/** Sends a step of progress for each call of the model or a tool, and every event when that is wanted. */
function sendNotices(parts: NoticeParts, knownSessionId: string | undefined) {
  const { notify, log, newId, progressToken, wantsEvents } = parts;
  let progress = 0;
  return sendTurnEvents(knownSessionId, async (delivery, session_id) => {
    const message = stepOf(delivery.event);
    if (message !== undefined && progressToken !== undefined) {
      progress += 1;
      await notify({ method: "notifications/progress", params: { progressToken, progress, message } });
    }
    // `run_started` names a new session.
    if (session_id === undefined || !wantsEvents) return;
    await log({ source: "meerkat", session_id, event: toEnvelope(session_id, delivery, newId) });
  });
}
