import { hash } from "node:crypto";
import { type AgentHome, createAgentOperations } from "./agents/agent-operations.ts";
import { createAgentSource } from "./agents/agents.ts";
import { type CompactionPart, requireReachableFor } from "./compactions/compaction-part.ts";
import { type ComposedHooks, composeHooks } from "./composed-hooks.ts";
import { type ComposedTools, ceilingOf, composeTools, defaultTools, presetsOf, subAgentsOf } from "./composed-tools.ts";
import { boundsOf } from "./config/agents-schema.ts";
import { type Compose, composeOver, ownLayer } from "./config/config-layers.ts";
import type { Config } from "./config/config-schema.ts";
import { defaultConfig, fixedAtStart, modelConfig, policyOf } from "./config/settings.ts";
import { describeConfig } from "./config/spell-config.ts";
import { requirePermitted } from "./config/trust-requests.ts";
import type { Capability } from "./contract/capability.ts";
import type { ConfiguredRealm } from "./contract/config.ts";
import { messageOf } from "./contract/error.ts";
import { MEMORY_SKILL } from "./contract/memory.ts";
import { LOAD_SKILL } from "./contract/skill.ts";
import { CreateSchedule } from "./contract/wire/schedule.ts";
import { searchForTools } from "./memory/memory-operations.ts";
import { createSessionMemory, type MemoryParts, type SessionMemory } from "./memory/session-memory.ts";
import type { ReadAgentsMd } from "./ports/agents-md.ts";
import type { Clock } from "./ports/clock.ts";
import type { Embedder, MemoryStore } from "./ports/memory.ts";
import type { ModelClient } from "./ports/model.ts";
import { warnOfMissingPackage } from "./ports/package-file.ts";
import type { InlineSkill, Skill } from "./ports/skill.ts";
import type { ConfigStore, Store } from "./ports/store.ts";
import type { SubAgent } from "./ports/sub-agent.ts";
import type { Observer, OpenTelemetry } from "./ports/telemetry.ts";
import type { McpLogins, McpServerConfig, Tool } from "./ports/tool.ts";
import { ownModelOf, preferOwn } from "./providers/ai-sdk.ts";
import type { AiSdkModel } from "./providers/ai-sdk-dialect.ts";
import { configuredPrices, describeModels, findModel, mergeModels, publishedPrices } from "./providers/catalog.ts";
import { createModelResolver, withPrices } from "./providers/resolve.ts";
import { createCallerView, sessionsWith } from "./runtime/caller-view.ts";
import { belowModelCeiling, type ToolCeiling } from "./runtime/ceiling.ts";
import type { Comms } from "./runtime/comms.ts";
import { createConfiguration } from "./runtime/configuration.ts";
import { createDispatch, describeCapabilities, requireCapability } from "./runtime/dispatch.ts";
import { lateBound } from "./runtime/late-bound.ts";
import { createPermits, createProjectAnswers, createRouteRules } from "./runtime/permissions.ts";
import { createRuntimeCalls, type Runtime } from "./runtime/runtime-calls.ts";
import { adviceFor, requireNode, requireOptions } from "./runtime/runtime-options.ts";
import { createSystemClock } from "./runtime/system-clock.ts";
import { createUsageSums } from "./runtime/usage.ts";
import { foldSchedule, type ScheduleHome } from "./schedules/schedule-row.ts";
import type { SchedulerParts } from "./schedules/scheduler.ts";
import { createSchedules } from "./schedules/schedules.ts";
import type { Resuming } from "./sessions/adoption.ts";
import type { HookOptions } from "./sessions/hooks.ts";
import { translateFailures } from "./sessions/live-sessions.ts";
import { createSessionService, type SessionService } from "./sessions/session-service.ts";
import { type CompactionOptions, composeCompaction } from "./sessions/session-settings.ts";
import { subscribe } from "./sessions/subscriptions.ts";
import type { Configured } from "./sessions/turn-operations.ts";
import { createSkillCatalogue, type SkillCatalogue } from "./skills/skill-catalogue.ts";
import { createSkillRules } from "./skills/skills.ts";
import { foldRow } from "./state/session-row.ts";
import { createConfigInMemory, createStoreInMemory } from "./stores/in-memory.ts";
import { loadForgettingTools } from "./stores/load-forgetting.ts";
import { createMemoryStoreInMemory } from "./stores/recall-in-memory.ts";
import { openTelemetryLater, type TelemetryOptions, withSecondTelemetry } from "./telemetry/open-later.ts";
import { TOOL_PRESETS, type ToolPreset } from "./tools/builtin.ts";
import { createJobProcesses } from "./tools/job-processes.ts";
import { secretsOf } from "./tools/mcp/variables.ts";
import { readLink } from "./tools/project-path.ts";
import { secretsIn } from "./tools/shell.ts";
import { createRedactor } from "./turn/redact.ts";

