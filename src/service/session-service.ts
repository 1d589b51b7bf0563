import { describeAccess } from "../contract/caller.ts";
import type { Capabilities, Capability, ModelsCatalog } from "../contract/capability.ts";
import { RuntimeError } from "../contract/error.ts";
import type { CreateSession, RunResult, StartTurn } from "../contract/session.ts";
import { requireNotWaiting } from "../core/approval.ts";
import { compileSchema } from "../core/json-schema.ts";
import type { Retention } from "../core/retention.ts";
import { toolTokens } from "../core/tokens.ts";
import { requireTools } from "../core/tool-batch.ts";
import type { WAITING } from "../core/turn.ts";
import type { ModelClient, ModelResolver, ToolSpec } from "../ports/model.ts";
import type { AgentOperations } from "./agent/agents.ts";
import { createApprovals } from "./approvals.ts";
import { sessionsWith } from "./caller-view.ts";
import { ceilingFor, requireToolScope } from "./ceiling.ts";
import { compactingFor, requireReachableFor } from "./compaction-part.ts";
import { createCompactions } from "./compactions.ts";
import type { Configuration } from "./configuration.ts";
import { type CallContext, requireCapability, type Service } from "./dispatch.ts";
import { createForgettingLater, type LaterParts } from "./forget-later.ts";
import { createForks, createInjections, historyBodies } from "./fork.ts";
import { overrideHooks, runSessionHooks } from "./hooks.ts";
import {
  appendEntries,
  beginSession,
  createLiveSessions,
  createLockedWork,
  giveTools,
  type LiveSession,
  type LiveSessions,
  type LockedWork,
} from "./live-sessions.ts";
import { takeContent } from "./media.ts";
import { createMemoryOperations } from "./memory-operations.ts";
import { createModelCalls } from "./model-calls.ts";
import { requireMayAllow, requireMayPrepare, rulesFor } from "./permissions.ts";
import { createPortableSessions } from "./portable-sessions.ts";
import { createPreparations } from "./preparations.ts";
import { createRewrites } from "./rewrites.ts";
import { createSessionReader } from "./session-reader.ts";
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
import type { SkillCatalogue } from "./skill-catalogue.ts";
import { createSkills, type Skills } from "./skills.ts";
import { createSubAgents, type SubAgentOptions } from "./sub-agents.ts";
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
import { appendingTo, type FixedParts, type TurnParts } from "./turn-runner.ts";
import { allTools, chooseTools, clientTools, type ToolParts } from "./turn-tools.ts";
import type { UsageSums } from "./usage.ts";

/** What follows from the configuration, which may change between two turns. */
export interface Configured extends Omit<TurnParts, keyof FixedParts | "preparations" | "whole"> {
  readonly models: ModelResolver;
  readonly defaults: SessionDefaults;
  readonly sessionsMax: number;
  /** Where a search of memory looks that does not say. */
  readonly memoryScope: "project" | "session";
  readonly retention: Retention;
  readonly subAgents: SubAgentOptions;
  /** Whether skills are on. */
  readonly hasSkills: boolean;
  /** What `readModels` answers. */
  catalogue(): ModelsCatalog;
}

export interface ServiceParts extends FixedParts {
  readonly capabilities: ReadonlySet<Capability>;
  readonly agents: AgentOperations;
  readonly usage: UsageSums;
  readonly forgetting: Pick<LaterParts, "tools" | "agents" | "warn"> & { readonly isShortLived: boolean };
  readonly configuration: Configuration<Configured>;
  readonly catalogue: SkillCatalogue;
  /** Adds rules to what the project allows. */
  allowInProject(rules: readonly string[]): Promise<void>;
  /** What `readCapabilities` answers. */
  describeCapabilities(): Capabilities;
}

export interface SessionService {
  readonly service: Service;
  readonly live: LiveSessions;
  /** What the tool does by which a model loads a skill. */
  readonly loadSkill: Skills["load"];
  readonly stop: LockedWork["stop"];
}

