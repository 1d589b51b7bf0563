import { z } from "zod";
import { written } from "../input/field-words.ts";
import { positive } from "../input/whole-number.ts";
import { MemoryMetadata } from "./agent-entry.ts";

const count = z.number().int().nonnegative();
const NAME_CHARS_MAX = 64;
const CONTENT_CHARS_MAX = 1_000_000;
const named = {
  error: `write a name of letters, digits, "_" and "-", beginning with a letter or digit, of at most ${NAME_CHARS_MAX} characters`,
};

/** A name is also the name of a folder, so it can never be a path. */
export const AgentName = written(
  "NAME",
  z
    .string(named)
    .transform((name) => name.normalize("NFC"))
    .refine((name) => /^[\p{L}\p{N}][\p{L}\p{M}\p{N}_-]*$/u.test(name) && name.length <= NAME_CHARS_MAX, named)
    .describe("the agent, by its name")
    .meta({ examples: ["ada"] }),
);

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
  content: written("TEXT", text("what to remember").describe("what to remember, as a text")),
  metadata: written(
    "--metadata <json>",
    MemoryMetadata.optional()
      .describe("facts to keep with it, as a JSON object")
      .meta({ examples: [{ place: "garden" }] }),
  ),
});

export const Remembered = z.object({
  count: count.describe("how many memories the agent has now"),
  compaction_due: z.boolean().describe("whether a compaction is due with it, which has begun then"),
});

export const TakeNote = z.strictObject({
  agent: AgentName,
  content: written("TEXT", text("the note").describe("the note itself")),
  title: written("--title <text>", text("a title, or leave it out").optional().describe("what it is about")),
});

/** A memory as it was given. */
const AgentMemoryItem = z.object({
  seq: count.describe("its number; the first is 1"),
  content: z.string().describe("what is remembered, word for word"),
  created_at: z.string().describe("when it was added, in RFC 3339"),
  metadata: MemoryMetadata.optional().describe("the facts kept with it"),
});

export const ReadAgentContext = z.strictObject({
  agent: AgentName,
  immediate: written(
    "--immediate <n>",
    positive
      .optional()
      .describe("show so many of the newest memories; without it, every one that no summary covers, 64 at least"),
  ),
});

const summaries = {
  longterm_summary: z.string().optional().describe("the summary of all older memories"),
  recent_summary: z.string().optional().describe("the summary of the memories before the newest"),
};

export const AgentContext = z.object({
  ...summaries,
  immediate: z.array(AgentMemoryItem).describe("the newest memories, oldest first"),
  prompt: z.string().describe("all of it as a text for a model"),
});
export type AgentContext = z.infer<typeof AgentContext>;

const Covered = z.object({
  from_seq: count.describe("the number of the first"),
  to_seq: count.describe("the number of the last, which is in"),
});

export const AgentCompacted = z.object({
  compacted: z.boolean().describe("whether it was"),
  reason: z.string().optional().describe("why not"),
  ...summaries,
});
export type AgentCompacted = z.infer<typeof AgentCompacted>;

export const AgentStatus = z.object({
  agent: z.string().describe("its name"),
  count: count.describe("memories, all of them"),
  notes: count.describe("private notes"),
  immediate_window: count.describe("memories that are shown word for word, as configured"),
  recent_window: count.describe("memories of the short-term summary, as configured"),
  immediate_count: count.describe("memories no summary covers: what a context shows word for word"),
  ...summaries,
  recent_range: Covered.optional().describe("the memories the short-term summary speaks for"),
  longterm_range: Covered.optional().describe("the memories the long-term summary speaks for"),
  compactions: count.describe("how often its memories were compacted"),
  last_compaction_at: z.string().optional().describe("when that was last, in RFC 3339"),
  next_compaction_at: count.describe("the number of memories at which the next compaction is due"),
  compaction_due: z.boolean().describe("whether one is due"),
  compaction_running: z.boolean().describe("whether one is running"),
  last_error: z.string().optional().describe("why the last compaction failed; absent when it did not"),
});
export type AgentStatus = z.infer<typeof AgentStatus>;

export const AgentSummary = z.object({
  agent: z.string().describe("its name"),
  count: count.describe("how many memories it has"),
  created_at: z.string().describe("when it first remembered something, in RFC 3339"),
  updated_at: z.string().describe("when it last remembered something, in RFC 3339"),
});
