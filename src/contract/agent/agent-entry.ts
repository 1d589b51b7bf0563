import { z } from "zod";
import { Usage } from "../event.ts";

const count = z.number().int().nonnegative();
const number = z.number().int().positive();

const METADATA_DEPTH_MAX = 32;

/** Level by level: a value too deep for that is too deep for everyone who reads it later. */
function isShallow(value: unknown): boolean {
  let level: readonly unknown[] = [value];
  for (let depth = 0; depth <= METADATA_DEPTH_MAX; depth += 1) {
    if (level.length === 0) return true;
    level = level.flatMap((one) => (typeof one === "object" && one !== null ? Object.values(one) : []));
  }
  return level.length === 0;
}

/** Free facts about a memory: who was there, where it was, where it came from. */
export const MemoryMetadata = z
  .record(z.string(), z.unknown())
  .refine((metadata) => isShallow(metadata), { error: `nest it at most ${METADATA_DEPTH_MAX} levels deep` });
export type MemoryMetadata = z.infer<typeof MemoryMetadata>;

/** A summary and the memories it speaks for, by their numbers, both ends in. */
export const Tier = z.object({
  summary: z.string(),
  from: number,
  to: number,
  /** `extractive`: of sentences of the memories, without a model. */
  by: z.enum(["model", "extractive"]),
});
export type Tier = z.infer<typeof Tier>;

/** What one record of an agent's log says. Memories are numbered from 1, without a gap; each is one record's entry. */
export const AgentEntryBody = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("memory_added"),
    /** The agent's name stands in every memory: the log alone tells whose it is. */
    agent: z.string(),
    number,
    content: z.string(),
    metadata: MemoryMetadata.optional(),
    /** The file it was picked up from. */
    file: z.string().optional(),
  }),
  z.object({
    kind: z.literal("note_added"),
    agent: z.string(),
    title: z.string().optional(),
    content: z.string(),
  }),
  /** Both tiers as they are from here on. Nothing is deleted: the memories are in the entries before this one. */
  z.object({
    kind: z.literal("tiers_compacted"),
    /** How many memories there were when it became due: what decides which of them it covers. */
    at_count: count,
    recent: Tier,
    /** Absent after the first compaction: there is nothing older yet. */
    longterm: Tier.optional(),
    usage: Usage,
    forced: z.boolean(),
  }),
  /** Both tiers stay as they were; it is tried again at the next memory. */
  z.object({ kind: z.literal("tiers_failed"), at_count: count, error: z.string() }),
]);
export type AgentEntryBody = z.infer<typeof AgentEntryBody>;
export type AgentEntryBodyOf<K extends AgentEntryBody["kind"]> = Extract<AgentEntryBody, { kind: K }>;
