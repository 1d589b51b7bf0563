import { requireReachableFor } from "../compactions/compaction-part.ts";
import type { Preparations } from "../compactions/preparations.ts";
import type { Caller } from "../contract/caller.ts";
import type { Capability, ModelsCatalog } from "../contract/capability.ts";
import type { EntryBodyOf, TurnSetup } from "../contract/entry.ts";
import { hasCode, invalid, RuntimeError } from "../contract/error.ts";
import { defined } from "../contract/json.ts";
import type { CreateSession, RunResult, StartTurn } from "../contract/session.ts";
import type { ModelClient, ModelResolver, ToolSpec } from "../ports/model.ts";
import type { Store } from "../ports/store.ts";
import { ceilingFor, requireToolScope } from "../runtime/ceiling.ts";
import { type CallContext, requireCapability, requireLeft, type Service } from "../runtime/dispatch.ts";
import { type RouteRules, requireMayAllow, requireMayPrepare, rulesFor } from "../runtime/permissions.ts";
import type { Goals } from "../schedules/goals.ts";
import type { Skills } from "../skills/skills.ts";
import type { Hash } from "../state/context.ts";
import type { Retention } from "../state/retention.ts";
import { beginState, isWaiting } from "../state/session-state.ts";
import type { SubAgentOptions, SubAgents, UntilOver } from "../sub-agents/sub-agents.ts";
import { requireNotWaiting } from "../turn/approval.ts";
import { compileSchema } from "../turn/json-schema.ts";
import { requireTools } from "../turn/tool-batch.ts";
import type { WAITING } from "../turn/turn.ts";
import { resultOf } from "./approvals.ts";
import { historyBodies } from "./fork.ts";
import { overrideHooks, runSessionHooks } from "./hooks.ts";
import type { Inbox, NewMessage } from "./inbox.ts";
import {
  appendEntries,
  beginSession,
  giveTools,
  type LiveSession,
  type LiveSessions,
  type LockedWork,
} from "./live-sessions.ts";
import { takeContent } from "./media.ts";
import {
  overrideSettings,
  requireNothingSince,
  requireParams,
  requirePolicy,
  requirePrice,
  requireServed,
  type SessionDefaults,
  settleSettings,
} from "./session-settings.ts";
import {
  askedIn,
  callerAgain,
  modelFor,
  promptOf,
  requireClients,
  seenBy,
  withDayLimit,
  withinCeiling,
} from "./turn-input.ts";
import { callerRecord, type FixedParts, type TurnInput, type TurnParts } from "./turn-runner.ts";
import { allTools, chooseTools, clientTools } from "./turn-tools.ts";

/** What follows from the configuration, which may change between two turns. */
export interface Configured extends Omit<TurnParts, keyof FixedParts | "preparations" | "whole"> {
  readonly models: ModelResolver;
  readonly defaults: SessionDefaults;
  readonly sessionsMax: number;
  /** How many processes may run a turn. */
  readonly resuming: { readonly attempts: number };
  /** Where a search of memory looks that does not say. */
  readonly memoryScope: "project" | "session";
  readonly retention: Retention;
  readonly routeRules: RouteRules;
  readonly subAgents: SubAgentOptions;
  readonly hasSkills: boolean;
  readonly hasAgentsMd: boolean;
  /** What `readModels` answers. */
  catalogue(): ModelsCatalog;
}

/** What a turn begins with, as configured when it begins. */
export type Current = () => TurnParts & Configured & { readonly preparations: Preparations };

interface TurnOperationParts {
  readonly live: LiveSessions;
  readonly locked: LockedWork;
  readonly skills: Skills;
  readonly current: Current;
  readonly untilOver: UntilOver;
  readonly run: SubAgents["run"];
  readonly repeat: Repeat;
  inbox(): Pick<Inbox, "enqueue" | "untilOver">;
  goals(): Pick<Goals, "record" | "take" | "follow">;
}

interface TurnOperations extends Pick<Service, "createSession" | "startTurn" | "resumeSession"> {
  beginQueued(session: LiveSession, queued: EntryBodyOf<"message_queued">, signal: AbortSignal): Promise<unknown>;
}

