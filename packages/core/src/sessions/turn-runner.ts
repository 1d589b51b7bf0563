import type { Compacting } from "../compaction/prepare.ts";
import { type CompactionPart, compactingFor } from "../compactions/compaction-part.ts";
import type { Preparations } from "../compactions/preparations.ts";
import type { Caller } from "../contract/caller.ts";
import { RECALL_OUTPUT } from "../contract/compaction.ts";
import type { EntryBody, EntryBodyOf, TurnEnd, TurnSetup } from "../contract/entry.ts";
import { asRuntimeError, type RuntimeError } from "../contract/error.ts";
import type { Content, ToolResult } from "../contract/message.ts";
import type { ModelPrices } from "../contract/money.ts";
import { outputSchemaOf, type RunResult, type SessionSettings, type StartTurn } from "../contract/session.ts";
import { withMemory } from "../memory/memory-operations.ts";
import type { SessionMemory } from "../memory/session-memory.ts";
import type { Clock } from "../ports/clock.ts";
import type { Hook } from "../ports/hook.ts";
import type { ModelClient, ToolChoice } from "../ports/model.ts";
import type { Store } from "../ports/store.ts";
import type { OpenTelemetry, Watch } from "../ports/telemetry.ts";
import type { Tool } from "../ports/tool.ts";
import type { Hash } from "../state/context.ts";
import { eventsOf } from "../state/entry-events.ts";
import type { SessionState } from "../state/session-state.ts";
import type { Permit, Unattended } from "../turn/approval.ts";
import type { Hooks } from "../turn/hooks.ts";
import type { CheckInWorker } from "../turn/json-schema.ts";
import { createRedactor, type Redact } from "../turn/redact.ts";
import type { Turn, TurnPolicy } from "../turn/run.ts";
import { adoptTurn, continueTurn, resumeTurn, retryTurn, runDelivered, runTurn, type WAITING } from "../turn/turn.ts";
import type { TurnOutcome } from "../turn/turn-end.ts";
import { toResult } from "./approvals.ts";
import { type HookPart, hooksFor, notifyHooks, withHooks } from "./hooks.ts";
import { appendEntries, emitLive, type LiveSession, type LiveSessions } from "./live-sessions.ts";
import { fillMedia, keepMedia } from "./media.ts";
import { chooseTools, type ToolParts } from "./turn-tools.ts";

/** The parts of turns that do not depend on the configuration. */
export interface FixedParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly redact: Redact;
  readonly hash: Hash;
  readonly checkInWorker: CheckInWorker;
  /** The capability `memory-store`, if present. */
  readonly memory: SessionMemory | undefined;
  /** Receives telemetry, if present. */
  readonly telemetry: OpenTelemetry | undefined;
  /** The prompt about these tools; undefined for none. */
  skillFor(tools: ReadonlyMap<string, Tool>): string | undefined;
  /** Connects external tools, also if some fail or the signal aborts; resolves with what lets go of them after the turn. */
  prepareTools(settings: SessionSettings, signal: AbortSignal): Promise<() => void>;
}

/** The parts of turns; the configured ones are those from the start of the turn. */
export interface TurnParts extends FixedParts, ToolParts, Pick<LiveSessions, "whole"> {
  /** Prepares compactions in the background. */
  readonly preparations: Pick<Preparations, "background" | "rest">;
  readonly policy: TurnPolicy;
  /** The permissions of a session's tool calls, and the approval timeout. */
  permitFor(state: SessionState, tools: ReadonlyMap<string, Tool>): Permit;
  readonly approvalMs: number;
  /** Tools that are functions of the program. */
  readonly codeTools: readonly Tool[];
  /** The capability `session-compaction`, if present. */
  readonly compaction: CompactionPart | undefined;
  readonly hooks: HookPart;
  /** The window of a session's model, as far as known without resolving it. */
  windowOf(settings: SessionSettings): number | undefined;
  pricesOf(settings: SessionSettings): ModelPrices | undefined;
}

