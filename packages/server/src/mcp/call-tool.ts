import type { CallToolResult, ElicitRequestFormParams, ElicitResult } from "@modelcontextprotocol/sdk/types.js";
import type { Caller } from "@rkat/core/contract/caller";
import { ConfigTool } from "@rkat/core/contract/config";
import { questionIn } from "@rkat/core/contract/describe-event";
import { asRuntimeError, invalid, RuntimeError } from "@rkat/core/contract/error";
import type { AgentEvent, AgentEventOf } from "@rkat/core/contract/event";
import type { PendingCall } from "@rkat/core/contract/message";
import { type OperationName, operationOf } from "@rkat/core/contract/operations";
import type { SystemTime } from "@rkat/core/contract/rewrite";
import type { RunResult } from "@rkat/core/contract/session";
import type { SessionInfo } from "@rkat/core/contract/session-info";
import { SkillsTool } from "@rkat/core/contract/skill";
import { TurnExtras } from "@rkat/core/contract/wire/mcp-tools";
import { parseParams } from "@rkat/core/contract/wire/requests";
import type { CallContext, Dispatch } from "@rkat/core/runtime/dispatch";
import type { Listener } from "@rkat/core/sessions/event-queue";
import { furtherTurn } from "../http/calls.ts";
import { type Params, sendTurnEvents, toEnvelope, withPlainIds, withSessionRefs } from "../http/events.ts";
import { isRecord } from "../http/incoming.ts";
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

function requireAction(field: string, wanted: string, action: string): void {
  if (action === wanted) return;
  throw invalid(`${field}: only ${wanted} takes it, and this is ${action}`);
}

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
  const turnNotices = sendNotices({ ...notices, wantsEvents: () => stream && listensToEvents() }, sessionId);
  try {
    const asking =
      call.elicit &&
      askingClient(dispatch, call.elicit, { next: turnNotices.listener, call: caller === undefined ? {} : { caller } });
    const context = { signal, listener: asking ?? turnNotices.listener };
    return await (operation === "resumeSession"
      ? furtherTurn(dispatch, input, context)
      : dispatch(operation, input, context));
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
  readonly progressToken: string | number | undefined;
  /** Whether every event is wanted, too. */
  readonly wantsEvents: () => boolean;
}

/** Sends a step of progress for each call of the model or a tool, and every event when that is wanted. */
function sendNotices({ send, newId, progressToken, wantsEvents }: NoticeParts, knownSessionId: string | undefined) {
  let progress = 0;
  return sendTurnEvents(knownSessionId, async (delivery, session_id) => {
    const message = stepOf(delivery.event);
    if (message !== undefined && progressToken !== undefined) {
      progress += 1;
      await send({ method: "notifications/progress", params: { progressToken, progress, message } });
    }
    // `run_started` names a new session.
    if (session_id === undefined || !wantsEvents()) return;
    const data = { source: "meerkat", session_id, event: toEnvelope(session_id, delivery, newId) };
    await send({ method: "notifications/message", params: { level: "info", data } });
  });
}

function stepOf(event: AgentEvent): string | undefined {
  if (event.type === "turn_started") return `model call ${event.turn_number + 1}`;
  if (event.type === "tool_execution_started") return `tool ${event.name}`;
  if (event.type === "compaction_started") return "compaction";
  return undefined;
}

/** Asks the user through the client; absent where the client cannot. */
type Elicit = (params: ElicitRequestFormParams) => Promise<ElicitResult>;

type Question = AgentEventOf<"tool_approval_requested">;

const ARGS_CHARS_MAX = 4_000;
const WORDS: Readonly<Record<string, object>> = {
  once: { decision: "allow" },
  session: { decision: "allow", remember: "session" },
  project: { decision: "allow", remember: "project" },
  no: { decision: "deny" },
};

/** A listener that asks the client's user for each approval, and sends the answer to the runtime. */
export function askingClient(
  dispatch: Dispatch,
  elicit: Elicit,
  { next, call }: { readonly next: Listener | undefined; readonly call: CallContext },
): Listener {
  const ask = async (question: Question): Promise<void> => {
    const { session_id, approval_id } = question;
    const { action, content = {} } = await elicit(formFor(question));
    const { decision = "no", reason } = content;
    // A dismissed question is not an answer; another client may answer it.
    if (action === "cancel") return;
    const word = (action === "accept" ? WORDS[String(decision)] : undefined) ?? WORDS.no;
    const why = typeof reason === "string" && reason !== "" ? { reason } : {};
    await dispatch("answerApproval", { session_id, approval_id, ...word, ...why }, call);
  };
  return (delivery) => {
    next?.(delivery);
    // A client that fails to ask leaves the question to others, until its time has passed.
    const question = questionIn(delivery.event);
    if (question !== undefined) ask(question).catch(() => {});
  };
}

function formFor({ calls }: Question): ElicitRequestFormParams {
  const wishes = calls.map(
    ({ name, args, why }) => `${name} ${JSON.stringify(args).slice(0, ARGS_CHARS_MAX)} (${why})`,
  );
  const canRemember = calls.every(({ always }) => always !== undefined);
  return {
    mode: "form",
    message: `May it run?\n${wishes.join("\n")}`,
    requestedSchema: {
      type: "object",
      properties: {
        decision: {
          type: "string",
          title: "Decision",
          description: "once, for calls like it in the session or the project, or no",
          enum: canRemember ? Object.keys(WORDS) : ["once", "no"],
        },
        reason: { type: "string", title: "Reason", description: "why not; the model gets it" },
      },
      required: ["decision"],
    },
  };
}
