import { type AssistantBlock, blockText, type Content, type ContentBlock, type Message } from "../contract/message.ts";
import type { ToolSpec } from "../ports/model.ts";

const BYTES_PER_TOKEN = 4;
/** An image costs about this much whatever its size; counted as base64 it would look like a book. */
const IMAGE_TOKENS = 1_600;
const VIDEO_TOKENS_PER_SECOND = 300;
/** A page of a PDF is 1,500 to 3,000 tokens and some tens of kilobytes. */
const FILE_BYTES_PER_TOKEN = 16;

/** Estimates tokens as JSON bytes / 4, with media counted separately. */
export function estimateTokens(messages: readonly Message[]): number {
  return messages.reduce((sum, message) => sum + remembered(message), 0);
}

const estimates = new WeakMap<Message, number>();

function remembered(message: Message): number {
  const known = estimates.get(message);
  if (known !== undefined) return known;
  const estimate = estimateMessage(message);
  estimates.set(message, estimate);
  return estimate;
}

function estimateMessage(message: Message): number {
  switch (message.role) {
    case "user":
      return contentTokens(message.content);
    case "tool_results":
      return message.results.reduce((sum, result) => sum + contentTokens(result.content), 0);
    case "system":
    case "system_notice":
      return textTokens(JSON.stringify(message));
    case "block_assistant": {
      const images = message.blocks.filter((block) => block.block_type === "image").length;
      const blocks = message.blocks.filter((block) => block.block_type !== "image");
      return images * IMAGE_TOKENS + textTokens(JSON.stringify({ ...message, blocks }));
    }
  }
}

export function contentTokens(content: Content): number {
  if (typeof content === "string") return textTokens(content);
  return content.reduce((sum, block) => sum + blockTokens(block), 0);
}

function blockTokens(block: ContentBlock): number {
  switch (block.type) {
    case "text":
      return textTokens(block.text);
    case "image":
      return IMAGE_TOKENS;
    case "video":
      return Math.ceil((block.duration_ms / 1_000) * VIDEO_TOKENS_PER_SECOND);
    case "file":
      return Math.max(IMAGE_TOKENS, Math.ceil(mediaSize(block) / FILE_BYTES_PER_TOKEN));
  }
}

/** Bytes of a message's media as sent: few tokens, but they count towards a provider's request limit. */
export function mediaBytes(message: Message): number {
  switch (message.role) {
    case "user":
      return contentMediaBytes(message.content);
    case "tool_results":
      return message.results.reduce((sum, result) => sum + contentMediaBytes(result.content), 0);
    case "block_assistant":
      return message.blocks.reduce(
        (sum, block) => sum + (block.block_type === "image" ? block.data.data.length : 0),
        0,
      );
    case "system":
    case "system_notice":
      return 0;
  }
}

function contentMediaBytes(content: Content): number {
  if (typeof content === "string") return 0;
  return content.reduce((sum, block) => sum + (block.type === "text" ? 0 : Math.ceil((mediaSize(block) * 4) / 3)), 0);
}

function mediaSize(block: Exclude<ContentBlock, { type: "text" }>): number {
  switch (block.source) {
    case "inline":
      return (block.data.length * 3) / 4;
    case "blob":
      return block.size ?? 0;
    case "url":
      return 0;
  }
}

const encoder = new TextEncoder();

function textTokens(text: string): number {
  return text === "" ? 0 : Math.max(1, Math.floor(encoder.encode(text).length / BYTES_PER_TOKEN));
}

const toolEstimates = new WeakMap<ToolSpec, number>();

export function toolTokens(tools: Iterable<ToolSpec>): number {
  let tokens = 0;
  for (const tool of tools) {
    const { name, description, inputSchema } = tool;
    const own =
      toolEstimates.get(tool) ?? Math.ceil(JSON.stringify({ name, description, inputSchema }).length / BYTES_PER_TOKEN);
    toolEstimates.set(tool, own);
    tokens += own;
  }
  return tokens;
}

export function assistantText(message: { readonly blocks: readonly AssistantBlock[] }): string {
  let text = "";
  for (const block of message.blocks) if (block.block_type === "text") text += block.data.text;
  return text;
}

/** Content as a text in which media are named. */
export function contentText(content: Content): string {
  if (typeof content === "string") return content;
  return content.map(blockText).join("\n");
}

export function asBlocks(content: Content): ContentBlock[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}
