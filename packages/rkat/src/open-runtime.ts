import { access } from "node:fs/promises";
import type { Config } from "@rkat/core/config/config-schema";
import type { Capability } from "@rkat/core/contract/capability";
import type { Runtime } from "@rkat/core/create-runtime";
import { requireCapability } from "@rkat/core/runtime/dispatch";
import type { LoadedConfig } from "@rkat/node/config/load-config";
import { configuredRealm, keepsSomething, makeStateFolder, readIfThere } from "@rkat/node/config/realm";
import { writeWarnings } from "./io.ts";
import type { Invocation, Place } from "./parts.ts";
import { createLogLines } from "./progress.ts";

export interface Opened {
  readonly runtime: Runtime;
  readonly config: Config;
  readonly place: Place;
  readonly isKept: boolean;
}

interface HowOpened {
  /** Receives log lines about agents' memories; stderr by default. */
  readonly log?: (line: string) => void;
  /** Whether nothing is stored, whatever the configuration says. */
  readonly isPrivate?: boolean;
  /** Whether several turns follow, so that compactions can be prepared in the background. */
  readonly isLasting?: boolean;
}

/** Opens a runtime for turns, uses it and closes it. Its sessions are stored unless that is switched off. */
export async function withRuntime<T>(
  invocation: Invocation,
  use: (opened: Opened) => Promise<T>,
  how: HowOpened = {},
): Promise<T> {
  const read = await readConfiguration(invocation);
  const loaded = how.isPrivate === true ? { ...read, config: withoutStores(read.config) } : read;
  const { config } = loaded;
  const place = invocation.place();
  const isKept = config.features.includes("session-store");
  if (keepsSomething(config)) {
    loaded.trust.requireState(place.projectRoot, place.stateFolder);
    await makeStateFolder(place.stateFolder);
  }
  const runtime = await openAt(invocation, loaded, how);
  return using({ runtime, config, place, isKept }, use);
}

function withoutStores(config: Config): Config {
  const features = config.features.filter((feature) => feature !== "session-store" && feature !== "memory-store");
  return { ...config, features };
}

/** Opens the stored sessions to read or change; reading creates no folder. */
export function withSessions<T>(
  invocation: Invocation,
  use: (opened: Opened) => Promise<T>,
  how?: HowOpened,
): Promise<T> {
  return withKept(invocation, ["session-store"], { use, ...how });
}

/** The same, and requires that contexts can be compacted. */
export function withCompaction<T>(invocation: Invocation, use: (opened: Opened) => Promise<T>): Promise<T> {
  return withKept(invocation, ["session-compaction", "session-store"], { use });
}

/** The same, and requires a memory that can be searched. */
export function withMemory<T>(invocation: Invocation, use: (opened: Opened) => Promise<T>): Promise<T> {
  return withKept(invocation, ["memory-store"], { use });
}

/** Opens the stored realm to read its configuration; creates no folder. */
export async function withConfiguration<T>(invocation: Invocation, use: (opened: Opened) => Promise<T>): Promise<T> {
  const { config } = await readConfiguration(invocation);
  return config.features.includes("session-store") ? withKept(invocation, [], { use }) : withEmpty(invocation, use);
}

/** Opens a runtime with the configuration and skills of this folder, but without its sessions. */
export async function withEmpty<T>(
  invocation: Invocation,
  use: (opened: Opened) => Promise<T>,
  how: HowRead = {},
): Promise<T> {
  const { config, skills } = await readConfiguration(invocation, how);
  const runtime = await createEmpty(invocation, config, skills);
  return using({ runtime, config, place: invocation.place(), isKept: false }, use);
}

async function withKept<T>(
  invocation: Invocation,
  required: readonly Capability[],
  { use, ...how }: HowOpened & { readonly use: (opened: Opened) => Promise<T> },
): Promise<T> {
  const loaded = await readConfiguration(invocation);
  const { config } = loaded;
  for (const capability of required) requireCapability(new Set(config.features), capability);
  const place = invocation.place();
  const mayHold = config.store.url !== undefined || (await isThere(place.stateFolder));
  const runtime = mayHold
    ? await openAt(invocation, loaded, how)
    : await createEmpty(invocation, config, loaded.skills);
  return using({ runtime, config, place, isKept: true }, use);
}

/** A runtime with the configured capabilities and no sessions, for operations that need none. */
export async function createEmpty(
  { io, place }: Invocation,
  config: Config,
  skills: LoadedConfig["skills"] = [],
): Promise<Runtime> {
  const compaction = config.features.includes("session-compaction") ? { compaction: true as const } : {};
  const realm = configuredRealm(place(), config.store, { paths: true });
  const memory = config.features.includes("memory-store") ? { memory: {} } : {};
  const options = { config, realm, skills, env: io.env, projectRoot: place().projectRoot, ...compaction, ...memory };
  const { createRuntime, createInMemoryStore } = await import("@rkat/core/create-runtime");
  const hasStore = config.features.includes("session-store");
  return createRuntime(hasStore ? { ...options, store: createInMemoryStore() } : options);
}

export async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

async function using<T>(opened: Opened, use: (opened: Opened) => Promise<T>): Promise<T> {
  try {
    return await use(opened);
  } finally {
    await opened.runtime.close();
  }
}

function openAt(invocation: Invocation, loaded: LoadedConfig, { log, isLasting = false }: HowOpened): Promise<Runtime> {
  const { config, compose, mcpServers, subAgents, skills, agentsMd, trust } = loaded;
  const { io, parts, place } = invocation;
  const { projectRoot, stateFolder } = place();
  return parts.openRuntime({
    config,
    mcpServers,
    subAgents,
    skills,
    agentsMd,
    compose,
    trust,
    realm: configuredRealm(place(), config.store, { paths: true }),
    env: io.env,
    projectRoot,
    stateFolder,
    warn: (sentence) => writeWarnings(io, [sentence]),
    log: log ?? createLogLines(io).print,
    isShortLived: !isLasting,
  });
}

interface HowRead {
  /** Whether every problem is printed, and not only the first. */
  readonly showsAll?: boolean;
}

/** The configuration of the command's folder; prints once what is left out of the project's files. */
export async function readConfiguration(
  invocation: Invocation,
  { showsAll = false }: HowRead = {},
): Promise<LoadedConfig> {
  const loaded = await loadHere(invocation);
  if (loaded.leftOut !== undefined) invocation.warnOnce(loaded.leftOut);
  for (const sentence of loaded.advice) invocation.warnOnce(sentence);
  const [first, ...more] = loaded.problems;
  if (showsAll || more.length === 0) for (const problem of loaded.problems) invocation.warnOnce(problem);
  else invocation.warnOnce(`${first} (and ${more.length} more; rkat doctor lists them)`);
  return loaded;
}

/** The same for commands that report problems themselves. */
export async function loadHere({ io, place }: Invocation): Promise<LoadedConfig> {
  const { projectRoot, userRoot, stateFolder, storeUrl, isTrusted, agentsMd } = place();
  const where = { cwd: projectRoot, home: userRoot, stateFolder, storeUrl, isTrusted, agentsMd };
  const { loadConfig } = await import("@rkat/node/config/load-config");
  return loadConfig({ ...where, env: io.env, readFile: readIfThere });
}
