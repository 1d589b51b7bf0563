import { invalid, RuntimeError } from "../contract/error.ts";
import type { SkillRef } from "../contract/input.ts";
import { MEMORY_RETRIEVAL, MEMORY_SKILL } from "../contract/memory.ts";
import { readPattern } from "../contract/permission.ts";
import {
  DESCRIPTION_CHARS_MAX,
  LOAD_SKILL,
  SKILL_BYTES_MAX,
  SKILL_FILES_BYTES_MAX,
  SKILL_FILES_MAX,
  SKILL_NAME,
  type SkillKey,
  type SkillRow,
  sourceUuid,
} from "../contract/skill.ts";
import type { InlineSkill, Skill, SkillReading, SkillSource } from "../ports/skill.ts";
import type { Hash } from "../state/context.ts";

/** The skills of a runtime: which exist, which apply, and their text for the model. */
export interface SkillCatalogue {
  /** Whether a session could load one; the text about memory is always present. */
  readonly hasAny: boolean;
  find(ref: SkillRef): Skill | undefined;
  /** Its current text; the patterns it allows are cached with it. */
  read(skill: Skill): Promise<SkillReading>;
  rows(): Promise<readonly SkillRow[]>;
  rowOf(skill: Skill): Promise<SkillRow>;
  readonly names: readonly string[];
  /** One line per skill, for a model that asks. */
  readonly lines: readonly string[];
  /** Their section of the system prompt. */
  readonly prompt: string;
  /** The patterns allowed by skills loaded with exactly this text. */
  allowedBy(loaded: readonly (SkillKey & { readonly sha256: string })[]): readonly string[];
  /** Reads skills whose rules are not cached, for `allowedBy`. */
  learn(loaded: readonly SkillKey[]): Promise<void>;
}

const RANKS: readonly SkillSource["scope"][] = ["code", "project", "user", "builtin"];