export interface TurnInput {
  /** Undefined for a turn resumed after approval, and for results alone. */
  readonly prompt: Content | undefined;
  /** The results that the previous turn waits for. */
  readonly results?: readonly ToolResult[] | undefined;
  readonly model: ModelClient;
  readonly instructions: readonly string[];
  readonly overlay: StartTurn["flow_tool_overlay"];
  readonly toolChoice?: ToolChoice | undefined;
  /** The message that begins it, where that is no prompt of the user. */
  readonly queued?: EntryBodyOf<"message_queued"> | undefined;
  /** Whether the prompt is already in the log. */
  readonly isRetry?: boolean | undefined;
  /** Continues the unfinished turn of a process that is gone. */
  readonly isAdopted?: boolean | undefined;
  /** Inputs that are only recorded, for a process that continues the turn. */
  readonly recorded?: Pick<TurnSetup, "has_approver" | "request_key" | "inbox_id" | "hops" | "goal"> | undefined;
  readonly signal: AbortSignal;
  /** The answer to calls that need approval if there is no approver. */
  readonly unattended: Unattended | undefined;
  readonly traceparent: string | undefined;
  /** The caller: its tools see no more than it does. */
  readonly caller: Caller | undefined;
  /** Custom tools added since the previous turn. */
  readonly added: readonly string[];
  /** The hooks of this turn; by default those of every turn. */
  readonly hooks?: readonly Hook[] | undefined;
}

/** Runs a turn of a held session and returns its result. */
export async function runSessionTurn(
  parts: TurnParts,
  live: LiveSession,
  input: TurnInput,
): Promise<RunResult | typeof WAITING> {
  const letGo = await parts.prepareTools(live.state.settings, input.signal);
  return runPrepared(parts, live, input).finally(letGo);
}

async function runPrepared(parts: TurnParts, live: LiveSession, input: TurnInput): Promise<RunResult | typeof WAITING> {
  const tools = chooseTools(parts, live, input.overlay, input.caller);
  // A custom tool of this name shows something else.
  const mayEvict = tools.has(RECALL_OUTPUT) && tools.get(RECALL_OUTPUT) === parts.recallOutputFor(live.state.settings);
  const { telemetry } = parts;
  if (telemetry === undefined) {
    return runOn(parts, live, { ...input, tools, mayEvict, watch: undefined, bare: input.model });
  }
  const wantsJson = outputSchemaOf(live.state.settings) !== undefined;
  const work = { kind: "turn" as const, tools, wantsJson, ...sessionWork(live) };
  const watch = (await telemetry()).watch({ ...work, ...input });
  try {
    const { model } = input;
    const watched = { model: watch.model, tools: watch.tools, watch };
    const result = await runOn(parts, live, { ...input, ...watched, mayEvict, bare: model });
    watch.end(typeof result === "symbol" ? {} : { result });
    return result;
  } catch (thrown) {
    watch.end({ error: asRuntimeError(thrown) });
    throw thrown;
  }
}

/** The facts of a session for telemetry. */
export function sessionWork({ state }: LiveSession) {
  return { sessionId: state.sessionId, isCompacted: () => state.shownBy.length > 0 };
}

interface Equipped extends TurnInput {
  readonly tools: ReadonlyMap<string, Tool>;
  /** Whether the model can read evicted output again. */
  readonly mayEvict: boolean;
  readonly watch: Watch | undefined;
  /** The model for calls outside of the turn. */
  readonly bare: ModelClient;
}

