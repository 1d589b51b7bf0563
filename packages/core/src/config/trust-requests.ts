import { withSubAgents } from "../contract/config.ts";
import { RuntimeError } from "../contract/error.ts";
import { isJsonTable, type JsonTable } from "../contract/json.ts";
import { PROVIDER_NAMES } from "../contract/session.ts";
import type { SubAgent } from "../ports/sub-agent.ts";
import type { McpServerConfig } from "../ports/tool.ts";
import { isSet } from "./config-layers.ts";
import { type Config, SWITCHES } from "./config-schema.ts";
import { spellConfig } from "./spell-config.ts";
import { withoutPassword } from "./store-schema.ts";

/** A requested change: the configuration before and after it, and the realm's own layer. */
interface ConfigChange {
  readonly before: Config;
  readonly after: Config;
  readonly layerBefore: JsonTable;
  readonly layer: JsonTable;
}

/** Who requests a change: the owner of the process, or a caller below its ceiling. */
type ConfigAsker =
  | "owner"
  | {
      readonly ceiling: { readonly builtins: "none" | "safe" | "all"; readonly shell: boolean };
      /** Whether it may change what is started, and where things are sent. */
      readonly mayReach: boolean;
    };

/** Throws PERMISSION_DENIED for a change that enables forbidden tools, or sets keys that only the owner may. */
export function requirePermitted(change: ConfigChange, asker: ConfigAsker): void {
  requireAllowed(change);
  if (asker === "owner") return;
  const { ceiling, mayReach } = asker;
  const { before, after } = change;
  const hasAll = { builtins: ceiling.builtins === "all", shell: ceiling.shell };
  for (const name of ["builtins", "shell"] as const) {
    const key = SWITCHES[name];
    if (before.tools[key] || !after.tools[key] || hasAll[name]) continue;
    throw denied(`tools.${key}: this server cannot switch it on; start it with --tools workspace`);
  }
  if (!mayReach) requireSameReach(change);
}

function requireAllowed({ after, layer, layerBefore }: ConfigChange): void {
  const saysTrue = ({ tools }: JsonTable, key: string) => isJsonTable(tools) && tools[key] === true;
  for (const key of after.forbidden.map((name) => SWITCHES[name])) {
    if (!saysTrue(layer, key) || saysTrue(layerBefore, key)) continue;
    throw denied(`tools.${key}: the configuration's file says tools.${key} = false, so change it there`);
  }
}

/**
 * Keys that name programs, addresses, variables or files stay what they are: as the layer has them, or as they hold,
 * which is what a client reads and writes back. What holds is not enough to look at, for a variable may hide the layer.
 */
function requireSameReach({ before, layerBefore, layer }: ConfigChange): void {
  const [now, then, held] = [layer, layerBefore, spellConfig(before)].map(valuesOf);
  for (const key of new Set([...(now?.keys() ?? []), ...(then?.keys() ?? [])])) {
    const value = now?.get(key);
    if (value === then?.get(key) || value === held?.get(key)) continue;
    if (key === CEILING) throw denied(`${key}: no request passes it, so it cannot be changed over HTTP`);
    throw denied(`${key}: it decides what is started or where things are sent, so it cannot be changed over HTTP`);
  }
}

const CEILING = "ceiling";

function valuesOf(table: JsonTable): ReadonlyMap<string, string> {
  const keys = reachingKeysOf(table).map(({ path, value }) => [path.join("."), JSON.stringify(value)] as const);
  const { memory, permissions } = table;
  // A remote embedder receives the text of all sessions.
  const isRemote = isJsonTable(memory) && memory.embedder === "remote";
  const ceiling = isJsonTable(table.ceiling) && Object.keys(table.ceiling).length > 0;
  return new Map([
    ...keys,
    ...(isRemote ? [["memory.embedder", JSON.stringify(memory)] as const] : []),
    // A price of 0 would disable every cost limit.
    ...(isJsonTable(table.prices) ? [["prices", JSON.stringify(table.prices)] as const] : []),
    ...(Array.isArray(table.schedules) ? [[SCHEDULES, JSON.stringify(table.schedules)] as const] : []),
    ...(ceiling ? [[CEILING, JSON.stringify(table.ceiling)] as const] : []),
    // Removing an `ask` rule starts programs just as adding an `allow` rule does.
    ...(isJsonTable(permissions) ? [["permissions", JSON.stringify(permissions)] as const] : []),
  ]);
}

function denied(message: string): RuntimeError {
  return new RuntimeError("PERMISSION_DENIED", message);
}

/** Something that a project's file requests and only the user can allow. */
export interface TrustRequest {
  /** The key or server that is left out without trust. */
  readonly name: string;
  /** The name and its effect, in one line without control characters. */
  readonly text: string;
  readonly server?: string;
  readonly skill?: string;
}

/** The other inputs of the decision. */
export interface TrustRequestContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The other layers, which may name a key for an address of this one. */
  readonly others: readonly JsonTable[];
}

