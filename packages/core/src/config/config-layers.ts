import { withSubAgents } from "../contract/config.ts";
import { RuntimeError } from "../contract/error.ts";
import { mergePatch } from "../contract/input.ts";
import type { JsonTable } from "../contract/json.ts";
import { describeProblems, isTable, unknownKeys } from "./config-problems.ts";
import {
  type Config,
  ConfigFile,
  type ConfiguredRules,
  LIMIT_SPELLINGS,
  SWITCHES,
  withBothRules,
  withUsersHooks,
} from "./config-schema.ts";
import { DEFAULT_CONFIG } from "./default-config.ts";
import { describeConfig, spellConfig } from "./spell-config.ts";

/**
 * The configuration with this layer of the realm's own; `name` is how sentences call it. Throws INVALID_PARAMS for
 * what cannot be used.
 */
export type Compose = (realm: JsonTable, name: string) => Config;

interface FileLayer {
  readonly name: string | undefined;
  readonly table: JsonTable;
  /** The user's own rules, which stay apart from those of a project. */
  readonly userRules?: readonly ConfiguredRules[];
  /** The user's own hooks, which no project takes away. */
  readonly userHooks?: Config["hooks"]["entries"];
}

/** Merges the realm's own layer over the file, and the environment over both; tools that the file forbids stay off. */
export function composeLayers(
  given: FileLayer,
  env: Readonly<Record<string, string | undefined>>,
  forbidden = forbiddenBy(given.table),
): Compose {
  const variables = VARIABLES.filter(({ name }) => isSet(env[name]));
  const file = { ...given, table: currentKeys(given.table, given.name ?? "the configuration") };
  return (layer, name) => {
    const realm = currentKeys(layer, name);
    refuseNull(realm, name);
    refuseStore(realm, name);
    const files = withBothRules(overlay(file.table, realm), file.table, realm);
    const raw = variables.reduce((table, variable) => override(table, variable, env[variable.name] ?? ""), files);
    const isDefault = Object.keys(raw).length === 0;
    const parsed = isDefault
      ? { success: true as const, data: structuredClone(DEFAULT_CONFIG) }
      : ConfigFile.safeParse(raw, { jitless: true });
    if (parsed.success) {
      const off = Object.fromEntries(forbidden.map((name) => [SWITCHES[name], false]));
      const permissions = [...(file.userRules ?? []), ...parsed.data.permissions];
      const entries = withUsersHooks(file.userHooks ?? [], parsed.data.hooks.entries);
      const hooks = { ...parsed.data.hooks, entries };
      return { ...parsed.data, permissions, hooks, tools: { ...parsed.data.tools, ...off }, forbidden };
    }

    const sourceOf = (path: readonly PropertyKey[]): string => {
      const [section, key] = path;
      const variable = variables.find(
        (one) => one.path[0] === section && (one.path.length === 1 || one.path[1] === key),
      );
      return variable?.name ?? (holds(realm, path) ? name : (file.name ?? name));
    };
    const problems = describeProblems(parsed.error, { raw, schema: ConfigFile, sourceOf });
    const unknown_keys = unknownKeys(parsed.error, { schema: ConfigFile, sourceOf });
    const details = unknown_keys.length === 0 ? { problems } : { problems, unknown_keys };
    throw new RuntimeError("INVALID_PARAMS", problems[0] ?? "the configuration is invalid", { details });
  };
}

/** The table with `[sub_agents.NAME]` for the former `[agents.NAME]`; throws INVALID_PARAMS where one name has both. */
function currentKeys(given: JsonTable, source: string): JsonTable {
  const table = withSubAgents(given);
  const [both] = isTable(table.agents) ? Object.keys(table.agents) : [];
  if (both === undefined) return table;
  const message = `${source}: [agents.${both}] and [sub_agents.${both}] are the same sub-agent; remove [agents.${both}]`;
  throw new RuntimeError("INVALID_PARAMS", message);
}

/** The same for a configuration that was handed over whole, or for none. */
export function composeOver(config: Config | undefined): Compose {
  if (config === undefined) return composeLayers({ name: undefined, table: {} }, {});
  const userRules = config.permissions.filter(({ from }) => from === "user");
  return composeLayers({ name: undefined, table: spellConfig(config), userRules }, {}, config.forbidden);
}

/** Only the file forbids tools: a client that writes back the realm's layer as it read it must not. */
export function forbiddenBy({ tools }: JsonTable): Config["forbidden"] {
  const names = ["builtins", "shell"] as const;
  return names.filter((name) => isTable(tools) && tools[SWITCHES[name]] === false);
}

