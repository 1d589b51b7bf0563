import { cliFlag, positive } from "./input.ts";
import { z } from "./schema.ts";
import { SessionId } from "./session.ts";
import { SeqMessages } from "./session-info.ts";

const whole = z.number().int();

export const ReadContext = z.strictObject({
  session_id: SessionId,
  at_seq: cliFlag("--at <seq>", positive.optional().describe("at the model call with this seq, as in events")),
});

const PartKind = z.enum(["system", "summary", "pinned", "expanded", "turn", "tool_output", "evicted", "memory"]);
export type PartKind = z.infer<typeof PartKind>;

/** How much of a context is of each kind. */
export const ContextKinds = z.array(
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
        kind: z.string().describe("system, summary, pinned, expanded or turn"),
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
