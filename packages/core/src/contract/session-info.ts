import { CompactionCadence, CompactionTrigger } from "./compaction.ts";
import { BudgetType, Usage } from "./event.ts";
import { cliFlag, nonnegative, parseDuration, positive } from "./input.ts";
import { Message } from "./message.ts";
import { Cost } from "./money.ts";
import { z } from "./schema.ts";
import { Delegated, Named, SessionId } from "./session.ts";

const whole = z.number().int();
const unixSeconds = whole.nonnegative();

/** What is known of a session without its transcript. */
const Known = {
  ...Named,
  created_at: unixSeconds.describe("when it was made, in seconds of Unix time"),
  updated_at: unixSeconds.describe("when it last changed, in seconds of Unix time"),
  message_count: whole.describe("messages of its transcript"),
  total_tokens: whole.describe("input and output tokens of all its model calls"),
  cost: Cost.optional().describe("what all its model calls cost; absent where no price is known"),
  is_active: z.boolean().describe("whether it runs a turn"),
  state: z
    .enum(["idle", "running", "waiting", "interrupted", "failed", "archived"])
    .describe(
      "waiting: for approval of tool calls; interrupted: its process ended within a turn, which another process can finish; failed: its last turn ended with an error",
    ),
  model: z.string().describe("the model it asks"),
  labels: z.record(z.string(), z.string()).optional().describe("the labels it was made with"),
};

export const SessionSummary = z.object({
  ...Known,
  title: z.string().describe("the beginning of the first thing the user said; empty before"),
});
export type SessionSummary = z.infer<typeof SessionSummary>;

const UnfinishedTurn = z.object({
  since: z.string().describe("when its last entry was written"),
  attempt: whole.nonnegative().describe("how many processes have run it"),
  missing: z
    .array(z.string())
    .optional()
    .describe("what the process that answers lacks to continue the turn; absent where it lacks nothing"),
});
export type UnfinishedTurn = z.infer<typeof UnfinishedTurn>;

export const SessionInfo = z.object({
  ...Known,
  provider: z.string().describe("who serves the model"),
  title: z.string().describe("the beginning of the first thing the user said; empty before"),
  usage: Usage.optional().describe("what the tokens are made of; absent for a session of before that was kept"),
  delegated: Delegated.optional(),
  budgets: z
    .array(
      z.object({
        type: BudgetType.describe("what is limited"),
        limit: z.number().describe("how much there is: tokens, milliseconds of a turn, calls, or US dollars"),
        used: z.number().optional().describe("how much of it is used; absent for time, which each turn has anew"),
      }),
    )
    .optional()
    .describe("the limits it was made with; absent without any, and for a session of before that was kept"),
  unfinished_turn: UnfinishedTurn.optional().describe(
    "the turn whose process ended before it did; turn/finish continues it; absent where there is none",
  ),
  last_assistant_text: z.string().optional().describe("what the assistant said last"),
  session_compaction_cadence: CompactionCadence.optional().describe("when it was compacted, in its own boundaries"),
});
export type SessionInfo = z.infer<typeof SessionInfo>;

export const SeqMessages = z.array(
  z.intersection(Message, z.object({ seq: whole.describe("its number in the session's log") })),
);

export const MessagePage = {
  limit: positive.optional().describe("show at most so many messages"),
  offset: nonnegative.default(0).describe("leave out the oldest so many"),
};

export const SessionHistory = z.object({
  ...Named,
  message_count: whole.describe("messages of the whole transcript"),
  offset: whole.describe("how many of the oldest were left out"),
  limit: whole.optional().describe("how many were asked for at most"),
  has_more: z.boolean().describe("whether newer ones follow"),
  messages: SeqMessages.describe("the messages, oldest first"),
});
export type SessionHistory = z.infer<typeof SessionHistory>;

export const ForkedSession = z.object({
  source_session_id: z.string().describe("the session it was made of"),
  ...Named,
  message_count: whole.describe("messages the new session begins with"),
});

