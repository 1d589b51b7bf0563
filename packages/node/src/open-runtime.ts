import { existsSync, readdirSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import type { AgentHome } from "@rkat/core/agents/agent-operations";
import { mcpToolsOf } from "@rkat/core/composed-tools";
import { type Compose, composeOver } from "@rkat/core/config/config-layers";
import type { Config } from "@rkat/core/config/config-schema";
import { defaultConfig } from "@rkat/core/config/settings";
import { spellConfig } from "@rkat/core/config/spell-config";
import { passwordsOf } from "@rkat/core/config/store-schema";
import { RuntimeError } from "@rkat/core/contract/error";
import type { JsonTable } from "@rkat/core/contract/json";
import {
  compactionOf,
  createRuntime,
  type Runtime,
  type RuntimeOptions,
  warnOfProcess,
} from "@rkat/core/create-runtime";
import type { MemoryStore } from "@rkat/core/ports/memory";
import { loadOptional } from "@rkat/core/ports/package-file";
import type { ConfigStore, RowQuery, Seal, Store } from "@rkat/core/ports/store";
import type { McpServerConfig } from "@rkat/core/ports/tool";
import { CHUNKS_VERSION } from "@rkat/core/recall/chunk";
import { requireNode, requireOptionNames } from "@rkat/core/runtime/runtime-options";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { foldSchedule, type ScheduleHome } from "@rkat/core/schedules/schedule-row";
import { readEvents } from "@rkat/core/sessions/subscriptions";
import { foldRow } from "@rkat/core/state/session-row";
import type { McpServerReport, McpTools } from "@rkat/core/tools/mcp/mcp-tools";
import { secretsOf } from "@rkat/core/tools/mcp/variables";
import { secretsIn } from "@rkat/core/tools/shell";
import { createRedactor } from "@rkat/core/turn/redact";
import { formatToml, parseToml } from "./config/config-file.ts";
import { readIfThere } from "./config/realm.ts";
import { leftOutText, openTrust, type Trust } from "./config/trust.ts";
import type { Verification } from "./log/open.ts";
import { type Encryption, keysIn, openSeal, refuseSealedDatabase } from "./sealed-realm.ts";

/** What a runtime that keeps its sessions needs besides. */
export interface OpenOptions extends Omit<RuntimeOptions, "store"> {
  /**
   * The folder everything is kept in; made when it is not there. Beside a database it holds what can be made again,
   * and without it that is kept in the process.
   */
  readonly stateFolder?: string | undefined;
  /** The address of a database that keeps the realm, as `postgres://user@host/database`; it wins over the configuration. */
  readonly store?: string | undefined;
  /** Decides what of the state folder's own `config.toml` is obeyed, as `loadConfig` returns it; else the user's home does. */
  readonly trust?: Trust | undefined;
}

/**
 * Opens a runtime with the capabilities its configuration names; what is not named is not even loaded. The state
 * folder's own `config.toml` wins over what is given, as far as it is trusted.
 */
export async function openRuntime(given: OpenOptions): Promise<Runtime> {
  requireNode(process.versions.node);
  requireOptionNames(given, ["stateFolder", "trust"]);
  const { config, telemetry, env = process.env, warn = warnOfProcess } = given;
  const options = { ...given, warn };
  if (!config?.telemetry.enabled || telemetry !== undefined) return openComposed(options);
  const { createSending } = await import("@rkat/core/telemetry/exporter");
  const sending = createSending(config.telemetry, { env, warn });
  if (sending === undefined) return openComposed(options);
  const secrets = [...(options.secrets ?? []), ...sending.secrets];
  const runtime = await openComposed({ ...options, secrets, telemetry: sending.telemetry });
  return { ...runtime, close: () => runtime.close().finally(sending.close) };
}

async function openComposed({ store: url, ...given }: OpenOptions): Promise<Runtime> {
  const options = given.stateFolder === undefined ? given : { ...given, config: await configFor(given) };
  const { config = defaultConfig(), stateFolder } = options;
  const kept = url === undefined ? config : withStore(config, url);
  if (kept.store.url !== undefined && kept.features.includes("session-store")) {
    refuseSealedDatabase(kept.encryption);
    return openInDatabase({ ...options, config: kept }, kept.store.url);
  }
  if (stateFolder === undefined) {
    const message = "stateFolder is missing: give the folder that keeps sessions, or store with a database's address";
    throw new RuntimeError("INVALID_PARAMS", message);
  }
  const compose = composeOver(url === undefined ? options.config : kept);
  return openInFolder({ compose, ...options, config: kept, stateFolder });
}

/** The configuration that is given, or else the defaults with the models that the project's or the user's file names. */
async function configFor({ config, projectRoot, env = process.env, warn }: OpenOptions): Promise<Config | undefined> {
  if (config !== undefined) return config;
  const { loadConfig } = await import("./config/load-config.ts");
  const places = { cwd: projectRoot ?? process.cwd(), home: homeFolder(), env, readFile: readIfThere };
  const { config: found, sources, brought, leftOut } = await loadConfig(places);
  const isLeftOut = brought.some(
    ({ isObeyed, requests }) => !isObeyed && requests.some(({ name }) => ABOUT_MODELS.test(name)),
  );
  if (isLeftOut && leftOut !== undefined) warn?.(leftOut);
  if (sources.length === 0) return undefined;
  const { self_hosted, providers, profiles, models, prices } = found;
  return { ...defaultConfig(), self_hosted, providers, profiles, models, prices };
}

const ABOUT_MODELS = /^(?:self_hosted|providers|profiles)\b/;

/** The configuration with another database; throws INVALID_PARAMS for an address that is none. */
function withStore(config: Config, url: string): Config {
  return composeOver({ ...config, store: { ...config.store, url } })({}, "openRuntime");
}

interface FolderOptions extends Omit<OpenOptions, "store"> {
  readonly stateFolder: string;
}

async function openInFolder({ stateFolder, trust, ...options }: FolderOptions): Promise<Runtime> {
  const { config: given = defaultConfig(), compose = composeOver(given), warn = () => {} } = options;
  const isKept = given.features.includes("session-store");
  if (isKept) {
    trust?.requireState(options.projectRoot ?? stateFolder, stateFolder);
    refuseLinksIn(stateFolder);
  }
  const configStore =
    options.configStore ?? (isKept ? await openConfigFile({ ...options, stateFolder, trust }, given) : undefined);
  const config = configStore === undefined ? given : compose(configStore.read().layer, configStore.name);
  const isCompacting = config.features.includes("session-compaction");
  const compacting = isCompacting ? { compaction: options.compaction ?? (true as const) } : {};
  const secrets = [...(options.secrets ?? []), ...keysIn(options.env ?? process.env, config.encryption)];
  const composed = { ...options, ...compacting, config, compose, warn, secrets };
  const isSealable = isKept || config.features.includes("memory-store");
  refuseFiles(config);
  const openMemory = async (): Promise<MemoryStore> => {
    if (config.memory.index !== "database") return openMemoryIn(stateFolder, { warn, seal });
    const message = 'memory.index is "database", and there is none: set [store] url, or write "auto"';
    throw new RuntimeError("INVALID_PARAMS", message);
  };
  compactionOf(composed, config, config); // What is refused is refused before a folder is touched.
  const { env = process.env } = options;
  const seal = isSealable ? await openSeal(stateFolder, config.encryption, env, warn) : undefined;
  const logins = await loginsFor(options, stateFolder, seal);
  if (configStore === undefined || !config.features.includes("session-store")) {
    return createRuntime({ ...composed, ...logins, ...(await memoryOf(config, options, openMemory)) });
  }
  const store = await openEmbeddedStore(stateFolder, { warn, seal });
  const hasFiles = config.store.files !== false && seal === undefined;
  const files = hasFiles ? await withFiles(store, { folder: stateFolder, warn }) : store;
  const memory = await memoryOf(config, options, openMemory);
  const agents = agentsIn(stateFolder, { warn, hasFiles, seal });
  const schedules = schedulesIn(stateFolder, { warn, seal });
  const jobsFolder = join(stateFolder, JOBS);
  return createRuntime({ agents, schedules, jobsFolder, ...composed, ...logins, configStore, ...memory, store: files });
}

/** The logins of a state folder, if a server may need one. */
async function loginsFor(
  { mcpServers = [], mcpLogins }: Pick<RuntimeOptions, "mcpServers" | "mcpLogins">,
  stateFolder: string | undefined,
  seal?: Seal,
): Promise<Pick<RuntimeOptions, "mcpLogins">> {
  if (mcpLogins !== undefined || stateFolder === undefined || !mcpServers.some((server) => "url" in server)) return {};
  return { mcpLogins: (await import("./mcp-login.ts")).createLoginFiles(stateFolder, seal) };
}

/** Files for people are there to be read: a realm has these or is sealed. */
function refuseFiles({ store, encryption }: Config): void {
  if (store.files !== true || Object.keys(encryption).length === 0) return;
  const message = "store.files is true, and files for people cannot be sealed; remove it, or [encryption]";
  throw new RuntimeError("INVALID_PARAMS", message);
}

const REALM_IN_DATABASE = "default";
const NO_POSTGRES = "a realm in a database needs a package that is not installed; run npm install @rkat/postgres";

/** Loads a module of `@rkat/postgres`, which is optional. */
export function withPostgres<T>(load: () => Promise<T>): Promise<T> {
  return loadOptional("SESSION_STORE_ERROR", NO_POSTGRES, load);
}

/** The same with the realm in a database; the folder, if there is one, holds what can be made again. */
async function openInDatabase(options: OpenOptions & { readonly config: Config }, url: string): Promise<Runtime> {
  const { store: _address, config: given, stateFolder, trust, warn = () => {}, ...others } = options;
  const { agentsInDatabase, folderBeside, openRealm, openSharedMemory, schedulesInDatabase } = await withPostgres(
    () => import("@rkat/postgres"),
  );
  const realm = options.realm?.realm_id ?? given.store.realm ?? REALM_IN_DATABASE;
  const beside = stateFolder === undefined ? undefined : folderBeside(stateFolder, { url, realm });
  if (stateFolder !== undefined) {
    trust?.requireState(options.projectRoot ?? stateFolder, stateFolder);
    refuseLinksIn(stateFolder);
  }
  const composed = options.compose ?? composeOver(given);
  // Where a realm is kept is not for what is kept there to say.
  const compose: Compose = (layer, name) => ({ ...composed(layer, name), store: given.store });
  const database = await openRealm({ url, realm }, { store: given.store, warn, folder: beside });
  try {
    const configStore = options.configStore ?? (await database.config());
    const config = compose(configStore.read().layer, configStore.name);
    const isCompacting = config.features.includes("session-compaction");
    const compacting = isCompacting ? { compaction: options.compaction ?? (true as const) } : {};
    const secrets = [...(options.secrets ?? []), ...passwordsOf(url)];
    const parts = { ...others, ...compacting, config, compose, warn, secrets, configStore };
    compactionOf(parts, config, config);
    const folder = config.store.files === true ? beside : undefined;
    const memory = await memoryOf(config, options, () =>
      openSharedMemory(database, { index: config.memory.index, folder: beside, warn }),
    );
    const agents = agentsInDatabase(database, { folder: beside, hasFiles: folder !== undefined, warn });
    const kept = database.store("session", foldRow);
    const store = folder === undefined ? kept : await withFiles(kept, { folder, warn });
    const logins = await loginsFor(options, stateFolder);
    const jobs = beside === undefined ? {} : { jobsFolder: join(beside, JOBS) };
    const schedules = schedulesInDatabase(database);
    const runtime = createRuntime({ agents, schedules, ...jobs, ...parts, ...logins, ...memory, store });
    return { ...runtime, close: () => runtime.close().finally(database.close) };
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** The realm's own layer: untrusted requests are left out, and changes through the runtime are trusted. */
export async function openConfigFile(
  options: Pick<FolderOptions, "stateFolder" | "env" | "warn" | "trust">,
  given: Config,
): Promise<ConfigStore> {
  const { stateFolder: folder, env = process.env, warn = () => {} } = options;
  const { createConfigFile } = await import("./log/config-file.ts");
  const trust = options.trust ?? openTrust({ home: homeFolder(), env });
  const others = [spellConfig(given)];
  // A caller that passes the trust has read the layer as it is now, and was warned.
  let isWarned = options.trust !== undefined;
  let reported: string | undefined;
  const parse = (text: string, path: string): JsonTable => {
    const { admitted, brought } = trust.settings({ path, text }, parseToml(text, path), others);
    const sentence = leftOutText(brought === undefined ? [] : [brought]);
    if (sentence !== undefined && sentence !== reported && !isWarned) warn(sentence);
    reported = sentence;
    isWarned = false;
    return admitted;
  };
  const store = createConfigFile({ folder, parse, format: formatToml });
  return {
    ...store,
    change: (make) =>
      store.change((before) => {
        const layer = make(before);
        const file = { path: store.name, text: formatToml(layer) };
        // Before the file is there: a process that sees it must find it trusted.
        if (trust.settings(file, layer, others).brought?.isObeyed === false) trust.remember(file);
        return layer;
      }),
  };
}

/** A user without an entry in the system has none: a folder that holds nothing stands in, and nothing is trusted. */
function homeFolder(): string {
  try {
    return homedir();
  } catch {
    return "/nonexistent";
  }
}

/** Checked by the projections, which write there: a turn does not need them. */
const LOOKED_AT_LATER = ".rkat";

/** Throws SESSION_STORE_ERROR for a link in place of what is kept, or one level below: writing through it would change files elsewhere. */
export function refuseLinksIn(folder: string, levels = 2): void {
  // What is no folder is told by the store.
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.name === LOOKED_AT_LATER) continue;
    const path = join(folder, entry.name);
    if (entry.isSymbolicLink()) {
      throw new RuntimeError("SESSION_STORE_ERROR", `${path} is a link, and nothing is kept behind one; remove it`);
    }
    if (entry.isDirectory() && levels > 1) refuseLinksIn(path, levels - 1);
  }
}

/** Background jobs keep their output in this folder of a state folder while they run. */
const JOBS = "jobs";
/** Agents are kept in this folder of a state folder. */
export const AGENTS = "agents";
/** Likewise schedules. */
const SCHEDULES = "schedules";

/** The agents of a state folder: their logs, and their files under `.rkat/agents/`. */
function agentsIn(
  stateFolder: string,
  options: { readonly warn: (sentence: string) => void; readonly hasFiles: boolean; readonly seal: Seal | undefined },
): AgentHome {
  const { warn, hasFiles, seal } = options;
  const folder = join(stateFolder, AGENTS);
  return {
    isThere: () => existsSync(folder),
    open: async () => {
      refuseLinksIn(folder);
      const { openStore } = await import("./log/open.ts");
      const { foldAgent } = await import("@rkat/core/agent-memory/tiers");
      const { createVault } = await import("./projections/vault.ts");
      const store = openStore({ folder, foldRow: foldAgent, host: { pid: process.pid, isRunning }, warn, seal });
      const vault = createVault({ folder: stateFolder, warn });
      return { store, vault: hasFiles ? vault : undefined, eraseFiles: vault.erase };
    },
  };
}

/** The schedules of a state folder. */
export function schedulesIn(
  stateFolder: string,
  { warn, seal }: { readonly warn: (sentence: string) => void; readonly seal: Seal | undefined },
): ScheduleHome {
  const folder = join(stateFolder, SCHEDULES);
  return {
    isThere: () => existsSync(folder),
    open: async () => {
      refuseLinksIn(folder);
      const { openStore } = await import("./log/open.ts");
      return openStore({ folder, foldRow: foldSchedule, host: { pid: process.pid, isRunning }, warn, seal });
    },
  };
}

/** Opens memory, when the configuration names it, with the store that is handed in or else the one that is opened. */
async function memoryOf(
  config: Config,
  { warn = () => {}, memory, env = process.env }: OpenOptions,
  openStore: () => Promise<MemoryStore | undefined>,
): Promise<Pick<RuntimeOptions, "memory">> {
  if (!config.features.includes("memory-store")) return {};
  const store = memory?.store ?? (await openStore());
  const openRemote = async () => {
    const { embedding_model = "", embedding_dimensions = 0 } = config.memory;
    const { openEmbeddingModel } = await import("@rkat/core/providers/ai-sdk-embedding");
    const model = await openEmbeddingModel({ env, config }, embedding_model);
    return (await import("./embedders/remote.ts")).createRemoteEmbedder(model, embedding_dimensions);
  };
  const embedder = async (signal: AbortSignal) => {
    const { openNamedEmbedder, withGrasp } = await import("./embedders/open-embedder.ts");
    const { embedder: name } = config.memory;
    const opened = await openNamedEmbedder(name, { warn: warn, openRemote, signal });
    return name === "remote" ? opened : withGrasp(opened);
  };
  return { memory: { embedder, ...memory, ...(store === undefined ? {} : { store }) } };
}

async function openMemoryIn(
  stateFolder: string,
  options: { readonly warn: (sentence: string) => void; readonly seal: Seal | undefined },
): Promise<MemoryStore> {
  const { openMemoryStore } = await import("./recall-index/open.ts");
  return openMemoryStore({ folder: join(stateFolder, "memory"), version: CHUNKS_VERSION, ...options });
}

/** Gives the sessions of a store their files under `.rkat/`. */
async function withFiles(store: Store, to: { folder: string; warn: (sentence: string) => void }): Promise<Store> {
  const { createRkatFiles, projectStore } = await import("./projections/rkat-files.ts");
  const { createLaggingFiles } = await import("./projections/rkat-files.ts");
  const page = (query: RowQuery) => store.sessions.page(query);
  const lagging = createLaggingFiles({ folder: to.folder, page, host: { pid: process.pid, isRunning }, now: Date.now });
  const files = createRkatFiles({
    ...to,
    lagging,
    now: Date.now,
    readEvents: (sessionId, after, max) => readEvents(store.log, sessionId, { after, max }),
    row: (sessionId) => store.sessions.get(sessionId),
  });
  return projectStore(store, files);
}

/** Opens a store on disk: everything it acknowledged survives the end of the process, however it comes. */
export async function openEmbeddedStore(
  folder: string,
  options: { now?: () => number; warn?: (sentence: string) => void; seal?: Seal | undefined } = {},
): Promise<Store> {
  requireNode(process.versions.node);
  const { openStore } = await import("./log/open.ts");
  return openStore({ folder, foldRow, host: { pid: process.pid, isRunning }, ...options });
}

/** Checks every checksum of the sessions and agents on disk; nothing is changed. */
export async function verifyStore(
  folder: string,
  { encryption = {}, env = process.env }: { readonly encryption?: Encryption; readonly env?: OpenOptions["env"] } = {},
): Promise<Verification & { readonly agents: number }> {
  const seal = await openSeal(folder, encryption, env);
  const { addVerification, verifyFolder } = await import("./log/open.ts");
  const { foldAgent } = await import("@rkat/core/agent-memory/tiers");
  const kept = await verifyFolder(folder, foldRow, seal);
  const schedules = existsSync(join(folder, SCHEDULES))
    ? addVerification(kept, await verifyFolder(join(folder, SCHEDULES), foldSchedule, seal))
    : kept;
  if (!existsSync(join(folder, AGENTS))) return { ...schedules, agents: 0 };
  const { sessions: agents, ...more } = await verifyFolder(join(folder, AGENTS), foldAgent, seal);
  return { ...addVerification(schedules, more), agents };
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"; // It runs and is someone else's.
  }
}

