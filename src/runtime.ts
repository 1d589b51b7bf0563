import { hash } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Config, defaultConfig } from "./config.ts";
import { MCP_CONNECT_TIMEOUT_MS } from "./config-mcp.ts";
import { modelConfig, policyOf } from "./config-policy.ts";
import type { Capability } from "./contract/capability.ts";
import { RuntimeError } from "./contract/error.ts";
import { requireSound } from "./core/json-schema.ts";
import { createRedactor } from "./core/redact.ts";
import { foldRow } from "./core/session/session-row.ts";
import { MEMORY_SKILL } from "./memory/skill.ts";
import type { Clock } from "./ports/clock.ts";
import type { Embedder } from "./ports/embedder.ts";
import type { McpServerConfig } from "./ports/mcp-server.ts";
import type { MemoryStore } from "./ports/memory.ts";
import type { ModelClient } from "./ports/model.ts";
import type { Store } from "./ports/store.ts";
import type { Tool } from "./ports/tool.ts";
import type { AiSdkModel } from "./providers/ai-sdk/dialect.ts";
import { ownModelOf, preferOwn } from "./providers/ai-sdk/own-model.ts";
import { describeModels, findModel, mergeModels } from "./providers/catalog.ts";
import { createModelResolver } from "./providers/resolve.ts";
import { type AgentHome, createAgentOperations } from "./service/agent/agent-operations.ts";
import { createAgentSource } from "./service/agent/agent-source.ts";
import { describeCapabilities } from "./service/capabilities.ts";
import { type CompactionOptions, composeCompaction } from "./service/compaction-options.ts";
import { createDispatch, type Dispatch, requireCapability } from "./service/dispatch.ts";
import { searchForTools } from "./service/memory/memory-operations.ts";
import { createSessionMemory, type MemoryParts, type SessionMemory } from "./service/memory/session-memory.ts";
import { createRuntimeCalls, type Runtime } from "./service/runtime-calls.ts";
import { requireOptions } from "./service/runtime-options.ts";
import { type CompactionPart, requireReachableFor } from "./service/session/compacting.ts";
import { createSessionService } from "./service/session-service.ts";
import { translateFailures } from "./service/store-border.ts";
import { readEvents, subscribe } from "./service/subscriptions.ts";
import { createSystemClock } from "./service/system-clock.ts";
import type { Verification } from "./stores/embedded/open.ts";
import { createStoreInMemory } from "./stores/in-memory.ts";
import { createMemoryStoreInMemory } from "./stores/memory/in-memory.ts";
import { openTelemetryLater, type TelemetryOptions } from "./telemetry/open-later.ts";
import { createBuiltinTools } from "./tools/builtin.ts";
import { createMcpTools, type McpServerReport, type McpTools } from "./tools/mcp/mcp-tools.ts";
import type { SlotParts } from "./tools/mcp/server-slot.ts";
import { secretsOf } from "./tools/mcp/variables.ts";
import { createMemoryTools } from "./tools/memory-search.ts";
import { hasMcpTools, presetsWith, TOOL_PRESETS, type ToolPreset } from "./tools/presets.ts";
import { secretsIn } from "./tools/shell/child-env.ts";

export type { Runtime } from "./service/runtime-calls.ts";
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
  /** What compactions took out of a context, and everything else that was said, can be searched. */
  readonly memory?: MemoryOptions;
  /** Custom tools every session has. */
  readonly tools?: readonly Tool[];
  /** MCP servers whose tools sessions have, unless a session's tools are `none`; `close` ends what they started. */
  readonly mcpServers?: readonly McpServerConfig[];
  /** Which built-in tools sessions have by default. */
  readonly toolPreset?: ToolPreset;
  readonly systemPrompt?: string;
  readonly config?: Config;
  /** Where keys and addresses are looked up; nothing of it is kept. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The folder that file and shell tools work in. */
  readonly projectRoot?: string;
  /** Values that must never be kept or shown, besides those of the environment's keys. */
  readonly secrets?: readonly string[];
  readonly clock?: Clock;
  /** Where agents' memories are kept, opened when the first is asked for; without it they last as long as the process. */
  readonly agents?: AgentHome;
  /** Told what agents' memories do, a line at a time. */
  readonly log?: (line: string) => void;
  /** Told, in a sentence, of what does not work and how that was dealt with. */
  readonly warn?: (sentence: string) => void;
  /** Turns, model calls, tools, compactions and searches are told as OpenTelemetry spans; without this, nothing is. */
  readonly telemetry?: true | TelemetryOptions;
}

