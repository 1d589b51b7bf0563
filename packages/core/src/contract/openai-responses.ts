import { COMMON, Format, outputTokens, PartedContent, ToolChoice, Tools, unserved } from "./openai.ts";
import { z } from "./schema.ts";

const said = z.looseObject({
  type: z.literal("message").default("message"),
  role: z.enum(["user", "assistant", "system", "developer"], {
    error: "write user, assistant, system or developer",
  }),
  content: PartedContent,
});
export type SaidItem = z.infer<typeof said>;

const call_id = z.string().min(1);

/** What stands in an input. Items that only tell how an answer came about are taken and left out. */
export const InputItem = z.union(
  [
    said,
    z.looseObject({ type: z.literal("function_call"), call_id, name: z.string().min(1), arguments: z.string() }),
    z.looseObject({ type: z.literal("function_call_output"), call_id, output: PartedContent }),
    z.looseObject({ type: z.literal("compaction"), encrypted_content: z.string().min(1) }),
    z.looseObject({ type: z.literal("item_reference"), id: z.string().min(1) }),
    z.looseObject({ type: z.enum(["reasoning", "mcp_call", "mcp_list_tools"]) }),
  ],
  {
    error:
      "write an item of the type message (with a role and content), function_call, function_call_output, item_reference or reasoning",
  },
);
export type InputItem = z.infer<typeof InputItem>;

const ITEMS_MAX = 10_000;
/** A text is what the user says: then what is wrong with a list is told of its item, and not of the two together. */
const Input = z.preprocess(
  (input) => (typeof input === "string" ? [{ role: "user", content: input }] : input),
  z
    .array(InputItem, { error: "write a text or a list of items" })
    .max(ITEMS_MAX, { error: `write at most ${ITEMS_MAX} items` }),
);

const noLogprobs = "logarithms of probabilities are not told here; leave it out";

export const CreateResponse = z.strictObject({
  ...COMMON,
  input: Input.optional(),
  instructions: z.string({ error: "write a text" }).nullish(),
  previous_response_id: z.string({ error: "write the id of a response" }).nullish(),
  conversation: z
    .union([z.string(), z.object({ id: z.string() })], { error: "write the id of a conversation" })
    .nullish(),
  max_output_tokens: outputTokens,
  background: z.boolean({ error: "write true or false" }).nullish(),
  text: z.object({ format: Format.nullish(), verbosity: z.unknown().optional() }).nullish(),
  reasoning: z
    .object({ effort: z.string().nullish(), summary: z.unknown().optional(), generate_summary: z.unknown().optional() })
    .nullish(),
  tools: Tools,
  tool_choice: ToolChoice,
  include: z
    .array(z.string().refine((name) => name !== "message.output_text.logprobs", { error: noLogprobs }))
    .nullish(),
  truncation: z.enum(["auto", "disabled"]).nullish(),
  context_management: z.unknown().optional(),
  top_logprobs: unserved(noLogprobs, 0),
  max_tool_calls: unserved("calls are not counted for one response; leave it out"),
  prompt: unserved("no prompts are kept here; write the input itself"),
  moderation: unserved("nothing is moderated here; leave it out"),
});
export type CreateResponse = z.infer<typeof CreateResponse>;

export const CompactRequest = z.strictObject({
  model: z.string().optional(),
  input: Input.nullish(),
  instructions: z.string().nullish(),
  previous_response_id: z.string().nullish(),
  prompt_cache_key: z.string().nullish(),
});
export type CompactRequest = z.infer<typeof CompactRequest>;

export const CreateConversation = z.strictObject({
  items: z.array(InputItem).max(ITEMS_MAX).nullish(),
  metadata: COMMON.metadata,
});

/** OpenAI takes so many at a time. */
const NEW_ITEMS_MAX = 20;
export const CreateItems = z.strictObject({
  items: z
    .array(InputItem, { error: "write a list of items" })
    .min(1, { error: "write at least one item" })
    .max(NEW_ITEMS_MAX, { error: `write at most ${NEW_ITEMS_MAX} items` }),
});
