import { basename, dirname, join, resolve } from "node:path";
import { type Compose, composeLayers, isSet, VARIABLES } from "@rkat/core/config/config-layers";
import type { Config } from "@rkat/core/config/config-schema";
import type { ConfiguredRules } from "@rkat/core/config/permission-layers";
import { isJsonTable, type JsonTable } from "@rkat/core/contract/input";
import type { McpServerConfig } from "@rkat/core/ports/mcp-server";
import type { Skill } from "@rkat/core/ports/skill";
import type { SubAgent } from "@rkat/core/ports/sub-agent";
import { loadAgentFiles } from "./agent-files.ts";
import { type ConfigPlaces, type FoundFile, findUpwards, parseToml, readIfThere } from "./config-file.ts";
import { loadMcpServers } from "./mcp-servers.ts";
import { loadSkills } from "./skill-files.ts";
import { type BroughtFile, leftOutText, openTrust, type Trust } from "./trust.ts";

export type { BroughtFile } from "./trust.ts";

export interface LoadedConfig {
  readonly config: Config;
  /** The files and the variables that were read, weakest first; empty when all is default. */
  readonly sources: readonly string[];
  /** The MCP servers that `.rkat/mcp.toml` names, of the project and of the user. */
  readonly mcpServers: readonly McpServerConfig[];
  /** The sub-agents of `.rkat/sub-agents/NAME.md`, of the project and of the user; those of `config` stand beside them. */
  readonly subAgents: readonly SubAgent[];
  /** The skills of the project, as far as they are trusted, and of the user, the nearer first. */
  readonly skills: readonly Skill[];
  /** A sentence for each file that is left out since it cannot be used. */
  readonly problems: readonly string[];
  /** A sentence for each file or folder that uses a former name, and what to rename. */
  readonly advice: readonly string[];
  /** The same files and variables around another layer of the realm's own. */
  readonly compose: Compose;
  /** The project's files with requests that only the user can allow: to start programs, to send data elsewhere. */
  readonly brought: readonly BroughtFile[];
  /** One sentence on what is left out, since it is not trusted; undefined when everything is. */
  readonly leftOut: string | undefined;
  /** The files that hooks come from, by their ids. */
  readonly hookFiles: Readonly<Record<string, string>>;
  /** Decides on trust, and stores the user's decisions. */
  readonly trust: Trust;
}

const NAME = "rkat.toml";
const HIDDEN_NAME = join(".rkat", "config.toml");

