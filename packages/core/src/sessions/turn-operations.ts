import { requireReachableFor } from "../compactions/compaction-part.ts";
import type { Preparations } from "../compactions/preparations.ts";
import type { Caller } from "../contract/caller.ts";
import type { Capability, ModelsCatalog } from "../contract/capability.ts";
import { RuntimeError } from "../contract/error.ts";
import type { CreateSession, RunResult, StartTurn } from "../contract/session.ts";
import type { ModelClient, ModelResolver, ToolSpec } from "../ports/model.ts";
import type { Store } from "../ports/store.ts";
import { ceilingFor, requireToolScope } from "../runtime/ceiling.ts";
import { type CallContext, requireCapability, type Service } from "../runtime/dispatch.ts";
import { requireMayAllow, requireMayPrepare, rulesFor } from "../runtime/permissions.ts";
import type { Skills } from "../skills/skills.ts";
import type { Hash } from "../state/context.ts";
import type { Retention } from "../state/retention.ts";
import { isWaiting } from "../state/session-state.ts";
import type { SubAgentOptions, SubAgents, UntilOver } from "../sub-agents/sub-agents.ts";
import { requireNotWaiting } from "../turn/approval.ts";
import { compileSchema } from "../turn/json-schema.ts";
import { requireTools } from "../turn/tool-batch.ts";
import type { WAITING } from "../turn/turn.ts";
import { resultOf } from "./approvals.ts";
import { historyBodies } from "./fork.ts";
import { overrideHooks, runSessionHooks } from "./hooks.ts";
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
import { askedIn, modelFor, promptOf, requireClients, seenBy, withDayLimit, withinCeiling } from "./turn-input.ts";
import type { FixedParts, TurnInput, TurnParts } from "./turn-runner.ts";
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
  readonly subAgents: SubAgentOptions;
  /** Whether skills are on. */
  readonly hasSkills: boolean;
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
}

