import { CompactionCadence, CompactionTrigger } from "./compaction.ts";
import { BudgetType, Usage } from "./event.ts";
import { cliFlag, nonnegative, parseDuration, positive } from "./input.ts";
import { Message } from "./message.ts";
import { Cost } from "./money.ts";
import { z } from "./schema.ts";
import { Delegated, Named, SessionId } from "./session.ts";
import { GoalPhase, GoalState } from "./wire/goal.ts";

const whole = z.number().int();
const unixSeconds = whole.nonnegative();

/** What is known of a session without its transcript. */
const Known = {
  ...Named,
  created_at: unixSeconds.describe("when it was created, in seconds of Unix time"),
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
  model: z.string().describe("its model"),
  labels: z.record(z.string(), z.string()).optional().describe("its labels"),
};

export const SessionSummary = z.object({
  ...Known,
  goal_phase: GoalPhase.optional(),
  title: z.string().describe("the beginning of the user's first message; empty before"),
});
export type SessionSummary = z.infer<typeof SessionSummary>;

const UnfinishedTurn = z.object({
  since: z.string().describe("when its last entry was written"),
  attempt: whole.nonnegative().describe("the number of processes that have run it"),
  missing: z
    .array(z.string())
    .optional()
    .describe("what this process lacks to continue the turn; absent if it lacks nothing"),
});
export type UnfinishedTurn = z.infer<typeof UnfinishedTurn>;

export const SessionInfo = z.object({
  ...Known,
  provider: z.string().describe("the provider of the model"),
  title: z.string().describe("the beginning of the user's first message; empty before"),
  usage: Usage.optional().describe("the tokens by kind; absent for sessions of versions that did not record it"),
  delegated: Delegated.optional(),
  budgets: z
    .array(
      z.object({
        type: BudgetType.describe("what is limited"),
        limit: z.number().describe("the limit: tokens, milliseconds of a turn, calls, or US dollars"),
        used: z
          .number()
          .optional()
          .describe("how much of it is used; absent for time, which starts anew with each turn"),
      }),
    )
    .optional()
    .describe("its limits; absent without any, and for sessions of versions that did not record them"),
  unfinished_turn: UnfinishedTurn.optional().describe(
    "the turn whose process ended before it did; turn/finish continues it; absent where there is none",
  ),
  goal: GoalState.optional().describe("its newest goal; absent where there was none"),
  last_assistant_text: z.string().optional().describe("the last text of the assistant"),
  session_compaction_cadence: CompactionCadence.optional().describe("when it was compacted, in its own boundaries"),
});
export type SessionInfo = z.infer<typeof SessionInfo>;

export const SeqMessages = z.array(
  z.intersection(Message, z.object({ seq: whole.describe("its number in the session's log") })),
);

export const MessagePage = {
  limit: positive.optional().describe("the maximum number of messages"),
  offset: nonnegative.default(0).describe("skip this many of the oldest"),
};

export const SessionHistory = z.object({
  ...Named,
  message_count: whole.describe("messages of the whole transcript"),
  offset: whole.describe("how many of the oldest were skipped"),
  limit: whole.optional().describe("the requested maximum"),
  has_more: z.boolean().describe("whether newer ones follow"),
  messages: SeqMessages.describe("the messages, oldest first"),
});
export type SessionHistory = z.infer<typeof SessionHistory>;

export const ForkedSession = z.object({
  source_session_id: z.string().describe("the session it was made of"),
  ...Named,
  message_count: whole.describe("the number of messages the new session begins with"),
});

