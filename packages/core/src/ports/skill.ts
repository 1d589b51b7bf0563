/** The content of a skill at the time it is read. */
export interface SkillReading {
  /** The text after its front matter, or that of a file beside it. */
  readonly body: string;
  /** The hash of the whole `SKILL.md`, including the front matter. */
  readonly sha256: string;
  /** Calls that need no approval while it is loaded. */
  readonly allowedTools: readonly string[];
}

/** The source of a skill; of two with one name, the nearer applies. */
export interface SkillSource {
  /** The same on every machine: derived from the kind of source and its folder name. */
  readonly source_uuid: string;
  readonly displayName: string;
  readonly scope: "code" | "project" | "user" | "builtin";
  readonly transport: "embedded" | "filesystem";
}

/** Knowledge that a model loads when needed. */
export interface Skill {
  readonly name: string;
  readonly description: string;
  readonly source: SkillSource;
  /** Names of the files beside its text. */
  readonly files: readonly string[];
  /**
   * Its current content. Throws SKILL_RESOLUTION_FAILED, with `reason_type` in its details, if it may not or cannot be
   * read.
   */
  read(): Promise<SkillReading>;
  /** The text of a file beside it; throws like `read`. */
  readFile(name: string): Promise<string>;
  /** The hash of all its files. */
  fingerprint(): Promise<string>;
}

/** A skill passed as code. */
export interface InlineSkill {
  readonly name: string;
  readonly description: string;
  /** The text that the model loads. */
  readonly body: string;
  /** Texts beside it, by name. */
  readonly files?: Readonly<Record<string, string>>;
  /** Calls that need no approval while it is loaded, as rule patterns. */
  readonly allowedTools?: readonly string[];
}
