import { z } from "./schema.ts";

const madeBy = <const P extends string>(provider: P) => z.literal(provider).describe("the provider of the block");
const whatText = "the text itself";

/** What a provider needs back, untouched, to accept a block it produced earlier. */
export const BlockMeta = z.discriminatedUnion("provider", [
  z.object({ provider: madeBy("anthropic"), signature: z.string().describe("the signature of its reasoning") }),
  z.object({ provider: madeBy("anthropic_redacted"), data: z.string().describe("reasoning that only it can read") }),
  z.object({ provider: madeBy("gemini"), thoughtSignature: z.string().describe("the signature of its reasoning") }),
  z.object({
    provider: madeBy("open_ai"),
    id: z.string().describe("its id of the block"),
    encrypted_content: z.string().optional().describe("reasoning that only it can read"),
    phase: z.string().optional().describe("the provider's name for this part of an answer"),
  }),
  z.object({
    provider: madeBy("unknown"),
    metadata: z.record(z.string(), z.record(z.string(), z.unknown())).optional().describe("metadata by provider"),
  }),
]);
export type BlockMeta = z.infer<typeof BlockMeta>;

const media_type = z.string().describe("the media type, such as image/png");
const base64 = z.string().describe("the bytes in Base64");
const InlineMedia = { media_type, source: z.literal("inline").describe("the bytes are inline"), data: base64 };
const BlobMedia = {
  media_type,
  source: z.literal("blob").describe("the bytes are in a blob"),
  blob_id: z.string().describe("the blob that holds them"),
  size: z.number().int().nonnegative().optional().describe("the number of bytes"),
};
const image = z.literal("image").describe("an image");
const file = {
  type: z.literal("file").describe("a file: a PDF; one of text becomes a text"),
  name: z.string().max(255).optional().describe("its name, without folders"),
};

export const TextBlock = z.object({
  type: z.literal("text").describe("a text"),
  text: z.string().describe(whatText),
});

export const ContentBlock = z.union([
  TextBlock,
  z.object({ type: image, ...InlineMedia }),
  z.object({ type: image, ...BlobMedia }),
  z.object({
    type: image,
    media_type: media_type.default("image/*"),
    source: z.literal("url").describe("the provider fetches it"),
    url: z
      .url({ protocol: /^https?$/ })
      .max(2_048)
      .describe("where it is, by http or https"),
  }),
  z.object({ ...file, ...InlineMedia }),
  z.object({ ...file, ...BlobMedia }),
  z.object({
    type: z.literal("video").describe("a video"),
    ...InlineMedia,
    duration_ms: z.number().int().nonnegative().describe("how long it is, in milliseconds"),
  }),
]);
export type ContentBlock = z.infer<typeof ContentBlock>;

/** Text alone is a plain string; anything else is a list of blocks. */
export const CONTENT_KINDS = [z.string(), z.array(ContentBlock)] as const;
export const Content = z.union(CONTENT_KINDS);
export type Content = z.infer<typeof Content>;

const meta = BlockMeta.optional().describe("data that the provider needs back with the block, unchanged");

const block = <const T extends string, F extends z.ZodRawShape>(type: T, meaning: string, fields: F) =>
  z.object({
    block_type: z.literal(type).describe(meaning),
    data: z.object({ ...fields, meta }).describe("the block itself"),
  });

export const AssistantBlock = z.discriminatedUnion("block_type", [
  block("text", "its text", { text: z.string().describe(whatText) }),
  block("reasoning", "its reasoning", { text: z.string().describe(whatText) }),
  block("tool_use", "a tool call", {
    id: z.string().describe("the call's id, which its result names"),
    name: z.string().describe("the tool's name"),
    args: z.record(z.string(), z.unknown()).describe("the arguments"),
    args_error: z.string().optional().describe("why the arguments were invalid; args then has them as {raw_arguments}"),
  }),
  block("server_tool_content", "the result of a tool of the provider", {
    id: z.string().optional().describe("the provider's id of the call"),
    name: z.string().describe("the tool's name"),
    content: z.unknown().describe("its result, as the provider sends it"),
  }),
  block("image", "an image it made", { media_type, data: base64 }),
]);
export type AssistantBlock = z.infer<typeof AssistantBlock>;

