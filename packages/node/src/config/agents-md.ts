import { constants, existsSync } from "node:fs";
import { open, realpath } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { requestOfInstructions } from "@rkat/core/config/trust-requests";
import { messageOf } from "@rkat/core/contract/error";
import type { AgentsMdFile, ReadAgentsMd } from "@rkat/core/ports/agents-md";
import type { ConfigPlaces } from "./config-file.ts";
import { isErrno } from "./realm.ts";
import { type BroughtFile, leftOutText, type Trust } from "./trust.ts";

/** The names of the file in a folder; the first that says something holds. */
export const AGENTS_MD = ["AGENTS.md", join(".rkat", "AGENTS.md"), "CLAUDE.md"];
const BYTES_MAX = 32_768;
const PARENTS_MAX = 256;

interface FoundAgentsMd {
  readonly files: readonly AgentsMdFile[];
  /** The project's files, whether or not they are trusted. */
  readonly brought: readonly BroughtFile[];
  readonly problems: readonly string[];
}

export interface LoadedAgentsMd extends Omit<FoundAgentsMd, "files"> {
  readonly read: ReadAgentsMd;
}

/** Looks for the files now, and again at the start of each turn: both they and the trust in them may change. */
export async function loadAgentsMd(places: ConfigPlaces, trust: Trust): Promise<LoadedAgentsMd> {
  if (places.agentsMd === "none") {
    return { brought: [], problems: [], read: async () => ({ files: [], warnings: [] }) };
  }
  const { brought, problems } = await findAgentsMd(places, trust);
  const sentences = (found: Pick<FoundAgentsMd, "brought" | "problems">): readonly string[] => [
    ...found.problems,
    ...[leftOutText(found.brought)].filter((sentence) => sentence !== undefined),
  ];
  // The caller reports these.
  let reported = sentences({ brought, problems });
  return {
    brought,
    problems,
    read: async () => {
      const { files, ...found } = await findAgentsMd(places, trust);
      const said = sentences(found);
      const warnings = said.filter((sentence) => !reported.includes(sentence));
      reported = said;
      return { files, warnings };
    },
  };
}

async function findAgentsMd(places: ConfigPlaces, trust: Trust): Promise<FoundAgentsMd> {
  const { cwd, home } = places;
  const files = new Map<string, AgentsMdFile>();
  const brought: BroughtFile[] = [];
  const problems: string[] = [];
  const add = async (folder: string, names: readonly string[], keyOf: (path: string) => string): Promise<void> => {
    for (const name of names) {
      const path = join(folder, name);
      const key = keyOf(path);
      try {
        const found = await readBounded(path, folder === home ? undefined : folder);
        if (found === undefined) continue;
        const { text, bytes } = found;
        const judged = trust.file({ path, text }, requestOfInstructions(bytes));
        if (judged !== undefined) brought.push(judged);
        files.set(path, { key, text: judged?.isObeyed === false ? undefined : text });
      } catch (thrown) {
        problems.push(`${path} is left out: ${messageOf(thrown)}`);
        files.set(path, { key, text: undefined });
      }
      return;
    }
  };
  const fromProject = (path: string): string => relative(cwd, path).replaceAll("\\", "/");
  const isAll = places.agentsMd === "all";
  if (isAll) await add(home, [join(".rkat", "AGENTS.md")], () => "~/.rkat/AGENTS.md");
  for (const folder of isAll ? foldersTo(cwd) : [cwd]) await add(folder, AGENTS_MD, fromProject);
  return { files: [...files.values()], brought, problems };
}

/** The folders from the repository's root to this one; this one alone where it is in none. */
function foldersTo(cwd: string): readonly string[] {
  const folders = [cwd];
  for (let folder = cwd; folders.length < PARENTS_MAX; folders.unshift(folder)) {
    if (existsSync(join(folder, ".git"))) return folders;
    if (dirname(folder) === folder) break;
    folder = dirname(folder);
  }
  return [cwd];
}

/** The beginning of a text file; undefined where there is none, or nothing in it. Throws, in a sentence, for others. */
async function readBounded(
  path: string,
  root: string | undefined,
): Promise<{ readonly text: string; readonly bytes: number } | undefined> {
  const target = await realpath(path).catch((thrown: unknown) => {
    if (isErrno(thrown) && ["ENOENT", "ENOTDIR"].includes(thrown.code ?? "")) return undefined;
    throw thrown;
  });
  if (target === undefined) return undefined;
  if (root !== undefined && !target.startsWith(`${(await realpath(root)).replace(/[/\\]$/, "")}${sep}`)) {
    throw new Error("it is a link that leads out of its folder; put the file there itself");
  }
  // Pipes and devices are refused, since reading them may never end.
  const handle = await open(target, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stat = await handle.stat();
    if (!stat.isFile()) throw new Error("it is not a file");
    const bytes = stat.size;
    const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(BYTES_MAX) });
    const read = buffer.subarray(0, bytesRead);
    if (read.includes(0)) throw new TypeError();
    // A letter at the end that is cut is left out.
    const text = new TextDecoder("utf-8", { fatal: true }).decode(read, { stream: bytes > BYTES_MAX });
    if (text.trim() === "") return undefined;
    if (bytes <= BYTES_MAX) return { text, bytes };
    const rest = `[The file has ${bytes} bytes; these are the first ${BYTES_MAX}. Read the file for the rest.]`;
    return { text: `${text}\n\n${rest}`, bytes };
  } catch (thrown) {
    throw thrown instanceof TypeError ? new Error("it is not text; save it as UTF-8", { cause: thrown }) : thrown;
  } finally {
    await handle.close();
  }
}