export type { Runtime } from "./runtime/runtime-calls.ts";
export type { TelemetryOptions } from "./telemetry/open-later.ts";

/** What a runtime is composed of. A capability whose port is absent is absent. */
export interface RuntimeOptions {
  /** A model name ("claude-sonnet-4-5", "offline"), an AI SDK model, or a model client of one's own. */
  readonly model?: string | AiSdkModel | ModelClient;
  readonly provider?: string;
  /** Where sessions are kept. Without one they live in this process and cannot be resumed, read or listed. */
  readonly store?: Store;
  /** Long sessions are compacted before they overflow; without this they are not. */
  readonly compaction?: true | CompactionOptions;
  /** For a process that ends with its turn: no summary is made ready, and vectors for a second after a search. */
  readonly isShortLived?: boolean;
  /**
   * Finishes turns whose process ended before they did, as far as this program has their tools, and leaves running turns to
   * another process when it closes. Needs a store. A server says until when, and for whom.
   */
  readonly resumeTurns?: boolean | Resuming;
  /**
   * The folder for the output of background jobs. With it and `resumeTurns` they run on when this process ends, and are
   * found again; without it they end with it.
   */
  readonly jobsFolder?: string;
  /** What compactions took out of a context, and everything else that was said, can be searched. */
  readonly memory?: MemoryOptions;
  /** Custom tools every session has. */
  readonly tools?: readonly Tool[];
  /** Functions that watch and guard the steps of turns, besides the commands of the configuration. */
  readonly hooks?: readonly HookOptions[];
  /** MCP servers whose tools sessions have, unless a session's tools are `none`; `close` ends what they started. */
  readonly mcpServers?: readonly McpServerConfig[];
  /** Keeps the logins at MCP servers; without it only headers authorize. */
  readonly mcpLogins?: McpLogins | undefined;
  /** Whom sessions with `enable_agents` may hand tasks to, besides the sub-agent `general` and those that `config` names. */
  readonly subAgents?: readonly SubAgent[];
  /** Skills sessions can load, unless their tools are `none`: texts of one's own, and those `loadConfig` found. */
  readonly skills?: readonly (Skill | InlineSkill)[];
  /** Reads the project's AGENTS.md at the start of each turn, as `loadConfig` returns it. */
  readonly agentsMd?: ReadAgentsMd;
  /** Which built-in tools sessions have by default. */
  readonly toolPreset?: ToolPreset;
  /** For a server that others ask: tools beyond this preset, and configuration that reaches outside, are refused. */
  readonly ceiling?: ToolPreset;
  readonly systemPrompt?: string;
  readonly config?: Config;
  /** How `config` is made of its layers, as `loadConfig` returns it; without it the realm's own lies over `config`. */
  readonly compose?: Compose;
  /** Where the realm's own layer of the configuration is kept; without it changes last as long as the process. */
  readonly configStore?: ConfigStore;
  /** What clients can read about the realm. */
  readonly realm?: ConfiguredRealm;
  /** Where keys and addresses are looked up; nothing of it is kept. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The folder that file and shell tools work in. */
  readonly projectRoot?: string;
  /** Values that must never be kept or shown, besides those of the environment's keys. */
  readonly secrets?: readonly string[];
  readonly clock?: Clock;
  /** Where agents' memories are kept, opened when the first is asked for; without it they last as long as the process. */
  readonly agents?: AgentHome;
  /** Where schedules are kept; without it they last as long as the process. */
  readonly schedules?: ScheduleHome;
  /** Runs the schedules of the realm as they are due. A server says until when, and for whom. */
  readonly runSchedules?: boolean | Resuming;
  /** Receives log lines about the compaction of agents' memories. */
  readonly log?: (line: string) => void;
  /** Receives a sentence about each thing that does not work, such as an MCP server; without it, Node prints a warning. */
  readonly warn?: (sentence: string) => void;
  /** Turns, model calls, tools, compactions and searches become OpenTelemetry spans; without it, there are none. */
  readonly telemetry?: true | TelemetryOptions;
  /** For a server: receives what happens, and can check the state of the runtime. */
  readonly observer?: Observer;
  /** Whether an address is that of the server this runtime is in, whose models would ask themselves. */
  readonly isOwnAddress?: (url: string) => boolean;
}