/** The tools of MCP servers besides a runtime's own; nothing is started before they are prepared. */
export async function openMcpServers(
  servers: readonly McpServerConfig[],
  {
    root,
    env,
    warn,
  }: { readonly root: string; readonly env: NodeJS.ProcessEnv; readonly warn: (sentence: string) => void },
): Promise<McpTools> {
  const secrets = secretsOf(servers, env);
  const redact = createRedactor([...secretsIn(env), ...secrets]);
  const mcp = mcpToolsOf(servers, {
    env,
    root,
    clock: createSystemClock(),
    warn: (sentence) => warn(redact(sentence)),
  });
  return { ...mcp, tools: () => mcp.tools().map((tool) => ({ ...tool, secrets })) };
}

/** Connects to MCP servers, says how each of them is, and lets go of them again. */
export async function inspectMcpServers({ mcpServers = [], signal, ...options }: InspectOptions): Promise<McpReport> {
  const { env = process.env, projectRoot: root = process.cwd(), clock = createSystemClock() } = options;
  const redact = createRedactor([...secretsIn(env), ...secretsOf(mcpServers, env)]);
  const warnings: string[] = [];
  const warn = (sentence: string) => warnings.push(redact(sentence));
  const mcp = mcpToolsOf(mcpServers, { env, root, clock, warn, logins: options.mcpLogins });
  try {
    await mcp.prepare(signal);
    const servers = mcp.report().map((row) => (row.error === undefined ? row : { ...row, error: redact(row.error) }));
    return { servers, warnings };
  } finally {
    await mcp.close();
  }
}

/** The logins at MCP servers that a state folder keeps. */
export async function openLogins(stateFolder: string, encryption: Encryption, env: OpenOptions["env"]) {
  const { createLoginFiles } = await import("./mcp-login.ts");
  return createLoginFiles(stateFolder, await openSeal(stateFolder, encryption, env ?? process.env));
}

interface InspectOptions extends Pick<RuntimeOptions, "mcpServers" | "mcpLogins" | "env" | "projectRoot" | "clock"> {
  readonly signal: AbortSignal;
}

interface McpReport {
  readonly servers: readonly McpServerReport[];
  readonly warnings: readonly string[];
}