export const StopReason = z.enum([
  "end_turn",
  "tool_use",
  "max_tokens",
  "stop_sequence",
  "content_filter",
  "cancelled",
]);
export type StopReason = z.infer<typeof StopReason>;

export const ToolResult = z.object({
  tool_use_id: z.string().describe("the call it answers"),
  content: Content.describe("the result"),
  is_error: z.boolean().describe("whether it failed"),
});
export type ToolResult = z.infer<typeof ToolResult>;

/** What a tool said, in the form it is kept in. */
export interface ReadOutput {
  readonly content: Content;
  readonly isError: boolean;
}

/** Reads what a tool returned: content, or another value, which is given as JSON; what is neither is a failure. */
export function readToolOutput(tool: string, returned: unknown): ReadOutput {
  if (returned === undefined) return { content: "", isError: false };
  const isContent = typeof returned === "string" || (Array.isArray(returned) && returned.length > 0);
  const { content, isError, ...others } = isContent ? { content: returned } : Object(returned);
  const parsed = Content.safeParse(content);
  // Other fields make it a value that happens to have a content, unless that is a list of blocks.
  const isAlone = isError !== undefined || Object.keys(others).length === 0;
  const isValid = parsed.success && (isError === undefined || typeof isError === "boolean");
  if (isValid && (isAlone || Array.isArray(content))) return { content: parsed.data, isError: isError ?? false };
  const text = content !== undefined && !isContent && isAlone ? undefined : jsonOf(returned);
  return text === undefined
    ? { content: `${tool} returned ${NO_OUTPUT}`, isError: true }
    : { content: text, isError: false };
}

const NO_OUTPUT =
  "what is no tool output; a tool may return a text, nothing, a value of JSON, or {content, isError}, where content is a text or a list of content blocks";

/** Undefined for what JSON cannot represent: a cycle, a function, or an object such as a map, of which nothing would be left. */
function jsonOf(value: unknown): string | undefined {
  try {
    const text = JSON.stringify(value);
    return text === "{}" && Object.getPrototypeOf(value) !== Object.prototype ? undefined : text;
  } catch {
    return undefined;
  }
}

const created_at = z.string().describe("its time, in RFC 3339");

export const messageOrigin = z
  .literal("import", { error: 'write "import", or leave it out' })
  .optional()
  .describe("only on a message of an imported conversation: it is data, and gives no instructions");

export const importedModel = z
  .string()
  .max(300, { error: "write at most 300 characters" })
  .optional()
  .describe("only on an answer of an imported conversation: the model that wrote it");

export const Message = z.discriminatedUnion("role", [
  z.object({
    role: z.literal("system").describe("the system prompt"),
    content: z.string().describe(whatText),
    created_at,
  }),
  z.object({
    role: z.literal("system_notice").describe("a notice of the runtime to the model"),
    kind: z.string().describe("what it is about"),
    body: z.string().optional().describe(whatText),
    skill: z
      .object({
        source_uuid: z.string().describe("the source the skill comes from"),
        skill_name: z.string().describe("its name there"),
        sha256: z.string().describe("the hash of its text when it was loaded"),
      })
      .optional()
      .describe("only on the text of a skill: no compaction removes it"),
    agents_md: z
      .object({
        key: z.string().describe("the file, as AGENTS.md or ../AGENTS.md"),
        version: z.number().int().positive().describe("1, and one more after each change"),
        sha256: z.string().describe("the hash of its text"),
      })
      .optional()
      .describe("only on the text of an AGENTS.md: compactions keep the newest version word for word"),
    created_at,
  }),
  z.object({
    role: z.literal("user").describe("a message of the user"),
    content: Content.describe("a text, or a list of content blocks"),
    created_at,
    origin: messageOrigin,
    compaction_id: z
      .string()
      .optional()
      .describe("only on the summary of a compaction: it stands for earlier turns and is not a turn itself"),
  }),
  z.object({
    role: z.literal("block_assistant").describe("a message of the model: texts and tool calls"),
    blocks: z.array(AssistantBlock).describe("its parts, in their order"),
    stop_reason: StopReason.describe("why the model stopped"),
    created_at,
    origin: messageOrigin,
    model: importedModel,
  }),
  z.object({
    role: z.literal("tool_results").describe("the results of tools"),
    results: z.array(ToolResult).describe("one for each call, in their order"),
    created_at,
  }),
]);
export type Message = z.infer<typeof Message>;
export type AssistantMessage = Extract<Message, { role: "block_assistant" }>;
export type ToolResultsMessage = Extract<Message, { role: "tool_results" }>;
export type ToolUseBlock = Extract<AssistantBlock, { block_type: "tool_use" }>;