/** Memory of one's own making; without a store it lasts as long as the process, without an embedder it goes by words. */
export interface MemoryOptions {
  readonly store?: MemoryStore;
  /** An embedder, or what loads one when vectors are first needed; the signal tells that they are not any more. */
  readonly embedder?: Embedder | ((signal: AbortSignal) => Promise<Embedder>);
  readonly scope?: "project" | "session";
}

const sha256 = (text: string): string => hash("sha256", text);

/** The default of `warn`: a warning of Node, which goes to stderr, and which a program can listen to or switch off. */
export const warnOfProcess = (sentence: string): void => process.emitWarning(sentence, "RkatWarning");

/** Composes a runtime. Nothing is read, opened or loaded before it is needed. */
export function createRuntime(options: RuntimeOptions = {}): Runtime {
  requireNode(process.versions.node);
  requireOptions(options, Object.keys(TOOL_PRESETS));
  const { config = defaultConfig(), env = process.env, clock = createSystemClock() } = options;
  const capabilities = new Set<Capability>([
    ...(options.store === undefined ? [] : ["session-store" as const]),
    ...(options.compaction === undefined ? [] : ["session-compaction" as const]),
    ...(options.memory === undefined ? [] : ["memory-store" as const]),
  ]);
  const store = translateFailures(options.store ?? createInMemoryStore({ now: clock.now }));
  const { mcpServers = [], warn = warnOfProcess, isShortLived = false } = options;
  warnOfMissingPackage(warn);
  const redact = createRedactor([...secretsIn(env), ...secretsOf(mcpServers, env), ...(options.secrets ?? [])]);
  const telemetry = withSecondTelemetry(
    options.telemetry && openTelemetryLater(options.telemetry === true ? {} : options.telemetry, redact),
    options.observer?.telemetry,
  );
  const root = options.projectRoot ?? process.cwd();
  const hooks = composeHooks(options.hooks, { root, env, clock });
  const catalogue = createSkillCatalogue(options.skills ?? [], sha256);
  const ceiling = ceilingOf(options, config);
  // Memory indexes what agents remember and agents report what they add; tools read sessions and sessions run tools.
  const agentsLater = lateBound<ReturnType<typeof createAgentOperations>>("agents");
  const sessionsLater = lateBound<SessionService>("sessions");
  const agentStore = () => agentsLater.get().store();
  const memory =
    options.memory &&
    memoryOf(options.memory, { store, clock, others: createAgentSource(agentStore), warn, isShortLived });
  const usage = createUsageSums({ store, clock, agents: agentStore });
  const spentToday = async (name: string): Promise<number> => (await usage.spentBy(name, clock.now())).amount;
  const tools = composeTools(options, {
    root,
    clock,
    env,
    shell: config.shell,
    ceiling,
    catalogue,
    logins: options.mcpLogins,
    warn: (sentence) => warn(redact(sentence)),
    sessions: sessionsLater.get,
  });
  const configuration = createConfiguration({
    config,
    store: options.configStore ?? createConfigInMemory(),
    compose: options.compose ?? composeOver(config),
    derive: deriving(options, {
      config,
      env,
      root,
      store,
      telemetry,
      ceiling,
      memory,
      hooks,
      catalogue,
      tools,
      sessions: sessionsLater.get,
    }),
    own: ownLayer,
    spell: describeConfig,
    fixed: fixedAtStart,
    permit: (change, caller) => {
      const isOwner = options.ceiling === undefined && caller === undefined;
      const mayReach = caller?.scopes.has("admin") === true;
      requirePermitted(change, isOwner ? "owner" : { ceiling, mayReach });
    },
    realm: options.realm ?? {},
    warn,
  });
  const { immediate_window: immediate, recent_window: recent } = config.agent_memory;
  const agents = createAgentOperations({
    home: options.agents ?? agentsInMemory(clock),
    clock,
    windows: { immediate, recent },
    grown: (id) => memory?.takeInLater(id),
    summariser: () => {
      const { models, policy, config: now } = configuration.current();
      const asking = { clock, retry: policy.retry, calls: policy.calls, redact };
      return { models, profile: now.agent_memory.profile, profiles: now.profiles, asking };
    },
    cutsInvented: () => configuration.current().compaction?.settings.cut_invented ?? true,
    spentToday,
    telemetry,
    report: options.log,
  });
  agentsLater.set(agents);
  const schedules = createSchedules({ home: options.schedules ?? schedulesInMemory(clock), clock, redact });
  const { resumeTurns: resuming = false } = options;
  const resumesTurns = resuming !== false && options.store !== undefined;
  const outlives = resumesTurns && options.jobsFolder !== undefined;
  const sessions = createSessionService({
    hash: sha256,
    catalogue,
    readAgentsMd: options.agentsMd,
    allowInProject: createProjectAnswers(configuration.operations),
    checkInWorker: async (...check) => (await import("./sessions/schema-worker.ts")).checkInWorker(...check),
    store,
    clock,
    capabilities,
    memory,
    telemetry,
    agents: agents.operations,
    schedules: schedules.operations,
    forgetting: { tools: loadForgettingTools, agents: agents.place, schedules: schedules.store, warn, isShortLived },
    usage,
    skillFor: (tools) => {
      const texts = [
        ...(tools.has("memory_search") ? [MEMORY_SKILL] : []),
        ...(tools.has(LOAD_SKILL) && catalogue.hasAny ? [catalogue.prompt] : []),
      ];
      return texts.length === 0 ? undefined : texts.join("\n\n");
    },
    redact,
    prepareTools: tools.prepare,
    servers: tools.servers,
    configuration,
    describeCapabilities: () => describeCapabilities(capabilities),
    resumesTurns,
    resuming: typeof resuming === "boolean" ? {} : resuming,
    jobs: { processes: createJobProcesses({ folder: options.jobsFolder, clock, outlives }), outlives },
    warn: (sentence) => warn(redact(sentence)),
  });
  sessionsLater.set(sessions);
  options.observer?.attach({
    probeStore: () => probeStore(store, clock.newId()),
    probeModel: async () => void (await configuration.current().models.resolve(undefined, undefined)),
    memory: () => memory?.vitals(),
    redact,
  });
  let isClosed = false;
  const view = createCallerView(store);
  const dispatch = createDispatch({
    ...{ service: sessions.service, capabilities, view, spentToday },
    isClosed: () => isClosed,
  });
  const ending = new AbortController();
  const running = runSchedules(
    options,
    { schedules, clock, dispatch, warn: (sentence) => warn(redact(sentence)) },
    ending.signal,
  );
  return createRuntimeCalls(
    {
      dispatch,
      subscribe: (sessionId, { after, signal = new AbortController().signal, caller } = {}) =>
        subscribe({ store, live: sessions.live, view }, sessionId, { after, signal, caller }),
      close: async () => {
        isClosed = true;
        ending.abort();
        await sessions.stop();
        await running;
        const serversEnded = tools.closeServers(); // Their programs may take a while; what is kept must not wait for them.
        await Promise.all([tools.close(), hooks.close()]);
        await agents.close();
        await schedules.close();
        await memory?.close();
        await store.close();
        await serversEnded;
      },
    },
    adviceFor(config.features),
  );
}

