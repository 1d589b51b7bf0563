import { chmod, lstat, readdir, realpath, rm } from "node:fs/promises";
import { dirname, isAbsolute, join, relative } from "node:path";
import type { Config } from "@rkat/core/config/config-schema";
import { asRuntimeError, RuntimeError } from "@rkat/core/contract/error";
import { isJsonTable } from "@rkat/core/contract/input";
import { nearMiss } from "@rkat/core/text/near-miss";
import type { LoadedConfig } from "@rkat/node/config/load-config";
import { isErrno } from "@rkat/node/config/realm";
import { withoutControls } from "@rkat/server/http/terminal-text";
import { canAsk, isAgreed } from "../chat/ask-person.ts";
import { chooseModel, lacksModel } from "../first-run.ts";
import { counted } from "../io.ts";
import { loadHere } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { changeConfigFile, isProjectFile, shownPath, userFileOf, withKeyRenamed } from "./config-text.ts";
import { LOCK_ENDING } from "./output-file.ts";

/** What `rkat doctor --fix` did, and what it left to the user; one sentence each. */
export interface Fixes {
  readonly fixed: readonly string[];
  readonly left: readonly string[];
}

/** A problem that can be fixed. */
interface Repair {
  /** The change, as the end of a question. */
  readonly does: string;
  /** The advice where the user declines. */
  readonly otherwise: string;
  /** Makes the change, and returns a sentence about it. */
  run(): Promise<string>;
}

/** Fixes what it can, and asks before each change; with `isYes` it does not ask. */
export async function fixProblems(invocation: Invocation, isYes: boolean): Promise<Fixes> {
  const { io } = invocation;
  if (!isYes && !canAsk(io))
    throw new RuntimeError(
      "INVALID_PARAMS",
      "no person can be asked here; rkat doctor --fix --yes fixes without asking",
    );
  const fixed: string[] = [];
  const left: string[] = [];
  /** Whether it was done: what fails is left, in the sentence that says why. */
  const isDone = async (run: () => Promise<string | undefined>, otherwise: string): Promise<boolean> => {
    try {
      const done = await run();
      (done === undefined ? left : fixed).push(done ?? otherwise);
      return done !== undefined;
    } catch (thrown) {
      if (io.interrupt.aborted) throw thrown;
      left.push(asRuntimeError(thrown).message);
      return false;
    }
  };
  const isMended = ({ does, otherwise, run }: Repair): Promise<boolean> =>
    isDone(async () => (isYes || (await isAgreed(io, withoutControls(`${does}?`))) ? run() : undefined), otherwise);
  for (let keys = 0; keys < KEYS_MAX; keys += 1) {
    const repair = await keyRepair(invocation);
    if (repair === undefined || !(await isMended(repair))) break;
  }
  for (const repair of [await permissionRepair(invocation), await leftoverRepair(invocation)])
    if (repair !== undefined) await isMended(repair);
  // The checks that follow report a configuration that cannot be read.
  const loaded = await loadHere(invocation).catch(() => undefined);
  if (loaded === undefined) return { fixed, left };
  if (await lacksModel(invocation, loaded.config)) {
    const advice = "no model is set up: rkat at a terminal asks for one, or set a provider's key";
    await isDone(async () => (canAsk(io) && !isYes ? chooseModel(invocation) : undefined), advice);
  }
  return { fixed, left: [...left, ...(await ollamaAdvice(invocation, loaded.config)), ...trustAdvice(loaded)] };
}

const KEYS_MAX = 20;

/** Unknown keys that are nearly a known one. */
async function keyRepair(invocation: Invocation): Promise<Repair | undefined> {
  const details = await loadHere(invocation).then(
    () => undefined,
    (thrown: unknown) => asRuntimeError(thrown).details,
  );
  const given: unknown = isJsonTable(details) ? details.unknown_keys : undefined;
  const place = invocation.place();
  for (const one of Array.isArray(given) ? given.filter(isJsonTable) : []) {
    const { source, path, meant } = one;
    if (typeof source !== "string" || !Array.isArray(path) || !Array.isArray(meant)) continue;
    // Variables and the realm's own layer are not edited.
    if (!isProjectFile(source, place) && source !== userFileOf(place)) continue;
    const [was, is, file] = [path.join("."), meant.join("."), shownPath(invocation, source)];
    return {
      does: `Rename ${was} to ${is} in ${file}`,
      otherwise: `${file}: ${was} is not a known key; rename it to ${is}, or take it out`,
      run: async () => {
        await changeConfigFile(invocation, source, (before) => withKeyRenamed(before, path, meant));
        return `renamed ${was} to ${is} in ${file}`;
      },
    };
  }
  return undefined;
}

