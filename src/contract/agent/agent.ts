import { z } from "zod";
import { positive } from "../input/whole-number.ts";
import { MemoryMetadata } from "./agent-entry.ts";

const count = z.number().int().nonnegative();
const NAME_CHARS_MAX = 64;
const CONTENT_CHARS_MAX = 1_000_000;
const named = {
  error: `write a name of letters, digits, "_" and "-", beginning with a letter or digit, of at most ${NAME_CHARS_MAX} characters`,
};

/** A name is also the name of a folder, so it can never be a path. */
export const AgentName = z
  .string(named)
  .transform((name) => name.normalize("NFC"))
  .refine((name) => /^[\p{L}\p{N}][\p{L}\p{M}\p{N}_-]*$/u.test(name) && name.length <= NAME_CHARS_MAX, named);

const text = (what: string) =>
  z
    .string({ error: `write ${what}` })
    .refine((content) => content.trim() !== "", { error: `write ${what}` })
    .refine((content) => content.length <= CONTENT_CHARS_MAX, {
      error: `write at most ${CONTENT_CHARS_MAX} characters`,
    });

export const OneAgent = z.strictObject({ agent: AgentName });

export const Remember = z.strictObject({
  agent: AgentName,
  content: text("what to remember"),
  metadata: MemoryMetadata.optional(),
});

export const Remembered = z.object({
  /** How many memories the agent has now. */
  count,
  /** Whether a compaction is due with it, which has begun then. */
  compaction_due: z.boolean(),
});

export const TakeNote = z.strictObject({
  agent: AgentName,
  content: text("the note"),
  title: text("a title, or leave it out").optional(),
});

/** A memory as it was given, with its number: the first is 1. */
const AgentMemoryItem = z.object({
  seq: count,
  content: z.string(),
  created_at: z.string(),
  metadata: MemoryMetadata.optional(),
});

export const ReadAgentContext = z.strictObject({
  agent: AgentName,
  /** How many of the newest memories are shown; without it, every one that no summary covers, 64 at least. */
  immediate: positive.optional(),
});

export const AgentContext = z.object({
  longterm_summary: z.string().optional(),
  recent_summary: z.string().optional(),
  immediate: z.array(AgentMemoryItem),
  /** All of it as a text for a model. */
  prompt: z.string(),
});
export type AgentContext = z.infer<typeof AgentContext>;

const Covered = z.object({ from_seq: count, to_seq: count });

export const AgentCompacted = z.object({
  compacted: z.boolean(),
  /** Why not. */
  reason: z.string().optional(),
  longterm_summary: z.string().optional(),
  recent_summary: z.string().optional(),
});
export type AgentCompacted = z.infer<typeof AgentCompacted>;

export const AgentStatus = z.object({
  agent: z.string(),
  /** Memories, all of them. */
  count,
  notes: count,
  immediate_window: count,
  recent_window: count,
  /** Memories no summary covers: what a context shows word for word. */
  immediate_count: count,
  recent_summary: z.string().optional(),
  recent_range: Covered.optional(),
  longterm_summary: z.string().optional(),
  longterm_range: Covered.optional(),
  compactions: count,
  last_compaction_at: z.string().optional(),
  /** The number of memories at which the next compaction is due. */
  next_compaction_at: count,
  compaction_due: z.boolean(),
  compaction_running: z.boolean(),
  /** Why the last compaction failed; absent when it did not. */
  last_error: z.string().optional(),
});
export type AgentStatus = z.infer<typeof AgentStatus>;

export const AgentSummary = z.object({
  agent: z.string(),
  count,
  created_at: z.string(),
  updated_at: z.string(),
});