interface DerivingParts extends Pick<MemoryParts, "store"> {
  readonly config: Config;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly root: string;
  readonly telemetry: OpenTelemetry | undefined;
  readonly ceiling: ToolCeiling;
  readonly memory: SessionMemory | undefined;
  readonly hooks: ComposedHooks;
  readonly catalogue: SkillCatalogue;
  readonly tools: ComposedTools;
  readonly sessions: () => Pick<SessionService, "comms">;
}

/** Computes everything that follows from a configuration, at the start and after every change of it. */
function deriving(
  options: RuntimeOptions,
  { config, env, root, store, telemetry, ceiling, memory, hooks, catalogue, tools, sessions }: DerivingParts,
): (changed: Config) => Configured & { readonly config: Config } {
  const ownModel = ownModelOf(options.model);
  const allowedBySkills = createSkillRules(catalogue);
  const shellProgram = config.shell.program;
  const routeOf: Comms["routeOf"] = (...asked) => sessions().comms.routeOf(...asked);
  return (changed) => {
    const known = mergeModels(changed.models);
    const memoryScope = options.memory?.scope ?? changed.memory.scope;
    const seen = (labels?: Readonly<Record<string, string>>) => sessionsWith(store, labels);
    const recall = memory && searchForTools(memory, { scope: memoryScope, telemetry, sessionsWith: seen });
    const compaction = compactionOf(options, changed, config);
    return {
      config: changed,
      policy: policyOf(changed),
      permitFor: createPermits({ layers: changed.permissions, root, shellProgram, readLink, allowedBySkills, routeOf }),
      routeRules: createRouteRules(changed.permissions),
      approvalMs: changed.tools.approval_timeout_ms,
      compaction,
      hooks: hooks.of(changed),
      memoryScope,
      retention: changed.retention,
      subAgents: { agents: subAgentsOf(options, changed), bounds: boundsOf(changed.sub_agents) },
      hasSkills: changed.skills.enabled,
      hasAgentsMd: changed.agents_md.enabled,
      windowOf: ({ model }) => {
        if (ownModel?.modelId === model) return ownModel.contextWindow;
        return changed.self_hosted.models[model]?.context_window ?? findModel(model, known)?.context_window;
      },
      pricesOf: ({ model, provider }) => {
        if (ownModel?.modelId === model) return withPrices(ownModel, changed.prices).prices;
        return configuredPrices(changed.prices, model) ?? publishedPrices(provider, model);
      },
      ...tools.under(changed, { recall, compaction }),
      models: belowModelCeiling(
        preferOwn(
          ownModel && withPrices(ownModel, changed.prices),
          createModelResolver({ env, config: modelConfig(options, changed) }),
        ),
        config.ceiling.models,
        options.isOwnAddress,
      ),
      defaults: {
        system_prompt: options.systemPrompt ?? changed.agent.system_prompt,
        max_tokens: changed.agent.max_tokens_per_turn,
        max_turns: changed.agent.max_turns,
        budget_limits: changed.budget,
        tools: defaultTools(options, changed),
        structured_output_retries: changed.agent.structured_output_retries,
        presets: presetsOf(options, changed),
        ceiling,
        comms: changed.tools.comms_enabled,
        agents_md: options.agentsMd !== undefined,
        limits: config.ceiling.limits,
      },
      sessionsMax: changed.limits.max_sessions,
      resuming: { attempts: changed.turns.attempts },
      catalogue: () => describeModels(known, changed.self_hosted.models, changed.prices),
    };
  };
}