const OTHERS = 0o077;

/** Stored data must be readable and writable by its owner only. */
async function permissionRepair(invocation: Invocation): Promise<Repair | undefined> {
  const { stateFolder } = invocation.place();
  if ((await wronglyOpen(invocation)).length === 0) return undefined;
  return {
    does: `Make ${stateFolder} readable and writable by you alone`,
    otherwise: `others can read stored data, or you cannot write it: chmod -R u+rwX,go= ${stateFolder}`,
    run: async () => {
      let count = 0;
      // The files of a folder are visible only once the folder is readable.
      for (let depth = 0; depth < DEPTH_MAX; depth += 1) {
        const wrong = await wronglyOpen(invocation);
        for (const { path, wanted } of wrong) await makeOwn(path, wanted);
        count += wrong.length;
        if (wrong.length === 0) break;
      }
      return `made ${counted(count, "place")} of ${stateFolder} yours alone`;
    },
  };
}

const DEPTH_MAX = 8;

async function makeOwn(path: string, mode: number): Promise<void> {
  await chmod(path, mode).catch((cause: unknown) => {
    const why = isErrno(cause) ? cause.code : "it failed";
    const advice = "chown it to yourself, or keep sessions elsewhere with --state-root FOLDER";
    throw new RuntimeError("INVALID_PARAMS", `${path} cannot be changed (${why}); ${advice}`, { cause });
  });
}

async function wronglyOpen(invocation: Invocation): Promise<readonly Entry[]> {
  const entries = await entriesOf(invocation);
  return entries.filter(({ mode, wanted }) => (mode & OTHERS) !== 0 || (mode & wanted) !== wanted);
}

interface Entry {
  readonly path: string;
  /** Its path in the state folder. */
  readonly name: string;
  readonly mode: number;
  readonly wanted: number;
  readonly changedMs: number;
}

/** The state folder and everything in it but links; of a project's own place for realms, that one, too. */
async function entriesOf({ place }: Invocation): Promise<readonly Entry[]> {
  const { stateFolder, projectRoot } = place();
  const root = dirname(stateFolder);
  if (await isLinked(projectRoot, stateFolder)) return [];
  // A folder that others chose for realms may have to be open to them.
  const above = root === join(projectRoot, ".rkat", "realms") ? [root] : [];
  const paths = [...above, stateFolder, ...(await pathsIn(stateFolder))];
  const found = await Promise.all(paths.map((path) => entryAt(path, path.slice(stateFolder.length + 1))));
  return found.filter((entry) => entry !== undefined);
}

/** What lies in a folder and those in it, as far as it can be seen; a link is not followed. */
async function pathsIn(folder: string, depth = 1): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const inside = entries.map(async (entry) => {
    const path = join(folder, entry.name);
    return [path, ...(entry.isDirectory() && depth < DEPTH_MAX ? await pathsIn(path, depth + 1) : [])];
  });
  return (await Promise.all(inside)).flat();
}

/** Whether the path leads through a link. */
async function isLinked(projectRoot: string, stateFolder: string): Promise<boolean> {
  const way = relative(projectRoot, stateFolder);
  const base = way.startsWith("..") || isAbsolute(way) ? dirname(stateFolder) : projectRoot;
  const [real, realBase] = await Promise.all([stateFolder, base].map((path) => realpath(path).catch(() => undefined)));
  return real === undefined || realBase === undefined || real !== join(realBase, relative(base, stateFolder));
}

