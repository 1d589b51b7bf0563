import { hash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { requestOfSkill } from "@rkat/core/config/trust-requests";
import { invalid, messageOf, RuntimeError } from "@rkat/core/contract/error";
import { MEMORY_RETRIEVAL } from "@rkat/core/contract/memory";
import { readPattern } from "@rkat/core/contract/permission";
import { DESCRIPTION_CHARS_MAX, SKILL_NAME, sourceUuid } from "@rkat/core/contract/skill";
import type { Skill, SkillReading, SkillSource } from "@rkat/core/ports/skill";
import type { ConfigPlaces } from "./config-file.ts";
import { readFrontMatter } from "./front-matter.ts";
import { openSkillFolder, SKILL_FILE, type SkillFolder, textOf } from "./skill-folder.ts";
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
    return trust.skill(file, requestOfSkill({ name, description, files: folder.files.length, allowedTools }));
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
  /** The problem of invalid patterns. */
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
