import { join } from "node:path";
import { type ConfigPlaces, findUpwards, parseToml, readIfThere, type Table } from "./config-file.ts";
import { loadMcpServers } from "./config-mcp.ts";
import { describeProblems, isTable } from "./config-problem.ts";
import { type Config, ConfigFile, LIMIT_SPELLINGS } from "./config-schema.ts";
import { RuntimeError } from "./contract/error.ts";
import type { McpServerConfig } from "./ports/mcp-server.ts";

export type { Config } from "./config-schema.ts";

export interface LoadedConfig {
  readonly config: Config;
  /** The file and the variables that were read, weakest first; empty when all is default. */
  readonly sources: readonly string[];
  /** The MCP servers that `.rkat/mcp.toml` names, of the project and of the user. */
  readonly mcpServers: readonly McpServerConfig[];
}

const NAME = "rkat.toml";
const HIDDEN_NAME = join(".rkat", "config.toml");

/** Reads the configuration: defaults, then the project's file or else the home one, then the environment. */
export async function loadConfig(places: ConfigPlaces): Promise<LoadedConfig> {
  const { home, readFile } = places;
  const mcp = await loadMcpServers(places);
  // In the home folder `.rkat/config.toml` is the home file, which any project file replaces.
  const project = await findUpwards(places, (folder) => (folder === home ? [NAME] : [NAME, HIDDEN_NAME]));
  const file = project ?? (await readIfThere(join(home, HIDDEN_NAME), readFile));
  const inFile = file === undefined ? {} : parseToml(file);
  const variables = VARIABLES.filter(({ name }) => isSet(places.env[name]));
  const raw = variables.reduce((table, variable) => override(table, variable, places.env[variable.name] ?? ""), inFile);
  const parsed = ConfigFile.safeParse(raw);
  const sources = [...(file === undefined ? [] : [file.path]), ...mcp.files, ...variables.map(({ name }) => name)];
  if (parsed.success) return { config: parsed.data, sources, mcpServers: mcp.servers };

  const sourceOf = ([section, key]: readonly PropertyKey[]): string => {
    const variable = variables.find(({ path }) => path[0] === section && (path.length === 1 || path[1] === key));
    return variable?.name ?? file?.path ?? "configuration";
  };
  const problems = describeProblems(parsed.error, { raw, schema: ConfigFile, sourceOf });
  throw new RuntimeError("INVALID_PARAMS", problems[0] ?? "the configuration is invalid", { details: { problems } });
}

/** The configuration without any file or variable. */
export function defaultConfig(): Config {
  return ConfigFile.parse({});
}

interface Variable {
  readonly name: string;
  readonly path: readonly [string] | readonly [string, string];
  readonly read: (text: string) => unknown;
}

const asText = (text: string) => text;
/** What is no number is left as it is, for the schema to refuse with its own advice. */
const asNumber = (text: string) => (/^-?\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : text);
/** Like a number, what is neither is left for the schema. */
const asFlag = (text: string) => (/^(?:true|false)$/.test(text.trim()) ? text.trim() === "true" : text);
const asFeatures = (text: string) =>
  text.trim() === "none" ? [] : text.split(",").flatMap((name) => (name.trim() === "" ? [] : [name.trim()]));

/** The variables that override the file. Keys and tokens are not here: whoever uses one reads it. */
const VARIABLES: readonly Variable[] = [
  { name: "RKAT_MODEL", path: ["agent", "model"], read: asText },
  { name: "RKAT_PROVIDER", path: ["agent", "provider"], read: asText },
  { name: "RKAT_SYSTEM_PROMPT", path: ["agent", "system_prompt"], read: asText },
  { name: "RKAT_MAX_TOKENS_PER_TURN", path: ["agent", "max_tokens_per_turn"], read: asNumber },
  { name: "RKAT_MAX_TURNS", path: ["agent", "max_turns"], read: asNumber },
  { name: "RKAT_MAX_TOKENS", path: ["budget", "max_tokens"], read: asNumber },
  { name: "RKAT_MAX_DURATION", path: ["budget", "max_duration"], read: asText },
  { name: "RKAT_MAX_TOOL_CALLS", path: ["budget", "max_tool_calls"], read: asNumber },
  { name: "RKAT_MAX_RETRIES", path: ["retry", "max_retries"], read: asNumber },
  { name: "RKAT_CALL_TIMEOUT", path: ["retry", "call_timeout"], read: asText },
  { name: "RKAT_HOST", path: ["rest", "host"], read: asText },
  { name: "RKAT_PORT", path: ["rest", "port"], read: asNumber },
  { name: "RKAT_TELEMETRY", path: ["telemetry", "enabled"], read: asFlag },
  { name: "RKAT_FEATURES", path: ["features"], read: asFeatures },
];

/** An empty variable is how a shell unsets one for a single command. */
function isSet(value: string | undefined): value is string {
  return value !== undefined && value.trim() !== "";
}

function override(table: Table, { path, read }: Variable, text: string): Table {
  const [section, key] = path;
  const value = read(text);
  if (key === undefined) return { ...table, [section]: value };
  const inFile = table[section] ?? {};
  // Something else than a table stays as it is: the schema says so better than a merge could.
  if (!isTable(inFile)) return table;
  const overridden = { ...table, [section]: { ...inFile, [key]: value } };
  return section === "budget" ? withoutOlderSpelling(overridden, key) : overridden;
}

/** A limit from the environment also replaces what `[limits]` says, or the two would contradict each other. */
function withoutOlderSpelling(table: Table, key: string): Table {
  const spellings: Readonly<Record<string, string>> = LIMIT_SPELLINGS;
  const older = spellings[key];
  if (older === undefined || !isTable(table.limits)) return table;
  const { [older]: _replaced, ...limits } = table.limits;
  return { ...table, limits };
}