/** A memory of one's own making; without a store it lasts as long as the process, without an embedder it goes by words. */
export interface MemoryOptions {
  readonly store?: MemoryStore;
  /** An embedder, or what loads one when vectors are first needed. */
  readonly embedder?: Embedder | (() => Promise<Embedder>);
  readonly scope?: "project" | "session";
}

/** Composes a runtime. Nothing is read, opened or loaded before it is needed. */
export function createRuntime(options: RuntimeOptions = {}): Runtime {
  requireOptions(options, Object.keys(TOOL_PRESETS));
  const { config = defaultConfig(), env = process.env, clock = createSystemClock() } = options;
  const ownModel = ownModelOf(options.model);
  const compaction = compactionOf(options, config);
  const capabilities = new Set<Capability>([
    ...(options.store === undefined ? [] : ["session-store" as const]),
    ...(compaction === undefined ? [] : ["session-compaction" as const]),
    ...(options.memory === undefined ? [] : ["memory-store" as const]),
  ]);
  const store = translateFailures(options.store ?? createInMemoryStore({ now: clock.now }));
  const memory =
    options.memory && memoryOf(options.memory, { store, clock, others: createAgentSource(() => agents.store()) });
  const { mcpServers = [], warn = () => {} } = options;
  const redact = createRedactor([...secretsIn(env), ...secretsOf(mcpServers, env), ...(options.secrets ?? [])]);
  const telemetry =
    options.telemetry && openTelemetryLater(options.telemetry === true ? {} : options.telemetry, redact);
  const memoryScope = options.memory?.scope ?? config.memory.scope;
  const recall = memory && searchForTools(memory, { scope: memoryScope, telemetry });
  const memoryTools = recall === undefined ? [] : createMemoryTools(recall);
  const root = options.projectRoot ?? process.cwd();
  const { program: shellProgram, timeout_ms } = config.shell;
  const builtins = createBuiltinTools({ root, clock, env, shellProgram, shellTimeoutSecs: timeout_ms / 1_000 });
  const known = mergeModels(config.models);
  const models = preferOwn(ownModel, createModelResolver({ env, config: modelConfig(options, config) }));
  const mcp = mcpToolsOf(mcpServers, { env, root, clock, warn: (sentence) => warn(redact(sentence)) });
  const policy = policyOf(config);
  const agents = createAgentOperations({
    home: options.agents ?? agentsInMemory(clock),
    grown: (id) => memory?.takeInLater(id),
    models,
    config,
    asking: { clock, retry: policy.retry, calls: policy.calls, redact },
    telemetry,
    tell: options.log,
  });
  const { service, live, stop } = createSessionService({
    hash: (text) => hash("sha256", text),
    store,
    clock,
    capabilities,
    policy,
    compaction,
    memory,
    telemetry,
    memoryScope,
    agents: agents.operations,
    skillFor: (tools) => (tools.has("memory_search") ? MEMORY_SKILL : undefined),
    windowOf: ({ model }) => {
      if (ownModel?.modelId === model) return ownModel.contextWindow;
      return config.self_hosted.models[model]?.context_window ?? findModel(model, known)?.context_window;
    },
    redact,
    prepareTools: async ({ tools }, signal) => {
      if (hasMcpTools(tools)) await mcp.prepare(signal);
    },
    toolsFor: (settings) => [
      ...builtins.toolsFor(settings.tools),
      ...(settings.tools.memory ? memoryTools : []),
      ...(hasMcpTools(settings.tools) ? mcp.tools() : []),
      ...(options.tools ?? []),
    ],
    models,
    defaults: {
      system_prompt: options.systemPrompt ?? config.agent.system_prompt,
      max_tokens: config.agent.max_tokens_per_turn,
      max_turns: config.agent.max_turns,
      budget_limits: config.budget,
      tools: defaultTools(options, config),
      structured_output_retries: config.agent.structured_output_retries,
      presets: presetsOf(options, config),
    },
    sessionsMax: config.limits.max_sessions,
    describe: { capabilities: () => describeCapabilities(capabilities), models: () => describeModels(known) },
  });
  let isClosed = false;
  const call = createDispatch(service, capabilities);
  const dispatch: Dispatch = async (...operation) => {
    if (isClosed) throw new RuntimeError("AGENT_ERROR", "this runtime is closed");
    return call(...operation);
  };
  return createRuntimeCalls({
    dispatch,
    subscribe: (sessionId, { after, signal = new AbortController().signal } = {}) =>
      subscribe({ store, live }, sessionId, { after, signal }),
    close: async () => {
      isClosed = true;
      await stop();
      const serversEnded = mcp.close(); // Their programs may take a while; what is kept must not wait for them.
      await builtins.close();
      await agents.close();
      await memory?.close();
      await store.close();
      await serversEnded;
    },
  });
}

