import type { AssistantBlock, AssistantMessage, BlockMeta, Content, Message } from "../../../contract/message.ts";

/** Whose signatures a wire can read; the adapters leave everybody else's behind. */
export type Reader = "anthropic" | "openai" | "google";

/** Whether a message reaches the wire: the AI SDK adapter leaves out what would be an empty message there. */
export function isSent(message: Message, reader: Reader): boolean {
  switch (message.role) {
    case "system":
      return isSaying(message.content);
    case "system_notice":
      return true;
    case "user":
      return isSayingContent(message.content);
    case "block_assistant":
      return answerLength(message, reader) > 0;
    case "tool_results":
      return message.results.length > 0;
  }
}

/** How many blocks of an answer count: reasoning at its end led to nothing, and the adapter cuts it off. */
export function answerLength(message: AssistantMessage, reader: Reader): number {
  let length = message.blocks.length;
  for (; length > 0; length -= 1) {
    const block = message.blocks[length - 1];
    if (block !== undefined && isSaidIn(message, block, reader)) return length;
  }
  return 0;
}

/** Whether a block that is not reasoning is sent; of an answer that was cut off only the text is. */
export function isSaidIn(message: AssistantMessage, block: AssistantBlock, reader: Reader): boolean {
  const isCutOff = message.stop_reason === "cancelled";
  switch (block.block_type) {
    case "text":
      // Gemini signs empty text and wants it back.
      return isSaying(block.data.text) || (!isCutOff && reader === "google" && isReadable(block.data.meta, reader));
    case "tool_use":
    case "image":
      return !isCutOff;
    case "reasoning":
    case "server_tool_content":
      return false;
  }
}

/** Whether a block's signature was made by the reader's own models. */
export function isReadable(meta: BlockMeta | undefined, reader: Reader): boolean {
  if (meta === undefined) return false;
  switch (meta.provider) {
    case "anthropic":
    case "anthropic_redacted":
      return reader === "anthropic";
    case "gemini":
      return reader === "google";
    case "open_ai":
      return reader === "openai";
    case "unknown":
      return NAMESPACES[reader].some((namespace) => meta.metadata?.[namespace] !== undefined);
  }
}

const NAMESPACES: Readonly<Record<Reader, readonly string[]>> = {
  anthropic: ["anthropic"],
  openai: ["openai", "azure"],
  google: ["google", "googleVertex", "vertex"],
};

function isSayingContent(content: Content): boolean {
  if (typeof content === "string") return isSaying(content);
  return content.some((block) => block.type !== "text" || isSaying(block.text));
}

/** Whether a text has more than white space, which every wire counts as nothing. */
export function isSaying(text: string): boolean {
  return SOMETHING.test(text);
}

const SOMETHING = /\S/;
