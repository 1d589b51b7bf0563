import type {
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ToolResultOutput,
} from "@ai-sdk/provider";
import {
  type AssistantBlock,
  type AssistantMessage,
  blockText,
  type Content,
  type ContentBlock,
  type Message,
  type ToolResult,
  type ToolResultsMessage,
} from "../contract/message.ts";
import { callId, type Dialect, replayMetadata } from "./ai-sdk-dialect.ts";

/** Builds the AI SDK's prompt. Converted messages are cached by object, so a turn pays for its new messages only. */
export function buildPrompt(
  messages: readonly Message[],
  dialect: Dialect,
  native?: NativeMessages,
): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = [];
  let systemEnd = 0;
  let assistant: AssistantMessage | undefined;
  for (const message of messages) {
    if (message.role === "block_assistant") assistant = message;
    if (native !== undefined && message.role === "user" && message.compaction_id === native.compactionId) {
      prompt.push(native.message);
      if (native.following !== "") prompt.push({ role: "user", content: [{ type: "text", text: native.following }] });
      continue;
    }
    const converted = remembered(message, assistant, dialect);
    if (converted === undefined) continue;
    if (converted.role !== "system") {
      prompt.push(converted);
    } else if (prompt.length === systemEnd) {
      prompt.push(converted);
      systemEnd += 1;
    } else {
      // Gemini rejects a system message after the conversation began, and Anthropic needs a beta for it.
      prompt.push(noticeOf("system", converted.content));
    }
  }
  return dialect.family === "anthropic" ? withCachePoints(prompt, systemEnd) : prompt;
}

/** The provider's item in place of a summary. */
export interface NativeMessages {
  readonly compactionId: string;
  readonly message: LanguageModelV4Message;
  readonly following: string;
}

type Converted = LanguageModelV4Message | undefined;

interface Conversion {
  readonly message: Converted;
  /** The answer whose calls the results belong to; without it they must not be sent. */
  readonly assistant: AssistantMessage | undefined;
}

const conversions = new WeakMap<Dialect, WeakMap<Message, Conversion>>();

function remembered(message: Message, assistant: AssistantMessage | undefined, dialect: Dialect): Converted {
  let known = conversions.get(dialect);
  if (known === undefined) {
    known = new WeakMap();
    conversions.set(dialect, known);
  }
  const answered = message.role === "tool_results" ? assistant : undefined;
  const found = known.get(message);
  if (found !== undefined && found.assistant === answered) return found.message;
  const converted =
    message.role === "tool_results" ? convertResults(message, assistant, dialect) : convert(message, dialect);
  known.set(message, { message: converted, assistant: answered });
  return converted;
}

function convert(message: Exclude<Message, { role: "tool_results" }>, dialect: Dialect): Converted {
  switch (message.role) {
    case "system":
      return isBlank(message.content) ? undefined : { role: "system", content: message.content };
    case "system_notice":
      return noticeOf(message.kind, message.body ?? "");
    case "user": {
      const content = convertContent(message.content, dialect);
      return content.length === 0 ? undefined : { role: "user", content };
    }
    case "block_assistant":
      return convertAssistant(message, dialect);
  }
}

/** A message of the runtime to the model: a user message marked as such. */
function noticeOf(kind: string, body: string): LanguageModelV4Message {
  return {
    role: "user",
    content: [{ type: "text", text: `[system notice: ${kind}]${body === "" ? "" : `\n${body}`}` }],
  };
}

type UserPart = Extract<LanguageModelV4Message, { role: "user" }>["content"][number];

function convertContent(content: Content, dialect: Dialect): UserPart[] {
  if (typeof content === "string") return isBlank(content) ? [] : [{ type: "text", text: content }];
  return content
    .filter((block) => block.type !== "text" || !isBlank(block.text))
    .map((block) => partOf(block, dialect));
}

function partOf(block: ContentBlock, dialect: Dialect): UserPart {
  const isNamed =
    block.type === "text" ||
    block.source === "blob" ||
    (block.type === "video" && !dialect.takesVideo) ||
    refuseContent(block, dialect) !== undefined;
  if (isNamed) return { type: "text", text: blockText(block) };
  const filename = block.type === "file" && block.name !== undefined ? { filename: block.name } : {};
  const data = block.source === "url" ? urlData(block.url, dialect) : fileData(block.data, dialect);
  return { type: "file", mediaType: block.media_type, data, ...filename };
}

/** Why a new block would be replaced by its name. */
export function refuseContent(block: ContentBlock, { takesFiles, takesUrls }: Dialect): string | undefined {
  if (block.type === "file" && !takesFiles) return "its provider accepts no files; send the content as text";
  if (block.type === "image" && block.source === "url" && !takesUrls)
    return "its provider fetches no images; send the bytes, inline";
  return undefined;
}

function urlData(url: string, dialect: Dialect): LanguageModelV4FilePart["data"] {
  if (dialect.version === "v4") return { type: "url", url: new URL(url) };
  return new URL(url) as unknown as LanguageModelV4FilePart["data"]; // As with bytes, without what v4 wraps it in.
}

function fileData(base64: string, dialect: Dialect): LanguageModelV4FilePart["data"] {
  if (dialect.version === "v4") return { type: "data", data: base64 };
  // `as`: v2 and v3 take the base64 text that v4 wraps.
  return base64 as unknown as LanguageModelV4FilePart["data"];
}