async function runOn(parts: TurnParts, live: LiveSession, input: Equipped): Promise<RunResult | typeof WAITING> {
  const { store, clock, policy, hash, checkInWorker, telemetry, preparations } = parts;
  const { model, tools, bare, traceparent } = input;
  const skill = parts.skillFor(tools);
  const hooks = hooksFor(parts, live, input.hooks);
  const composed = compactingIn(parts, live.state, { model, hooks });
  const compacting = composed && (input.mayEvict ? composed : { ...composed, evictFrom: undefined });
  const making = { policy, telemetry, compacting, model: bare, tools, skill, by: input.caller?.name, traceparent };
  const turn: Turn = {
    state: live.state,
    whole: () => parts.whole(live),
    model,
    tools,
    skill,
    compacting,
    background: preparations.background(live, making),
    policy,
    clock,
    signal: input.signal,
    redact: redactFor({ tools: [...live.tools, ...tools.values()] }, parts.redact),
    hash,
    checkInWorker,
    approvals: {
      permit: parts.permitFor(live.state, tools),
      unattended: input.unattended,
      timeoutMs: parts.approvalMs,
    },
    hooks,
    toolChoice: input.toolChoice,
    setup: input.isAdopted === true ? (live.state.turn?.setup ?? {}) : setupFor(parts, live, input),
    append: afterFirstAppend(appendingTo(store, live, { watch: input.watch, by: input.caller?.name }), () =>
      emitAdded(live, clock, input.added),
    ),
    emit: (event) => emitLive(live, clock, event),
    keepMedia: (content) => keepMedia(content, store.blobs),
    fillMedia: (messages) => fillMedia(messages, store.blobs),
    keep: (text) => store.blobs.put({ mediaType: "text/plain; charset=utf-8", data: new TextEncoder().encode(text) }),
  };
  const { turnsOpened } = live.state;
  const rest = parts.memory?.use(live.state.sessionId);
  try {
    const outcome = await begin(turn, input);
    if (typeof outcome === "symbol") return outcome;
    if (hooks !== undefined) await emitEnd(turn, hooks, outcome.end);
    return toResult(live, outcome);
  } catch (thrown) {
    const error = asRuntimeError(thrown);
    // Another process continues the turn, so it has not ended.
    if (live.isReleased) throw error;
    const isResumed = input.prompt === undefined && input.results === undefined && input.queued === undefined;
    const hasOpened = isResumed || live.state.turnsOpened > turnsOpened;
    // A closed turn has already emitted its end.
    if (!hasOpened || live.state.isTurnOpen) {
      await closeBroken(parts, live, { error, hasOpened });
      // The log may be the cause, so the hooks' entries are not stored.
      if (hooks !== undefined) await notifyHooks(hooks, "run_failed", { error: parts.redact(error.message) });
    }
    throw error;
  } finally {
    rest?.();
    parts.memory?.indexLater(live.state);
    preparations.rest(live, making);
  }
}

/** The inputs of a turn that its settings do not contain, as far as they differ from the defaults. */
function setupFor(parts: TurnParts, live: LiveSession, input: Equipped): TurnSetup {
  const { tools, overlay, caller, unattended, toolChoice, recorded } = input;
  const given = [...parts.codeTools, ...live.tools].filter(({ name }) => tools.has(name));
  const code = given.filter(({ isCallback }) => isCallback !== true).map(({ name }) => name);
  const callbacks = given.filter(({ isCallback }) => isCallback).map(({ name }) => name);
  const servers = new Set([...tools.values()].flatMap(({ mcp }) => (mcp === undefined ? [] : [mcp.server])));
  const hooks = (input.hooks ?? parts.hooks.hooks).filter(({ isCode }) => isCode);
  return {
    ...recorded,
    overlay,
    caller: caller && callerRecord(caller),
    ...(code.length === 0 ? {} : { code_tools: code }),
    ...(callbacks.length === 0 ? {} : { callback_tools: callbacks }),
    ...(servers.size === 0 ? {} : { mcp_servers: [...servers] }),
    ...(hooks.length === 0 ? {} : { code_hooks: hooks.map(({ id }) => id) }),
    ...(input.hooks === undefined ? {} : { has_own_hooks: true as const }),
    ...(unattended === undefined ? {} : { is_unattended: true as const }),
    tool_choice: toolChoice,
  };
}

export function callerRecord({ name, scopes, labels, maxCostPerDay }: Caller): TurnSetup["caller"] {
  const limit = maxCostPerDay === undefined ? {} : { max_cost_per_day: maxCostPerDay };
  return { name, scopes: [...scopes], labels: { ...labels }, ...limit };
}

/** Runs the hooks for the end of a turn. */
async function emitEnd(turn: Turn, hooks: Hooks, end: TurnEnd): Promise<void> {
  const reported =
    end.status === "completed"
      ? await notifyHooks(hooks, "run_completed")
      : await notifyHooks(hooks, "run_failed", { error: end.error });
  if (reported.length > 0) await turn.append(reported);
}

/** Also masks the secrets of the session's own tools. */
export function redactFor({ tools }: Pick<LiveSession, "tools">, redact: Redact): Redact {
  const secrets = tools.flatMap((tool) => tool.secrets ?? []);
  if (secrets.length === 0) return redact;
  const redactTheirs = createRedactor(secrets);
  return (text) => redact(redactTheirs(text));
}

