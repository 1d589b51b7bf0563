import { open, readdir, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import {
  AGENTS_MAX,
  AgentBody,
  AgentHead,
  agentNameProblem,
  agentOf,
  PROMPT_BYTES_MAX,
} from "@rkat/core/config/agents-schema";
import { type Compose, composeLayers, forbiddenBy, isSet, overlay, VARIABLES } from "@rkat/core/config/config-layers";
import { describeProblems } from "@rkat/core/config/config-problems";
import type { Config, ConfiguredRules } from "@rkat/core/config/config-schema";
import { flag, text, wait } from "@rkat/core/config/values";
import { asRuntimeError, RuntimeError } from "@rkat/core/contract/error";
import { isJsonTable, type JsonTable } from "@rkat/core/contract/json";
import { z } from "@rkat/core/contract/schema";
import { checkServer, SERVER_FIELDS } from "@rkat/core/contract/session";
import type { ReadAgentsMd } from "@rkat/core/ports/agents-md";
import type { Skill } from "@rkat/core/ports/skill";
import type { SubAgent } from "@rkat/core/ports/sub-agent";
import { configOf, type McpServerConfig } from "@rkat/core/ports/tool";
import { loadAgentsMd } from "./agents-md.ts";
import { type ConfigPlaces, type FoundFile, findUpwards, parseToml, readIfThere } from "./config-file.ts";
import { invalidFile, readFrontMatter } from "./front-matter.ts";
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
  /** Reads AGENTS.md, as far as it is trusted, at the start of each turn. */
  readonly agentsMd: ReadAgentsMd;
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

/** Reads the configuration: defaults, the user's file, the project's, the realm's own, then the environment. */
export async function loadConfig(places: ConfigPlaces): Promise<LoadedConfig> {
  const { home, stateFolder, readFile, storeUrl } = places;
  const env = storeUrl === undefined ? places.env : { ...places.env, RKAT_STORE_URL: storeUrl ?? undefined };
  const trust = openTrust({ ...places, env });
  const mcp = await loadMcpServers(places, trust);
  const found = await loadAgentFiles(places, trust);
  // In the home folder `.rkat/config.toml` is the user's file.
  const project = await findUpwards(places, (folder) => (folder === home ? [NAME] : [NAME, HIDDEN_NAME]));
  const own = await readIfThere(join(home, HIDDEN_NAME), readFile);
  const read = own === undefined ? NO_FILE : readUsersFile(own);
  const user = { ...read, table: keptAt(storeUrl, read.table) };
  const below = project === undefined ? {} : keptAt(storeUrl, tableOf(project));
  const inFolder = stateFolder === undefined ? undefined : join(stateFolder, "config.toml");
  const kept = inFolder === undefined ? undefined : await readIfThere(inFolder, readFile);
  const admitted = project && trust.settings(project, below, [user.table]);
  const inDatabase = isSet(env.RKAT_STORE_URL) || namesDatabase(overlay(user.table, admitted?.admitted ?? {}));
  // A realm in a database has its layer there.
  const realm = inDatabase ? undefined : kept;
  const layer = realm === undefined ? {} : parseToml(realm.text, realm.path);
  const settings = project && trust.settings(project, below, [user.table, layer]);
  const ofRealm = realm && trust.settings(realm, layer, [user.table, below]);
  const realmName = realm?.path ?? "configuration";
  const layersOver = (table: JsonTable): Compose =>
    composeLayers({ ...user, name: project?.path ?? own?.path, table: overlay(user.table, table) }, env, [
      ...new Set([...forbiddenBy(user.table), ...forbiddenBy(table)]),
    ]);
  // Errors are reported whether or not the file is trusted.
  layersOver(below)(layer, realmName);
  const compose = layersOver(settings?.admitted ?? {});
  const config = compose(ofRealm?.admitted ?? {}, realmName);
  const variables = VARIABLES.filter(({ name }) => isSet(env[name])).map(({ name }) => name);
  const sources = [
    ...[own, project, realm].flatMap((one) => one?.path ?? []),
    ...mcp.files,
    ...found.files,
    ...variables,
  ];
  const link = stateFolder === undefined ? undefined : trust.link(places.cwd, stateFolder);
  const skilled = config.skills.enabled ? await loadSkills(places, trust) : NO_SKILLS;
  const isRead = config.agents_md.enabled;
  const instructed = await loadAgentsMd(isRead ? places : { ...places, agentsMd: "none" }, trust);
  const files = [settings?.brought, ofRealm?.brought, mcp.brought, found.brought, link].filter(
    (one) => one !== undefined,
  );
  const brought = [...files, ...skilled.brought, ...instructed.brought];
  const problems = [...found.problems, ...skilled.warnings, ...instructed.problems];
  const renamed = [
    own !== undefined && user.usesAgents ? own : [],
    project !== undefined && "agents" in below ? project : [],
    realm !== undefined && "agents" in layer ? realm : [],
  ];
  const advice = [
    ...renamed.flat().map(({ path }) => `${path}: [agents.NAME] is now [sub_agents.NAME]; rename it`),
    ...found.advice,
  ];
  const offered = { mcpServers: mcp.servers, subAgents: found.agents, skills: skilled.skills, problems, advice };
  const hookFiles = {
    ...hookFilesOf(project?.path, settings?.admitted),
    ...hookFilesOf(realm?.path, ofRealm?.admitted),
    ...Object.fromEntries(user.userHooks.map(({ id }) => [id, own?.path ?? ""])),
  };
  const agentsMd = instructed.read;
  const reported = { brought, leftOut: leftOutText(brought) };
  return { config, compose, sources, ...offered, ...reported, agentsMd, hookFiles, trust };
}

/** The table without its database, where a folder was chosen instead. */
function keptAt(storeUrl: ConfigPlaces["storeUrl"], table: JsonTable): JsonTable {
  if (storeUrl !== null || !isJsonTable(table.store)) return table;
  const { url: _url, realm: _realm, ...store } = table.store;
  return { ...table, store };
}

const NO_SKILLS = { skills: [], brought: [], warnings: [] };

function namesDatabase({ store }: JsonTable): boolean {
  return isJsonTable(store) && store.url !== undefined;
}

interface UsersFile {
  /** Its settings without rules and hooks, which stay apart: no project takes them away. */
  readonly table: JsonTable;
  readonly userRules: readonly ConfiguredRules[];
  readonly userHooks: Config["hooks"]["entries"];
  /** Whether it has the former `[agents.NAME]`. */
  readonly usesAgents: boolean;
}

const NO_FILE: UsersFile = { table: {}, userRules: [], userHooks: [], usesAgents: false };

/** Throws INVALID_PARAMS that names the user's file, which is merged with others afterwards. */
function readUsersFile(own: FoundFile): UsersFile {
  const table = tableOf(own);
  const { permissions, hooks } = composeLayers({ name: own.path, table }, {})({}, own.path);
  const { permissions: _rules, hooks: _hooks, ...others } = table;
  const userRules = permissions.map(({ rules }) => ({ from: "user" as const, rules }));
  const limits = isJsonTable(_hooks)
    ? Object.fromEntries(Object.entries(_hooks).filter(([key]) => key !== "entries"))
    : {};
  return {
    table: Object.keys(limits).length === 0 ? others : { ...others, hooks: limits },
    userRules,
    userHooks: hooks.entries,
    usesAgents: "agents" in table,
  };
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

const Server = z
  .strictObject({
    ...SERVER_FIELDS,
    /** Of one call. */
    timeout: wait.optional(),
    connect_timeout: wait.optional(),
    enabled: flag.default(true),
    tools: z.array(text, { error: 'write a list of names of tools, like ["search"]' }).optional(),
  })
  .superRefine((given, issues) => {
    checkServer(given, issues);
    if (given.connect_timeout === undefined || given.connect_timeout_secs === undefined) return;
    const message = "connect_timeout is there, so remove the key";
    issues.addIssue({ code: "custom", path: ["connect_timeout_secs"], message });
  })
  .transform(({ timeout: timeoutMs, connect_timeout, enabled, tools, ...server }): McpServerConfig => {
    const read = configOf(server);
    return { ...read, connectTimeoutMs: connect_timeout ?? read.connectTimeoutMs, timeoutMs, enabled, tools };
  });

/** The whole of `mcp.toml`. */
const McpFile = z
  .strictObject({ servers: z.array(Server, { error: "write each server as a table, [[servers]]" }).default([]) })
  .superRefine(({ servers }, issues) => {
    for (const [index, { name }] of servers.entries()) {
      if (servers.findIndex((server) => server.name === name) === index) continue;
      const message = "another server of this file has the name, so give this one its own";
      issues.addIssue({ code: "custom", path: ["servers", index, "name"], message });
    }
  });

const FILE = join(".rkat", "mcp.toml");

interface LoadedMcpServers {
  readonly servers: readonly McpServerConfig[];
  /** The files they come from, the weaker first. */
  readonly files: readonly string[];
  /** The project's file, when it is not the user's own and has servers. */
  readonly brought: BroughtFile | undefined;
}

/** Reads the servers of the user and, where they are trusted, of the project; of two with one name the project's holds. */
async function loadMcpServers(places: ConfigPlaces, trust: Trust): Promise<LoadedMcpServers> {
  const { home, readFile } = places;
  // In the home folder the file is the user's, which is read anyway.
  const project = await findUpwards(places, (folder) => (folder === home ? [] : [FILE]));
  const own = await readIfThere(join(home, FILE), readFile);
  const theirs = project && trust.servers(project, parseServers(project));
  const named = [...(own === undefined ? [] : parseServers(own)), ...(theirs?.admitted ?? [])];
  const servers = new Map(named.map((server) => [server.name, server]));
  const files = [own, project].flatMap((file) => file?.path ?? []);
  return { servers: [...servers.values()], files, brought: theirs?.brought };
}

function parseServers(file: FoundFile): readonly McpServerConfig[] {
  const raw = parseToml(file.text, file.path);
  const parsed = McpFile.safeParse(raw);
  if (parsed.success) return parsed.data.servers;
  const problems = describeProblems(parsed.error, { raw, schema: McpFile, sourceOf: () => file.path });
  throw new RuntimeError("INVALID_PARAMS", problems[0] ?? `${file.path} is invalid`, { details: { problems } });
}

interface LoadedAgents {
  /** Those of the project before those of the user, none with the name of an earlier one. */
  readonly agents: readonly SubAgent[];
  /** The folders they come from, the weaker first. */
  readonly files: readonly string[];
  /** The project's folder, as one file with the texts of all, when it is not the user's own. */
  readonly brought: BroughtFile | undefined;
  /** A sentence for each file that cannot be used, which is left out. */
  readonly problems: readonly string[];
  /** A sentence for each former folder that still has files. */
  readonly advice: readonly string[];
}

const FOLDER = join(".rkat", "sub-agents");
const FORMER_FOLDER = join(".rkat", "agents");
const ENDING = ".md";
const PARENTS_MAX = 256;

/** Reads the sub-agents of the user and, where they are trusted, of the project. */
async function loadAgentFiles({ cwd, home }: ConfigPlaces, trust: Trust): Promise<LoadedAgents> {
  const project = await findFolder(cwd, home);
  const own = await readFolders(home);
  const theirs = project && trust.agents({ path: project.path, text: project.text }, project.agents);
  const near = theirs?.admitted ?? [];
  const far = own.agents.filter(({ name }) => near.every((one) => one.name !== name));
  return {
    agents: [...near, ...far.map((agent): SubAgent => ({ ...agent, from: "user" }))],
    files: [...own.folders, ...(project?.folders ?? [])],
    brought: theirs?.brought,
    problems: [...(project?.problems ?? []), ...own.problems],
    advice: [...(project?.advice ?? []), ...own.advice],
  };
}

interface AgentFolders extends FoundFile, Pick<LoadedAgents, "problems" | "advice"> {
  readonly agents: readonly SubAgent[];
  /** Those of the two that have a sub-agent. */
  readonly folders: readonly string[];
}

/** The nearest folder upwards that has such files; the home folder is not the project's. */
async function findFolder(cwd: string, home: string): Promise<AgentFolders | undefined> {
  let folder = cwd;
  for (let depth = 0; depth < PARENTS_MAX; depth += 1) {
    const found = folder === home ? undefined : await readFolders(folder);
    if (found !== undefined && found.agents.length + found.problems.length > 0) return found;
    const parent = dirname(folder);
    if (parent === folder) return undefined;
    folder = parent;
  }
  return undefined;
}

/** Reads the folder and the former one as one, so that a file that was moved between them stays trusted. */
async function readFolders(root: string): Promise<AgentFolders> {
  const [path, former] = [join(root, FOLDER), join(root, FORMER_FOLDER)];
  const [now, before] = [await namesIn(path), await namesIn(former)];
  const names = [...new Set([...now, ...before])].sort();
  const agents: SubAgent[] = [];
  const texts: [string, string][] = [];
  const problems: string[] = [];
  const folders = new Set<string>();
  if (names.length > AGENTS_MAX) {
    const rest = names.length - AGENTS_MAX;
    problems.push(`${path} has ${rest} sub-agents too many, which are left out: keep ${AGENTS_MAX} files in it`);
  }
  for (const name of names.slice(0, AGENTS_MAX)) {
    try {
      const folder = now.includes(name) ? path : former;
      if (folder === path && before.includes(name))
        throw invalidFile(join(former, name), `${join(path, name)} is the same sub-agent; remove one of the two files`);
      const file = { path: join(folder, name), text: await readSmall(join(folder, name)) };
      agents.push(await parseAgent(file, name.slice(0, -ENDING.length)));
      texts.push([name, file.text]);
      folders.add(folder);
    } catch (thrown) {
      problems.push(`a sub-agent is left out: ${asRuntimeError(thrown).message}`);
    }
  }
  const advice = before.length === 0 ? [] : [`${former}: sub-agents are now read from ${path}; move the files there`];
  return {
    path: now.length > 0 ? path : former,
    text: JSON.stringify(texts),
    agents,
    problems,
    advice,
    folders: [...folders],
  };
}

/** The names of sub-agent files; none where the folder is missing or cannot be read. */
async function namesIn(path: string): Promise<readonly string[]> {
  const names = await readdir(path).catch((): string[] => []);
  return names.filter((name) => name.endsWith(ENDING) && !name.startsWith("."));
}

/** Reads a whole regular file of at most 64 KiB. */
async function readSmall(path: string): Promise<string> {
  try {
    // Checked before opening: opening a pipe would block until it has a writer.
    const { size } = await stat(path).then((found) => (found.isFile() ? found : Promise.reject(new Error("no file"))));
    if (size > PROMPT_BYTES_MAX) throw invalidFile(path, `it has ${size} bytes; shorten it to ${PROMPT_BYTES_MAX}`);
    const handle = await open(path, "r");
    try {
      const { bytesRead, buffer } = await handle.read({ buffer: Buffer.alloc(PROMPT_BYTES_MAX) });
      return new TextDecoder("utf-8", { fatal: true }).decode(buffer.subarray(0, bytesRead));
    } finally {
      await handle.close();
    }
  } catch (cause) {
    if (cause instanceof RuntimeError) throw cause;
    if (cause instanceof TypeError) throw invalidFile(path, "it is not text; save it as UTF-8", cause);
    throw invalidFile(path, "it cannot be read; check that it is a file, and its permissions", cause);
  }
}

async function parseAgent(file: FoundFile, name: string): Promise<SubAgent> {
  const { table: raw, body } = await readFrontMatter(file);
  const wrongName = agentNameProblem(name);
  if (wrongName !== undefined) throw invalidFile(file.path, `rename the file: ${wrongName}`);
  const head = AgentHead.safeParse(raw);
  if (!head.success) {
    const [problem] = describeProblems(head.error, { raw, schema: AgentHead, sourceOf: () => file.path });
    throw new RuntimeError("INVALID_PARAMS", problem ?? `${file.path} is invalid`);
  }
  const { name: said = name, ...row } = head.data;
  if (said !== name)
    throw invalidFile(file.path, `its name is ${JSON.stringify(said)}; write ${name}, as the file is named`);
  const prompt = AgentBody.safeParse(body.trim());
  if (!prompt.success) throw invalidFile(file.path, "write its prompt below the front matter");
  return agentOf(name, { ...row, prompt: prompt.data });
}