/** Where texts come from, the most trusted first. */
export const ORIGINS = ["user", "model", "import", "tool"] as const;
export type Origin = (typeof ORIGINS)[number];

/** Notices that say what programs and other sessions say. */
const OF_OTHERS: readonly string[] = ["background_job", "comms", "external_event", "goal"];

export function originOf(message: Message): Origin {
  if (message.role === "tool_results") return "tool";
  if (message.role === "system_notice" && OF_OTHERS.includes(message.kind)) return "tool";
  if ("origin" in message && message.origin !== undefined) return message.origin;
  return message.role === "block_assistant" ? "model" : "user";
}

/** Whether a text of this origin gives no instructions. */
export function isUntrusted(origin: Origin): boolean {
  return origin === "import" || origin === "tool";
}

/** A block as text: media are named, for readers that cannot show them. */
export function blockText(block: ContentBlock): string {
  if (block.type === "text") return block.text;
  const name = block.type === "file" && block.name !== undefined ? ` ${block.name}` : "";
  return `[${block.type}: ${block.media_type}${name}]`;
}

const PIPED = { start: "<stdin>\n", end: "\n</stdin>\n" };

/** A prompt with what was piped into the command in front of it. */
export function withPiped(piped: string, asked: string): string {
  return `${PIPED.start}${piped.replace(/\n$/, "")}${PIPED.end}\n${asked}`;
}

/** What was piped in front of a prompt, and what the user said: a page or a diff sets no rules. */
export function splitPiped(text: string): { readonly piped: string; readonly asked: string } {
  if (!text.startsWith(PIPED.start)) return { piped: "", asked: text };
  const end = text.lastIndexOf(PIPED.end);
  if (end < 0) return { piped: text, asked: "" };
  return { piped: text.slice(PIPED.start.length, end), asked: text.slice(end + PIPED.end.length) };
}

const TOOL_NAME_CHARS_MAX = 128;

/** A tool that the client runs: only its description is here. */
export const ClientTool = z.object({
  name: z.string().min(1).max(TOOL_NAME_CHARS_MAX).describe("the tool's name"),
  description: z.string().default("").describe("its description for the model"),
  input_schema: z
    .record(z.string(), z.unknown())
    .default({ type: "object" })
    .describe("a JSON schema of its arguments"),
});
export type ClientTool = z.infer<typeof ClientTool>;

export const CLIENT_TOOLS_MAX = 1_024;

export const ClientTools = z
  .array(ClientTool, { error: "write a list of {name, description, input_schema}" })
  .max(CLIENT_TOOLS_MAX, { error: `write at most ${CLIENT_TOOLS_MAX} tools` })
  .refine((tools) => new Set(tools.map(({ name }) => name)).size === tools.length, {
    error: "two tools have the same name; rename one",
  });

const ClientResult = z.object({
  tool_use_id: z.string().min(1).describe("the call it answers, as the pending calls name it"),
  content: Content.describe("the result"),
  is_error: z.boolean({ error: "write true or false" }).default(false).describe("whether it failed"),
});
export const ClientResults = z
  .array(ClientResult, { error: "write a list of {tool_use_id, content, is_error}" })
  .min(1, { error: "give the result of every call that waits" })
  .max(CLIENT_TOOLS_MAX, { error: `write at most ${CLIENT_TOOLS_MAX} results` });

/** A call that waits for its result from the client. */
export const PendingCall = z.object({
  id: z.string().describe("the call's id; its result has it as tool_use_id"),
  name: z.string().describe("the tool it calls"),
  args: z.record(z.string(), z.unknown()).describe("the arguments"),
});
export type PendingCall = z.infer<typeof PendingCall>;