/** Looks for a session that is not there, and takes and gives back the right to write it. */
async function probeStore(store: Store, sessionId: string): Promise<void> {
  await store.sessions.get(sessionId);
  await (await store.locks.hold(sessionId)).release();
}

function memoryOf(
  options: MemoryOptions,
  parts: Pick<MemoryParts, "store" | "clock" | "others" | "warn" | "isShortLived">,
): SessionMemory {
  const { store: memory = createMemoryStoreInMemory(), embedder } = options;
  const openEmbedder = typeof embedder === "object" ? async () => embedder : embedder;
  return createSessionMemory({ memory, openEmbedder, ...parts });
}

/**
 * Composes compaction; undefined when it is left out, and an error when it is left out and configured. What a change
 * asks for is measured by the features it leaves for the next start, which must not fail over it.
 */
export function compactionOf(
  { compaction, systemPrompt, isShortLived = false }: RuntimeOptions,
  config: Config,
  { features }: Config,
): CompactionPart | undefined {
  const [had, has] = [features, config.features].map((names) => names.includes("session-compaction"));
  const isAdded = has === true && had === false;
  const isDropped = has === false && had === true;
  if (isDropped || (compaction === undefined && !isAdded)) {
    if (Object.keys(config.compaction).length > 0) requireCapability(new Set(), "session-compaction");
  }
  if (compaction === undefined && !isAdded) return undefined;
  const part = composeCompaction(
    compaction === true ? {} : (compaction ?? {}),
    config.compaction,
    async (...source) => {
      const { extractiveSummary } = await import("./providers/offline/summary.ts");
      return extractiveSummary(...source);
    },
  );
  const system_prompt = systemPrompt ?? config.agent.system_prompt;
  requireReachableFor(part, { ...(system_prompt === undefined ? {} : { system_prompt }) }, { tools: [], pinTokens: 0 });
  return compaction === undefined ? undefined : { ...part, isShortLived };
}

