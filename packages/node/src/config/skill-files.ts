import { hash } from "node:crypto";
import { constants } from "node:fs";
import { open, readdir, realpath, stat } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { requestOfSkill } from "@rkat/core/config/trust-requests";
import { invalid, messageOf, RuntimeError } from "@rkat/core/contract/error";
import { MEMORY_RETRIEVAL } from "@rkat/core/contract/memory";
import { readPattern } from "@rkat/core/contract/permission";
import {
  DESCRIPTION_CHARS_MAX,
  SKILL_BYTES_MAX,
  SKILL_FILES_BYTES_MAX,
  SKILL_FILES_MAX,
  SKILL_NAME,
  sourceUuid,
} from "@rkat/core/contract/skill";
import type { Skill, SkillReading, SkillSource } from "@rkat/core/ports/skill";
import type { ConfigPlaces } from "./config-file.ts";
import { readFrontMatter } from "./front-matter.ts";
import type { BroughtFile, Trust } from "./trust.ts";

export interface LoadedSkills {
  /** The nearer first: of two with one name it holds. */
  readonly skills: readonly Skill[];
  /** The project's, whether or not they are trusted. */
  readonly brought: readonly BroughtFile[];
  /** A sentence for each skill that is broken, and left out. */
  readonly warnings: readonly string[];
}

/** Where skills lie in a project and in the user's home, the nearer first. */
const FOLDERS = [".rkat", ".agents", ".claude"].map((name) => join(name, "skills"));
const SKILLS_MAX = 256;
const PARENTS_MAX = 256;

interface Place {
  readonly source: SkillSource;
  readonly folder: string;
  /** The project's folder; undefined for the user's own. */
  readonly project: string | undefined;
}

/** Finds the skills of the project, as far as they are trusted, and of the user; nothing of them is ever written. */
export async function loadSkills(places: ConfigPlaces, trust: Trust): Promise<LoadedSkills> {
  const skills: Skill[] = [];
  const brought: BroughtFile[] = [];
  const warnings: string[] = [];
  for (const place of await placesOf(places)) {
    const names = await foldersIn(place.folder);
    if (names.length > SKILLS_MAX) {
      warnings.push(`${place.folder}: the first ${SKILLS_MAX} of its ${names.length} folders are read; keep fewer`);
    }
    for (const name of names.slice(0, SKILLS_MAX)) {
      try {
        const found = await findSkill(place, name, trust);
        if (found === undefined) continue;
        if (found.brought !== undefined) brought.push(found.brought);
        if (found.brought?.isObeyed !== false) skills.push(found.skill);
        warnings.push(...found.warnings);
      } catch (thrown) {
        warnings.push(`${join(place.folder, name)} is left out: ${messageOf(thrown)}`);
      }
    }
  }
  return { skills, brought, warnings };
}

async function placesOf({ cwd, home }: ConfigPlaces): Promise<readonly Place[]> {
  const ofProject = await Promise.all(
    FOLDERS.map(async (name): Promise<Place[]> => {
      // In the home folder they are the user's own.
      const project = await nearest(cwd, async (parent) => parent !== home && (await isFolder(join(parent, name))));
      if (project === undefined) return [];
      const folder = join(project, name);
      return [{ source: sourceOf("project", name, relative(cwd, folder)), folder, project }];
    }),
  );
  const ofUser = FOLDERS.map((name): Place => {
    return { source: sourceOf("user", name, join("~", name)), folder: join(home, name), project: undefined };
  });
  return [...ofProject.flat(), ...ofUser];
}

function sourceOf(scope: "project" | "user", folder: string, displayName: string): SkillSource {
  const source_uuid = sourceUuid((text) => hash("sha256", text), scope, folder.replaceAll("\\", "/"));
  return { source_uuid, displayName, scope, transport: "filesystem" };
}

async function nearest(from: string, has: (folder: string) => Promise<boolean>): Promise<string | undefined> {
  let folder = from;
  for (let depth = 0; depth < PARENTS_MAX; depth += 1) {
    if (await has(folder)) return folder;
    const parent = dirname(folder);
    if (parent === folder) return undefined;
    folder = parent;
  }
  return undefined;
}

async function isFolder(path: string): Promise<boolean> {
  return readdir(path).then(
    () => true,
    () => false,
  );
}

/** Names of what may be skills; none where there is no such folder, or it cannot be read. */
async function foldersIn(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => !entry.name.startsWith(".") && (entry.isDirectory() || entry.isSymbolicLink()))
    .map(({ name }) => name)
    .sort();
}

interface FoundSkill {
  readonly skill: Skill;
  readonly brought: BroughtFile | undefined;
  readonly warnings: readonly string[];
}

