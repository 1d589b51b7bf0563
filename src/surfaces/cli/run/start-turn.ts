import { RuntimeError } from "../../../contract/error.ts";
import type { JsonObject, RunResult } from "../../../contract/session.ts";
import { WIRE_TABLE } from "../../../contract/wire-table.ts";
import type { Listener } from "../../../service/event-queue.ts";
import { toWire } from "../../../service/option-names.ts";
import { type EventStream, streamOf } from "../../../service/session-handle.ts";
import { formatSessionRef } from "../../wire/session-refs.ts";
import type { Opened } from "../open-runtime.ts";
import type { RunFlags } from "./run-flags.ts";
import { providerParams, sessionOptions } from "./session-options.ts";
import type { Limits } from "./verdict.ts";

export interface Turn {
  readonly stream: EventStream;
  /** Undefined when the session was made by an earlier command. */
  readonly limits: Limits | undefined;
}

interface FirstTurn {
  readonly prompt: string;
  readonly flags: RunFlags;
  readonly outputSchema: JsonObject | undefined;
  readonly signal: AbortSignal;
}

/** Starts the first turn of a new session. */
export function startSession({ runtime, config }: Opened, { prompt, flags, outputSchema, signal }: FirstTurn): Turn {
  const options = sessionOptions(flags, config, outputSchema);
  const fields = { ...toWire(options, WIRE_TABLE.createSession.fields), prompt };
  // Not deferred, so what comes back is the result of the first turn.
  const create = (listener: Listener) =>
    runtime.dispatch("createSession", fields, { listener, signal }) as Promise<RunResult>;
  const stream = streamOf(create);
  return { stream, limits: { ...config.budget, ...options.budgetLimits } };
}

interface FurtherTurn {
  readonly sessionId: string;
  readonly prompt: string;
  readonly change: JsonObject;
  readonly signal: AbortSignal;
}

/** Starts a further turn of a session. */
export function resumeSession({ runtime, isKept }: Opened, { sessionId, prompt, change, signal }: FurtherTurn): Turn {
  const fields = { ...change, session_id: sessionId, prompt };
  // Without a store a session goes on within the process that made it, and only there.
  const operation = isKept ? "resumeSession" : "startTurn";
  const stream = streamOf((listener) => runtime.dispatch(operation, fields, { listener, signal }));
  return { stream, limits: undefined };
}

/** What the flags change for a further turn, as on the wire; flags that only a new session can have are refused. */
export function turnChange(flags: RunFlags, outputSchema: JsonObject | undefined): JsonObject {
  refuseFixedFlags(flags);
  return {
    ...toolChange(flags),
    model: flags.model,
    provider: flags.provider,
    provider_params: providerParams(flags),
    additional_instructions: flags.instructions,
    max_tokens: flags.maxTokensPerTurn,
    system_prompt: flags.system,
    output_schema: outputSchema,
  };
}

/** Which tools the flags leave to a turn. */
export function toolChange({ allowTool, blockTool }: RunFlags): JsonObject {
  const allowed = allowTool.length === 0 ? {} : { allowed_tools: allowTool };
  return { flow_tool_overlay: { ...allowed, blocked_tools: blockTool } };
}

/** Names the session in a way that holds across realms, where it can be found again. */
export function withSessionRef({ place, isKept }: Opened): (result: RunResult) => RunResult {
  if (!isKept) return (result) => result;
  return (result) => ({ ...result, session_ref: formatSessionRef(place.realm, result.session_id) });
}

/** The runtime would not look at these on a further turn, and whoever wrote them expects an effect. */
function refuseFixedFlags(flags: RunFlags): void {
  const given: Readonly<Record<string, boolean>> = {
    "--max-tokens": flags.maxTokens !== undefined,
    "--max-duration": flags.maxDuration !== undefined,
    "--max-tool-calls": flags.maxToolCalls !== undefined,
    "--max-turns": flags.maxTurns !== undefined,
    "--tools": flags.tools !== undefined,
    "--yolo": flags.yolo === true,
    "--memory": flags.memory === true,
    "--label": flags.label.length > 0,
    "--app-context": flags.appContext !== undefined,
    "--compact-threshold": flags.compactThreshold !== undefined,
  };
  const refused = Object.keys(given).find((name) => given[name]);
  if (refused === undefined) return;
  const message = `${refused} cannot change on a session that has run: it is set when the session is created`;
  throw new RuntimeError("INVALID_PARAMS", message);
}
