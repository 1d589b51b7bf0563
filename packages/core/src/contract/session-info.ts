import { CompactionCadence } from "./compaction.ts";
import { BudgetType, Usage } from "./event.ts";
import { nonnegative, positive } from "./input.ts";
import { Message } from "./message.ts";
import { Cost } from "./money.ts";
import { z } from "./schema.ts";
import { Delegated, Named } from "./session.ts";

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
