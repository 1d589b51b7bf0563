import type { MemoryMetadata, Tier } from "../contract/agent.ts";

/** A memory as its file says it. */
export interface VaultMemory {
  readonly number: number;
  readonly content: string;
  readonly created_at_ms: number;
  readonly metadata?: MemoryMetadata | undefined;
  /** The file a person wrote it in; its numbered file takes that one's place. */
  readonly file?: string | undefined;
}

/** A memory a person put into the folder, which the log does not know yet. */
export interface FoundMemory {
  readonly file: string;
  readonly content: string;
  readonly metadata?: MemoryMetadata | undefined;
}

/** What a person wrote about an agent. */
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

/** Agents' memories and summaries as files a person can read; derived from the logs, except for what a person adds. */
export interface Vault {
  texts(agent: string): Promise<VaultTexts>;
  /**
   * Memory files that have no number, by name. After a crash there may be one among them whose memory the log has
   * already, under this file's name: writing that memory again removes it.
   */
  found(agent: string): Promise<readonly FoundMemory[]>;
  /** Number of the newest memory up to `count` that has its file, and so have those before it; 0 when none has. */
  written(agent: string, count: number): Promise<number>;
  /** Writes a file a memory, in this order; the file it was found in is removed then, unless it says something else. */
  writeMemories(agent: string, memories: readonly VaultMemory[]): Promise<void>;
  writeNote(
    agent: string,
    note: { readonly number: number; readonly title?: string | undefined; readonly content: string },
  ): Promise<void>;
  /** Takes away the files of these, the summaries and their copies, and whatever else there says what was forgotten. */
  erase(
    agent: string,
    of: {
      readonly memories: readonly number[];
      readonly notes: readonly number[];
      finds(text: string): boolean;
    },
  ): Promise<void>;
  /** Writes both summaries, and a copy of the short-term one named by its time, unless they are there already. */
  writeSummaries(agent: string, tiers: VaultTiers): Promise<void>;
}