/** Reads one skill; undefined where a folder is none. Throws INVALID_PARAMS, saying what to do, for one that is broken. */
async function findSkill(place: Place, name: string, trust: Trust): Promise<FoundSkill | undefined> {
  const path = join(place.folder, name);
  const first = await openSkillFolder(path, place.project);
  if (first === undefined) return undefined;
  const { description, refused } = await readHead(first, name);
  const judge = async (folder: SkillFolder): Promise<BroughtFile | undefined> => {
    if (place.project === undefined) return undefined;
    const { allowedTools, description } = await readHead(folder, name);
    const file = { path: join(path, SKILL_FILE), text: await folder.manifest() };
    return trust.file(file, requestOfSkill({ name, description, files: folder.files.length, allowedTools }));
  };
  /** Reads the skill again with the current trust: both may have changed since the start. */
  const openNow = async (): Promise<SkillFolder> => {
    const folder = await openSkillFolder(path, place.project).catch((cause: unknown) => {
      throw failed("unreadable", `skill ${name} cannot be read: ${messageOf(cause)}`, cause);
    });
    if (folder === undefined) throw failed("unreadable", `skill ${name} cannot be read: its ${SKILL_FILE} is gone`);
    const brought = await judge(folder).catch((cause: unknown) => {
      throw failed("unreadable", `skill ${name} cannot be read: ${messageOf(cause)}`, cause);
    });
    if (brought?.isObeyed === false) {
      throw failed(
        "changed",
        `skill ${name} has changed since it was trusted; rkat trust shows it and trusts it again`,
      );
    }
    return folder;
  };
  const skill: Skill = {
    name,
    description,
    source: place.source,
    files: first.files,
    read: async (): Promise<SkillReading> => {
      const folder = await openNow();
      const { body, allowedTools } = await readHead(folder, name).catch((cause: unknown) => {
        throw failed("unreadable", `skill ${name} cannot be read: ${messageOf(cause)}`, cause);
      });
      return { body, sha256: hash("sha256", folder.text), allowedTools };
    },
    readFile: async (file) => {
      const folder = await openNow();
      const data = await folder.read(file);
      if (data === undefined) throw failed("no_such_file", noSuchFile(name, file, folder.files));
      const text = textOf(data);
      if (text === undefined)
        throw failed("binary", `${JSON.stringify(file)} of skill ${name} is no text, so it cannot be shown`);
      return text;
    },
    fingerprint: async () => hash("sha256", await (await openNow()).manifest()),
  };
  const warnings = refused.map((why) => `${join(path, SKILL_FILE)}: a pattern of allowed-tools is left out: ${why}`);
  return { skill, brought: await judge(first), warnings };
}

function noSuchFile(name: string, file: string, files: readonly string[]): string {
  const known = files.length === 0 ? "there is none beside it" : `there are ${files.join(", ")}`;
  return `file: skill ${name} has no ${JSON.stringify(file.slice(0, 80))}; ${known}`;
}

function failed(reason_type: string, sentence: string, cause?: unknown): RuntimeError {
  return new RuntimeError("SKILL_RESOLUTION_FAILED", sentence, { cause, details: { reason_type } });
}

interface Head {
  readonly description: string;
  readonly body: string;
  readonly allowedTools: readonly string[];
  readonly refused: readonly string[];
}

async function readHead({ text }: SkillFolder, folder: string): Promise<Head> {
  if (!SKILL_NAME.test(folder)) {
    throw invalid("name the folder in at most 64 small letters, digits and hyphens");
  }
  if (folder === MEMORY_RETRIEVAL.name) throw invalid("rkat has a skill of this name itself; give it another");
  const { table, body } = await readFrontMatter({ path: SKILL_FILE, text });
  const { name, description } = table;
  if (name !== folder)
    throw invalid(`write name: ${folder} into the front matter of ${SKILL_FILE}, as its folder is named`);
  if (typeof description !== "string" || description.trim() === "") {
    throw invalid(`write a description into the front matter of ${SKILL_FILE}`);
  }
  if (description.length > DESCRIPTION_CHARS_MAX) {
    throw invalid(`shorten the description in ${SKILL_FILE} to ${DESCRIPTION_CHARS_MAX} characters`);
  }
  const patterns = patternsIn(table["allowed-tools"]);
  const read = patterns.map((pattern) => ({ pattern, problem: readPattern(pattern) }));
  return {
    description: description.trim(),
    body: body.trim(),
    allowedTools: read.filter(({ problem }) => typeof problem !== "string").map(({ pattern }) => pattern),
    refused: read.flatMap(({ problem }) => (typeof problem === "string" ? [problem] : [])),
  };
}

/** A list of patterns, or a text of them with commas or spaces between. */
function patternsIn(given: unknown): readonly string[] {
  if (given === undefined || given === null) return [];
  if (typeof given === "string") return given.match(/[^\s,()]+(?:\([^)]*\))?/g) ?? [];
  if (Array.isArray(given) && given.every((one) => typeof one === "string")) return given;
  throw invalid(`write allowed-tools in ${SKILL_FILE} as a list of patterns, like [shell(git *)]`);
}

const SKILL_FILE = "SKILL.md";
/** Folders in folders, from the skill's own on. */
const DEPTH_MAX = 8;
/** Every start reads every folder, trusted or not. */
const FOLDERS_MAX = 256;

interface SkillFolder {
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
async function openSkillFolder(folder: string, within?: string): Promise<SkillFolder | undefined> {
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

function textOf(data: Uint8Array): string | undefined {
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