async function entryAt(path: string, name: string): Promise<Entry | undefined> {
  // A file may go while the folder is walked.
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined || !(found.isFile() || found.isDirectory())) return undefined;
  return {
    path,
    name,
    mode: found.mode & 0o777,
    wanted: found.isDirectory() ? 0o700 : 0o600,
    changedMs: found.mtimeMs,
  };
}

const UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";

/** The names of unfinished files, which no other file has. */
const UNFINISHED = [
  new RegExp(`^(?:agents/)?blobs/(?:.*/)?${UUID}\\.tmp$`),
  new RegExp(`\\.(?:db|json)\\.${UUID}\\.new$`),
  new RegExp(`^\\.rkat/sessions/${UUID}/[^/]+\\.tmp$`),
];
/** The same for configuration files. */
const UNFINISHED_SETTINGS = new RegExp(`^(?:rkat|config|mcp)\\.toml(?:\\.${UUID}|\\${LOCK_ENDING})$`);
const UNFINISHED_TRUST = new RegExp(`^[0-9a-f]{64}\\.json\\.${UUID}\\.new$`);

/** No write takes so long. */
const UNFINISHED_MS = 24 * 60 * 60 * 1_000;

/** Unfinished files of killed commands. */
async function leftoverRepair(invocation: Invocation): Promise<Repair | undefined> {
  const { projectRoot, userRoot } = invocation.place();
  const kept = (await entriesOf(invocation)).filter(({ name }) => UNFINISHED.some((pattern) => pattern.test(name)));
  const settings = [projectRoot, join(projectRoot, ".rkat"), join(userRoot, ".rkat")];
  const beside = await Promise.all([
    ...settings.map((folder) => namesIn(folder, UNFINISHED_SETTINGS)),
    namesIn(join(userRoot, ".rkat", "trust"), UNFINISHED_TRUST),
  ]);
  const old = new Set(
    [...kept, ...beside.flat()].filter(isOld).flatMap(({ path, wanted }) => (wanted === 0o600 ? [path] : [])),
  );
  if (old.size === 0) return undefined;
  const what = counted(old.size, "unfinished file");
  return {
    does: `Remove ${what} that a killed command left over`,
    otherwise: `${what} of killed commands take room: ${[...old].slice(0, NAMED_MAX).join(", ")}`,
    run: async () => {
      for (const path of old) await rm(path, { force: true });
      return `removed ${what} of killed commands`;
    },
  };
}

const NAMED_MAX = 3;

function isOld({ changedMs }: Entry): boolean {
  return Date.now() - changedMs > UNFINISHED_MS;
}

async function namesIn(folder: string, pattern: RegExp): Promise<readonly Entry[]> {
  const names = (await readdir(folder).catch(() => [])).filter((name) => pattern.test(name));
  const found = await Promise.all(names.map((name) => entryAt(join(folder, name), name)));
  return found.filter((entry) => entry !== undefined);
}

const OLLAMA = "ollama/";

/** Problems of the configured Ollama. */
async function ollamaAdvice({ io, parts }: Invocation, config: Config): Promise<readonly string[]> {
  const { model = "" } = config.agent;
  const isElsewhere = (config.self_hosted.servers.ollama ?? config.providers.ollama?.base_url) !== undefined;
  if (!model.startsWith(OLLAMA) || isElsewhere) return [];
  const ollama = (await parts.findLocalServers(io.interrupt)).find(({ name }) => name === "ollama");
  if (ollama === undefined) return ["Ollama does not answer; start it with: ollama serve"];
  const wanted = model.slice(OLLAMA.length);
  const names = ollama.models.map(({ name }) => name);
  // It takes a name without a tag for that of the latest.
  if (names.includes(wanted) || names.includes(`${wanted}:latest`)) return [];
  const [family] = wanted.split(":");
  const nearest = names.find((name) => name.split(":")[0] === family) ?? nearMiss(wanted, names) ?? names[0];
  const instead = nearest === undefined ? "" : `, or use ${OLLAMA}${nearest}, which it has`;
  return [`Ollama has no ${wanted}; get it with: ollama pull ${wanted}${instead}`];
}

function trustAdvice({ leftOut }: LoadedConfig): readonly string[] {
  return leftOut === undefined ? [] : ["some files of this project are not trusted: rkat trust shows and trusts them"];
}
