import { asksForNothing, positive } from "../input.ts";
import { type AssistantMessage, blockText, CLIENT_TOOLS_MAX, type Content, type Message } from "../message.ts";
import { z } from "../schema.ts";

/** What OpenAI's two endpoints take alike. */

const JsonObject = z.record(z.string(), z.unknown());

/** A field that would change what is answered and cannot be honoured; what asks for nothing is let through. */
function unserved(why: string, ...nothing: readonly unknown[]) {
  return z
    .unknown()
    .refine((value) => asksForNothing(value) || nothing.includes(value), { error: why })
    .optional();
}

/** Fields that are accepted and have no effect. */
const harmless = z.unknown().optional();
const METADATA_MAX = 16;
const metadatum = z.string({ error: "write a text" }).max(512, { error: "write a text of at most 512 characters" });
const HARMLESS = {
  metadata: z
    .record(z.string().max(64, { error: "write names of at most 64 characters" }), metadatum, {
      error: "write an object of texts",
    })
    .refine((metadata) => Object.keys(metadata).length <= METADATA_MAX, {
      error: `write at most ${METADATA_MAX} of them`,
    })
    .nullish()
    .describe("kept as labels of the session that begins with the request, and handed back"),
  user: z.string({ error: "write a text" }).nullish(),
  service_tier: harmless,
  prompt_cache_key: z.string({ error: "write a text" }).nullish(),
  prompt_cache_retention: harmless,
  prompt_cache_options: harmless,
  safety_identifier: z.string({ error: "write a text" }).nullish(),
  stream_options: harmless,
  verbosity: harmless,
};

const between = (least: number, most: number) => {
  const wanted = { error: `write a number from ${least} to ${most}` };
  return z.number(wanted).min(least, wanted).max(most, wanted).nullish();
};

const SAMPLING = { temperature: between(0, 2), top_p: between(0, 1) };

const COMMON = {
  ...HARMLESS,
  ...SAMPLING,
  model: z.string({ error: "write the name of a model" }).min(1, { error: "write the name of a model" }).optional(),
  stream: z.boolean({ error: "write true or false" }).nullish(),
  store: z.boolean({ error: "write true or false" }).nullish(),
  parallel_tool_calls: z.boolean({ error: "write true or false" }).nullish(),
};

const outputTokens = positive.nullish();

/** The format of an answer: a text, any JSON object, or what a schema says. */
export const Format = z.discriminatedUnion(
  "type",
  [
    z.object({ type: z.literal("text") }),
    z.object({ type: z.literal("json_object") }),
    z.object({
      type: z.literal("json_schema"),
      name: z.string().optional(),
      description: z.string().nullish(),
      schema: JsonObject,
      strict: z.boolean().nullish(),
    }),
  ],
  { error: "write a format of the type text, json_object or json_schema" },
);
export type Format = z.infer<typeof Format>;

/** A function of the client's, flat as one endpoint writes it. */
export const FunctionTool = z.object({
  type: z.literal("function"),
  name: z.string().min(1).max(128),
  description: z.string().nullish(),
  parameters: JsonObject.nullish(),
  strict: z.boolean().nullish(),
});
export type FunctionTool = z.infer<typeof FunctionTool>;

/** Tools of this server's own: it is asked for as the MCP server that it is. */
const OwnTools = z.object({
  type: z.literal("mcp"),
  server_label: z.literal("rkat", { error: 'write "rkat": this server runs its own tools and no other server\'s' }),
  allowed_tools: z.union([z.array(z.string()), z.object({ tool_names: z.array(z.string()).optional() })]).nullish(),
  server_url: z.unknown().optional(),
  server_description: z.unknown().optional(),
  require_approval: z.unknown().optional(),
  headers: z.unknown().optional(),
});
export type OwnTools = z.infer<typeof OwnTools>;

export const Tools = z
  .array(
    z.discriminatedUnion("type", [FunctionTool, OwnTools], {
      error: 'write a tool of the type function, or mcp with the server_label "rkat" for the tools of this server',
    }),
  )
  .max(CLIENT_TOOLS_MAX)
  .nullish();
export type Tools = z.infer<typeof Tools>;