/** The operations that run turns. */
export function createTurnOperations(
  parts: Pick<FixedParts, "store" | "clock" | "checkInWorker" | "hash"> & {
    readonly capabilities: ReadonlySet<Capability>;
    /** What a caller lacks to run a turn now; undefined if it may. */
    lacks(caller: NonNullable<TurnSetup["caller"]>): string | undefined;
    /** The US dollars that a caller has spent today. */
    spentToday(name: string): Promise<number>;
  },
  { live, locked, skills, current, untilOver, run: runTurn, repeat, inbox, goals }: TurnOperationParts,
): TurnOperations {
  const { store, clock } = parts;
  const { yieldToEventLoop } = clock;

  const createSession = async (input: CreateSession, call: CallContext) => {
    requireServed(input);
    if (input.enable_memory === true) requireCapability(parts.capabilities, "memory-store");
    if (input.compaction !== undefined) requireCapability(parts.capabilities, "session-compaction");
    if (call.tools !== undefined) requireTools(call.tools);
    requireMayAllow(input.permissions, call.caller);
    requireMayPrepare(input.shell_env, call.caller);
    if (input.output_schema !== undefined)
      await compileSchema(input.output_schema, "output_schema", parts.checkInWorker);
    const request = requestKeyOf(input, call.caller, parts.hash);
    const before = request && (await live.find(request.sessionId).catch(ignoreMissing));
    const isDeferred = input.initial_turn === "deferred";
    if (request !== undefined && before !== undefined) {
      await requireSame(store, request);
      const repeated = (again: CallContext) => repeat(before, request.key, again);
      const result = isDeferred ? undefined : await goals().follow(input, { session: before, call }, repeated);
      const isOver = isDeferred || input.prompt === undefined || before.state.turnsOpened > 0;
      if (result !== undefined || isOver) return result ?? { session_id: request.sessionId };
      // Its process ended before the first turn began.
    }
    const began = current();
    const hooks = overrideHooks(began.hooks, input.hooks_override, call.caller);
    const model = await began.models.resolve(input.model, input.provider);
    const ceiling = ceilingFor(call.caller, began.defaults.ceiling);
    const defaults = { ...began.defaults, ceiling };
    const settled = settleSettings({ ...input, ...offeredMemory(call, defaults) }, model, defaults);
    const settings = seenBy(call.caller, settled);
    requireParams(model, settings);
    const asked = askedIn(call, model);
    requirePrice(model, withDayLimit(settings, call.caller));
    const tools = () => allTools(began, settings, { own: call.tools ?? [] });
    if (began.compaction !== undefined) {
      requirePolicy(began.compaction, settings.compaction);
      const within = { tools: tools(), pinTokens: 0, contextWindow: model.contextWindow };
      requireReachableFor(began.compaction, settings, within);
    }
    const prompt = input.prompt && (await takeContent(input.prompt, { blobs: store.blobs, model, field: "prompt" }));
    requireTools(clientTools(settings), "client_tools");
    const pending = isDeferred && prompt !== undefined ? { pending_prompt: prompt } : {};
    const session_id = request?.sessionId ?? clock.newId();
    const key = request && { request_key: request.key };
    const body = { kind: "session_created" as const, settings, ...pending, ...key };
    const said = await historyBodies(input.history, { clock, blobs: store.blobs, model });
    // The first turn of a deferred session may bring a system prompt, so it reads AGENTS.md.
    const loading = isDeferred ? { ...settings, agents_md: undefined } : settings;
    const state = beginState(session_id, [{ seq: 1, span: 1, timestamp_ms: clock.now(), body }]);
    const goal = await goals().take(input, { now: began, session: { state, tools: call.tools ?? [] }, model, call });
    const bodies = [body, ...said, ...(await skills.entriesFor(input, loading, pinningIn(began, tools, model)))];
    const begin = () => beginSession(store.log, session_id, { bodies, tools: call.tools ?? [], yieldToEventLoop });
    const session = before ?? (await live.admit(begin));
    if (before === undefined) await runSessionHooks(began, session, "session_created");
    else if (call.tools !== undefined) giveTools(session, call.tools);
    // Without a prompt it is deferred: the schema says so.
    if (isDeferred || prompt === undefined) return { session_id };
    const recorded = { ...recordedOf(call, request?.key), ...goal };
    const turn = { prompt, model, ...asked, instructions: [], overlay: undefined, added: [], hooks, recorded };
    const run = (signal: AbortSignal) => {
      requireNotBegun(session, request?.key);
      return runTurn(began, session, { ...turn, signal });
    };
    if (input.keep_alive === true) return runInBackground(locked, session, call, run);
    return goals().follow(input, { session, call }, (own) => untilOver(session, own, run));
  };

  const startTurn = async (input: StartTurn, call: CallContext): Promise<RunResult> => {
    requireServed(input);
    if (call.tools !== undefined) requireTools(call.tools);
    requireMayAllow(input.permissions, call.caller);
    const session = await live.find(input.session_id);
    return goals().follow(input, { session, call }, (own) => start(session, input, own));
  };

  const start = async (session: LiveSession, input: StartTurn, call: CallContext): Promise<RunResult> => {
    const request = requestKeyOf(input, call.caller, parts.hash);
    const repeated = request && (await repeat(session, request.key, call));
    if (repeated !== undefined) return repeated;
    const { when_busy = "reject" } = input;
    if (when_busy === "reject") return untilOver(session, call, turnOf(session, input, { call, request }));
    requireStorable(input, call);
    goals().record(input);
    let hasBegun = false;
    try {
      return await untilOver(session, call, (signal) => {
        const { inbox, sessionId } = session.state;
        if (inbox.length > 0) throw new RuntimeError("SESSION_BUSY", `messages wait in session ${sessionId}`);
        requireNotWaiting(session.state, clock);
        hasBegun = true;
        return turnOf(session, input, { call, request })(signal);
      });
    } catch (thrown) {
      if (hasBegun || !hasCode(thrown, "SESSION_BUSY")) throw thrown;
    }
    const message = await queuedOf(session, input, { call, request, when_busy });
    await inbox().enqueue(session, message);
    return inbox().untilOver(session, message.id, call);
  };

  /** What the log keeps of a turn that has to wait; throws as the turn would, as far as that is known by now. */
  const queuedOf = async (
    session: LiveSession,
    input: StartTurn,
    { call, request, when_busy }: Asked & { readonly when_busy: NewMessage["when_busy"] },
  ): Promise<NewMessage> => {
    const { session_id: _, prompt, when_busy: _how, idempotency_key: _key, ...options } = input;
    const model = await modelFor(current().models, session, input);
    const content = await takeContent(prompt, { blobs: store.blobs, model, field: "prompt" });
    const { caller, unattended } = call;
    const setup = {
      ...recordedOf(call, request?.key),
      ...(caller === undefined ? {} : { caller: callerRecord(caller) }),
      ...(unattended === undefined ? {} : { is_unattended: true as const }),
    };
    return {
      id: clock.newId(),
      when_busy,
      message: { role: "user", content, created_at: new Date(clock.now()).toISOString() },
      source: { type: "user" },
      options: Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)),
      setup,
      ...(caller === undefined ? {} : { by: caller.name }),
    };
  };

  /** Begins the turn of a queued message, with the rights of its caller. */
  const beginQueued: TurnOperations["beginQueued"] = async (session, queued, signal) => {
    const { message, options, setup = {} } = queued;
    const lack = setup.caller && parts.lacks(setup.caller);
    if (lack !== undefined) throw new RuntimeError("PERMISSION_DENIED", `it cannot be run: ${lack}`);
    const caller = setup.caller && callerAgain(setup.caller);
    if (caller !== undefined) await requireLeft(caller, parts.spentToday);
    const prompt = message.role === "user" ? message.content : "";
    // It was checked as an input of `turn/start` before it was queued.
    const input = { ...options, session_id: session.state.sessionId, prompt } as StartTurn;
    const call: CallContext = {
      ...(caller === undefined ? {} : { caller }),
      ...(setup.is_unattended === true ? { unattended: NO_APPROVER } : {}),
      ...(setup.has_approver === true ? { hasApprover: true } : {}),
    };
    const key = setup.request_key;
    const request = key === undefined ? undefined : { key, sessionId: session.state.sessionId };
    return turnOf(session, input, { call, request, queued })(signal);
  };

  /** A turn of a session, to be run while that is held. */
  const turnOf =
    (session: LiveSession, input: StartTurn, { call, request, queued }: Asked) =>
    async (signal: AbortSignal): Promise<RunResult | typeof WAITING> => {
      const { state } = session;
      requireNotBegun(session, request?.key);
      requireNotWaiting(state, clock);
      requireNothingSince(state, input.after_seq);
      const added = call.tools === undefined ? [] : giveTools(session, call.tools);
      const schemas = [input.change_settings?.output_schema, input.output_schema, input.turn_output_schema];
      for (const schema of schemas.filter((one) => one != null))
        await compileSchema(schema, "output_schema", parts.checkInWorker);
      const began = current();
      const hooks = overrideHooks(began.hooks, input.hooks_override, call.caller);
      const model = await modelFor(began.models, session, input);
      const isFirstTurn = state.turnsOpened === 0;
      const permissions = rulesFor(state.settings.permissions, input.permissions, call.caller);
      const defaults = { ...began.defaults, ceiling: ceilingFor(call.caller, began.defaults.ceiling) };
      const changes = input.change_settings && { ...input.change_settings, ...offeredMemory(call, defaults) };
      const overridden = overrideSettings(
        state.settings,
        { ...input, permissions, change_settings: changes },
        { model, isFirstTurn, defaults },
      );
      requireClients(state, overridden, { ...input, isRetry: call.isRetry === true });
      const asked = askedIn(call, model);
      requireToolScope(call.caller, overridden.tools, began.defaults.ceiling);
      const settings = withinCeiling(overridden, began.defaults);
      const into = pinningIn(began, () => chooseTools(began, session).values(), model);
      const loading = await skills.entriesFor(input, settings, into, state);
      if (settings !== state.settings) requireParams(model, settings);
      requirePrice(model, withDayLimit(settings, call.caller));
      const { tool_results: results, flow_tool_overlay: overlay } = input;
      const taking = { ...session, state: { ...state, settings } };
      const goal = await goals().take(input, { now: began, session: taking, model, call, overlay });
      const isSent = queued !== undefined && queued.message.role !== "user";
      const prompt = isSent ? undefined : await promptOf(state.pendingPrompt, input, { blobs: store.blobs, model });
      if (settings !== state.settings) {
        // Its MCP servers may have changed meanwhile.
        const now = () => ({ ...settings, ...defined({ mcp_servers: state.settings.mcp_servers }) });
        await appendEntries(store.log, session, () => [{ kind: "settings_changed", settings: now() }]);
      }
      // Apart from the turn's beginning: what is unloaded by it must not be shown to its first call.
      if (loading.length > 0) await appendEntries(store.log, session, loading);
      const instructions = input.additional_instructions ?? [];
      const sent = queued === undefined ? {} : { inbox_id: queued.id, ...defined({ hops: queued.setup?.hops }) };
      const recorded = { ...recordedOf(call, request?.key), ...sent, ...goal };
      const turn = { prompt, results, model, instructions, overlay, signal, added, hooks, recorded };
      return runTurn(began, session, { ...turn, ...asked, ...(isSent ? { queued } : {}) });
    };

  return { createSession, startTurn, resumeSession: startTurn, beginQueued };
}

