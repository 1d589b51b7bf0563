import { COMMON, Format, FunctionTool, flat, outputTokens, PartedContent, ToolChoice, unserved } from "./openai.ts";
import { z } from "./schema.ts";

/** What `POST /v1/chat/completions` takes. */

const ToolCall = z.looseObject({
  id: z.string().min(1, { error: "write the id of the call" }),
  type: z.literal("function", { error: 'write "function"; there are no other calls here' }).default("function"),
  function: z.looseObject({ name: z.string().min(1), arguments: z.string() }),
});

const noFunctions = unserved("functions are called tools since long; write tools and tool_calls", "auto", "none");

/** What does not change what was said, such as names, annotations and reasoning, is let through. */
export const ChatMessage = z.discriminatedUnion(
  "role",
  [
    z.looseObject({ role: z.enum(["system", "developer"]), content: PartedContent }),
    z.looseObject({ role: z.literal("user"), content: PartedContent }),
    z.looseObject({
      role: z.literal("assistant"),
      content: PartedContent.nullish(),
      refusal: z.string().nullish(),
      tool_calls: z.array(ToolCall).nullish(),
      function_call: noFunctions,
    }),
    z.looseObject({ role: z.literal("tool"), tool_call_id: z.string(), content: PartedContent }),
  ],
  { error: "write a message with a role: system, developer, user, assistant or tool" },
);
export type ChatMessage = z.infer<typeof ChatMessage>;

const MESSAGES_MAX = 10_000;

const ResponseFormat = z.discriminatedUnion(
  "type",
  [
    z.object({ type: z.literal("text") }),
    z.object({ type: z.literal("json_object") }),
    z.object({ type: z.literal("json_schema"), json_schema: z.looseObject({ schema: z.unknown() }) }),
  ],
  { error: "write a format of the type text, json_object or json_schema" },
);

/** A function as this endpoint writes it, one level deeper than the other. */
const ChatTool = z.preprocess(
  flat,
  z.union([FunctionTool], { error: "write a tool as {type: function, function: {name, description, parameters}}" }),
);

const wantedStop = { error: "write a text, or a list of at most 4" };
const penalty = z.number({ error: "write a number from -2 to 2" }).min(-2).max(2).nullish();

export const ChatRequest = z.object({
  ...COMMON,
  messages: z
    .array(ChatMessage, { error: "write a list of messages" })
    .min(1, { error: "write at least one message" })
    .max(MESSAGES_MAX, { error: `write at most ${MESSAGES_MAX} messages; name the session and send what is new` }),
  /** Names the session outright, as the header does. */
  conversation: z.union([z.string(), z.looseObject({ id: z.string() })], { error: "write a session's id" }).nullish(),
  max_tokens: outputTokens,
  max_completion_tokens: outputTokens,
  stop: z.union([z.string(), z.array(z.string()).max(4)], wantedStop).nullish(),
  seed: z.int({ error: "write a whole number" }).nullish(),
  presence_penalty: penalty,
  frequency_penalty: penalty,
  reasoning_effort: z.string({ error: "write a text" }).nullish(),
  response_format: ResponseFormat.transform((format) =>
    format.type === "json_schema" ? { ...format.json_schema, type: format.type } : format,
  )
    .pipe(Format)
    .nullish(),
  tools: z.array(ChatTool).max(1_024).nullish(),
  tool_choice: ToolChoice,
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  n: unserved("one answer is given here; leave it out, or write 1", 1),
  logprobs: unserved("no probabilities are told here; leave it out", false),
  top_logprobs: unserved("no probabilities are told here; leave it out", 0),
  logit_bias: unserved("tokens cannot be weighed here; leave it out"),
  modalities: z.array(z.literal("text", { error: 'write ["text"]; nothing else is answered here' })).nullish(),
  audio: unserved("nothing is spoken here; leave it out"),
  prediction: unserved("predicted outputs are not taken here; leave it out"),
  web_search_options: unserved("the web is not searched here; leave it out"),
  functions: noFunctions,
  function_call: noFunctions,
});
export type ChatRequest = z.infer<typeof ChatRequest>;
