import { join } from "node:path";
import type { McpServerConfig } from "../ports/mcp-server.ts";
import { type ConfigPlaces, findUpwards, parseToml, readIfThere } from "./config-file.ts";
import { type Compose, composeLayers, isSet, VARIABLES } from "./config-layers.ts";
import { type Config, ConfigFile } from "./config-schema.ts";
import { loadMcpServers } from "./mcp-servers.ts";

export type { Config } from "./config-schema.ts";

export interface LoadedConfig {
  readonly config: Config;
  /** The files and the variables that were read, weakest first; empty when all is default. */
  readonly sources: readonly string[];
  /** The MCP servers that `.rkat/mcp.toml` names, of the project and of the user. */
  readonly mcpServers: readonly McpServerConfig[];
  /** The same files and variables around another layer of the realm's own. */
  readonly compose: Compose;
}

const NAME = "rkat.toml";
const HIDDEN_NAME = join(".rkat", "config.toml");

/** Reads the configuration: defaults, the project's file or else the home one, the realm's own, then the environment. */
export async function loadConfig(places: ConfigPlaces): Promise<LoadedConfig> {
  const { env, home, stateFolder, readFile } = places;
  const mcp = await loadMcpServers(places);
  // In the home folder `.rkat/config.toml` is the home file, which any project file replaces.
  const project = await findUpwards(places, (folder) => (folder === home ? [NAME] : [NAME, HIDDEN_NAME]));
  const file = project ?? (await readIfThere(join(home, HIDDEN_NAME), readFile));
  const realm = stateFolder === undefined ? undefined : await readIfThere(join(stateFolder, "config.toml"), readFile);
  const compose = composeLayers(
    { name: file?.path, table: file === undefined ? {} : parseToml(file.text, file.path) },
    env,
  );
  const config = compose(realm === undefined ? {} : parseToml(realm.text, realm.path), realm?.path ?? "configuration");
  const variables = VARIABLES.filter(({ name }) => isSet(env[name])).map(({ name }) => name);
  const sources = [...[file, realm].flatMap((read) => read?.path ?? []), ...mcp.files, ...variables];
  return { config, compose, sources, mcpServers: mcp.servers };
}

/** The configuration without any file or variable. */
export function defaultConfig(): Config {
  return ConfigFile.parse({});
}
