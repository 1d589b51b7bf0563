import { existsSync } from "node:fs";
import { join } from "node:path";
import { formatToml, parseToml } from "./config/config-file.ts";
import { composeOver } from "./config/config-layers.ts";
import { type Config, defaultConfig } from "./config/load-config.ts";
import { foldRow } from "./core/session/session-row.ts";
import { CHUNKS_VERSION } from "./memory/chunk.ts";
import type { Store } from "./ports/store.ts";
import { compactionOf, createRuntime, type Runtime, type RuntimeOptions } from "./runtime.ts";
import type { AgentHome } from "./service/agent/agent-operations.ts";
import { readEvents } from "./service/subscriptions.ts";
import type { Verification } from "./stores/embedded/open.ts";

/** What a runtime that keeps its sessions needs besides. */
export interface OpenOptions extends Omit<RuntimeOptions, "store"> {
  /** The folder everything is kept in; made when it is not there. */
  readonly stateFolder: string;
}

/**
 * Opens a runtime with the capabilities its configuration names; what is not named is not even loaded. The state
 * folder's own `config.toml` wins over what is given.
 */
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
  const { config: given = defaultConfig(), compose = composeOver(given), warn = () => {} } = options;
  const isKept = given.features.includes("session-store");
  const { createConfigFile } = isKept ? await import("./stores/embedded/config-file.ts") : {};
  const configStore =
    options.configStore ?? createConfigFile?.({ folder: stateFolder, parse: parseToml, format: formatToml });
  const config = configStore === undefined ? given : compose(configStore.read().layer, configStore.name);
  const isCompacting = config.features.includes("session-compaction");
  const compacting = isCompacting ? { compaction: options.compaction ?? (true as const) } : {};
  const composed = { ...options, ...compacting, config, compose, warn };
  compactionOf(composed, config, config); // What is refused is refused before a folder is touched.
  if (configStore === undefined || !config.features.includes("session-store")) {
    return createRuntime({ ...composed, ...(await memoryIn(config, { stateFolder, ...options })) });
  }
  const store = await openEmbeddedStore(stateFolder, { warn });
  const files = await withFiles(store, { folder: stateFolder, warn });
  const memory = await memoryIn(config, { stateFolder, ...options });
  const agents = agentsIn(stateFolder, warn);
  return createRuntime({ agents, ...composed, configStore, ...memory, store: files });
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
  const store =
    memory?.store ?? openMemoryStore({ folder: join(stateFolder, "memory"), warn, version: CHUNKS_VERSION });
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