/** Refuses null, which only a patch may have. */
function refuseNull(layer: JsonTable, name: string, path: readonly string[] = []): void {
  for (const [key, value] of Object.entries(layer)) {
    const at = [...path, key];
    if (value === null) throw new RuntimeError("INVALID_PARAMS", `${name}: ${at.join(".")} is null; leave the key out`);
    // Deeper keys are refused by the schema.
    if (isTable(value) && at.length < DEPTH_MAX) refuseNull(value, name, at);
  }
}

const DEPTH_MAX = 8;

/** A client that may write the realm's layer must not change its database or its key. */
function refuseStore(layer: JsonTable, name: string): void {
  const section = KEPT_OUTSIDE.find((key) => layer[key] !== undefined);
  if (section === undefined) return;
  const variable = section === "store" ? ", or set RKAT_STORE_URL" : "";
  const advice = `write it to rkat.toml or ~/.rkat/config.toml${variable}`;
  const message = `${name}: ${section} cannot be set in the realm's own layer, which is kept there; ${advice}`;
  throw new RuntimeError("INVALID_PARAMS", message);
}

/** The sections on where and how a realm is stored. */
const KEPT_OUTSIDE = ["store", "encryption"] as const;

/** A layer without an unchanged `store` or `encryption`: a client may write back what it has read. */
export function ownLayer(layer: JsonTable, config: Config): JsonTable {
  const reported = describeConfig(config);
  const isSame = (given: unknown, is: unknown): boolean =>
    isTable(given) &&
    isTable(is) &&
    Object.keys(given).every((key) => JSON.stringify(given[key]) === JSON.stringify(is[key]));
  const again = KEPT_OUTSIDE.filter((section) => isSame(layer[section], reported[section]));
  if (again.length === 0) return layer;
  return Object.fromEntries(Object.entries(layer).filter(([key]) => !again.some((section) => section === key)));
}

function holds(table: JsonTable, path: readonly PropertyKey[]): boolean {
  let at: unknown = table;
  for (const key of path) {
    if (!isTable(at)) return true;
    // A missing key belongs to the layer that has its section.
    if (!Object.hasOwn(at, key)) return at !== table;
    at = at[String(key)];
  }
  return true;
}

/** One table over another; a key replaces the other spelling of it below, or the two would contradict each other. */
export function overlay(below: JsonTable, above: JsonTable): JsonTable {
  const [table, over] = [withSubAgents(below), withSubAgents(above)];
  return mergePatch(withoutSpellingsOf(over, table), over);
}

function withoutSpellingsOf(realm: JsonTable, table: JsonTable): JsonTable {
  const budget = isTable(realm.budget) ? realm.budget : {};
  const limits = isTable(realm.limits) ? realm.limits : {};
  return Object.entries(LIMIT_SPELLINGS).reduce((below, [newer, older]) => {
    const kept = Object.hasOwn(budget, newer) ? withoutKey(below, "limits", older) : below;
    return Object.hasOwn(limits, older) ? withoutKey(kept, "budget", newer) : kept;
  }, table);
}

function withoutKey(table: JsonTable, section: string, key: string): JsonTable {
  const inside = table[section];
  if (!isTable(inside)) return table;
  const { [key]: _replaced, ...rest } = inside;
  return { ...table, [section]: rest };
}

interface Variable {
  readonly name: string;
  readonly path: readonly [string] | readonly [string, string];
  readonly read: (text: string) => unknown;
}

const asText = (text: string) => text;
/** Anything but a number is left for the schema to refuse. */
const asNumber = (text: string) => (/^-?\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : text);
/** Anything but true or false is left for the schema to refuse. */
const asFlag = (text: string) => (/^(?:true|false)$/.test(text.trim()) ? text.trim() === "true" : text);
const asFeatures = (text: string) =>
  text.trim() === "none" ? [] : text.split(",").flatMap((name) => (name.trim() === "" ? [] : [name.trim()]));

/** The variables that override the files. Keys and tokens are not here: the code that uses one reads it. */
export const VARIABLES: readonly Variable[] = [
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
  { name: "RKAT_STORE_URL", path: ["store", "url"], read: asText },
  { name: "RKAT_STORE_REALM", path: ["store", "realm"], read: asText },
  { name: "RKAT_TELEMETRY", path: ["telemetry", "enabled"], read: asFlag },
  { name: "RKAT_FEATURES", path: ["features"], read: asFeatures },
];

/** An empty variable is how a shell unsets one for a single command. */
export function isSet(value: string | undefined): value is string {
  return value !== undefined && value.trim() !== "";
}

function override(table: JsonTable, { path, read }: Variable, text: string): JsonTable {
  const [section, key] = path;
  const value = read(text);
  if (key === undefined) return { ...table, [section]: value };
  const inFile = table[section] ?? {};
  // The schema refuses a section that is not a table.
  if (!isTable(inFile)) return table;
  const overridden = { ...table, [section]: { ...inFile, [key]: value } };
  return section === "budget" ? withoutSpellingsOf({ budget: { [key]: value } }, overridden) : overridden;
}