/** A turn that is asked for: by a caller, or by a message that waited. */
interface Asked {
  readonly call: CallContext;
  readonly request: { readonly key: string } | undefined;
  readonly queued?: EntryBodyOf<"message_queued"> | undefined;
}

/** A turn that waits is kept in the log, and may begin in another process. */
function requireStorable(input: StartTurn, call: CallContext): void {
  const refuse = (field: string) =>
    invalid(`${field}: leave it out, or leave out when_busy; a turn with it cannot wait`);
  if (input.hooks_override != null) throw refuse("hooks_override");
  if (input.tool_results !== undefined) throw refuse("tool_results");
  if (input.after_seq !== undefined) throw refuse("after_seq");
  if (call.isRetry === true || call.toolChoice !== undefined) throw refuse("tool_choice");
}

const NO_APPROVER = "no approver is available";

function offeredMemory({ offersMemory }: CallContext, { presets, ceiling }: SessionDefaults) {
  return offersMemory === true && presets.safe.memory && ceiling.memory ? { enable_memory: true } : {};
}

function ignoreMissing(thrown: unknown): undefined {
  if (hasCode(thrown, "SESSION_NOT_FOUND")) return undefined;
  throw thrown;
}

/** The inputs that another process needs to continue the turn. */
function recordedOf({ hasApprover }: CallContext, request_key: string | undefined): TurnInput["recorded"] {
  return {
    ...defined({ has_approver: hasApprover, request_key }),
  };
}