/** Sessions and their turns: the one behaviour behind every surface. */
export function createSessionService(parts: ServiceParts): SessionService {
  const { store, clock, configuration, redact, hash } = parts;
  const { yieldToEventLoop } = clock;
  /** Asked for once by whatever begins: it goes on with what it began with. */
  const current = () => {
    const configured = configuration.current();
    return { ...parts, ...configured, ...subAgents.offer(configured), preparations, whole: live.whole };
  };
  const live = createLiveSessions(store, {
    sessionsMax: () => configuration.current().sessionsMax,
    isStored: parts.capabilities.has("session-store"),
    keeping: { hash, yieldToEventLoop },
  });
  const locked = createLockedWork({ store, clock, live });
  const appending = (session: LiveSession, reported: Parameters<typeof appendingTo>[2]) =>
    appendingTo(store, session, reported);
  const erasing = createErasing(parts, live);
  const skills = skillsFor(parts, live, current);
  const preparations = createPreparations({ clock, redact, hash, live, locked, appending });

  const createSession = async (input: CreateSession, call: CallContext) => {
    requireServed(input);
    if (input.enable_memory === true) requireCapability(parts.capabilities, "memory-store");
    if (input.compaction !== undefined) requireCapability(parts.capabilities, "session-compaction");
    if (call.tools !== undefined) requireTools(call.tools);
    requireMayAllow(input.permissions, call.caller);
    requireMayPrepare(input.shell_env, call.caller);
    if (input.output_schema !== undefined)
      await compileSchema(input.output_schema, "output_schema", parts.checkInWorker);
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
    const { initial_turn } = input;
    const prompt = input.prompt && (await takeContent(input.prompt, { blobs: store.blobs, model, field: "prompt" }));
    const isDeferred = initial_turn === "deferred";
    requireTools(clientTools(settings), "client_tools");
    const pending = isDeferred && prompt !== undefined ? { pending_prompt: prompt } : {};
    const session_id = clock.newId();
    const body = { kind: "session_created" as const, settings, ...pending };
    const said = await historyBodies(input.history, { clock, blobs: store.blobs, model });
    const bodies = [body, ...said, ...(await skills.entriesFor(input, settings, pinningIn(began, tools, model)))];
    const session = await live.admit(() =>
      beginSession(store.log, session_id, { bodies, tools: call.tools ?? [], yieldToEventLoop }),
    );
    await runSessionHooks(began, session, "session_created");
    // Without a prompt it is deferred: the schema says so.
    if (isDeferred || prompt === undefined) return { session_id };
    const turn = { prompt, model, ...asked, instructions: [], overlay: undefined, added: [], hooks };
    const run = (signal: AbortSignal) => subAgents.run(began, session, { ...turn, signal });
    return input.keep_alive === true ? runInBackground(locked, session, call, run) : untilOver(session, call, run);
  };

  /** Runs a turn to its end, also where that comes after a person's word, in whichever process. */
  const untilOver = async (
    session: LiveSession,
    call: CallContext,
    turn: (signal: AbortSignal) => Promise<RunResult | typeof WAITING>,
  ): Promise<RunResult> => {
    const outcome = await locked.run(session, call, turn);
    return typeof outcome === "symbol" ? approvals.untilOver(session, call) : outcome;
  };

  const startTurn = async (input: StartTurn, call: CallContext): Promise<RunResult> => {
    requireServed(input);
    if (call.tools !== undefined) requireTools(call.tools);
    requireMayAllow(input.permissions, call.caller);
    const session = await live.find(input.session_id);
    return untilOver(session, call, async (signal) => {
      const { state } = session;
      requireNotWaiting(state, clock);
      requireNothingSince(state, input.after_seq);
      const added = call.tools === undefined ? [] : giveTools(session, call.tools);
      const schema = input.change_settings?.output_schema ?? input.output_schema;
      if (schema !== undefined) await compileSchema(schema, "output_schema", parts.checkInWorker);
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
      const turn = { prompt, results, model, instructions, overlay, signal, added, hooks };
      return subAgents.run(began, session, { ...turn, ...asked });
    });
  };

  const ending = new AbortController();
  const approvals = createApprovals({
    store,
    clock,
    live,
    locked,
    resume: async (session, signal) => {
      const began = current();
      const { settings, approval } = session.state;
      const model = await began.models.resolve(settings.model, settings.provider);
      const { overlay, caller: asked } = approval?.asked.progress ?? {};
      const caller = asked && callerAgain(asked);
      const rest = { instructions: [], traceparent: undefined, unattended: undefined, added: [], caller };
      return subAgents.run(began, session, { prompt: undefined, model, overlay, signal, ...rest });
    },
    allowInProject: parts.allowInProject,
    ending: ending.signal,
  });

  const { giveUp } = approvals;
  const subAgents = createSubAgents({ ...parts, live, locked, preparations, giveUp, untilOver, current });

  const sizesOf = createSizes(current);
  const service: Service = {
    createSession,
    startTurn,
    resumeSession: startTurn,
    answerApproval: approvals.answerApproval,
    listApprovals: approvals.listApprovals,
    interruptTurn: async ({ session_id }) => {
      const session = await live.findFresh(session_id);
      await store.locks.interrupt(session_id);
      // What is made ready behind it is to be paid for, too.
      void preparations.stop(session_id);
      await approvals.giveUp(session);
      return { interrupted: true };
    },
    ...createSessionReader({ store, live, hash: parts.hash, sizesOf }),
    ...createModelCalls({ store, live, clock, sizesOf }),
    ...createCompactions({ ...parts, live, locked }, () => ({ ...current(), live, locked })),
    ...createRewrites({ ...parts, live, locked }, () => ({ ...current(), live, locked })),
    ...createMemoryOperations({
      memory: parts.memory,
      live,
      scope: () => configuration.current().memoryScope,
      telemetry: parts.telemetry,
      sessionsWith: (labels) => sessionsWith(store, labels),
    }),
    ...parts.agents,
    ...skills.operations,
    ...erasing.operations,
    ...configuration.operations,
    readUsage: parts.usage.readUsage,
    ...createInjections(parts, { live, locked }),
    ...createForks({ store, live, clock }),
    ...createPortableSessions({ store, live, clock, memory: parts.memory }),
    archiveSession: async ({ session_id }) => {
      const session = await live.findFresh(session_id);
      if (session.state.archived) return { archived: true };
      await approvals.giveUp(session);
      await preparations.stop(session_id);
      await locked.run(session, {}, async () => {
        await appendEntries(store.log, session, [{ kind: "archived" }]);
        await runSessionHooks(current(), session, "session_archived");
      });
      return { archived: true };
    },
    readBlob: ({ blob_id }) => readBlob(store.blobs, blob_id),
    readAccess: async (_, { caller }) => describeAccess(caller),
    readCapabilities: async () => parts.describeCapabilities(),
    readModels: async () => configuration.current().catalogue(),
  };
  const stop = async (): Promise<void> => {
    ending.abort("the runtime closes");
    await erasing.close();
    await Promise.all([preparations.close(), locked.stop()]).then(live.close);
  };
  return { service, live, loadSkill: skills.load, stop };
}

