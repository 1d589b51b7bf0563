import { Judgement, NativeFacts, Usage } from "./event.ts";
import { cliFlag, nonnegative, positive, share } from "./input.ts";
import { Message, ORIGINS } from "./message.ts";
import { Economy } from "./money.ts";
import { z } from "./schema.ts";

const count = z.number().int().nonnegative();

/** Messages by the seqs of the entries that hold them; both ends are in. */
export const SeqRange = z.object({
  from_seq: count.describe("the seq of the first message"),
  to_seq: count.describe("the seq of the last message, which is in"),
});
export type SeqRange = z.infer<typeof SeqRange>;

/** When a session compacted, counted in its own boundaries: what keeps it from compacting again at once. */
export const CompactionCadence = z.object({
  session_boundary_index: count.describe("boundaries (moments before a model call) the session has seen"),
  last_compaction_boundary_index: count.optional().describe("the boundary at which it was last compacted"),
  last_compaction_attempt_boundary_index: count
    .optional()
    .describe("the boundary at which a compaction was last tried, failed or not"),
});
export type CompactionCadence = z.infer<typeof CompactionCadence>;

// A list and not a schema: to read the options of one at import would create it.
const SPECIFIC_KINDS = ["path", "identifier", "url", "number", "command", "rule", "ask"] as const;
export type SpecificKind = (typeof SPECIFIC_KINDS)[number];

const FactKind = z.enum([...SPECIFIC_KINDS, "work_state"]);
export type FactKind = z.infer<typeof FactKind>;

/** Where a specific of the discarded messages is now. */
const SpecificStatus = z.enum(["in_summary", "in_tail", "pinned", "recoverable", "lost"]);
export type SpecificStatus = z.infer<typeof SpecificStatus>;

/** What a compaction did with the specifics it took out of the context. */
export const Receipt = z.object({
  total: count.describe("specifics that were removed from the context"),
  in_summary: count.describe("of them, those in the summary"),
  in_tail: count.describe("of them, those in the turns that stayed"),
  pinned: count.describe("of them, those in a pinned message"),
  recoverable: count.describe("of them, those only in the log and memory"),
  lost: count.describe("of them, those that cannot be found any more"),
  found_by_search: count.describe("of the recoverable, those a search of memory found, before it was compacted"),
  items: z
    .array(
      z.object({
        kind: FactKind.describe("what it is; work_state: a fact about the work, such as a failed command"),
        text: z.string().describe("the specific, word for word"),
        seq: count.describe("the message that said it"),
        status: SpecificStatus.describe("where it is now"),
      }),
    )
    .describe("at most 1,000 of them, what is lost first; the counts are of all"),
  invented: z
    .array(
      z.object({
        kind: z.string().describe("what it is"),
        text: z.string().describe("what was invented"),
        sentence: z.string().describe("the sentence that contains it"),
      }),
    )
    .describe("content of the summary that is in none of its sources"),
  invented_cut: z.boolean().describe("whether the sentences that hold it were cut from the summary"),
  unverified: z
    .array(z.string())
    .optional()
    .describe("sentences of the summary whose claims nothing proved, at most 100; older receipts have none"),
  doubtful: z
    .array(z.string())
    .optional()
    .describe("of the unverified, those that a source excludes or whose words no source has; older receipts have none"),
  pruned: z
    .array(
      z.object({
        seq: count.describe("the message that holds it"),
        tool_use_id: z.string().describe("the call it answers"),
        tokens: count.describe("its estimated tokens"),
      }),
    )
    .describe("tool results that stand in the context as a reference only; the log has them whole"),
});
export type Receipt = z.infer<typeof Receipt>;

/** A receipt as it is shown. */
export const ReceiptView = Receipt.extend({
  verdict: z.string().describe("what it comes to, in a few sentences: what is lost, recoverable and not checked"),
});
export type ReceiptView = z.infer<typeof ReceiptView>;

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

/** The state of the work when a context was compacted, computed from the log. */
export const WorkState = z.object({
  lines: z
    .array(
      z.object({
        seq: count.describe("The message whose call it reports."),
        text: z.string().describe("One fact: a running job, a task, a written file, a command with its exit code."),
      }),
    )
    .describe("The facts that follow the summary, the most relevant first."),
  left_out: count.describe("How many more facts did not fit."),
});
export type WorkState = z.infer<typeof WorkState>;

