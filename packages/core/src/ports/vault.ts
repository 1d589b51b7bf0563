import type { MemoryMetadata, Tier } from "../contract/agent.ts";

/** A memory as in its file. */
export interface VaultMemory {
  readonly number: number;
  readonly content: string;
  readonly created_at_ms: number;
  readonly metadata?: MemoryMetadata | undefined;
  /** The file a person wrote; its numbered file replaces it. */
  readonly file?: string | undefined;
}

/** A memory that a person added to the folder and the log lacks. */
export interface FoundMemory {
  readonly file: string;
  readonly content: string;
  readonly metadata?: MemoryMetadata | undefined;
}

/** A person's text about an agent. */
export interface VaultTexts {
  readonly profile?: string;
  readonly commands: readonly string[];
  readonly notes: readonly { readonly title: string; readonly content: string }[];
}

export interface VaultTiers {
  readonly compacted_at_ms: number;
  readonly recent: Tier;
  readonly longterm?: Tier | undefined;
}

/** Agents' memories and summaries as readable files; derived from the logs, except for files a person adds. */
export interface Vault {
  texts(agent: string): Promise<VaultTexts>;
  /**
   * Memory files without a number, by name. After a crash the log may already have the memory of one: writing that
   * memory again removes the file.
   */
  found(agent: string): Promise<readonly FoundMemory[]>;
  /** The number of the newest memory up to `count` that has a file, as all before it; 0 if none has. */
  written(agent: string, count: number): Promise<number>;
  /** Writes one file per memory, in order; then removes the file it was found in unless that has changed. */
  writeMemories(agent: string, memories: readonly VaultMemory[]): Promise<void>;
  writeNote(
    agent: string,
    note: { readonly number: number; readonly title?: string | undefined; readonly content: string },
  ): Promise<void>;
  /** Deletes the files of these memories, the summaries and their copies, and other files with erased text. */
  erase(
    agent: string,
    of: {
      readonly memories: readonly number[];
      readonly notes: readonly number[];
      finds(text: string): boolean;
    },
  ): Promise<void>;
  /** Writes both summaries, and a copy of the short-term one named by its time, unless they exist. */
  writeSummaries(agent: string, tiers: VaultTiers): Promise<void>;
}