/** What decides how much may be pinned. */
export function pinningIn(
  { compaction }: Pick<TurnParts, "compaction">,
  tools: () => Iterable<ToolSpec>,
  { contextWindow }: Pick<ModelClient, "contextWindow">,
) {
  return { compaction, tools, contextWindow };
}

/** Runs a turn nobody waits for; how it ends is told in its events, and kept. */
async function runInBackground(
  locked: LockedWork,
  session: LiveSession,
  { background, caller }: CallContext,
  turn: (signal: AbortSignal) => Promise<RunResult | typeof WAITING>,
) {
  const { promise: holding, resolve, reject } = Promise.withResolvers<void>();
  const run = locked.run(session, caller?.until === undefined ? {} : { signal: caller.until }, (signal) => {
    resolve();
    return turn(signal);
  });
  run.catch(reject);
  background?.(run);
  await holding;
  const usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };
  return { session_id: session.state.sessionId, text: "", turns: 0, tool_calls: 0, usage };
}

/** A request that was made before, possibly at another process: it gets the end of its turn. */
export type Repeat = (session: LiveSession, key: string, call: CallContext) => Promise<RunResult | undefined>;

/** The key of a request in the log: its caller's key, and its content. */
export function requestKeyOf(
  { idempotency_key, ...input }: { readonly idempotency_key?: string | undefined },
  caller: Caller | undefined,
  hash: Hash,
): { readonly key: string; readonly sessionId: string } | undefined {
  if (idempotency_key === undefined) return undefined;
  const id = hash(JSON.stringify([caller?.name ?? "", idempotency_key]));
  const [, ...groups] = /^(.{8})(.{4}).(.{3}).(.{3})(.{12})/.exec(id) ?? [];
  const [first, second, third, fourth, last] = groups;
  // A version 8 UUID: the same request names the same new session at every server.
  const sessionId = `${first}-${second}-8${third}-8${fourth}-${last}`;
  return { key: `${id.slice(0, KEY_CHARS)}.${hash(JSON.stringify(input)).slice(0, KEY_CHARS)}`, sessionId };
}