function skillsFor(parts: ServiceParts, live: LiveSessions, current: () => TurnParts & Configured): Skills {
  return createSkills({
    ...parts,
    live,
    hasMemory: parts.capabilities.has("memory-store"),
    isOn: () => current().hasSkills,
    pinningIn: (session) => {
      const began = current();
      const contextWindow = began.windowOf(session.state.settings);
      return pinningIn(began, () => chooseTools(began, session).values(), { contextWindow });
    },
  });
}

/** What decides how much may be pinned. */
function pinningIn(
  { compaction }: Pick<TurnParts, "compaction">,
  tools: () => Iterable<ToolSpec>,
  { contextWindow }: Pick<ModelClient, "contextWindow">,
) {
  return { compaction, tools, contextWindow };
}

/** How large contexts may grow, and what their tools add. */
function createSizes(current: () => ToolParts & Pick<TurnParts, "windowOf" | "compaction">) {
  return (session: LiveSession, settings = session.state.settings) => {
    const began = current();
    const context_window = began.windowOf(settings);
    const compacting = began.compaction && compactingFor(began.compaction, settings, context_window);
    const tools = chooseTools(began, { ...session, state: { ...session.state, settings } });
    return {
      tools: [...tools.keys()],
      tool_tokens: toolTokens(tools.values()),
      ...(context_window === undefined ? {} : { context_window }),
      ...(compacting === undefined ? {} : { auto_compact_threshold: compacting.threshold }),
    };
  };
}

/** What goes for good: when that is asked for, and when it was kept long enough. */
function createErasing({ forgetting: given, configuration, capabilities, ...parts }: ServiceParts, live: LiveSessions) {
  const { store, clock, memory } = parts;
  const retention = () => configuration.current().retention;
  const runsInBackground = capabilities.has("session-store") && !given.isShortLived;
  return createForgettingLater({ ...given, store, live, clock, memory, retention, runsInBackground, configuration });
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

async function readBlob(blobs: ServiceParts["store"]["blobs"], blob_id: string) {
  const blob = await blobs.get(blob_id);
  if (blob === undefined) throw new RuntimeError("INVALID_PARAMS", `blob_id: there is no blob ${blob_id}`);
  return { blob_id, media_type: blob.mediaType, data: Buffer.from(blob.data).toString("base64") };
}