/** Throws INVALID_PARAMS with the name of a wrong skill passed as code. `skills`: of one name the nearer first. */
export function createSkillCatalogue(skills: readonly (Skill | InlineSkill)[], hash: Hash): SkillCatalogue {
  const all = skills
    .map((skill, index) => ("source" in skill ? skill : inline(skill, index, hash)))
    .sort((a, b) => RANKS.indexOf(a.source.scope) - RANKS.indexOf(b.source.scope));
  requireOwnNames(all);
  const active = new Map<string, Skill>();
  for (const skill of all) if (!active.has(skill.name)) active.set(skill.name, skill);
  const allowed = new Map<string, readonly string[]>();
  const rowOf = (skill: Skill): Promise<SkillRow> => toRow(skill, active.get(skill.name) ?? skill);
  const read = async (skill: Skill): Promise<SkillReading> => {
    const reading = await skill.read();
    allowed.set(nameOf({ ...keyOf(skill), sha256: reading.sha256 }), reading.allowedTools);
    return reading;
  };
  const find = ({ source_uuid, skill_name }: SkillRef): Skill | undefined =>
    source_uuid === undefined
      ? active.get(skill_name)
      : all.find(({ name, source }) => name === skill_name && source.source_uuid === source_uuid);
  const known = [...active.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  return {
    hasAny: all.length > 0,
    find,
    read,
    rowOf,
    rows: () => Promise.all(all.map(rowOf)),
    names: known.map(({ name }) => name),
    lines: known.map((skill) => lineOf(skill, DESCRIPTION_CHARS_MAX)),
    prompt: promptOf(known),
    allowedBy: (loaded) => [...new Set(loaded.flatMap((one) => allowed.get(nameOf(one)) ?? []))],
    learn: async (loaded) => {
      for (const key of loaded) {
        const skill = find(key);
        // A missing or changed skill allows nothing; loading it again reports why.
        if (skill !== undefined) await read(skill).catch(() => {});
      }
    },
  };
}

export function keyOf({ name, source }: Skill): SkillKey {
  return { source_uuid: source.source_uuid, skill_name: name };
}

function nameOf({ source_uuid, skill_name, sha256 }: SkillKey & { readonly sha256: string }): string {
  return `${source_uuid} ${skill_name} ${sha256}`;
}

async function toRow(skill: Skill, holding: Skill): Promise<SkillRow> {
  const { name, description, source } = skill;
  const { source_uuid, displayName, scope, transport } = source;
  // An unreadable skill, or one changed since it was trusted, is listed but not used.
  const fingerprint = await skill.fingerprint().catch(() => undefined);
  const is_active = skill === holding;
  return {
    key: keyOf(skill),
    name,
    description,
    scope,
    source: {
      source_uuid,
      display_name: displayName,
      transport_kind: transport,
      fingerprint: fingerprint ?? "",
      status: fingerprint === undefined ? "disabled" : "active",
    },
    is_active,
    ...(is_active ? {} : { shadowed_by: keyOf(holding) }),
  };
}

/** The largest section in a prompt. */
const PROMPT_BYTES_MAX = 8_192;
/** Descriptions are shortened before skills are left out. */
const DESCRIPTION_CUTS = [DESCRIPTION_CHARS_MAX, 256, 96];

const INTRO = `## Skills

Knowledge for particular tasks, which is loaded when it is needed. Where one fits what you are asked for, call ${LOAD_SKILL} with its name before you begin.`;

function promptOf(skills: readonly Skill[]): string {
  const whole = DESCRIPTION_CUTS.map((chars) => [INTRO, ...skills.map((skill) => lineOf(skill, chars))].join("\n"));
  const fitting = whole.find((text) => bytesOf(text) <= PROMPT_BYTES_MAX);
  if (fitting !== undefined) return fitting;
  const lines = skills.map((skill) => lineOf(skill, DESCRIPTION_CUTS.at(-1) ?? 0));
  const rest = (count: number): string => `- ${count} more; ${LOAD_SKILL} without a name lists them all`;
  let left = PROMPT_BYTES_MAX - bytesOf(INTRO) - bytesOf(rest(skills.length)) - 1;
  const fits = lines.findIndex((line) => {
    left -= bytesOf(line) + 1;
    return left < 0;
  });
  return [INTRO, ...lines.slice(0, fits), rest(skills.length - fits)].join("\n");
}

function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

function lineOf({ name, description }: Skill, charsMax: number): string {
  const said = description.replaceAll(/\s+/g, " ");
  const cut = said.length <= charsMax ? said : `${said.slice(0, charsMax - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
  return `- ${name}: ${cut}`;
}

/** The notice that loads a skill into a context. */
export function noticeText({ name, source, files }: Skill, body: string): string {
  const place = source.transport === "filesystem" ? [`Its folder is ${source.displayName}/${name}.`] : [];
  const beside = files.length === 0 ? [] : [`${LOAD_SKILL} with file reads what lies beside it: ${files.join(", ")}.`];
  const about = [...place, ...beside].join(" ");
  return [`Skill ${name} is loaded.${about === "" ? "" : ` ${about}`}`, body].join("\n\n");
}

export const MEMORY = { row: MEMORY_RETRIEVAL, body: MEMORY_SKILL };

export function isMemory({ source_uuid, skill_name }: SkillRef): boolean {
  const { key } = MEMORY_RETRIEVAL;
  return skill_name === key.skill_name && (source_uuid ?? key.source_uuid) === key.source_uuid;
}

/** A skill passed as code, in the common form. */
function inline(given: InlineSkill, index: number, hash: Hash): Skill {
  const fault = inlineFault(given);
  if (fault !== undefined) throw invalid(`skills.${index}: ${fault}`);
  const { name, description, body, files = {}, allowedTools = [] } = given;
  const source_uuid = sourceUuid(hash, "code", "");
  const said = JSON.stringify({ name, description, body, allowedTools });
  return {
    name,
    description,
    source: { source_uuid, displayName: "code", scope: "code", transport: "embedded" },
    files: Object.keys(files).sort(),
    read: async () => ({ body, sha256: hash(said), allowedTools }),
    readFile: async (file) => {
      const text = Object.hasOwn(files, file) ? files[file] : undefined;
      if (text !== undefined) return text;
      const sentence = `file: skill ${name} has no ${JSON.stringify(file)}; there are ${Object.keys(files).join(", ") || "none"}`;
      throw new RuntimeError("SKILL_RESOLUTION_FAILED", sentence, { details: { reason_type: "no_such_file" } });
    },
    fingerprint: async () => hash(JSON.stringify([said, Object.entries(files).sort()])),
  };
}

function inlineFault(skill: unknown): string | undefined {
  if (typeof skill !== "object" || skill === null) return "give a skill, {name, description, body}";
  // Any field may be read; its value is unknown.
  const {
    name,
    description,
    body,
    files = {},
    allowedTools = [],
  } = skill as { readonly [K in keyof InlineSkill]?: unknown };
  if (typeof name !== "string" || !SKILL_NAME.test(name)) {
    return "name it in at most 64 small letters, digits and hyphens";
  }
  if (typeof description !== "string" || description === "" || description.length > DESCRIPTION_CHARS_MAX) {
    return `give skill ${name} a description of at most ${DESCRIPTION_CHARS_MAX} characters`;
  }
  if (typeof body !== "string" || body === "" || bytesOf(body) > SKILL_BYTES_MAX) {
    return `give skill ${name} a body, a text of at most ${SKILL_BYTES_MAX} bytes`;
  }
  if (typeof files !== "object" || files === null) return `give the files of skill ${name} as texts by their names`;
  const texts = Object.values(files);
  const isText = texts.every((text) => typeof text === "string");
  if (!isText || texts.length > SKILL_FILES_MAX || bytesOf(texts.join("")) > SKILL_FILES_BYTES_MAX) {
    return `give skill ${name} at most ${SKILL_FILES_MAX} files, texts of ${SKILL_FILES_BYTES_MAX} bytes in all`;
  }
  if (!Array.isArray(allowedTools)) return `give the allowedTools of skill ${name} as a list of patterns`;
  const wrong = allowedTools.map((pattern) => readPattern(String(pattern))).find((read) => typeof read === "string");
  return wrong === undefined ? undefined : `allowedTools of skill ${name}: ${wrong}`;
}

/** Rejects two skills of one name and source, and the reserved name. */
function requireOwnNames(skills: readonly Skill[]): void {
  const seen = new Set<string>([MEMORY_RETRIEVAL.name]);
  for (const { name } of skills.filter(({ source }) => source.scope === "code")) {
    if (seen.has(name)) throw invalid(`skills: ${name} is taken; give each its own name`);
    seen.add(name);
  }
}