const KEY_CHARS = 32;

/** Throws DUPLICATE_INPUT if another request created the session of this key. */
async function requireSame({ log }: Store, { key, sessionId }: { readonly key: string; readonly sessionId: string }) {
  const [first] = await log.read(sessionId, 1, 1);
  const created = first?.body.kind === "session_created" ? first.body.request_key : undefined;
  if (created !== undefined && created !== key) throw usedForAnother();
}

/** Throws SESSION_BUSY if the same request has begun its turn since it was looked for. */
function requireNotBegun({ state }: LiveSession, key: string | undefined): void {
  if (key === undefined || !state.requests.has(key)) return;
  throw new RuntimeError("SESSION_BUSY", `session ${state.sessionId} has run this request just now; send it again`);
}

function usedForAnother(): RuntimeError {
  return new RuntimeError("DUPLICATE_INPUT", "idempotency_key: it was used for another request");
}

/** The end of the turn that began at a seq, waited for where it is not over; undefined if its end is not known. */
export type EndOf = (session: LiveSession, seq: number, call: CallContext) => Promise<RunResult | undefined>;

export function createEndOf(parts: {
  readonly store: Store;
  untilOver(session: LiveSession, call: CallContext, of: { readonly turn: number }): Promise<RunResult>;
  readonly finishTurn: Service["finishTurn"];
}): EndOf {
  const { store } = parts;
  return async (session, seq, call) => {
    const { state } = session;
    const over = await resultOf(store, session, seq);
    if (over !== undefined || seq !== state.turn?.seq) return over;
    const isHeld = session.isRunning || (await store.locks.isHeld(state.sessionId));
    if (isHeld || isWaiting(state)) return parts.untilOver(session, call, { turn: seq });
    return parts.finishTurn({ session_id: state.sessionId }, call).catch((thrown: unknown) => {
      // Another process has continued it since.
      if (!hasCode(thrown, "SESSION_BUSY") && !hasCode(thrown, "SESSION_NOT_RUNNING")) throw thrown;
      return parts.untilOver(session, call, { turn: seq });
    });
  };
}

export function createRepeats(live: LiveSessions, endOf: EndOf, inbox: () => Pick<Inbox, "untilOver">): Repeat {
  return async (session, key, call) => {
    await live.refresh(session);
    const { state } = session;
    const seq = state.requests.get(key);
    if (seq !== undefined) return endOf(session, seq, call);
    const queued = state.inbox.find(({ body }) => body.setup?.request_key === key);
    if (queued !== undefined) return inbox().untilOver(session, queued.body.id, call);
    const [id] = key.split(".");
    if (![...state.requests.keys()].some((other) => other.startsWith(`${id}.`))) return undefined;
    throw usedForAnother();
  };
}

/** `turn/finish`: the unfinished turn, or the end of the one that is named. */
export function createFinishTurn(
  { log }: Store,
  live: LiveSessions,
  { endOf, finishTurn }: { readonly endOf: EndOf; readonly finishTurn: Service["finishTurn"] },
): Service["finishTurn"] {
  return async (input, call) => {
    const { session_id, turn } = input;
    if (turn === undefined) return finishTurn(input, call);
    const session = await live.findFresh(session_id);
    const [first] = await log.read(session_id, turn, 1);
    const isTurn = first?.seq === turn && (first.body.kind === "turn_opened" || first.body.kind === "turn_continued");
    const end = isTurn ? await endOf(session, turn, call) : undefined;
    if (end === undefined) throw invalid(`turn: no turn of session ${session_id} began at ${turn}`);
    return end;
  };
}