/** The operations that run turns. */
export function createTurnOperations(
  parts: Pick<FixedParts, "store" | "clock" | "checkInWorker" | "hash"> & {
    readonly capabilities: ReadonlySet<Capability>;
  },
  { live, locked, skills, current, untilOver, run: runTurn, repeat }: TurnOperationParts,
): Pick<Service, "createSession" | "startTurn" | "resumeSession"> {
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
      const result = isDeferred ? undefined : await repeat(before, request.key, call);
      const isOver = isDeferred || input.prompt === undefined || before.state.turnsOpened > 0;
      if (result !== undefined || isOver) return result ?? { session_id: request.sessionId };
      // Its process ended before the first turn began.
    }
    const began = current();
    const hooks = overrideHooks(began.hooks, input.hooks_override, call.caller);
    const model = await began.models.resolve(input.model, input.provider);
    const ceiling = ceilingFor(call.caller, began.defaults.ceiling);
    const settings = seenBy(call.caller, settleSettings(input, model, { ...began.defaults, ceiling }));
    requireParams(model, settings);
    const asked = askedIn(call, model);
    requirePrice(model, withDayLimit(settings, call.caller));
    const tools = () => allTools(began, settings, { own: call.tools ?? [] });
    if (began.compaction !== undefined) {
      requirePolicy(began.compaction, settings.compaction);
      requireReachableFor(began.compaction, settings, {
        tools: tools(),
        pinTokens: 0,
        contextWindow: model.contextWindow,
      });
    }
    const prompt = input.prompt && (await takeContent(input.prompt, { blobs: store.blobs, model, field: "prompt" }));
    requireTools(clientTools(settings), "client_tools");
    const pending = isDeferred && prompt !== undefined ? { pending_prompt: prompt } : {};
    const session_id = request?.sessionId ?? clock.newId();
    const key = request && { request_key: request.key };
    const body = { kind: "session_created" as const, settings, ...pending, ...key };
    const said = await historyBodies(input.history, { clock, blobs: store.blobs, model });
    const bodies = [body, ...said, ...(await skills.entriesFor(input, settings, pinningIn(began, tools, model)))];
    const begin = () => beginSession(store.log, session_id, { bodies, tools: call.tools ?? [], yieldToEventLoop });
    const session = before ?? (await live.admit(begin));
    if (before === undefined) await runSessionHooks(began, session, "session_created");
    else if (call.tools !== undefined) giveTools(session, call.tools);
    // Without a prompt it is deferred: the schema says so.
    if (isDeferred || prompt === undefined) return { session_id };
    const recorded = recordedOf(call, request?.key);
    const turn = { prompt, model, ...asked, instructions: [], overlay: undefined, added: [], hooks, recorded };
    const run = (signal: AbortSignal) => {
      requireNotBegun(session, request?.key);
      return runTurn(began, session, { ...turn, signal });
    };
    return input.keep_alive === true ? runInBackground(locked, session, call, run) : untilOver(session, call, run);
  };

  const startTurn = async (input: StartTurn, call: CallContext): Promise<RunResult> => {
    requireServed(input);
    if (call.tools !== undefined) requireTools(call.tools);
    requireMayAllow(input.permissions, call.caller);
    const session = await live.find(input.session_id);
    const request = requestKeyOf(input, call.caller, parts.hash);
    const repeated = request && (await repeat(session, request.key, call));
    if (repeated !== undefined) return repeated;
    return untilOver(session, call, async (signal) => {
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
      const overridden = overrideSettings(
        state.settings,
        { ...input, permissions },
        {
          model,
          isFirstTurn,
          defaults: { ...began.defaults, ceiling: ceilingFor(call.caller, began.defaults.ceiling) },
        },
      );
      requireClients(state, overridden, { ...input, isRetry: call.isRetry === true });
      const asked = askedIn(call, model);
      requireToolScope(call.caller, overridden.tools, began.defaults.ceiling);
      const settings = withinCeiling(overridden, began.defaults);
      const into = pinningIn(began, () => chooseTools(began, session).values(), model);
      const loading = await skills.entriesFor(input, settings, into, state);
      if (settings !== state.settings) requireParams(model, settings);
      requirePrice(model, withDayLimit(settings, call.caller));
      const prompt = await promptOf(state.pendingPrompt, input, { blobs: store.blobs, model });
      if (settings !== state.settings) {
        await appendEntries(store.log, session, [{ kind: "settings_changed", settings }]);
      }
      // Apart from the turn's beginning: what is unloaded by it must not be shown to its first call.
      if (loading.length > 0) await appendEntries(store.log, session, loading);
      const instructions = input.additional_instructions ?? [];
      const { tool_results: results, flow_tool_overlay: overlay } = input;
      const recorded = recordedOf(call, request?.key);
      const turn = { prompt, results, model, instructions, overlay, signal, added, hooks, recorded };
      return runTurn(began, session, { ...turn, ...asked });
    });
  };

  return { createSession, startTurn, resumeSession: startTurn };
}

function ignoreMissing(thrown: unknown): undefined {
  if (thrown instanceof RuntimeError && thrown.code === "SESSION_NOT_FOUND") return undefined;
  throw thrown;
}

/** The inputs that another process needs to continue the turn. */
function recordedOf({ hasApprover }: CallContext, request_key: string | undefined): TurnInput["recorded"] {
  return {
    ...(hasApprover === undefined ? {} : { has_approver: hasApprover }),
    ...(request_key === undefined ? {} : { request_key }),
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

export function createRepeats(parts: {
  readonly store: Store;
  readonly live: LiveSessions;
  untilOver(session: LiveSession, call: CallContext): Promise<RunResult>;
  readonly finishTurn: Service["finishTurn"];
}): Repeat {
  const { store, live } = parts;
  return async (session, key, call) => {
    await live.refresh(session);
    const { state } = session;
    const seq = state.requests.get(key);
    if (seq === undefined) {
      const [id] = key.split(".");
      if (![...state.requests.keys()].some((other) => other.startsWith(`${id}.`))) return undefined;
      throw usedForAnother();
    }
    const over = await resultOf(store, session, seq);
    if (over !== undefined || seq !== state.turn?.seq) return over;
    const isHeld = session.isRunning || (await store.locks.isHeld(state.sessionId));
    if (isHeld || isWaiting(state)) return parts.untilOver(session, call);
    return parts.finishTurn({ session_id: state.sessionId }, call);
  };
}