/** The requests of a table of settings, and the table without them. */
export function requestsOfSettings(given: JsonTable, context: TrustRequestContext) {
  const table = withSubAgents(given);
  const wanted = [...reachingKeysOf(table), ...actingKeysOf(table)].filter((key) => !isHarmless(key, table, context));
  const requests = wanted.flatMap(({ path, value }): readonly TrustRequest[] => {
    const name = shown(path.join("."));
    if (path[0] === "sub_agents" && isJsonTable(value)) return [{ name, text: offerOf(path[1] ?? "", value) }];
    if (name === HOOKS) return requestsOfHooks(value);
    return [{ name, text: `sets ${name} to ${quoted(name === "store.url" ? redacted(value) : value)}` }];
  });
  return { requests, table, without: withoutDangling(wanted.reduce((rest, { path }) => without(rest, path), table)) };
}

/** They run turns by themselves. */
const SCHEDULES = "schedules";
const HOOKS = "hooks.entries";

/** The requests of hooks: each starts a command. Invalid entries are reported where the file is parsed. */
function requestsOfHooks(entries: unknown): readonly TrustRequest[] {
  if (!Array.isArray(entries)) return [];
  return entries.filter(isJsonTable).map(({ id, point, runtime }) => {
    const { command = "", args = [] } = isJsonTable(runtime) ? runtime : {};
    const words = [command, ...(Array.isArray(args) ? args : [])].map(quoted).join(" ");
    const name = `hook ${shown(String(id))}`;
    return { name, text: `starts ${words} at ${shown(String(point))} as ${name}` };
  });
}

/** Keys that let a model act, or send conversations elsewhere, without naming an address. */
function actingKeysOf(table: JsonTable): readonly ReachingKey[] {
  const sections = {
    tools: ["shell_enabled", "builtins_enabled"],
    memory: ["embedder"],
    permissions: ["allow", "answered"],
    sub_agents: Object.entries(isJsonTable(table.sub_agents) ? table.sub_agents : {}).flatMap(([key, value]) =>
      key === "enabled" || isJsonTable(value) ? key : [],
    ),
  };
  const schedules = Array.isArray(table.schedules) ? [{ path: [SCHEDULES], value: table.schedules }] : [];
  const others = Object.entries(sections).flatMap(([section, keys]) => {
    const given = table[section];
    if (!isJsonTable(given)) return [];
    return keys.flatMap((key) => (Object.hasOwn(given, key) ? [{ path: [section, key], value: given[key] }] : []));
  });
  return [...schedules, ...others];
}

const ON_THIS_MACHINE = /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/i;

function isHarmless({ path, value }: ReachingKey, table: JsonTable, context: TrustRequestContext): boolean {
  // Disabled settings are harmless.
  if (value === false || (Array.isArray(value) && value.length === 0)) return true;
  const key = path.join(".");
  if (key === "rest.host") return typeof value === "string" && ON_THIS_MACHINE.test(value);
  if (key === "memory.embedder") return value !== "remote";
  if (path.at(-1) !== "base_url" || typeof value !== "string" || !URL.canParse(value)) return false;
  return ON_THIS_MACHINE.test(new URL(value).hostname) && !getsKey(path.slice(0, -1), table, context);
}

/** Whether an API key is sent to the address of this row: one that a layer names, or one of the usual variables. */
function getsKey(row: readonly string[], table: JsonTable, { env, others }: TrustRequestContext): boolean {
  const isNamed = [table, ...others].some((layer) => valueAt(layer, [...row, "api_key_env"]) !== undefined);
  const [section, name = ""] = row;
  const isUsual = section === "providers" && PROVIDER_NAMES.includes(name);
  return (
    isNamed || (isUsual && Object.keys(env).some((variable) => /_API_KEY$/i.test(variable) && isSet(env[variable])))
  );
}

function valueAt(table: JsonTable, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, key) => (isJsonTable(at) && Object.hasOwn(at, key) ? at[key] : undefined), table);
}

function without(table: JsonTable, [key = "", ...rest]: readonly string[]): JsonTable {
  const { [key]: inner, ...others } = table;
  if (rest.length === 0) return others;
  return isJsonTable(inner) ? { ...table, [key]: without(inner, rest) } : table;
}

/** A self-hosted server without its address is removed, with its models. */
function withoutDangling(table: JsonTable): JsonTable {
  const { self_hosted } = table;
  if (!isJsonTable(self_hosted) || !isJsonTable(self_hosted.servers)) return table;
  const { servers, models } = self_hosted;
  const lost = Object.keys(servers).filter((name) => {
    const server = servers[name];
    return isJsonTable(server) && !Object.hasOwn(server, "base_url");
  });
  if (lost.length === 0) return table;
  const isServed = ([, row]: [string, unknown]) => !isJsonTable(row) || !lost.includes(String(row.server));
  const kept = {
    servers: Object.fromEntries(Object.entries(servers).filter(([name]) => !lost.includes(name))),
    ...(isJsonTable(models) ? { models: Object.fromEntries(Object.entries(models).filter(isServed)) } : {}),
  };
  return { ...table, self_hosted: { ...self_hosted, ...kept } };
}