/** Threshold: the context grew to it. Overflow: it no longer fits the model. Manual: someone asked. Eviction: only tool output went. */
export const CompactionTrigger = z.enum(["threshold", "overflow", "manual", "eviction"]);
export type CompactionTrigger = z.infer<typeof CompactionTrigger>;

/** How far the kept messages had to be simplified for every provider to accept them. */
const Reshape = z.enum(["as_is", "without_reasoning", "text_only"]);
export type Reshape = z.infer<typeof Reshape>;

/** A provider's own compaction as the log keeps it. */
export const KeptNative = NativeFacts.extend({
  /** Where it was made: another server may go by the same names, and pass over what it does not know. */
  host: z.string().optional(),
  /** As the provider gave it. */
  item: z.record(z.string(), z.unknown()),
});
export type KeptNative = z.infer<typeof KeptNative>;
/** The strategy and the trigger of a compaction by which only tool output leaves the context. */
export const EVICTION = "eviction";

/** The tool by which a model reads an output again that has left its context. */
export const RECALL_OUTPUT = "recall_output";

/** Why a tool's output left the context without a summary. */
export const EvictionReason = z.enum(["superseded", "failed", "large"]);
export type EvictionReason = z.infer<typeof EvictionReason>;

/** What an eviction took out: how many outputs, and why. */
const Evicted = z.object({
  outputs: count.describe("tool outputs that became one line each"),
  superseded: count.describe("of them, those that the same call returned again later"),
  failed: count.describe("of them, those of calls of earlier turns that failed"),
  large: count.describe("of them, those that were old and large"),
  up_to_seq: count.describe("the message that holds the last of them; what is up to it is not evicted from again"),
});
export type Evicted = z.infer<typeof Evicted>;

/** What is recorded of a compaction, in the log and on every wire. */
export const CompactionFacts = {
  compaction_id: z.string().describe("its id"),
  created_at: z.string().describe("when it was created, in RFC 3339"),
  strategy: z
    .string()
    .describe("how the context was rebuilt: summary, cascade of two, or eviction of tool output alone"),
  trigger: CompactionTrigger.describe(
    "threshold: it grew; overflow: it no longer fits the model; manual: it was asked; eviction: before any of these",
  ),
  summary_by: z
    .enum(["model", "curator", "extractive", "none"])
    .describe(
      "what wrote the summary: a model; extractive: sentences of the conversation; none: only results were pruned",
    ),
  model: z.string().describe("the model that was called"),
  notes: z
    .array(z.string())
    .describe("anything out of the ordinary: why the summary is extractive, what was kept less of"),
  instructions: z.string().optional().describe("what the summary must not omit"),
  summary: z.string().describe("the summary of the removed messages"),
  summary_tokens: count.describe("the estimated tokens of the summary"),
  messages_before: count.describe("messages of the context before"),
  messages_after: count.describe("messages of the context after"),
  tokens_before: count.describe("the estimated tokens of the context"),
  tokens_after: count.describe("how large it is after, about; of a preview, with a summary of the usual length"),
  discarded: z.array(SeqRange).describe("the removed messages"),
  superseded: z.string().optional().describe("the earlier compaction whose summary this one's replaces"),
  reshape: Reshape.describe("how far the kept messages had to be simplified for every provider to accept them"),
  receipt: Receipt.describe("where the removed specifics are now"),
  rules: z
    .array(UserRule)
    .optional()
    .describe("rules of the user that left the context, oldest first; those that follow stand below the summary"),
  quoted: z
    .array(
      z.object({
        seq: count.describe("The message of a tool that says it."),
        text: z.string().describe("The sentence of the summary."),
      }),
    )
    .optional()
    .describe(
      "instructions that the summary took from the output of tools alone, which follow it as quotations; absent without any",
    ),
  work_state: WorkState.optional().describe("the state of the work, which follows the summary; absent without any"),
  evicted: Evicted.optional().describe("of an eviction: what it removed, and why"),
  judged: Judgement.optional().describe("what a judge found in the summary; only where one was asked"),
  native: NativeFacts.optional().describe("the provider's own compaction, which is kept beside the summary"),
  usage: Usage.describe("the usage of the summary"),
  economy: Economy.optional().describe("whether it pays; absent where no price of the model is known"),
  prepared: z
    .object({
      seq: count.describe("the entry since which it was ready"),
      at: z.string().describe("when it was made ready, in RFC 3339"),
    })
    .optional()
    .describe("that its summary was prepared in the background, before it was needed"),
  waited_ms: count
    .optional()
    .describe("how long the turn waited for the summary; only of sessions whose compactions are prepared"),
  cadence: CompactionCadence.describe("when it was, in the session's own boundaries"),
};