type AssistantPart = Extract<LanguageModelV4Message, { role: "assistant" }>["content"][number];

function convertAssistant(message: AssistantMessage, dialect: Dialect): Converted {
  const content: AssistantPart[] = [];
  let length = 0;
  for (const block of message.blocks) {
    const part = message.stop_reason === "cancelled" ? cutOffPart(block) : assistantPart(block, dialect);
    if (part === undefined) continue;
    content.push(part);
    if (part.type !== "reasoning") length = content.length;
  }
  // Trailing reasoning is rejected: Anthropic and OpenAI require what followed it.
  content.length = length;
  return length === 0 ? undefined : { role: "assistant", content };
}

/** Of a cancelled answer only the text can go back: reasoning is unsigned and calls never ran. */
function cutOffPart(block: AssistantBlock): AssistantPart | undefined {
  if (block.block_type !== "text" || isBlank(block.data.text)) return undefined;
  return { type: "text", text: block.data.text };
}

function assistantPart(block: AssistantBlock, dialect: Dialect): AssistantPart | undefined {
  const providerOptions = replayMetadata(block.data.meta, dialect);
  const options = providerOptions === undefined ? {} : { providerOptions };
  switch (block.block_type) {
    case "text": {
      // Gemini signs empty text and requires it back; other providers reject empty text.
      const isSigned = dialect.family === "google" && providerOptions !== undefined;
      if (isBlank(block.data.text) && !isSigned) return undefined;
      return { type: "text", text: block.data.text, ...options };
    }
    case "reasoning":
      return providerOptions === undefined ? undefined : { type: "reasoning", text: block.data.text, providerOptions };
    case "tool_use": {
      const { id, name, args } = block.data;
      return { type: "tool-call", toolCallId: callId(id, dialect), toolName: name, input: args, ...options };
    }
    case "image":
      if (dialect.family !== "google") return { type: "text", text: `[image: ${block.data.media_type}]` };
      return { type: "file", mediaType: block.data.media_type, data: fileData(block.data.data, dialect), ...options };
    case "server_tool_content":
      // The provider ran it as part of its answer; without the same tool configured it is rejected.
      return undefined;
  }
}

const CACHE_POINT = { anthropic: { cacheControl: { type: "ephemeral" } } };

/** Anthropic caches up to marked points: the end of the constant part, and the end of the conversation. */
function withCachePoints(prompt: LanguageModelV4Prompt, systemEnd: number): LanguageModelV4Prompt {
  for (const index of new Set([systemEnd - 1, prompt.length - 1])) {
    const message = prompt[index];
    // A copy: the cached message must not stay marked when it is no longer last.
    if (message !== undefined) prompt[index] = { ...message, providerOptions: CACHE_POINT };
  }
  return prompt;
}

function isBlank(text: string): boolean {
  return text.trim() === "";
}

type ResultPart = Extract<LanguageModelV4Message, { role: "tool" }>["content"][number];

/** The results for the calls of `assistant`; a result without its call would be rejected. */
function convertResults(
  message: ToolResultsMessage,
  assistant: AssistantMessage | undefined,
  dialect: Dialect,
): LanguageModelV4Message | undefined {
  const content: ResultPart[] = [];
  for (const result of message.results) {
    const toolName = nameOfCall(assistant, result.tool_use_id);
    if (toolName === undefined) continue;
    const toolCallId = callId(result.tool_use_id, dialect);
    content.push({ type: "tool-result", toolCallId, toolName, output: outputOf(result, dialect) });
  }
  return content.length === 0 ? undefined : { role: "tool", content };
}

function nameOfCall(assistant: AssistantMessage | undefined, id: string): string | undefined {
  if (assistant === undefined || assistant.stop_reason === "cancelled") return undefined;
  for (const block of assistant.blocks) {
    if (block.block_type === "tool_use" && block.data.id === id) return block.data.name;
  }
  return undefined;
}

function outputOf(result: ToolResult, dialect: Dialect): LanguageModelV4ToolResultOutput {
  if (result.is_error) return { type: "error-text", value: plainText(result.content) };
  const hasMedia = typeof result.content !== "string" && result.content.some(isInlineImage);
  if (!hasMedia || !dialect.takesToolMedia) return { type: "text", value: plainText(result.content) };
  return { type: "content", value: mediaContent(result.content, dialect) };
}

type Block = Exclude<Content, string>[number];

function isInlineImage(block: Block): boolean {
  return block.type === "image" && block.source === "inline";
}

function plainText(content: Content): string {
  return typeof content === "string" ? content : content.map(blockText).join("\n");
}

type MediaContent = Extract<LanguageModelV4ToolResultOutput, { type: "content" }>["value"];

function mediaContent(content: Content, dialect: Dialect): MediaContent {
  const blocks: readonly Block[] = typeof content === "string" ? [{ type: "text", text: content }] : content;
  // `as`: each version spells it differently; the type is v4's.
  return blocks.map((block) => mediaPart(block, dialect)) as MediaContent;
}

function mediaPart(block: Block, dialect: Dialect): unknown {
  if (block.type !== "image" || block.source !== "inline") return { type: "text", text: blockText(block) };
  const { data, media_type: mediaType } = block;
  switch (dialect.version) {
    case "v4":
      return { type: "file", mediaType, data: { type: "data", data } };
    case "v3":
      return { type: "image-data", mediaType, data };
    case "v2":
      return { type: "media", mediaType, data };
  }
}
