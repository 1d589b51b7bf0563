import { readFileSync, statSync } from "node:fs";
import { arch, release, type } from "node:os";
import { dirname, join, resolve } from "node:path";
import { asRuntimeError, ERRORS, invalid, RuntimeError } from "@rkat/core/contract/error";
import type { AgentEvent } from "@rkat/core/contract/event";
import type { Content } from "@rkat/core/contract/message";
import type { JsonObject, RunResult } from "@rkat/core/contract/session";
import type { CallContext } from "@rkat/core/runtime/dispatch";
import type { Listener } from "@rkat/core/sessions/event-queue";
import { type EventsUntil, streamOf } from "@rkat/core/sessions/session-handle";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { formatSessionRef } from "@rkat/server/http/events";
import { fieldFlags, fieldsOf } from "../flags.ts";
import { counted, grouped } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { type RunFlags, sessionFields, turnFields } from "./run-flags.ts";
import type { TurnView } from "./turn-view.ts";

export interface Turn {
  readonly stream: EventsUntil<RunResult>;
  /** Undefined when the session was made by an earlier command. */
  readonly limits: Limits | undefined;
}

interface FirstTurn {
  readonly prompt: Content;
  readonly flags: RunFlags;
  readonly outputSchema: JsonObject | undefined;
  readonly signal: AbortSignal;
  /** The reason for a denial where no person can be asked; absent at a terminal. */
  readonly unattended?: NonNullable<CallContext["unattended"]>;
}

export function startSession({ runtime, config, place }: Opened, first: FirstTurn): Turn {
  const { prompt, flags, outputSchema, signal, unattended } = first;
  const asked = sessionFields(flags, config, outputSchema);
  // A model that works on files is told where it is.
  const instructions = [
    asked.additional_instructions ?? [],
    asked.enable_files ? describePlace(place.projectRoot) : [],
  ];
  const additional_instructions = instructions.flat();
  const fields = { ...asked, ...(additional_instructions.length === 0 ? {} : { additional_instructions }), prompt };
  const call = { signal, ...attendance(unattended) };
  // Not deferred, so what comes back is the result of the first turn.
  const create = (listener: Listener) =>
    runtime.dispatch("createSession", fields, { ...call, listener }) as Promise<RunResult>;
  return { stream: streamOf(create), limits: limitsOf(flags, config.budget) };
}

/** A paragraph on the folder, the system, the date and the branch; it starts no program. */
function describePlace(folder: string): string {
  const branch = branchOf(folder);
  const git = branch === undefined ? "not a git repository" : `git: ${branch}`;
  const date = new Date().toLocaleDateString("sv-SE");
  const name = withoutControls(folder).replaceAll(/\s+/g, " ");
  return `Environment: folder ${name}, ${git}. System: ${type()} ${release()} ${arch()}. Date at the start: ${date}.`;
}

/** Only a name or an id: the file may come from an archive, and further text in it would be told to the model. */
const HEAD = /^(?:ref: refs\/heads\/(?<branch>[^\s\p{C}]{1,200})|(?<commit>[0-9a-f]{40,64}))\s*$/u;
const BYTES_MAX = 4_096;

/** The branch, or the commit where none is checked out; undefined where the folder is in no repository. */
function branchOf(folder: string): string | undefined {
  try {
    const git = join(folder, ".git");
    const inside = statSync(git).isDirectory()
      ? git
      : resolve(
          folder,
          readSmall(git)
            .replace(/^gitdir:/, "")
            .trim(),
        );
    const { branch, commit } = HEAD.exec(readSmall(join(inside, "HEAD")))?.groups ?? {};
    if (branch !== undefined) return `branch ${branch}`;
    if (commit !== undefined) return `commit ${commit}`;
  } catch {
    // It is in no repository, or in that of a folder above.
  }
  const parent = dirname(folder);
  return parent === folder ? undefined : branchOf(parent);
}

/** Throws for a pipe, which would be waited for without end, for a device and for a large file. */
function readSmall(path: string): string {
  const found = statSync(path);
  if (!found.isFile() || found.size > BYTES_MAX) throw new Error(`${path} is no small file`);
  return readFileSync(path, "utf8");
}

function limitsOf(flags: RunFlags, { max_tokens, max_cost }: Opened["config"]["budget"]): Limits {
  return { max_tokens: flags.maxTokens ?? max_tokens, max_cost: flags.maxCost ?? max_cost };
}

interface FurtherTurn {
  readonly sessionId: string;
  readonly prompt: Content;
  readonly change: JsonObject;
  readonly signal: AbortSignal;
  readonly unattended?: NonNullable<CallContext["unattended"]>;
}

export function resumeSession({ runtime, isKept }: Opened, further: FurtherTurn): Turn {
  const { sessionId, prompt, change, signal, unattended } = further;
  const call = { signal, ...attendance(unattended) };
  const fields = { ...change, session_id: sessionId, prompt };
  // Without a store a session exists only in the process that created it.
  const operation = isKept ? "resumeSession" : "startTurn";
  const stream = streamOf((listener) => runtime.dispatch(operation, fields, { ...call, listener }));
  return { stream, limits: undefined };
}

export function finishTurn({ runtime }: Opened, of: Pick<FurtherTurn, "sessionId" | "signal" | "unattended">): Turn {
  const call = { signal: of.signal, ...attendance(of.unattended) };
  const stream = streamOf((listener) =>
    runtime.dispatch("finishTurn", { session_id: of.sessionId }, { ...call, listener }),
  );
  return { stream, limits: undefined };
}