/** What a compaction is on every wire. */
export const Compaction = z.object({
  ...CompactionFacts,
  receipt: ReceiptView.describe("where the removed specifics are now"),
  native: NativeFacts.extend({
    refused: z.boolean().describe("whether the provider refused it since, so that the summary is sent"),
  })
    .optional()
    .describe("the provider's own compaction, which is kept beside the summary"),
  seq: count.describe("its number in the session's log"),
  kept: z.array(SeqRange).describe("the messages that stayed as they were"),
  undone: z.boolean().describe("whether it was undone"),
  expanded: z.array(SeqRange).describe("what was brought back into the context since"),
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
  /** Of one that was evicted: why. A pin or an expansion shows it whole again. */
  reason: EvictionReason.optional(),
});

/** Threshold: a context is compacted when it has grown to its threshold. Economy: when that is cheaper than continuing. */
const CompactionPolicy = z.enum(["threshold", "economy"], { error: "write threshold or economy" });
export type CompactionPolicy = z.infer<typeof CompactionPolicy>;

const yesOrNo = z.boolean({ error: "write true or false" });

/** What holds where neither the session nor the configuration sets it. */
export const COMPACTION_FALLBACKS = {
  recent_turn_budget: 4,
  max_summary_tokens: 4_096,
  min_turns_between_compactions: 3,
} as const;
const { recent_turn_budget, max_summary_tokens, min_turns_between_compactions } = COMPACTION_FALLBACKS;

/** What a session may ask for instead of the configuration's. */
export const CompactionSettings = z.strictObject({
  auto_compact_threshold: cliFlag(
    "--compact-threshold <tokens>",
    positive
      .optional()
      .describe(
        "compact a new session's context when it grows to this; without it, when that is cheaper than continuing, and at 80 % of the window (without a price at most 100,000 tokens)",
      )
      .meta({ examples: [100_000] }),
  ),
  recent_turn_budget: positive.optional().describe(`turns that stay word for word; without it, ${recent_turn_budget}`),
  max_summary_tokens: positive
    .optional()
    .describe(
      `the longest summary, in tokens; without it, ${max_summary_tokens}, or a quarter of the threshold of a small model`,
    ),
  work_state_tokens: nonnegative
    .optional()
    .describe(
      "the largest work state behind a summary, in tokens; 0 for none; without it, 600, or a tenth of a small threshold",
    ),
  min_turns_between_compactions: nonnegative
    .optional()
    .describe(`model calls between two compactions; without it, ${min_turns_between_compactions}`),
  evict: cliFlag(
    "--evict <true|false>",
    yesOrNo
      .optional()
      .describe(
        "whether a new session's tool output leaves the context before anything is summarised; it does unless false",
      ),
  ),
  evict_at: cliFlag(
    "--evict-at <share>",
    share
      .optional()
      .describe("evict from this share of the threshold on; without it, 0.6")
      .meta({ examples: [0.6] }),
  ),
  policy: cliFlag(
    "--compact-policy <policy>",
    CompactionPolicy.optional().describe(
      "retired; threshold: a new session's context is compacted at its threshold alone; economy: with a threshold, when that pays",
    ),
  ),
  prepare: cliFlag(
    "--compact-prepare",
    yesOrNo
      .optional()
      .describe(
        "prepare summaries of a new session in the background, before they are needed; the policy economy does unless false",
      ),
  ),
  prepare_at: share
    .optional()
    .describe("the share of the threshold at which a summary is prepared; without it, 0.8")
    .meta({ examples: [0.8] }),
});
export type CompactionSettings = z.infer<typeof CompactionSettings>;

