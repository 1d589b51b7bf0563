import { RuntimeError } from "../../../contract/error.ts";
import type { JsonObject, RunResult } from "../../../contract/session.ts";
import type { Listener } from "../../../service/event-queue.ts";
import { type EventStream, streamOf } from "../../../service/session-handle.ts";
import { formatSessionRef } from "../../wire/session-refs.ts";
import { fieldFlags, fieldsOf } from "../field-flags.ts";
import type { Opened } from "../open-runtime.ts";
import type { RunFlags } from "./run-flags.ts";
import { sessionFields, turnFields } from "./session-options.ts";
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
  const fields = { ...sessionFields(flags, config, outputSchema), prompt };
  // Not deferred, so what comes back is the result of the first turn.
  const create = (listener: Listener) =>
    runtime.dispatch("createSession", fields, { listener, signal }) as Promise<RunResult>;
  return { stream: streamOf(create), limits: { max_tokens: flags.maxTokens ?? config.budget.max_tokens } };
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
  return { ...fieldsOf("startTurn", flags), ...turnFields(flags, outputSchema) };
}

/** Which tools the flags leave to a turn. */
export function toolChange(flags: RunFlags): JsonObject {
  const { flow_tool_overlay } = fieldsOf("startTurn", flags);
  return { flow_tool_overlay };
}

/** Names the session in a way that holds across realms, where it can be found again. */
export function withSessionRef({ place, isKept }: Opened): (result: RunResult) => RunResult {
  if (!isKept) return (result) => result;
  return (result) => ({ ...result, session_ref: formatSessionRef(place.realm, result.session_id) });
}

/** The runtime would not look at these on a further turn, and whoever wrote them expects an effect. */
function refuseFixedFlags(flags: RunFlags): void {
  const given = new Map<string, unknown>(Object.entries(flags));
  const changeable = fieldFlags("startTurn").map(({ option }) => option.long);
  const fixed = fieldFlags("createSession").filter(({ option }) => !changeable.includes(option.long));
  const isGiven = (value: unknown): boolean => value !== undefined && !(Array.isArray(value) && value.length === 0);
  const refused = flags.yolo
    ? "--yolo"
    : fixed.find(({ option }) => isGiven(given.get(option.attributeName())))?.option.long;
  if (refused === undefined) return;
  const message = `${refused} cannot change on a session that has run: it is set when the session is created`;
  throw new RuntimeError("INVALID_PARAMS", message);
}
