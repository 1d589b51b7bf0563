import { Forgotten, Receipt, ReceiptView } from "./compaction.ts";
import { Usage } from "./event.ts";
import { cliFlag, positive } from "./input.ts";
import { fieldOf, z } from "./schema.ts";

const count = z.number().int().nonnegative();
const share = z.number().min(0).max(1);

/** The receipts of both summaries of a compaction. */
const TierReceipts = z.object({ recent: Receipt, longterm: Receipt.optional() });

/** A receipt in numbers. */
const ReceiptCounts = z.object({
  total: count.describe("specifics of its sources"),
  in_summary: count.describe("of them, those in the summary"),
  in_tail: count.describe("of them, those the other summary or a memory that is still shown says"),
  recoverable: count.describe("of them, those only in the log and memory"),
  lost: count.describe("of them, those that cannot be found any more"),
  invented: count.describe("content that is in none of its sources"),
  unverified: count.describe("sentences of it whose claims nothing proved"),
  verdict: z.string().describe("what it comes to, in a few sentences"),
});

/** How a long-term summary stands to what it was made of: the two summaries before it, or, made anew, the waterfall. */
export const LongtermQuality = z.object({
  sources: count.describe("specifics of its sources"),
  kept: count.describe("of them, those in the summary"),
  attainable: count.describe("of them, those that sentences of what it was made of say in the same room"),
  invented: count.describe("sentences that say what none of its sources says and were not cut"),
  shrinkage: z.number().nonnegative().describe("its length divided by that of its sources"),
  quality: share.describe(
    "what is kept of what could be, multiplied over all steps since it was last held against the short-term summaries",
  ),
});
export type LongtermQuality = z.infer<typeof LongtermQuality>;

/** What came of holding a long-term summary against the waterfall: every short-term summary there was. */
export const Remaking = z.object({
  outcome: z
    .enum(["remade", "not_needed", "not_better", "failed"])
    .describe(
      "remade: it was made anew of them and that one stands; not_needed: it keeps what can be kept of them; " +
        "not_better: made anew it would keep no more; failed: it could not be made anew",
    ),
  quality_before: share.describe("the quality that had it held against them"),
  summaries: count.describe("short-term summaries it was held against"),
  specifics: count.describe("specifics of theirs"),
  kept_before: count.describe("of them, those it said before"),
  kept_remade: count.optional().describe("of them, those it says when made anew"),
  steps: count.describe("calls of the model that it took"),
  reason: z.string().optional().describe("why it failed"),
});
export type Remaking = z.infer<typeof Remaking>;

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

/** The model that was asked, and who asked for it by name. */
const spender = { model: z.string().optional(), by: z.string().optional() };

/** What one record of an agent's log says. Memories are numbered from 1, without a gap; each is one record's entry. */
export const AgentEntryBody = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("memory_added"),
    /** The agent's name stands in every memory: the log alone identifies the agent. */
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
    ...spender,
    forced: z.boolean(),
    /** The compaction before this one, by its seq: how the waterfall is followed back without reading the memories between. */
    previous_seq: number.optional(),
    /** What became of what each summary stands for. Absent in logs of before receipts were written, as is all below. */
    receipts: TierReceipts.optional(),
    quality: LongtermQuality.optional(),
    remaking: Remaking.optional(),
    notes: z.array(z.string()).optional(),
  }),
  /** Both tiers stay as they were; it is tried again at the next memory. */
  z.object({
    kind: z.literal("tiers_failed"),
    at_count: count,
    error: z.string(),
    usage: Usage.optional(),
    ...spender,
  }),
  /** What entries before this one said was forgotten; the summaries are these from here on. */
  z.object({
    kind: z.literal("forgotten"),
    agent: z.string(),
    ...Forgotten,
    recent: Tier.optional(),
    longterm: Tier.optional(),
    last_error: z.string().optional(),
  }),
]);
export type AgentEntryBody = z.infer<typeof AgentEntryBody>;
export type AgentEntryBodyOf<K extends AgentEntryBody["kind"]> = Extract<AgentEntryBody, { kind: K }>;

const NAME_CHARS_MAX = 64;
const CONTENT_CHARS_MAX = 1_000_000;
const named = {
  error: `write a name of letters, digits, "_" and "-", beginning with a letter or digit, of at most ${NAME_CHARS_MAX} characters`,
};