export const ListSessions = z.object({
  limit: cliFlag("--limit <n>", positive.optional().describe("show at most so many")),
  offset: cliFlag("--offset <n>", nonnegative.default(0).describe("leave out the newest so many")),
  labels: cliFlag(
    "--label <key=value>",
    z.record(z.string(), z.string()).optional().describe("only sessions with these labels"),
  ),
  archived: cliFlag("--archived", z.boolean().default(false).describe("archived sessions, too")),
  cursor: cliFlag(
    "--cursor <cursor>",
    z
      .string()
      .optional()
      .describe(
        "go on where an earlier answer ended: its next_cursor, without an offset; no session comes twice, and one that changes meanwhile moves to the front and may be missed",
      ),
  ),
});

export const SessionPage = z.object({
  sessions: z.array(SessionSummary).describe("the sessions, the one that changed last first"),
  next_cursor: z
    .string()
    .optional()
    .describe("the cursor of the next page; only with a limit, where more sessions follow"),
});

export const ReadContext = z.strictObject({
  session_id: SessionId,
  at_seq: cliFlag("--at <seq>", positive.optional().describe("at the model call with this seq, as in events")),
});

const PartKind = z.enum([
  "system",
  "summary",
  "work_state",
  "pinned",
  "expanded",
  "turn",
  "tool_output",
  "evicted",
  "memory",
]);
export type PartKind = z.infer<typeof PartKind>;

/** How much of a context is of each kind. */
const ContextKinds = z.array(
  z.object({
    kind: PartKind.describe(
      "what it is; of the turns, tool_output is what tools gave, evicted the lines that stand for what they gave, memory what was recalled by them",
    ),
    tokens: whole.describe("how large it is, about"),
  }),
);

/** What the model is shown. */
export const SessionContext = z.object({
  messages: SeqMessages.describe("what the model is shown, in its order"),
  estimated_tokens: whole.describe("how large it is, about"),
  sha256: z.string().describe("the hash of it, as recorded with the call when it was made"),
  parts: z
    .array(
      z.object({
        kind: z
          .string()
          .describe("system, summary, work_state (the end of the summary's message), pinned, expanded or turn"),
        seqs: z.tuple([whole, whole]).describe("the first and the last seq of its messages"),
        estimated_tokens: whole.describe("how large it is, about"),
      }),
    )
    .describe("what the context is made of, in the order of the messages"),
  kinds: ContextKinds.describe("what fills it, each kind once; together it is estimated_tokens"),
  evicted: z
    .object({
      outputs: whole.describe("tool outputs of which one line is shown each"),
      tokens: whole.describe("how large they are in the log, about"),
    })
    .optional()
    .describe(
      "what stands in the context as one line each, which recall_output shows whole; absent where nothing does",
    ),
  forgotten: z
    .array(whole)
    .optional()
    .describe("seqs of what is shown that was forgotten since, in whole or in part: the recorded hash is not of this"),
  tools: z
    .array(z.string())
    .describe("the names of the tools its next turn is offered here, as far as servers are connected"),
  tool_tokens: whole.describe("what the tools' descriptions add to every request, about"),
  context_window: whole.optional().describe("tokens the model can see at once, when that is known"),
  auto_compact_threshold: whole
    .optional()
    .describe("the size at which the context is compacted; absent without session-compaction"),
});
export type SessionContext = z.infer<typeof SessionContext>;

const count = z.number().int().nonnegative();

const CALLS_DEFAULT = 200;
const CALLS_MAX = 1_000;

const ListModelCalls = z.strictObject({
  session_id: SessionId,
  limit: cliFlag(
    "--limit <n>",
    positive
      .default(CALLS_DEFAULT)
      .transform((limit) => Math.min(limit, CALLS_MAX))
      .describe(`show at most so many: ${CALLS_DEFAULT} without it, ${CALLS_MAX} at most`),
  ),
  before_seq: cliFlag("--before <seq>", positive.optional().describe("only calls before the one with this seq")),
});