/** Reads the configuration: defaults, the project's file or else the home one, the realm's own, then the environment. */
export async function loadConfig(places: ConfigPlaces): Promise<LoadedConfig> {
  const { env, home, stateFolder, readFile } = places;
  const trust = openTrust(places);
  const mcp = await loadMcpServers(places, trust);
  const found = await loadAgentFiles(places, trust);
  // In the home folder `.rkat/config.toml` is the home file, which any project file replaces.
  const project = await findUpwards(places, (folder) => (folder === home ? [NAME] : [NAME, HIDDEN_NAME]));
  const own = await readIfThere(join(home, HIDDEN_NAME), readFile);
  const userRules = own === undefined ? [] : rulesOfUser(own);
  const userHooks = own === undefined || project === undefined ? [] : hooksOfUser(own);
  const file = project ?? own;
  const { permissions: rules, ...others } = file === undefined ? {} : tableOf(file);
  // The user's rules are kept separate, whether or not the project has a file.
  const below = rules === undefined || file === own ? others : { ...others, permissions: rules };
  const inFolder = stateFolder === undefined ? undefined : join(stateFolder, "config.toml");
  const kept = inFolder === undefined ? undefined : await readIfThere(inFolder, readFile);
  const inDatabase = isSet(env.RKAT_STORE_URL) || (file !== undefined && namesDatabase(trust, file, below));
  // A realm in a database has its layer there.
  const realm = inDatabase ? undefined : kept;
  const layer = realm === undefined ? {} : parseToml(realm.text, realm.path);
  const settings = file && trust.settings(file, below, [layer]);
  const ofRealm = realm && trust.settings(realm, layer, [below]);
  const realmName = realm?.path ?? "configuration";
  // Errors are reported whether or not the file is trusted.
  composeLayers({ name: file?.path, table: below }, env)(layer, realmName);
  const compose = composeLayers({ name: file?.path, table: settings?.admitted ?? {}, userRules, userHooks }, env);
  const config = compose(ofRealm?.admitted ?? {}, realmName);
  const variables = VARIABLES.filter(({ name }) => isSet(env[name])).map(({ name }) => name);
  const isOwnRead = project !== undefined && (userRules.length > 0 || userHooks.length > 0);
  const read = isOwnRead ? [own, file, realm] : [file, realm];
  const sources = [...read.flatMap((one) => one?.path ?? []), ...mcp.files, ...found.files, ...variables];
  const link = stateFolder === undefined ? undefined : trust.link(places.cwd, stateFolder);
  const skilled = config.skills.enabled ? await loadSkills(places, trust) : NO_SKILLS;
  const files = [settings?.brought, ofRealm?.brought, mcp.brought, found.brought, link].filter(
    (one) => one !== undefined,
  );
  const brought = [...files, ...skilled.brought];
  const problems = [...found.problems, ...skilled.warnings];
  const renamed = [
    file !== undefined && "agents" in below ? file : [],
    realm !== undefined && "agents" in layer ? realm : [],
  ];
  const advice = [
    ...renamed.flat().map(({ path }) => `${path}: [agents.NAME] is now [sub_agents.NAME]; rename it`),
    ...found.advice,
  ];
  const offered = { mcpServers: mcp.servers, subAgents: found.agents, skills: skilled.skills, problems, advice };
  const hookFiles = {
    ...hookFilesOf(file?.path, settings?.admitted),
    ...hookFilesOf(realm?.path, ofRealm?.admitted),
    ...Object.fromEntries(userHooks.map(({ id }) => [id, own?.path ?? ""])),
  };
  const reported = { brought, leftOut: leftOutText(brought) };
  return { config, compose, sources, ...offered, ...reported, hookFiles, trust };
}

const NO_SKILLS = { skills: [], brought: [], warnings: [] };

/** Whether the trusted part of a file names a database. */
function namesDatabase(trust: Trust, file: FoundFile, table: JsonTable): boolean {
  const { store } = trust.settings(file, table).admitted;
  return isJsonTable(store) && store.url !== undefined;
}

/** The rules of the user's own file, which apply to every project. */
function rulesOfUser({ path, text }: FoundFile): readonly ConfiguredRules[] {
  const { permissions = {} } = parseToml(text, path);
  const { permissions: layers } = composeLayers({ name: path, table: { permissions } }, {})({}, path);
  return layers.map(({ rules }) => ({ from: "user", rules }));
}

/** The hooks of the user's own file, which every project has. */
function hooksOfUser({ path, text }: FoundFile): Config["hooks"]["entries"] {
  const { hooks = {} } = tableOf({ path, text });
  return composeLayers({ name: path, table: { hooks } }, {})({}, path).hooks.entries;
}

/**
 * Parses a file. The path of a hook's command is relative to the file, wherever rkat is started: the user
 * who trusted it did not trust that path elsewhere.
 */
function tableOf({ path, text }: FoundFile): JsonTable {
  const table = parseToml(text, path);
  const { hooks } = table;
  if (!isJsonTable(hooks) || !Array.isArray(hooks.entries)) return table;
  const beside = dirname(path);
  const folder = basename(beside) === ".rkat" ? dirname(beside) : beside;
  const entries = hooks.entries.map((entry: unknown) => {
    if (!isJsonTable(entry) || !isJsonTable(entry.runtime)) return entry;
    const { command } = entry.runtime;
    if (typeof command !== "string" || !command.includes("/")) return entry;
    return { ...entry, runtime: { ...entry.runtime, command: resolve(folder, command) } };
  });
  return { ...table, hooks: { ...hooks, entries } };
}

function hookFilesOf(path: string | undefined, table: JsonTable | undefined): Readonly<Record<string, string>> {
  const { entries = [] } = isJsonTable(table?.hooks) ? table.hooks : {};
  const ids = Array.isArray(entries) ? entries.filter(isJsonTable).map(({ id }) => String(id)) : [];
  return path === undefined ? {} : Object.fromEntries(ids.map((id) => [id, path]));
}
