import { join } from "node:path";
import { isJsonTable, type JsonTable } from "../contract/input.ts";
import type { McpServerConfig } from "../ports/mcp-server.ts";
import { type ConfigPlaces, type FoundFile, findUpwards, parseToml, readIfThere } from "./config-file.ts";
import { type Compose, composeLayers, isSet, VARIABLES } from "./config-layers.ts";
import type { Config } from "./config-schema.ts";
import { DEFAULT_CONFIG } from "./default-config.ts";
import { loadMcpServers } from "./mcp-servers.ts";
import type { ConfiguredRules } from "./permission-layers.ts";
import { type BroughtFile, leftOutText, openTrust, type Trust } from "./trust.ts";

export type { Config } from "./config-schema.ts";
export type { BroughtFile } from "./trust.ts";

export interface LoadedConfig {
  readonly config: Config;
  /** The files and the variables that were read, weakest first; empty when all is default. */
  readonly sources: readonly string[];
  /** The MCP servers that `.rkat/mcp.toml` names, of the project and of the user. */
  readonly mcpServers: readonly McpServerConfig[];
  /** The same files and variables around another layer of the realm's own. */
  readonly compose: Compose;
  /** The files of the project that want what only a person may allow: to start programs, to send things elsewhere. */
  readonly brought: readonly BroughtFile[];
  /** One sentence on what of them is not obeyed, since nobody trusted it; undefined when everything is. */
  readonly leftOut: string | undefined;
  /** Decides it, and keeps what a person says. */
  readonly trust: Trust;
}

const NAME = "rkat.toml";
const HIDDEN_NAME = join(".rkat", "config.toml");

/** Reads the configuration: defaults, the project's file or else the home one, the realm's own, then the environment. */
export async function loadConfig(places: ConfigPlaces): Promise<LoadedConfig> {
  const { env, home, stateFolder, readFile } = places;
  const trust = openTrust(places);
  const mcp = await loadMcpServers(places, trust);
  // In the home folder `.rkat/config.toml` is the home file, which any project file replaces.
  const project = await findUpwards(places, (folder) => (folder === home ? [NAME] : [NAME, HIDDEN_NAME]));
  const own = await readIfThere(join(home, HIDDEN_NAME), readFile);
  const userRules = own === undefined ? [] : rulesOfUser(own);
  const file = project ?? own;
  const { permissions: rules, ...others } = file === undefined ? {} : parseToml(file.text, file.path);
  // Rules of the user stay apart, whether or not the project has a file.
  const below = rules === undefined || file === own ? others : { ...others, permissions: rules };
  const inFolder = stateFolder === undefined ? undefined : join(stateFolder, "config.toml");
  const found = inFolder === undefined ? undefined : await readIfThere(inFolder, readFile);
  const inDatabase = isSet(env.RKAT_STORE_URL) || (file !== undefined && namesDatabase(trust, file, below));
  // The layer of a realm that is kept in a database is there, too.
  const realm = inDatabase ? undefined : found;
  const layer = realm === undefined ? {} : parseToml(realm.text, realm.path);
  const settings = file && trust.settings(file, below, [layer]);
  const ofRealm = realm && trust.settings(realm, layer, [below]);
  const realmName = realm?.path ?? "configuration";
  // What is wrong is wrong whether or not it is obeyed.
  composeLayers({ name: file?.path, table: below }, env)(layer, realmName);
  const compose = composeLayers({ name: file?.path, table: settings?.admitted ?? {}, userRules }, env);
  const config = compose(ofRealm?.admitted ?? {}, realmName);
  const variables = VARIABLES.filter(({ name }) => isSet(env[name])).map(({ name }) => name);
  const read = project !== undefined && userRules.length > 0 ? [own, file, realm] : [file, realm];
  const sources = [...read.flatMap((one) => one?.path ?? []), ...mcp.files, ...variables];
  const link = stateFolder === undefined ? undefined : trust.link(places.cwd, stateFolder);
  const brought = [settings?.brought, ofRealm?.brought, mcp.brought, link].filter((one) => one !== undefined);
  return { config, compose, sources, mcpServers: mcp.servers, brought, leftOut: leftOutText(brought), trust };
}

/** Whether a file names a database, as far as it is obeyed. */
function namesDatabase(trust: Trust, file: FoundFile, table: JsonTable): boolean {
  const { store } = trust.settings(file, table).admitted;
  return isJsonTable(store) && store.url !== undefined;
}

/** The rules of the user's own file, which hold beside those of any project. */
function rulesOfUser({ path, text }: FoundFile): readonly ConfiguredRules[] {
  const { permissions = {} } = parseToml(text, path);
  const { permissions: layers } = composeLayers({ name: path, table: { permissions } }, {})({}, path);
  return layers.map(({ rules }) => ({ from: "user", rules }));
}

/** The configuration without any file or variable. */
export function defaultConfig(): Config {
  return structuredClone(DEFAULT_CONFIG);
}

const ABORT_GRACE_MS = 2_000;

/** What a configuration says about the running of turns. */
export function policyOf({ agent, retry, tools }: Config) {
  return {
    warnAt: agent.budget_warning_threshold,
    retry: {
      maxRetries: retry.max_retries,
      initialDelayMs: retry.initial_delay_ms,
      maxDelayMs: retry.max_delay_ms,
      retryAfterMaxMs: retry.retry_after_max_ms,
      multiplier: retry.multiplier,
    },
    calls: {
      callTimeoutMs: retry.call_timeout_ms ?? Number.POSITIVE_INFINITY,
      stallTimeoutMs: retry.stall_timeout_ms ?? Number.POSITIVE_INFINITY,
    },
    tools: {
      timeoutMs: tools.default_timeout_ms,
      concurrentMax: tools.max_concurrent,
      outputBytesMax: tools.output_bytes_max,
      abortGraceMs: ABORT_GRACE_MS,
    },
  };
}

/** What decides which model serves: what was handed in, then the configuration. */
export function modelConfig(
  given: { readonly model?: unknown; readonly provider?: string | undefined },
  config: Config,
) {
  const { agent, providers, self_hosted, profiles, models, prices } = config;
  const defaultModel = typeof given.model === "string" ? given.model : agent.model;
  const defaultProvider = given.provider ?? agent.provider;
  return { defaultModel, defaultProvider, providers, self_hosted, profiles, models, prices };
}

/** What is composed once: a change of it waits for the next start. Each by the key of its file. */
export function fixedAtStart({
  features,
  ceiling,
  rest,
  shell,
  memory,
  agent_memory,
  retention,
}: Config): Readonly<Record<string, unknown>> {
  return {
    features,
    ceiling,
    "rest.host": rest.host,
    "rest.port": rest.port,
    "shell.program": shell.program,
    "shell.timeout_secs": shell.timeout_ms,
    "memory.embedder": memory.embedder,
    "memory.embedding_model": memory.embedding_model,
    "memory.embedding_dimensions": memory.embedding_dimensions,
    "memory.index": memory.index,
    "agent_memory.immediate_window": agent_memory.immediate_window,
    "agent_memory.recent_window": agent_memory.recent_window,
    // Whether a server looks for what is due at all; how long is followed at once.
    retention: retention.sessions !== undefined || Object.keys(retention.labels).length > 0,
  };
}