/** Whether a person at this terminal answers approvals, or why none can. */
function attendance(unattended: FurtherTurn["unattended"]): Pick<CallContext, "unattended" | "hasApprover"> {
  return unattended === undefined ? { hasApprover: true } : { unattended };
}

/** What the flags change for a further turn, as on the wire; flags that only a new session can have are refused. */
export function turnChange(flags: RunFlags, outputSchema: JsonObject | undefined): JsonObject {
  refuseFixedFlags(flags);
  return { ...fieldsOf("startTurn", flags), ...turnFields(flags, outputSchema) };
}

export function toolChange(flags: RunFlags): JsonObject {
  const { flow_tool_overlay, hooks_override } = fieldsOf("startTurn", flags);
  return { flow_tool_overlay, hooks_override };
}

/** Names the session in a way that holds across realms, where it can be found again. */
export function withSessionRef({ place, isKept }: Opened): (result: RunResult) => RunResult {
  if (!isKept) return (result) => result;
  return (result) => ({ ...result, session_ref: formatSessionRef(place.realm, result.session_id) });
}

/** Refuses flags that have no effect on a further turn. */
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
  throw invalid(message);
}

export interface Watch {
  readonly stream: EventsUntil<RunResult>;
  readonly view: TurnView;
  /** Adds to the result what the runtime does not know of it. */
  complete(result: RunResult): RunResult;
  onEvent?(event: AgentEvent): void;
}

/** Shows a turn to its end; a failure carries the text before it. */
export async function watchTurn({ stream, view, complete, onEvent }: Watch): Promise<RunResult> {
  // What the newest model call has said; a retry begins anew.
  let said = "";
  try {
    for await (const event of stream) {
      if (event.type === "turn_started" || event.type === "retrying") said = "";
      if (event.type === "text_delta") said += event.delta;
      onEvent?.(event);
      view.show(event);
    }
    const result = complete(await stream.result);
    view.end(result);
    return result;
  } catch (thrown) {
    view.breakOff(said);
    throw withPartialText(asRuntimeError(thrown), said);
  }
}

/** The error with the text before it, for JSON output. */
function withPartialText(error: RuntimeError, said: string): RuntimeError {
  if (said === "") return error;
  const details = { ...(error.details ?? {}), partial_text: said };
  return new RuntimeError(error.code, error.message, { cause: error, details });
}

export interface Limits {
  readonly max_tokens?: number | undefined;
  readonly max_cost?: number | undefined;
}

/** Whether the turn did what was asked, and if not, why; the limits of a resumed session are not known. */
export function judge(
  result: RunResult,
  limits: Limits | undefined,
): { readonly exit: number; readonly sentence?: string } {
  const { terminal_cause_kind: cause, extraction_error: extraction, goal } = result;
  if (goal !== undefined && goal.phase !== "reached") {
    const why = withoutControls(`${goal.phase.replace("_", " ")}: ${goal.reason}`);
    const { exit } = goal.phase === "budget" ? ERRORS.BUDGET_EXHAUSTED : ERRORS.AGENT_ERROR;
    return { exit, sentence: `The goal is not reached after ${counted(goal.turns, "turn")}; ${why}.` };
  }
  if (cause === "budget_exhausted") {
    return { exit: ERRORS.BUDGET_EXHAUSTED.exit, sentence: `Stopped: ${budgetName(result, limits)} is used up.` };
  }
  if (cause === "time_budget_exceeded") {
    return { exit: ERRORS.BUDGET_EXHAUSTED.exit, sentence: "Stopped: the time budget is used up." };
  }
  const { exit } = ERRORS.AGENT_ERROR;
  if (extraction !== undefined) return judgeExtraction(extraction, cause);
  if (cause === "turn_limit_reached") return { exit, sentence: "Stopped: the limit of model calls is reached." };
  return cause === undefined ? { exit: 0 } : { exit, sentence: `Stopped: ${cause}.` };
}

/** Only an output that was there can have failed to match. */
function judgeExtraction(
  { attempts, reason: said }: NonNullable<RunResult["extraction_error"]>,
  cause: RunResult["terminal_cause_kind"],
): { readonly exit: number; readonly sentence: string } {
  const reason = withoutControls(said);
  if (cause === undefined) {
    const sentence = `Stopped: ${reason} before there was an output of the schema.`;
    return { exit: ERRORS.REQUEST_CANCELLED.exit, sentence };
  }
  if (cause === "llm_failure" || cause === "retry_exhausted") {
    return { exit: ERRORS.PROVIDER_ERROR.exit, sentence: `Stopped: the structured output failed: ${reason}` };
  }
  const sentence = `Stopped: no output matched the schema after ${attempts} attempts: ${reason}`;
  return { exit: ERRORS.AGENT_ERROR.exit, sentence };
}

function budgetName({ usage, delegated }: RunResult, limits: Limits | undefined): string {
  if (limits === undefined) return "a budget of the session";
  const { max_tokens, max_cost } = limits;
  // What sub-agents used counts, too.
  const { input_tokens = 0, output_tokens = 0, cost } = delegated?.usage ?? {};
  const isTokens = max_tokens !== undefined && usage.total_tokens + input_tokens + output_tokens >= max_tokens;
  const isCost = max_cost !== undefined && (usage.cost?.amount ?? 0) + (cost?.amount ?? 0) >= max_cost;
  if (isCost && !isTokens) return `the cost budget of $${max_cost}`;
  return isTokens ? `the token budget of ${grouped(max_tokens)}` : "the tool call budget";
}