function memoryOf(options: MemoryOptions, parts: Pick<MemoryParts, "store" | "clock" | "others">): SessionMemory {
  const { store: memory = createMemoryStoreInMemory(), embedder } = options;
  const openEmbedder = typeof embedder === "object" ? async () => embedder : embedder;
  return createSessionMemory({ memory, openEmbedder, ...parts });
}

/** What a runtime that keeps its sessions needs besides. */
export interface OpenOptions extends Omit<RuntimeOptions, "store"> {
  /** The folder everything is kept in; made when it is not there. */
  readonly stateFolder: string;
}

/** Opens a runtime with the capabilities its configuration names; what is not named is not even loaded. */
export async function openRuntime(options: OpenOptions): Promise<Runtime> {
  const { config, telemetry, env = process.env, warn = () => {} } = options;
  if (!config?.telemetry.enabled || telemetry !== undefined) return openComposed(options);
  const { createSending } = await import("./telemetry/export/sending.ts");
  const sending = createSending(config.telemetry, { env, warn });
  if (sending === undefined) return openComposed(options);
  const secrets = [...(options.secrets ?? []), ...sending.secrets];
  const runtime = await openComposed({ ...options, secrets, telemetry: sending.telemetry });
  return { ...runtime, close: () => runtime.close().finally(sending.close) };
}

async function openComposed({ stateFolder, ...options }: OpenOptions): Promise<Runtime> {
  const { config = defaultConfig(), warn = () => {} } = options;
  const isCompacting = config.features.includes("session-compaction");
  const composed = isCompacting ? { ...options, compaction: options.compaction ?? (true as const) } : options;
  if (!config.features.includes("session-store")) return createRuntime(composed);
  compactionOf(composed, config); // What is refused is refused before a folder is touched.
  const store = await openEmbeddedStore(stateFolder, { warn });
  const files = await withFiles(store, { folder: stateFolder, warn });
  const memory = await memoryIn(config, { stateFolder, ...options });
  const agents = agentsIn(stateFolder, warn);
  return createRuntime({ agents, ...composed, ...memory, store: files });
}

const AGENTS = "agents";

/** The agents of a state folder: their logs, and their files under `.rkat/agents/`. */
function agentsIn(stateFolder: string, warn: (sentence: string) => void): AgentHome {
  const folder = join(stateFolder, AGENTS);
  return {
    isThere: () => existsSync(folder),
    open: async () => {
      const { openStore } = await import("./stores/embedded/open.ts");
      const { foldAgent } = await import("./core/agent/agent-row.ts");
      const { createVault } = await import("./projections/vault/vault.ts");
      const store = openStore({ folder, foldRow: foldAgent, host: { pid: process.pid, isRunning }, warn });
      return { store, vault: createVault({ folder: stateFolder, warn }) };
    },
  };
}

/** Opens the project's memory, when the configuration names it. */
async function memoryIn(
  config: Config,
  { stateFolder, warn = () => {}, memory, env = process.env }: OpenOptions,
): Promise<Pick<RuntimeOptions, "memory">> {
  if (!config.features.includes("memory-store")) return {};
  const { openMemoryStore } = await import("./stores/memory/embedded/open.ts");
  const store = memory?.store ?? openMemoryStore({ folder: join(stateFolder, "memory"), warn });
  const openRemote = async () => {
    const { embedding_model = "", embedding_dimensions = 0 } = config.memory;
    const { openEmbeddingModel } = await import("./providers/ai-sdk/embedding-model.ts");
    const model = await openEmbeddingModel({ env, config }, embedding_model);
    return (await import("./embedders/remote.ts")).createRemoteEmbedder(model, embedding_dimensions);
  };
  const embedder = async () =>
    (await import("./embedders/open-embedder.ts")).openNamedEmbedder(config.memory.embedder, {
      tell: warn,
      openRemote,
    });
  return { memory: { embedder, ...memory, store } };
}

/** Composes compaction; undefined when it is left out, and an error when it is left out and configured. */
function compactionOf({ compaction, systemPrompt }: RuntimeOptions, config: Config): CompactionPart | undefined {
  if (compaction === undefined) {
    if (Object.keys(config.compaction).length > 0) requireCapability(new Set(), "session-compaction");
    return undefined;
  }
  const part = composeCompaction(compaction === true ? {} : compaction, config.compaction, async (...source) => {
    const { extractiveSummary } = await import("./providers/offline/summary/summary.ts");
    return extractiveSummary(...source);
  });
  const system_prompt = systemPrompt ?? config.agent.system_prompt;
  requireReachableFor(part, { ...(system_prompt === undefined ? {} : { system_prompt }) }, { tools: [], pinTokens: 0 });
  return part;
}

