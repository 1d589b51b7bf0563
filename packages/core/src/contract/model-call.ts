import { CompactionTrigger } from "./compaction.ts";
import { Usage } from "./event.ts";
import { cliFlag, positive } from "./input.ts";
import { Cost } from "./money.ts";
import { z } from "./schema.ts";
import { SessionId } from "./session.ts";
import { ContextKinds } from "./session-context.ts";

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
