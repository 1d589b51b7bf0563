import { dirname, join } from "node:path";
import { parse, TomlError } from "smol-toml";
import { describeProblems, isTable } from "./config-problem.ts";
import { type Config, ConfigFile, LIMIT_SPELLINGS } from "./config-schema.ts";
import { RuntimeError } from "./contract/error.ts";

export type { Config } from "./config-schema.ts";

export interface ConfigPlaces {
  readonly cwd: string;
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Resolves with undefined when there is no such file. */
  readonly readFile: (path: string) => Promise<string | undefined>;
}

export interface LoadedConfig {
  readonly config: Config;
  /** The file and the variables that were read, weakest first; empty when all is default. */
  readonly sources: readonly string[];
}

/** Reads the configuration: defaults, then the project's file or else the home one, then the environment. */
export async function loadConfig(places: ConfigPlaces): Promise<LoadedConfig> {
  const file = (await findProjectFile(places)) ?? (await readHomeFile(places));
  const inFile = file === undefined ? {} : parseToml(file);
  const variables = VARIABLES.filter(({ name }) => isSet(places.env[name]));
  const raw = variables.reduce((table, variable) => override(table, variable, places.env[variable.name] ?? ""), inFile);
  const parsed = ConfigFile.safeParse(raw);
  const sources = [...(file === undefined ? [] : [file.path]), ...variables.map(({ name }) => name)];
  if (parsed.success) return { config: parsed.data, sources };

  const problems = describeProblems(parsed.error, raw, ([section, key]) => {
    const variable = variables.find(({ path }) => path[0] === section && (path.length === 1 || path[1] === key));
    return variable?.name ?? file?.path ?? "configuration";
  });
  throw new RuntimeError("INVALID_PARAMS", problems[0] ?? "the configuration is invalid", { details: { problems } });
}

/** The configuration without any file or variable. */
export function defaultConfig(): Config {
  return ConfigFile.parse({});
}

interface FoundFile {
  readonly path: string;
  readonly text: string;
}

const PARENTS_MAX = 256;

async function findProjectFile({ cwd, home, readFile }: ConfigPlaces): Promise<FoundFile | undefined> {
  let folder = cwd;
  for (let depth = 0; depth < PARENTS_MAX; depth += 1) {
    // In the home folder `.rkat/config.toml` is the home file, which any project file replaces.
    const names = folder === home ? ["rkat.toml"] : ["rkat.toml", join(".rkat", "config.toml")];
    const found = await Promise.all(names.map((name) => readIfThere(join(folder, name), readFile)));
    const [first, second] = found.filter((file) => file !== undefined);
    if (first !== undefined && second !== undefined)
      throw invalid(`${first.path} and ${second.path} both configure this project; keep one and remove the other`);
    if (first !== undefined) return first;
    const parent = dirname(folder);
    if (parent === folder) return undefined;
    folder = parent;
  }
  return undefined;
}

function readHomeFile({ home, readFile }: ConfigPlaces): Promise<FoundFile | undefined> {
  return readIfThere(join(home, ".rkat", "config.toml"), readFile);
}

async function readIfThere(path: string, readFile: ConfigPlaces["readFile"]): Promise<FoundFile | undefined> {
  try {
    const text = await readFile(path);
    return text === undefined ? undefined : { path, text };
  } catch (cause) {
    throw new RuntimeError("INVALID_PARAMS", `${path} is there and cannot be read; check its permissions`, { cause });
  }
}

type Table = Readonly<Record<string, unknown>>;

function parseToml({ path, text }: FoundFile): Table {
  try {
    return parse(text);
  } catch (cause) {
    if (!(cause instanceof TomlError)) throw cause;
    const [summary = ""] = cause.message.split("\n");
    const reason = summary.replace(/^Invalid TOML document: /, "");
    const place = `line ${cause.line}, column ${cause.column}`;
    throw new RuntimeError("INVALID_PARAMS", `${path} is not valid TOML at ${place}: ${reason}`, { cause });
  }
}

interface Variable {
  readonly name: string;
  readonly path: readonly [string] | readonly [string, string];
  readonly read: (text: string) => unknown;
}

const asText = (text: string) => text;
/** What is no number is left as it is, for the schema to refuse with its own advice. */
const asNumber = (text: string) => (/^-?\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : text);
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

function invalid(message: string): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", message);
}