/** What chat completions write one level deeper, as `{type, function: {…}}`, as responses have it. */
function flat(given: unknown): unknown {
  if (typeof given !== "object" || given === null || !("function" in given)) return given;
  const { function: inner, ...rest } = given;
  return typeof inner === "object" ? { ...rest, ...inner } : given;
}

/** Whether the model must call a function, and which. */
export const ToolChoice = z.preprocess(
  flat,
  z
    .union(
      [
        z.enum(["auto", "none", "required"]),
        z.object({ type: z.literal("function"), name: z.string().min(1, { error: "write the name of a function" }) }),
      ],
      { error: 'write "auto", "none", "required" or {type: "function", name} with a function of tools' },
    )
    .nullish(),
);
export type ToolChoice = z.infer<typeof ToolChoice>;

const FILE = { file_data: z.string().nullish(), filename: z.string().nullish(), file_id: z.string().nullish() };

/** A content part of a message, as either endpoint writes it. */
export const ContentPart = z.discriminatedUnion(
  "type",
  [
    z.looseObject({ type: z.enum(["input_text", "text", "output_text"]), text: z.string() }),
    z.looseObject({ type: z.literal("refusal"), refusal: z.string() }),
    z.looseObject({ type: z.literal("input_image"), image_url: z.string().nullish(), file_id: z.string().nullish() }),
    z.looseObject({ type: z.literal("image_url"), image_url: z.object({ url: z.string() }).loose() }),
    z.looseObject({ type: z.literal("input_file"), ...FILE, file_url: z.string().nullish() }),
    z.looseObject({ type: z.literal("file"), file: z.looseObject(FILE) }),
    z.looseObject({ type: z.literal("input_audio") }),
  ],
  { error: "write a part of the type input_text, input_image, input_file, text, image_url or file" },
);
export type ContentPart = z.infer<typeof ContentPart>;

export const PartedContent = z.union([z.string(), z.array(ContentPart)], {
  error: "write a text or a list of content parts",
});
export type PartedContent = z.infer<typeof PartedContent>;

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

const said = z.looseObject({
  type: z.literal("message").default("message"),
  role: z.enum(["user", "assistant", "system", "developer"], {
    error: "write user, assistant, system or developer",
  }),
  content: PartedContent,
});
export type SaidItem = z.infer<typeof said>;

const call_id = z.string().min(1);

/** What stands in an input. Items that only describe how an answer was made are accepted and left out. */
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
/** A text is the user's prompt: a problem of a list is then reported for its item, not for the union. */
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

/** A message as chat completions take it: none where that wire has nothing to say it by. */
export function chatMessages(message: Message): readonly object[] {
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content }];
    case "system_notice": {
      const body = message.body ?? "";
      return [{ role: "user", content: `[system notice: ${message.kind}]${body === "" ? "" : `\n${body}`}` }];
    }
    case "user":
      return [{ role: "user", content: userContent(message.content) }];
    case "block_assistant":
      return assistantMessage(message);
    case "tool_results":
      // The wire has no error mark: the text of a failed call says that it failed.
      return message.results.map(({ tool_use_id, content }) => ({
        role: "tool",
        tool_call_id: tool_use_id,
        content: plainText(content),
      }));
  }
}

function userContent(content: Content): unknown {
  if (typeof content === "string") return content;
  return content.map((block) => {
    if (block.type !== "image" || block.source === "blob") return { type: "text", text: blockText(block) };
    const url = block.source === "url" ? block.url : `data:${block.media_type};base64,${block.data}`;
    return { type: "image_url", image_url: { url } };
  });
}

/** Reasoning stays behind: no server of this wire takes it back. A call that was cut off never ran. */
function assistantMessage({ blocks, stop_reason }: AssistantMessage): readonly object[] {
  const text = blocks.map((block) => (block.block_type === "text" ? block.data.text : "")).join("");
  const calls = stop_reason === "cancelled" ? [] : blocks.filter((block) => block.block_type === "tool_use");
  if (text.trim() === "" && calls.length === 0) return [];
  const tool_calls = calls.map(({ data }) => ({
    id: data.id,
    type: "function",
    function: { name: data.name, arguments: JSON.stringify(data.args) },
  }));
  return [{ role: "assistant", content: text === "" ? null : text, ...(calls.length === 0 ? {} : { tool_calls }) }];
}

function plainText(content: Content): string {
  return typeof content === "string" ? content : content.map(blockText).join("\n");
}
