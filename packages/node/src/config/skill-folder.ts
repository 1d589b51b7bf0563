import { hash } from "node:crypto";
import { constants } from "node:fs";
import { open, readdir, realpath, stat } from "node:fs/promises";
import { join, sep } from "node:path";
import { invalid, type RuntimeError } from "@rkat/core/contract/error";
import { SKILL_BYTES_MAX, SKILL_FILES_BYTES_MAX, SKILL_FILES_MAX } from "@rkat/core/contract/skill";

export const SKILL_FILE = "SKILL.md";
/** Folders in folders, from the skill's own on. */
const DEPTH_MAX = 8;
/** Every start reads every folder, trusted or not. */
const FOLDERS_MAX = 256;

/** A folder of a skill as it is now. */
export interface SkillFolder {
  /** What its `SKILL.md` says. */
  readonly text: string;
  /** Names of the other files, with slashes, in their order. */
  readonly files: readonly string[];
  /** Of every name and what is in it; it is what a person trusts. */
  manifest(): Promise<string>;
  /** What one of its files holds; undefined for any other name. */
  read(name: string): Promise<Buffer | undefined>;
}

/**
 * Looks at a skill's folder; undefined where it has no `SKILL.md`, so is none. Throws INVALID_PARAMS, in a sentence without
 * the folder's name, for one that leads out of itself or of `within`, or is too large.
 */
export async function openSkillFolder(folder: string, within?: string): Promise<SkillFolder | undefined> {
  const root = await realpath(folder);
  if (within !== undefined && !isInside(root, await realpath(within))) {
    throw invalid("it is a link that leads out of the project; copy the skill into the project");
  }
  const names = await namesIn(root);
  if (!names.includes(SKILL_FILE)) return undefined;
  const files = names.filter((name) => name !== SKILL_FILE);
  if (files.length > SKILL_FILES_MAX) throw invalid(`keep at most ${SKILL_FILES_MAX} files beside ${SKILL_FILE}`);
  const sizes = await Promise.all(files.map(async (name) => (await stat(join(root, name))).size));
  if (sizes.reduce((sum, size) => sum + size, 0) > SKILL_FILES_BYTES_MAX) throw tooLarge();
  const head = await readWhole(join(root, SKILL_FILE), SKILL_BYTES_MAX);
  if (head === undefined) throw invalid(`shorten ${SKILL_FILE} to ${SKILL_BYTES_MAX} bytes`);
  const text = textOf(head);
  if (text === undefined) throw invalid(`write ${SKILL_FILE} as UTF-8 text`);
  const readAll = async (): Promise<ReadonlyMap<string, Buffer>> => {
    const all = new Map<string, Buffer>();
    let left = SKILL_FILES_BYTES_MAX;
    for (const name of files) {
      // One byte more: it may have grown since.
      const data = await readWhole(join(root, name), left);
      if (data === undefined) throw tooLarge();
      left -= data.length;
      all.set(name, data);
    }
    return all;
  };
  let judged: ReturnType<typeof readAll> | undefined;
  return {
    text,
    files,
    manifest: async () => {
      judged ??= readAll();
      const all = [[SKILL_FILE, head] as const, ...(await judged)];
      return JSON.stringify(all.map(([name, data]) => [name, hash("sha256", data)]));
    },
    read: async (name) => {
      if (!files.includes(name)) return undefined;
      // The very bytes that were judged: a file may have been swapped since.
      if (judged !== undefined) return (await judged).get(name);
      const data = await readWhole(join(root, name), SKILL_FILES_BYTES_MAX);
      if (data === undefined) throw tooLarge();
      return data;
    },
  };
}

/** Names of all files in a folder and those in it, sorted; what is hidden is no part of a skill. */
async function namesIn(root: string, at = "", depth = 1, looked = { folders: 0 }): Promise<readonly string[]> {
  if (depth > DEPTH_MAX) throw invalid(`keep its folders at most ${DEPTH_MAX} deep`);
  looked.folders += 1;
  if (looked.folders > FOLDERS_MAX) throw invalid(`keep at most ${FOLDERS_MAX} folders in it`);
  const names: string[] = [];
  const entries = await readdir(join(root, at), { withFileTypes: true });
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    if (entry.name.startsWith(".")) continue;
    if (/[\p{C}\\]/u.test(entry.name)) throw invalid("rename its file whose name has signs that are not seen, or a \\");
    const name = at === "" ? entry.name : `${at}/${entry.name}`;
    if (entry.isDirectory()) names.push(...(await namesIn(root, name, depth + 1, looked)));
    else if (entry.isFile()) names.push(name);
    else if (entry.isSymbolicLink()) {
      await requireInside(root, name);
      names.push(name);
    } else throw invalid(`remove ${name}, which is not a file`);
    // More than a skill may have: the rest need not be counted.
    if (names.length > SKILL_FILES_MAX + 1) throw invalid(`keep at most ${SKILL_FILES_MAX} files beside ${SKILL_FILE}`);
  }
  return names;
}

/** Throws for a link that does not lead to a place in the folder. */
async function requireInside(root: string, name: string): Promise<void> {
  const target = await realpath(join(root, name)).catch(() => undefined);
  if (target !== undefined && target !== root && isInside(target, root)) return;
  throw invalid(`${name} is a link that leads out of the skill's folder; put the file there itself`);
}

function isInside(path: string, folder: string): boolean {
  return `${path}${sep}`.startsWith(folder.endsWith(sep) ? folder : `${folder}${sep}`);
}

/** A plain file's content; undefined where it is longer. */
async function readWhole(path: string, bytesMax: number): Promise<Buffer | undefined> {
  // Pipes and devices are refused, since reading them may never end.
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stat = await handle.stat();
    if (!stat.isFile()) throw invalid("one of its entries is not a file");
    if (stat.size > bytesMax) return undefined;
    const data = Buffer.alloc(stat.size + 1);
    const { bytesRead } = await handle.read(data, 0, data.length, 0);
    return bytesRead > stat.size ? undefined : data.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

/** Bytes as a text; undefined where they are none. */
export function textOf(data: Uint8Array): string | undefined {
  if (data.includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    return undefined;
  }
}

function tooLarge(): RuntimeError {
  return invalid(`keep at most ${SKILL_FILES_BYTES_MAX} bytes of files beside ${SKILL_FILE}`);
}
