import { join } from "node:path";
import type { McpServerConfig } from "../ports/mcp-server.ts";
import { type ConfigPlaces, findUpwards, parseToml, readIfThere } from "./config-file.ts";
import { type Compose, composeLayers, isSet, VARIABLES } from "./config-layers.ts";
import { type Config, ConfigFile } from "./config-schema.ts";
import { loadMcpServers } from "./mcp-servers.ts";
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
  const file = project ?? (await readIfThere(join(home, HIDDEN_NAME), readFile));
  const realm = stateFolder === undefined ? undefined : await readIfThere(join(stateFolder, "config.toml"), readFile);
  const [below, layer] = [file, realm].map((one) => (one === undefined ? {} : parseToml(one.text, one.path)));
  const settings = file && trust.settings(file, below ?? {}, [layer ?? {}]);
  const own = realm && trust.settings(realm, layer ?? {}, [below ?? {}]);
  const realmName = realm?.path ?? "configuration";
  // What is wrong is wrong whether or not it is obeyed.
  composeLayers({ name: file?.path, table: below ?? {} }, env)(layer ?? {}, realmName);
  const compose = composeLayers({ name: file?.path, table: settings?.admitted ?? {} }, env);
  const config = compose(own?.admitted ?? {}, realmName);
  const variables = VARIABLES.filter(({ name }) => isSet(env[name])).map(({ name }) => name);
  const sources = [...[file, realm].flatMap((read) => read?.path ?? []), ...mcp.files, ...variables];
  const link = stateFolder === undefined ? undefined : trust.link(places.cwd, stateFolder);
  const brought = [settings?.brought, own?.brought, mcp.brought, link].filter((one) => one !== undefined);
  return { config, compose, sources, mcpServers: mcp.servers, brought, leftOut: leftOutText(brought), trust };
}

/** The configuration without any file or variable. */
export function defaultConfig(): Config {
  return ConfigFile.parse({});
}