/** How a runtime compacts: what a session may ask for, and what holds for all of its sessions. */
export const CompactionDefaults = CompactionSettings.extend({
  strategy: z
    .enum(["summary", "cascade"], { error: 'write one of "summary", "cascade"' })
    .optional()
    .describe("one summary, or one of the recent past and one of all before; without it, `summary`")
    .meta({ examples: ["cascade"] }),
  prune_tool_results: yesOrNo.optional().describe("large old tool results are shown as references, unless `false`"),
  cut_invented: yesOrNo
    .optional()
    .describe("what a summary says and its source does not is cut from it, unless `false`"),
  judge: z
    .enum(["off", "model"], { error: 'write one of "off", "model"' })
    .optional()
    .describe(
      "`model`: the session's model judges what a summary claims, in a call more for each compaction; without it, `off`",
    ),
  native: yesOrNo
    .optional()
    .describe(
      "`true`: a provider's own compaction is kept beside the summary and sent in its place, in a call more for each; without it, `false`",
    ),
});
export type CompactionDefaults = z.infer<typeof CompactionDefaults>;

const INSTRUCTIONS_CHARS_MAX = 20_000;

export const CompactNow = {
  preview: cliFlag(
    "--preview",
    z
      .boolean()
      .default(false)
      .describe("change nothing: return what would be kept and removed, and what it would cost"),
  ),
  instructions: cliFlag(
    "--instructions <text>",
    z
      .string()
      .max(INSTRUCTIONS_CHARS_MAX, { error: `write at most ${INSTRUCTIONS_CHARS_MAX} characters` })
      .optional()
      .describe("what the summary must not omit")
      .meta({ examples: ["keep every port"] }),
  ),
};

/** What came of asking for a compaction. A preview changes nothing: its compaction has no summary and a cost. */
export const CompactResult = z.object({
  compacted: z.boolean().describe("whether it was compacted"),
  reason: z.string().optional().describe("why nothing was compacted"),
  compaction: Compaction.extend({
    cost: z
      .object({
        input_tokens: count.describe("tokens the model would be shown"),
        max_output_tokens: count.describe("the longest summary it might write"),
      })
      .optional()
      .describe("of a preview: the expected usage"),
  })
    .optional()
    .describe("the compaction, or its preview"),
});
export type CompactResult = z.infer<typeof CompactResult>;

export const ExpandInput = {
  compaction_id: cliFlag(
    "CID",
    z.string().min(1, { error: "write the id of a compaction" }).describe("the compaction, by its id"),
  ),
  from_seq: cliFlag("--from <seq>", nonnegative.optional().describe("from the message with this seq on")),
  to_seq: cliFlag("--to <seq>", nonnegative.optional().describe("up to the message with this seq")),
  max_tokens: cliFlag(
    "--max-tokens <n>",
    positive.optional().describe("the maximum tokens to bring back; without it, up to the threshold"),
  ),
};

/** How the context stands after a change of what it shows. */
const ContextSize = {
  messages: count.describe("messages of the context now"),
  estimated_tokens: count.describe("its estimated tokens now"),
};

export const UndoResult = z.object({
  undone: z.literal(true).describe("that it is undone"),
  compaction_ids: z.array(z.string()).describe("the compaction and those made after it, which were built on it"),
  ...ContextSize,
});

export const ExpandResult = z.object({
  expanded: z.array(SeqRange).describe("the messages that were brought back"),
  left_out: z.array(SeqRange).describe("those that were asked for and did not fit max_tokens"),
  ...ContextSize,
});

export type ExpandResult = z.infer<typeof ExpandResult>;

export const PinResult = z.object({
  pinned: z.boolean().describe("whether the message is pinned now"),
  seq: count.describe("the message, by its seq"),
  pins: z.array(count).describe("every pinned message, by its seq"),
});

export const SummarySources = z.object({
  sentences: z
    .array(
      z.object({
        text: z.string().describe("the sentence, bullet or row, as it stands in the summary"),
        seqs: z.array(count).describe("the messages it comes from, by their seqs, the likeliest first; at most 4"),
        origin: z
          .enum(ORIGINS)
          .optional()
          .describe("the least trusted origin of these messages: user, model, import or tool; absent without messages"),
        doubt: z
          .enum(["invented", "doubtful"])
          .optional()
          .describe("invented: it says what no source says; doubtful: a source excludes it, or none has its words"),
      }),
    )
    .describe("the sentences of the summary in their order, headings left out; no seqs where no message says it"),
});

/** Which entries say less than they did, and of what they said a hash under a key that was destroyed. */
export const Forgotten = {
  forgetting_id: z.string(),
  holes: z.array(SeqRange.extend({ mac: z.string() })),
};

/** What stands where something was forgotten. */
export const FORGOTTEN = "[forgotten]";
/** The same where the text was shorter. */
export const FORGOTTEN_SHORT = "…";
export const FORGOTTEN_SHORTER = "-";
