import { z } from "zod";
import { Judgement, Usage } from "./event.ts";
import { nonnegative, positive } from "./input/whole-number.ts";
import { Message } from "./message.ts";

const count = z.number().int().nonnegative();

/** Messages by the seqs of the entries that hold them; both ends are in. */
export const SeqRange = z.object({ from_seq: count, to_seq: count });
export type SeqRange = z.infer<typeof SeqRange>;

/** When a session compacted, counted in its own boundaries: what keeps it from compacting again at once. */
export const CompactionCadence = z.object({
  /** Boundaries (moments before a model call) the session has seen. */
  session_boundary_index: count,
  /** The boundary at which it was last compacted. */
  last_compaction_boundary_index: count.optional(),
  /** The boundary at which a compaction was last tried, failed or not. */
  last_compaction_attempt_boundary_index: count.optional(),
});
export type CompactionCadence = z.infer<typeof CompactionCadence>;

const SpecificKind = z.enum(["path", "identifier", "url", "number", "command", "rule", "ask"]);
export type SpecificKind = z.infer<typeof SpecificKind>;

/** Where a specific of the discarded messages is now. */
const SpecificStatus = z.enum(["in_summary", "in_tail", "pinned", "recoverable", "lost"]);
export type SpecificStatus = z.infer<typeof SpecificStatus>;

/** What a compaction did with the specifics it took out of the context. */
const Receipt = z.object({
  total: count,
  in_summary: count,
  in_tail: count,
  pinned: count,
  recoverable: count,
  lost: count,
  /** How many of the recoverable ones a search of memory found, before the compaction was made. */
  found_by_search: count,
  /** At most 1,000 of them, what is lost first; the counts above are of all. */
  items: z.array(z.object({ kind: SpecificKind, text: z.string(), seq: count, status: SpecificStatus })),
  /** What the summary said that none of its sources says. */
  invented: z.array(z.object({ kind: z.string(), text: z.string(), sentence: z.string() })),
  /** Whether the sentences that hold it were cut from the summary. */
  invented_cut: z.boolean(),
  unverified: z
    .array(z.string())
    .optional()
    .describe("Sentences of the summary whose claims nothing proved, at most 100; older receipts have none."),
  /** Tool results that stand in the context as a reference only; the log has them whole. */
  pruned: z.array(z.object({ seq: count, tool_use_id: z.string(), tokens: count })),
});
export type Receipt = z.infer<typeof Receipt>;

/** A rule or a prohibition of the user, word for word. */
const UserRule = z.object({
  seq: count.describe("The entry of the newest message that says it."),
  text: z.string().describe("The rule, word for word."),
  follows: z
    .boolean()
    .describe(
      "Whether it follows the summary: not where the summary has it word for word, nor where there is no room.",
    ),
});
export type UserRule = z.infer<typeof UserRule>;

/** Threshold: the context grew to it. Overflow: it no longer fits the model. Manual: someone asked. */
const CompactionTrigger = z.enum(["threshold", "overflow", "manual"]);
export type CompactionTrigger = z.infer<typeof CompactionTrigger>;

/** How far the kept messages had to be simplified for every provider to accept them. */
const Reshape = z.enum(["as_is", "without_reasoning", "text_only"]);
export type Reshape = z.infer<typeof Reshape>;

/** What is recorded of a compaction, in the log and on every wire. */
export const CompactionFacts = {
  compaction_id: z.string(),
  created_at: z.string(),
  strategy: z.string(),
  trigger: CompactionTrigger,
  /** Who wrote the summary; `extractive`: sentences of the conversation; `none`: only results were pruned. */
  summary_by: z.enum(["model", "curator", "extractive", "none"]),
  model: z.string(),
  /** Anything out of the ordinary, in sentences: why the summary is extractive, what was kept less of. */
  notes: z.array(z.string()),
  instructions: z.string().optional(),
  summary: z.string(),
  summary_tokens: count,
  messages_before: count,
  messages_after: count,
  tokens_before: count,
  /** Of a preview: what is to be expected, with a summary of the usual length; `cost` has the longest one allowed. */
  tokens_after: count,
  discarded: z.array(SeqRange),
  /** The earlier compaction whose summary this one's replaces. */
  superseded: z.string().optional(),
  reshape: Reshape,
  receipt: Receipt,
  rules: z
    .array(UserRule)
    .optional()
    .describe("Rules of the user that left the context, oldest first; those that follow stand below the summary."),
  judged: Judgement.optional().describe("What a judge found in the summary; only where one was asked."),
  usage: Usage,
  cadence: CompactionCadence,
};

/** What a compaction is on every wire. */
export const Compaction = z.object({
  ...CompactionFacts,
  seq: count,
  kept: z.array(SeqRange),
  undone: z.boolean(),
  /** What was brought back into the context since. */
  expanded: z.array(SeqRange),
});
export type Compaction = z.infer<typeof Compaction>;

/** One part of a rebuilt context, after the system message: messages of the log, the summary, or something new. */
export const ContextPart = z.union([SeqRange, z.object({ summary: z.literal(true) }), z.object({ message: Message })]);
export type ContextPart = z.infer<typeof ContextPart>;

/** A tool result that is shown as a reference; `content` is what is shown. */
export const PrunedResult = z.object({
  seq: count,
  tool_use_id: z.string(),
  tokens: count,
  content: z.string(),
});

/** What a session may ask for instead of the configuration's. */
export const CompactionSettings = z.strictObject({
  auto_compact_threshold: positive.optional(),
  recent_turn_budget: positive.optional(),
  max_summary_tokens: positive.optional(),
  min_turns_between_compactions: nonnegative.optional(),
});
export type CompactionSettings = z.infer<typeof CompactionSettings>;

const INSTRUCTIONS_CHARS_MAX = 20_000;

export const CompactNow = {
  instructions: z
    .string()
    .max(INSTRUCTIONS_CHARS_MAX, { error: `write at most ${INSTRUCTIONS_CHARS_MAX} characters` })
    .optional(),
  preview: z.boolean().default(false),
};

/** What came of asking for a compaction. A preview changes nothing: its compaction has no summary and a cost. */
export const CompactResult = z.object({
  compacted: z.boolean(),
  /** Why nothing was compacted. */
  reason: z.string().optional(),
  compaction: Compaction.extend({
    cost: z.object({ input_tokens: count, max_output_tokens: count }).optional(),
  }).optional(),
});
export type CompactResult = z.infer<typeof CompactResult>;

export const ExpandInput = {
  compaction_id: z.string().min(1, { error: "write the id of a compaction" }),
  from_seq: nonnegative.optional(),
  to_seq: nonnegative.optional(),
  max_tokens: positive.optional(),
};

/** How the context stands after a change of what it shows. */
const ContextSize = { messages: count, estimated_tokens: count };

export const UndoResult = z.object({
  undone: z.literal(true),
  /** The compaction and those made after it, which were built on it. */
  compaction_ids: z.array(z.string()),
  ...ContextSize,
});

export const ExpandResult = z.object({
  expanded: z.array(SeqRange),
  /** Ranges that were asked for and left out, because they did not fit `max_tokens`. */
  left_out: z.array(SeqRange),
  ...ContextSize,
});

export type ExpandResult = z.infer<typeof ExpandResult>;

export const PinResult = z.object({ pinned: z.boolean(), seq: count, pins: z.array(count) });