/** Runs schedules until the signal aborts, where that is asked for and sessions are kept. */
async function runSchedules(
  { runSchedules: given = false, store, config }: RuntimeOptions,
  parts: Omit<SchedulerParts, "resuming">,
  signal: AbortSignal,
): Promise<void> {
  if (given === false || store === undefined) return;
  const named = (config?.schedules ?? []).map((table) => CreateSchedule.parse(table));
  await parts.schedules.sync(named).catch((thrown) => parts.warn(`[[schedules]] were not made: ${messageOf(thrown)}`));
  const { createScheduler } = await import("./schedules/scheduler.ts");
  await createScheduler({ ...parts, resuming: given === true ? {} : given }).watch(signal);
}

function schedulesInMemory({ now }: Clock): ScheduleHome {
  return { isThere: () => false, open: async () => createStoreInMemory({ foldRow: foldSchedule, now }) };
}

function agentsInMemory({ now }: Clock): AgentHome {
  return {
    isThere: () => false,
    open: async () => {
      const { foldAgent } = await import("./agent-memory/tiers.ts");
      return { store: createStoreInMemory({ foldRow: foldAgent, now }), vault: undefined };
    },
  };
}

/** A store that lives as long as the process. Sessions in it can be read, listed and archived. */
export function createInMemoryStore(options: { now?: () => number } = {}): Store {
  return createStoreInMemory({ foldRow, ...options });
}
