/** What a skill says when it is read: now, not when the runtime began. */
export interface SkillReading {
  /** The text after its front matter, or of a file beside it. */
  readonly body: string;
  /** Of all that its `SKILL.md` says, the front matter with it. */
  readonly sha256: string;
  /** Calls that need no question while it is loaded. */
  readonly allowedTools: readonly string[];
}

/** Where a skill comes from; the nearer of two of one name holds. */
export interface SkillSource {
  /** The same on every machine: it follows from what kind of source it is and its folder's name. */
  readonly source_uuid: string;
  readonly displayName: string;
  readonly scope: "code" | "project" | "user" | "builtin";
  readonly transport: "embedded" | "filesystem";
}

/** Knowledge that a model is given when it is needed. */
export interface Skill {
  readonly name: string;
  readonly description: string;
  readonly source: SkillSource;
  /** Names of the files beside its text. */
  readonly files: readonly string[];
  /** What it says now. Throws SKILL_RESOLUTION_FAILED, with `reason_type` in its details, where it may not be read or cannot be. */
  read(): Promise<SkillReading>;
  /** The text of a file beside it; throws as `read` does. */
  readFile(name: string): Promise<string>;
  /** Of everything it is made of. */
  fingerprint(): Promise<string>;
}

/** A skill as code hands it in. */
export interface InlineSkill {
  readonly name: string;
  readonly description: string;
  /** What the model is given when it loads it. */
  readonly body: string;
  /** Texts beside it, by their names. */
  readonly files?: Readonly<Record<string, string>>;
  /** Calls that need no question while it is loaded, as patterns of rules. */
  readonly allowedTools?: readonly string[];
}