const ModelCall = z.object({
  seq: count.describe("its number in the session's log; readContext shows with at_seq what it was shown"),
  turn: count.describe("the session's turn it was made in, from 1"),
  at: z.string().describe("when it was made, in RFC 3339"),
  model: z.string().describe("the model that was called"),
  tokens: count.describe("how large the context was that it was shown, about; the sum of the parts"),
  tool_tokens: count.describe(
    "what the descriptions of its tools added, about; of calls of before that was kept, of the tools the session has now",
  ),
  parts: ContextKinds.describe("what filled the context, each kind once"),
  context_window: count.optional().describe("tokens the model can see at once, when that is known"),
  threshold: count.optional().describe("the size at which the context is compacted; absent without session-compaction"),
  usage: Usage.optional().describe("its usage, failed attempts included; absent where the provider reports none"),
  cost: Cost.optional().describe("what that cost; absent where no price is known"),
});

export const ModelCalls = z.object({
  calls: z.array(ModelCall).describe("the calls, oldest first"),
  compactions: z
    .array(
      z.object({
        seq: count.describe("its number in the session's log"),
        compaction_id: z.string().describe("its id"),
        tokens_before: count.describe("how large the context was, about"),
        tokens_after: count.describe("how large it was after, about"),
        trigger: CompactionTrigger.optional().describe(
          "why it was made, where the server tells; eviction: only tool output became one line each",
        ),
        undone: z.boolean().describe("whether it was undone since"),
      }),
    )
    .describe("the compactions among these calls, oldest first; each is in one page"),
  next_before_seq: count.optional().describe("before_seq of the page of older calls; absent where there are none"),
});
export type ModelCalls = z.infer<typeof ModelCalls>;

/** The row of the table about a session's model calls. */
export const MODEL_CALL_OPERATIONS = {
  listModelCalls: {
    summary: "List a session's model calls with what filled the context of each, the newest, oldest first.",
    input: ListModelCalls,
    output: ModelCalls,
    rpc: "session/model_calls",
    method: "modelCalls",
    http: "GET /sessions/{session_id}/model_calls",
    mcp: "meerkat_model_calls",
    mcpListed: false,
    cli: "rkat session calls ID",
    scope: "read",
    requires: "session-store",
  },
} as const;

const when = { error: "write how far back, like 7d, or a day, like 2026-11-01" };
const DAY = z.iso.date();

const By = z.enum(["model", "label", "day", "token"], { error: "write model, label, day or token" });

const ReadUsage = z.strictObject({
  by: cliFlag(
    "--by <what>",
    By.default("model").describe("what it is told apart by: model, label, day (UTC), or the token that asked"),
  ),
  since: cliFlag(
    "--since <when>",
    z
      .string(when)
      .refine((text) => DAY.safeParse(text).success || (parseDuration(text) ?? 0) > 0, when)
      .optional()
      .describe("only from this day on: how far back, such as 7d, or a day, such as 2026-11-01")
      .meta({ examples: ["7d"] }),
  ),
  labels: cliFlag(
    "--label <key=value>",
    z.record(z.string(), z.string()).optional().describe("only sessions with these labels"),
  ),
});

const sums = {
  calls: z.number().int().nonnegative().describe("model calls; a compaction counts as one, whatever it took"),
  usage: Usage.describe("the tokens of those calls, and what they cost"),
};

export const UsageReport = z.object({
  by: By.describe("what it is told apart by"),
  since: z.string().optional().describe("the first day that is counted; absent for all days"),
  groups: z
    .array(
      z.object({
        key: z.string().describe("the model, the label as key=value, the day, or the token; empty for none"),
        ...sums,
      }),
    )
    .describe("the dearest first, days in their order; a session with two labels is counted under both"),
  total: z.object(sums).describe("all of it, each call once"),
});
export type UsageReport = z.infer<typeof UsageReport>;

/** The rows of the table about what was used. */
export const USAGE_OPERATIONS = {
  readUsage: {
    summary: "Sum up what models were used, with their tokens and cost, over all sessions and agents.",
    input: ReadUsage,
    output: UsageReport,
    rpc: "usage/read",
    http: "GET /usage",
    mcp: "meerkat_usage",
    mcpListed: false,
    cli: "rkat usage",
    scope: "read",
    sees: "own",
    requires: "session-store",
  },
} as const;