/** The requests of MCP servers: to start a command, or to connect. */
export function requestsOfServers(servers: readonly McpServerConfig[]): readonly TrustRequest[] {
  return servers.map((server) => {
    const name = `MCP server ${shown(server.name)}`;
    const texts = Object.values(("command" in server ? server.env : server.headers) ?? {});
    const variables = texts.flatMap((text) => [...text.matchAll(VARIABLE)].map(([, variable = ""]) => variable));
    const given = variables.length === 0 ? "" : `, and gives it ${[...new Set(variables)].join(", ")}`;
    const wanted =
      "command" in server
        ? `starts ${[server.command, ...(server.args ?? [])].map(quoted).join(" ")}`
        : `connects to ${quoted(server.url)}`;
    return { name, text: `${wanted} as ${name}${given}`, server: server.name };
  });
}

/** The request of a sub-agent: to get tasks, with its own prompt. */
export function requestOfAgent(agent: SubAgent): TrustRequest {
  return { name: `sub-agent ${shown(agent.name)}`, text: offerOf(agent.name, { ...agent }) };
}

function offerOf(name: string, { description, prompt, model, tools }: JsonTable): string {
  const asked = model === undefined ? "" : ` that asks ${quoted(model)}`;
  const had = tools === undefined ? "" : `, with the tools ${quoted(tools)}`;
  const reported = typeof prompt === "string" ? `, by a prompt of ${prompt.length} characters` : "";
  return `offers the sub-agent ${shown(name)}${asked} for ${quoted(description)}${had}${reported}`;
}

/** The request of a skill: to give the model instructions, and perhaps to allow tool calls. */
export function requestOfSkill(skill: {
  readonly name: string;
  readonly description: string;
  readonly files: number;
  readonly allowedTools: readonly string[];
}): TrustRequest {
  const { name, description, files, allowedTools } = skill;
  const beside = files === 0 ? "" : ` with ${files} ${files === 1 ? "file" : "files"} beside it`;
  const allowed =
    allowedTools.length === 0 ? "" : `, and allows ${allowedTools.map(quoted).join(", ")} while it is loaded`;
  return {
    name: `skill ${shown(name)}`,
    text: `offers the skill ${shown(name)}${beside}: ${quoted(description)}${allowed}`,
    skill: name,
  };
}

/** The request of an AGENTS.md: to give models instructions. */
export function requestOfInstructions(bytes: number): TrustRequest {
  return { name: "the instructions", text: `gives models its text as instructions, ${bytes} bytes` };
}

export function requestOfLink(path: string, target: string): TrustRequest {
  return { name: `the link ${shown(path)}`, text: `keeps sessions in ${quoted(target)}` };
}

/** A database's address without its password; an invalid address is not shown, since it may hold one anywhere. */
function redacted(url: unknown): string {
  return typeof url === "string" && URL.canParse(url) ? withoutPassword(url) : "another address";
}

const VARIABLE = /\$\{([A-Za-z_]\w*)\}/g;

const quoted = (value: unknown): string => shown(JSON.stringify(value) ?? "");

/** Invisible and bidirectional characters are escaped. */
function shown(text: string): string {
  return text.replace(/[\p{C}\p{Z}]/gu, (sign) => (sign === " " ? sign : `\\u{${sign.codePointAt(0)?.toString(16)}}`));
}

/**
 * The keys that name a program, an address, a variable or a file: they decide what is started, or where
 * keys and conversations are sent. Retention is among them, since it deletes sessions. A star stands for any name of a table.
 */
const REACHING_KEYS: readonly string[] = [
  "shell.program",
  "rest.host",
  "store.url",
  "store.realm",
  "encryption.key_file",
  "encryption.key_env",
  "encryption.key_command",
  "telemetry.enabled",
  "telemetry.endpoint",
  "telemetry.capture_content",
  "retention.sessions",
  "retention.labels.*",
  "hooks.*",
  "profiles.*.base_url",
  "providers.*.base_url",
  "providers.*.api_key_env",
  "self_hosted.servers.*.base_url",
  "self_hosted.servers.*.api_key_env",
];

export interface ReachingKey {
  readonly path: readonly string[];
  readonly value: unknown;
}

/** The reaching keys that a table sets, in the order of the list above. */
export function reachingKeysOf(table: JsonTable): readonly ReachingKey[] {
  return REACHING_KEYS.flatMap((pattern) => matches(table, pattern.split("."), []));
}

function matches(value: unknown, pattern: readonly string[], path: readonly string[]): readonly ReachingKey[] {
  const [name, ...rest] = pattern;
  if (name === undefined) return [{ path, value }];
  if (!isJsonTable(value)) return [];
  const names = name === "*" ? Object.keys(value) : [name].filter((key) => Object.hasOwn(value, key));
  return names.flatMap((key) => matches(value[key], rest, [...path, key]));
}
