import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { asRuntimeError, type RuntimeError } from "../../contract/error.ts";
import { TurnExtras, type TurnPayload } from "../../contract/mcp/turn-tool.ts";
import type { OperationName } from "../../contract/operations.ts";
import { parseParams } from "../../contract/rpc/requests.ts";
import type { RunResult } from "../../contract/session.ts";
import type { Dispatch } from "../../service/dispatch.ts";
import { type Params, withPlainIds, withSessionRefs } from "../rpc/methods/operation-methods.ts";
import { isRecord } from "../rpc/wire/incoming.ts";
import { ANSWERS_LIST, type OperationTool, RUNS_TURN } from "./tools.ts";
import { createTurnNotices, type NoticeParts } from "./turn-notices.ts";

/** What tools are called with. */
export interface CallParts {
  readonly dispatch: Dispatch;
  readonly realm: string;
}

/** One call of a tool by a client. */
export interface ToolCall {
  readonly args: Params;
  /** Aborting it interrupts the turn that the call runs. */
  readonly signal: AbortSignal;
  readonly notices: Omit<NoticeParts, "wantsEvents">;
  /** Whether the client has not asked for quiet. */
  readonly hearsEvents: () => boolean;
}

/** Calls a tool. What goes wrong is a result, too: a model can read it and do better. It does not reject. */
export async function callTool(parts: CallParts, called: OperationTool, call: ToolCall): Promise<CallToolResult> {
  const { operation, tool } = called;
  try {
    const params = withPlainIds(call.args, parts.realm);
    const output = RUNS_TURN.includes(operation)
      ? await runTurn(parts, operation, { ...call, args: params })
      : await parts.dispatch(operation, params, { signal: call.signal });
    const payload = payloadOf(operation, withSessionRefs(output, parts.realm), params);
    const structured = tool.outputSchema !== undefined && isRecord(payload) ? { structuredContent: payload } : {};
    return { content: [{ type: "text", text: JSON.stringify(payload) }], ...structured };
  } catch (thrown) {
    return toolFailure(asRuntimeError(thrown));
  }
}

/** A failure as the model is told of it: the code is of the one table. */
export function toolFailure({ code, message, details }: RuntimeError): CallToolResult {
  const told = { code, error: message, ...(details === undefined ? {} : { details }) };
  return { content: [{ type: "text", text: JSON.stringify(told) }], isError: true };
}

async function runTurn({ dispatch }: CallParts, operation: OperationName, call: ToolCall): Promise<unknown> {
  const { args, signal, notices, hearsEvents } = call;
  const { stream, builtin_config } = parseParams(TurnExtras, args);
  const shell = builtin_config?.enable_shell;
  const input = shell === undefined ? args : { enable_shell: shell, ...args };
  const sessionId = typeof args.session_id === "string" ? args.session_id : undefined;
  const telling = createTurnNotices({ ...notices, wantsEvents: () => stream && hearsEvents() }, sessionId);
  try {
    return await dispatch(operation, input, { signal, listener: telling.listener });
  } finally {
    await telling.finish();
  }
}

function payloadOf(operation: OperationName, output: unknown, { session_id }: Params): unknown {
  if (!isRecord(output)) return output;
  if (ANSWERS_LIST.includes(operation)) return output.results;
  // The operation's output, which its row's schema describes.
  if (RUNS_TURN.includes(operation)) return turnPayload(output as Partial<RunResult> & { session_id: string });
  // These two answer with the session they were about.
  return operation === "interruptTurn" || operation === "archiveSession" ? { session_id, ...output } : output;
}

/** A deferred session has not said anything yet. */
function turnPayload(result: Partial<RunResult> & { readonly session_id: string }): TurnPayload {
  const { text, structured_output = null, extraction_error = null, ...rest } = result;
  return {
    content: text === undefined ? [] : [{ type: "text", text }],
    turns: 0,
    tool_calls: 0,
    ...rest,
    structured_output,
    extraction_error,
    schema_warnings: null,
    skill_diagnostics: null,
  };
}