export const ListSessions = z.object({
  limit: cliFlag("--limit <n>", positive.optional().describe("the maximum number of sessions")),
  offset: cliFlag("--offset <n>", nonnegative.default(0).describe("skip this many of the newest")),
  labels: cliFlag(
    "--label <key=value>",
    z.record(z.string(), z.string()).optional().describe("only sessions with these labels"),
  ),
  archived: cliFlag("--archived", z.boolean().default(false).describe("include archived sessions")),
  cursor: cliFlag(
    "--cursor <cursor>",
    z
      .string()
      .optional()
      .describe(
        "continue where an earlier answer ended: its next_cursor, without an offset; no session comes twice, and one that changes meanwhile moves to the front and may be missed",
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
  "agents_md",
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
    tokens: whole.describe("its estimated tokens"),
  }),
);

/** What the model is shown. */
export const SessionContext = z.object({
  messages: SeqMessages.describe("the messages that the model sees, in order"),
  estimated_tokens: whole.describe("its estimated tokens"),
  sha256: z.string().describe("the hash of it, as recorded with the call when it was made"),
  parts: z
    .array(
      z.object({
        kind: z
          .string()
          .describe(
            "system, summary, work_state (the end of the summary's message), agents_md, pinned, expanded or turn",
          ),
        seqs: z.tuple([whole, whole]).describe("the first and the last seq of its messages"),
        estimated_tokens: whole.describe("its estimated tokens"),
      }),
    )
    .describe("what the context is made of, in the order of the messages"),
  kinds: ContextKinds.describe("what fills it, each kind once; together it is estimated_tokens"),
  evicted: z
    .object({
      outputs: whole.describe("tool outputs of which one line is shown each"),
      tokens: whole.describe("their estimated tokens in the log"),
    })
    .optional()
    .describe(
      "tool outputs that the context shows as one line each; recall_output returns them whole; absent without any",
    ),
  forgotten: z
    .array(whole)
    .optional()
    .describe("seqs of messages that were erased since, in whole or in part: the recorded hash is of the original"),
  tools: z
    .array(z.string())
    .describe("the names of the tools its next turn is offered here, as far as servers are connected"),
  tool_tokens: whole.describe("the estimated tokens of the tools' descriptions in every request"),
  context_window: whole.optional().describe("tokens the model can see at once, when that is known"),
  auto_compact_threshold: whole
    .optional()
    .describe(
      "the size at which the context is compacted, by its threshold or because that is cheaper than continuing; absent without session-compaction",
    ),
  next_call_cost: z
    .number()
    .nonnegative()
    .optional()
    .describe("what the next call pays for this context and the tools, about, in US dollars; absent without a price"),
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
      .describe(`the maximum number of calls: ${CALLS_DEFAULT} by default, ${CALLS_MAX} at most`),
  ),
  before_seq: cliFlag("--before <seq>", positive.optional().describe("only calls before the one with this seq")),
});

const ModelCall = z.object({
  seq: count.describe("its number in the session's log; readContext shows with at_seq what it was shown"),
  turn: count.describe("its turn, from 1"),
  at: z.string().describe("when it was created, in RFC 3339"),
  model: z.string().describe("the model that was called"),
  tokens: count.describe("the estimated tokens of its context; the sum of the parts"),
  tool_tokens: count.describe(
    "the estimated tokens of its tools' descriptions; for calls of versions that did not record it, of the session's current tools",
  ),
  parts: ContextKinds.describe("what filled the context, each kind once"),
  context_window: count.optional().describe("tokens the model can see at once, when that is known"),
  threshold: count.optional().describe("the size at which the context is compacted; absent without session-compaction"),
  usage: Usage.optional().describe("its usage, including failed attempts; absent if the provider reports none"),
  cost: Cost.optional().describe("what that cost; absent where no price is known"),
});

export const ModelCalls = z.object({
  calls: z.array(ModelCall).describe("the calls, oldest first"),
  compactions: z
    .array(
      z.object({
        seq: count.describe("its number in the session's log"),
        compaction_id: z.string().describe("its id"),
        tokens_before: count.describe("the estimated tokens of the context"),
        tokens_after: count.describe("the estimated tokens after it"),
        trigger: CompactionTrigger.optional().describe(
          "why it was made, where the server reports it; eviction: only tool output became one line each",
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
    summary: "List a session's newest model calls, oldest first, with what filled the context of each.",
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
    By.default("model").describe("what usage is grouped by: model, label, day (UTC), or the token of the caller"),
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
  by: By.describe("what usage is grouped by"),
  since: z.string().optional().describe("the first day that is counted; absent for all days"),
  groups: z
    .array(
      z.object({
        key: z.string().describe("the model, the label as key=value, the day, or the token; empty for none"),
        ...sums,
      }),
    )
    .describe("the most expensive first, days in order; a session with two labels is counted under both"),
  total: z.object(sums).describe("all of it, each call once"),
});
export type UsageReport = z.infer<typeof UsageReport>;

/** The rows of the table about what was used. */
export const USAGE_OPERATIONS = {
  readUsage: {
    summary: "Sum up the model calls, tokens and cost of all sessions and agents.",
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
