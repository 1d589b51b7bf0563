import { open, readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import {
  AGENTS_MAX,
  AgentBody,
  AgentHead,
  agentNameProblem,
  agentOf,
  PROMPT_BYTES_MAX,
} from "@rkat/core/config/agents-schema";
import { describeProblems } from "@rkat/core/config/config-problems";
import { asRuntimeError, RuntimeError } from "@rkat/core/contract/error";
import type { SubAgent } from "@rkat/core/ports/sub-agent";
import type { ConfigPlaces, FoundFile } from "./config-file.ts";
import { readFrontMatter } from "./front-matter.ts";
import type { BroughtFile, Trust } from "./trust.ts";

export interface LoadedAgents {
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
export async function loadAgentFiles({ cwd, home }: ConfigPlaces, trust: Trust): Promise<LoadedAgents> {
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
        throw invalid(join(former, name), `${join(path, name)} is the same sub-agent; remove one of the two files`);
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
    if (size > PROMPT_BYTES_MAX) throw invalid(path, `it has ${size} bytes; shorten it to ${PROMPT_BYTES_MAX}`);
    const handle = await open(path, "r");
    try {
      const { bytesRead, buffer } = await handle.read({ buffer: Buffer.alloc(PROMPT_BYTES_MAX) });
      return new TextDecoder("utf-8", { fatal: true }).decode(buffer.subarray(0, bytesRead));
    } finally {
      await handle.close();
    }
  } catch (cause) {
    if (cause instanceof RuntimeError) throw cause;
    if (cause instanceof TypeError) throw invalid(path, "it is not text; save it as UTF-8", cause);
    throw invalid(path, "it cannot be read; check that it is a file, and its permissions", cause);
  }
}

async function parseAgent(file: FoundFile, name: string): Promise<SubAgent> {
  const { table: raw, body } = await readFrontMatter(file);
  const wrongName = agentNameProblem(name);
  if (wrongName !== undefined) throw invalid(file.path, `rename the file: ${wrongName}`);
  const head = AgentHead.safeParse(raw);
  if (!head.success) {
    const [problem] = describeProblems(head.error, { raw, schema: AgentHead, sourceOf: () => file.path });
    throw new RuntimeError("INVALID_PARAMS", problem ?? `${file.path} is invalid`);
  }
  const { name: said = name, ...row } = head.data;
  if (said !== name)
    throw invalid(file.path, `its name is ${JSON.stringify(said)}; write ${name}, as the file is named`);
  const prompt = AgentBody.safeParse(body.trim());
  if (!prompt.success) throw invalid(file.path, "write its prompt below the front matter");
  return agentOf(name, { ...row, prompt: prompt.data });
}

function invalid(path: string, what: string, cause?: unknown): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", `${path}: ${what}`, { cause });
}