function agentsInMemory({ now }: Clock): AgentHome {
  return {
    isThere: () => false,
    open: async () => {
      const { foldAgent } = await import("./core/agent/agent-row.ts");
      return { store: createStoreInMemory({ foldRow: foldAgent, now }), vault: undefined };
    },
  };
}

/** Gives the sessions of a store their files under `.rkat/`. */
async function withFiles(store: Store, to: { folder: string; warn: (sentence: string) => void }): Promise<Store> {
  const { createRkatFiles } = await import("./projections/rkat-files.ts");
  const { projectStore } = await import("./projections/projected-store.ts");
  const files = createRkatFiles({
    ...to,
    readEvents: (sessionId, after, max) => readEvents(store.log, sessionId, { after, max }),
    row: (sessionId) => store.sessions.get(sessionId),
  });
  return projectStore(store, files);
}

/** Opens a store on disk: everything it acknowledged survives the end of the process, however it comes. */
export async function openEmbeddedStore(
  folder: string,
  options: { now?: () => number; warn?: (sentence: string) => void } = {},
): Promise<Store> {
  const { openStore } = await import("./stores/embedded/open.ts");
  return openStore({ folder, foldRow, host: { pid: process.pid, isRunning }, ...options });
}

/** Checks every checksum of the sessions and agents on disk; nothing is changed. */
export async function verifyStore(folder: string): Promise<Verification & { readonly agents: number }> {
  const { addVerification, verifyFolder } = await import("./stores/embedded/open.ts");
  const { foldAgent } = await import("./core/agent/agent-row.ts");
  const kept = await verifyFolder(folder, foldRow);
  if (!existsSync(join(folder, AGENTS))) return { ...kept, agents: 0 };
  const { sessions: agents, ...more } = await verifyFolder(join(folder, AGENTS), foldAgent);
  return { ...addVerification(kept, more), agents };
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"; // It runs and is someone else's.
  }
}

/** A store that lives as long as the process. Sessions in it can be read, listed and archived. */
export function createInMemoryStore(options: { now?: () => number } = {}): Store {
  return createStoreInMemory({ foldRow, ...options });
}

function presetsOf({ memory, mcpServers = [] }: RuntimeOptions, { tools }: Config) {
  return presetsWith({ memory: memory !== undefined && tools.memory, mcp: mcpServers.length > 0 });
}

function defaultTools(options: RuntimeOptions, config: Config) {
  const { toolPreset, memory, mcpServers = [] } = options;
  if (toolPreset !== undefined) return presetsOf(options, config)[toolPreset];
  const { tools } = config;
  return {
    builtins: tools.builtins_enabled ? "all" : "none",
    shell: tools.shell_enabled,
    memory: memory !== undefined && tools.memory,
    ...(mcpServers.length === 0 ? {} : { mcp: true }),
  } as const;
}

function mcpToolsOf(
  servers: readonly McpServerConfig[],
  parts: Pick<SlotParts, "env" | "root" | "clock" | "warn">,
): McpTools {
  return createMcpTools(servers, { ...parts, requireSound, connectTimeoutMs: MCP_CONNECT_TIMEOUT_MS });
}

/** Connects to MCP servers, says how each of them is, and lets go of them again. */
export async function inspectMcpServers({ mcpServers = [], signal, ...options }: InspectOptions): Promise<McpReport> {
  const { env = process.env, projectRoot: root = process.cwd(), clock = createSystemClock() } = options;
  const redact = createRedactor([...secretsIn(env), ...secretsOf(mcpServers, env)]);
  const warnings: string[] = [];
  const warn = (sentence: string) => warnings.push(redact(sentence));
  const mcp = mcpToolsOf(mcpServers, { env, root, clock, warn });
  try {
    await mcp.prepare(signal);
    const servers = mcp.report().map((row) => (row.error === undefined ? row : { ...row, error: redact(row.error) }));
    return { servers, warnings };
  } finally {
    await mcp.close();
  }
}

interface InspectOptions extends Pick<RuntimeOptions, "mcpServers" | "env" | "projectRoot" | "clock"> {
  readonly signal: AbortSignal;
}

interface McpReport {
  readonly servers: readonly McpServerReport[];
  readonly warnings: readonly string[];
}