function begin(turn: Turn, input: TurnInput): Promise<TurnOutcome | typeof WAITING> {
  const { prompt, results, instructions, queued } = input;
  if (queued !== undefined) return runDelivered(turn, queued);
  if (input.isAdopted === true) return adoptTurn(turn);
  if (input.isRetry === true) return retryTurn(turn);
  if (results !== undefined) return continueTurn(turn, { results, prompt, instructions });
  return prompt === undefined ? resumeTurn(turn) : runTurn(turn, { prompt, instructions });
}

/** Calls once after the first durable append: a turn is announced before its other events. */
function afterFirstAppend(append: Turn["append"], call: () => void): Turn["append"] {
  let hasCalled = false;
  return async (bodies) => {
    await append(bodies);
    if (hasCalled) return;
    hasCalled = true;
    call();
  };
}

/** Announces tools that a client registered since the last turn. */
function emitAdded(live: LiveSession, clock: Clock, added: readonly string[]): void {
  for (const name of added) {
    const change = { operation: "add" as const, target: `callback:${name}`, status: "applied", persisted: false };
    const payload = { ...change, status_info: { kind: "applied" }, applied_at_turn: live.state.turnsOpened };
    emitLive(live, clock, { type: "tool_config_changed", payload });
  }
}

/** Appends to the session's log under the caller's name, and informs telemetry. */
export function appendingTo(
  { log }: Store,
  live: LiveSession,
  { watch, by }: { readonly watch: Watch | undefined; readonly by: string | undefined },
): Turn["append"] {
  if (watch === undefined && by === undefined) return (bodies) => appendEntries(log, live, bodies);
  return async (bodies) => {
    let made: readonly EntryBody[] = [];
    await appendEntries(log, live, () => {
      made = signed(typeof bodies === "function" ? bodies() : bodies, by);
      return made;
    });
    watch?.appended(made);
  };
}

/** Turns and usage carry the caller's name. */
function signed(bodies: readonly EntryBody[], by: string | undefined): readonly EntryBody[] {
  if (by === undefined) return bodies;
  return bodies.map((body) => {
    switch (body.kind) {
      case "turn_opened":
      case "turn_continued":
      case "assistant":
      case "call_failed":
      case "extraction_attempt":
      case "compacted":
      case "compaction_prepared":
      case "compaction_dropped":
      case "compaction_failed":
        return { ...body, by };
      default:
        return body;
    }
  });
}

/** The window and the price of a session's model, without opening it. */
export function modelOf(
  { windowOf, pricesOf }: Pick<TurnParts, "windowOf" | "pricesOf">,
  settings: SessionSettings,
): Pick<ModelClient, "contextWindow" | "prices"> {
  return { contextWindow: windowOf(settings), prices: pricesOf(settings) };
}

/** The session's compaction settings, with memory if present; undefined without the capability. */
export function compactingIn(
  { compaction, memory }: TurnParts,
  state: SessionState,
  {
    model,
    hooks,
  }: { readonly model: Pick<ModelClient, "contextWindow" | "prices">; readonly hooks?: Hooks | undefined },
): Compacting | undefined {
  if (compaction === undefined) return undefined;
  const compacting = compactingFor(compaction, state.settings, model);
  return withHooks(memory === undefined ? compacting : withMemory(compacting, memory, state), hooks);
}

/** Ends a turn that failed outside of the model: listeners receive it from the log, or at least live. */
async function closeBroken(
  { store, clock, redact }: FixedParts,
  live: LiveSession,
  { error, hasOpened }: { error: RuntimeError; hasOpened: boolean },
): Promise<void> {
  const end: TurnEnd = {
    status: "failed",
    error_class: error.code === "SESSION_STORE_ERROR" ? "store" : "internal",
    error: redact(error.message),
    cause: "fatal_failure",
  };
  const closed = { kind: "turn_closed" as const, end };
  try {
    if (hasOpened) return await appendEntries(store.log, live, [closed]);
  } catch {
    // The log cannot record it, so the next turn will; listeners receive it live.
  }
  const source = { sessionId: live.state.sessionId, textAt: () => "" };
  for (const event of eventsOf(closed, source)) emitLive(live, clock, event);
}