/** A name is also the name of a folder, so it can never be a path. */
export const AgentName = cliFlag(
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
  content: cliFlag("TEXT", text("what to remember").describe("the memory, as a text")),
  metadata: cliFlag(
    "--metadata <json>",
    MemoryMetadata.optional()
      .describe("facts to store with it, as a JSON object")
      .meta({ examples: [{ place: "garden" }] }),
  ),
});

export const Remembered = z.object({
  count: count.describe("how many memories the agent has now"),
  compaction_due: z.boolean().describe("whether a compaction became due, which then runs in the background"),
});

export const TakeNote = z.strictObject({
  agent: AgentName,
  content: cliFlag("TEXT", text("the note").describe("the note itself")),
  title: cliFlag("--title <text>", text("a title, or leave it out").optional().describe("what it is about")),
});

/** A memory as it was given. */
const AgentMemoryItem = z.object({
  seq: count.describe("its number; the first is 1"),
  content: z.string().describe("the memory, word for word"),
  created_at: z.string().describe("when it was added, in RFC 3339"),
  metadata: MemoryMetadata.optional().describe("the facts kept with it"),
});

export const ReadAgentContext = z.strictObject({
  agent: AgentName,
  immediate: cliFlag(
    "--immediate <n>",
    positive
      .optional()
      .describe("the number of the newest memories; without it, all that no summary covers, at least 64"),
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
  compacted: z.boolean().describe("whether it was compacted"),
  reason: z.string().optional().describe("why not"),
  ...summaries,
});
export type AgentCompacted = z.infer<typeof AgentCompacted>;

export const AgentStatus = z.object({
  agent: z.string().describe("its name"),
  count: count.describe("the number of memories"),
  notes: count.describe("the number of private notes"),
  immediate_window: count.describe("the configured number of memories that are shown word for word"),
  recent_window: count.describe("the configured number of memories of the short-term summary"),
  immediate_count: count.describe("memories no summary covers: what a context shows word for word"),
  ...summaries,
  recent_range: Covered.optional().describe("the memories that the short-term summary covers"),
  longterm_range: Covered.optional().describe("the memories that the long-term summary covers"),
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

const COMPACTIONS_DEFAULT = 50;
const COMPACTIONS_MAX = 200;

export const ReadAgentHistory = z.strictObject({
  agent: AgentName,
  limit: cliFlag(
    "--limit <n>",
    positive
      .default(COMPACTIONS_DEFAULT)
      .transform((limit) => Math.min(limit, COMPACTIONS_MAX))
      .describe(`the maximum number of compactions: ${COMPACTIONS_DEFAULT} by default, ${COMPACTIONS_MAX} at most`),
  ),
  before_seq: cliFlag("--before <seq>", positive.optional().describe("only summaries before the one with this seq")),
});

export const AgentHistory = z.object({
  summaries: z
    .array(
      z.object({
        seq: count.describe("its number in the agent's log; both summaries of a compaction have the same"),
        created_at: z.string().describe("when it was created, in RFC 3339"),
        tier: z.enum(["recent", "longterm"]).describe("recent: the short-term summary; longterm: the long-term one"),
        from: count.describe("the number of the first memory that it covers"),
        to: count.describe("the number of the last, which is in"),
        summary: z.string().describe("the summary itself"),
        by: fieldOf(Tier, "by").describe("what wrote it: a model; extractive: sentences of its sources"),
        receipt: ReceiptCounts.optional().describe(
          "its receipt in numbers; absent for summaries of versions without receipts",
        ),
        quality: LongtermQuality.optional().describe("of a long-term summary: its quality, compared with its sources"),
        remaking: Remaking.optional().describe(
          "of a long-term summary, the attempt to make it anew; absent without one",
        ),
      }),
    )
    .describe("the summaries, newest first"),
  next_before_seq: count.optional().describe("before_seq of the page of older ones; absent where there are none"),
});
export type AgentHistory = z.infer<typeof AgentHistory>;

export const ReadAgentReceipt = z.strictObject({
  agent: AgentName,
  seq: cliFlag(
    "--seq <n>",
    positive
      .optional()
      .describe("the compaction with this seq in the agent's log, as its history has it; without it, the last"),
  ),
});

const TierWithReceipt = z.object({
  from: count.describe("the number of the first memory that it covers"),
  to: count.describe("the number of the last, which is in"),
  summary: z.string().describe("the summary itself"),
  by: fieldOf(Tier, "by").describe("what wrote it: a model; extractive: sentences of its sources"),
  receipt: ReceiptView.optional().describe(
    "what became of the specifics of what it sums up, each with the number of the memory that said it; in_tail: said by the " +
      "other summary or by a memory that is still shown; absent of compactions of before there were receipts",
  ),
});

export const AgentReceipt = z.object({
  seq: count.describe("the compaction's number in the agent's log"),
  created_at: z.string().describe("when it was created, in RFC 3339"),
  at_count: count.describe("how many memories there were when it became due"),
  forced: z.boolean().describe("whether it was requested"),
  model: z.string().optional().describe("the model that was called; absent without one"),
  usage: Usage.describe("its usage"),
  notes: z.array(z.string()).describe("anything out of the ordinary: what was refused, why a summary is extractive"),
  recent: TierWithReceipt.describe("the short-term summary, of memories"),
  longterm: TierWithReceipt.optional().describe(
    "the long-term summary, of both summaries before; absent the first time",
  ),
  quality: LongtermQuality.optional().describe("the quality of the long-term summary, compared with its sources"),
  remaking: Remaking.optional().describe("the attempt to make the long-term summary anew; absent without one"),
});
export type AgentReceipt = z.infer<typeof AgentReceipt>;

const READS = { scope: "read", sees: "project", requires: "session-store" } as const;
const ADDS = { ...READS, scope: "run", audited: false, effect: "adds" } as const;

/** The rows of the table about agents. */
export const AGENT_OPERATIONS = {
  remember: {
    summary: "Add a memory to an agent; a compaction that becomes due runs in the background.",
    input: Remember,
    output: Remembered,
    rpc: "agent/remember",
    http: "POST /agents/{agent}/memories",
    mcp: "agent_remember",
    mcpMemory: true,
    cli: "rkat agent remember NAME TEXT",
    ...ADDS,
  },
  takeNote: {
    summary: "Keep a private note of an agent, which its context shows when it is relevant.",
    input: TakeNote,
    output: z.object({ notes: z.number().int().describe("how many notes the agent has now") }),
    rpc: "agent/note",
    method: "note",
    http: "POST /agents/{agent}/notes",
    mcp: "agent_note",
    mcpMemory: true,
    mcpListed: false,
    cli: "rkat agent note NAME TEXT",
    ...ADDS,
  },
  readAgentContext: {
    summary: "Read an agent's context: both summaries, the newest memories, and all of it as a prompt.",
    input: ReadAgentContext,
    output: AgentContext,
    rpc: "agent/context",
    method: "context",
    http: "GET /agents/{agent}/context",
    mcp: "agent_context",
    mcpMemory: true,
    cli: "rkat agent context NAME",
    ...READS,
  },
  compactAgent: {
    summary: "Compact an agent's memories now, whether or not it is due.",
    input: OneAgent,
    output: AgentCompacted,
    rpc: "agent/compact",
    method: "compact",
    http: "POST /agents/{agent}/compact",
    mcp: "agent_compact",
    mcpMemory: true,
    cli: "rkat agent compact NAME",
    ...ADDS,
    runs: "agent_compaction",
  },
  readAgentStatus: {
    summary: "Show the state of an agent's memory: counts, tiers, summaries, the last compaction and the next.",
    input: OneAgent,
    output: AgentStatus,
    rpc: "agent/status",
    method: "status",
    http: "GET /agents/{agent}",
    mcp: "agent_status",
    mcpMemory: true,
    cli: "rkat agent status NAME",
    ...READS,
  },
  readAgentHistory: {
    summary: "Read all summaries of an agent's memories, newest first.",
    input: ReadAgentHistory,
    output: AgentHistory,
    rpc: "agent/history",
    method: "history",
    http: "GET /agents/{agent}/history",
    mcp: "agent_history",
    mcpListed: false,
    cli: "rkat agent history NAME",
    ...READS,
  },
  readAgentReceipt: {
    summary:
      "Read what a compaction of an agent kept, removed or lost, what its summaries invented, and their quality.",
    input: ReadAgentReceipt,
    output: AgentReceipt,
    rpc: "agent/receipt",
    method: "receipt",
    http: "GET /agents/{agent}/receipt",
    mcp: "agent_receipt",
    mcpListed: false,
    cli: "rkat agent receipt NAME",
    ...READS,
  },
  listAgents: {
    summary: "List the agents of this project, by name.",
    input: z.strictObject({}),
    output: z.object({ agents: z.array(AgentSummary).describe("the agents, by name") }),
    rpc: "agent/list",
    http: "GET /agents",
    mcp: "agent_list",
    mcpMemory: true,
    mcpListed: false,
    cli: "rkat agent list",
    ...READS,
  },
} as const;
