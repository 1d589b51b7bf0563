import type {
  AssistantBlock,
  AssistantMessage,
  Content,
  Message,
  ToolResultsMessage,
} from "../../../contract/message.ts";
import { textOfContent } from "../../message-text.ts";

/** What a summariser is shown of a context: media by name, no reasoning, nothing that only its own exchange can use. */
export function prepareForSummary(messages: readonly Message[]): Message[] {
  return messages.map(prepare).filter((message) => message.role !== "block_assistant" || message.blocks.length > 0);
}

function prepare(message: Message): Message {
  switch (message.role) {
    case "system":
    case "system_notice":
      return message;
    case "user": {
      const content = nameMedia(message.content);
      return content === message.content ? message : { ...message, content };
    }
    case "block_assistant":
      return prepareAnswer(message);
    case "tool_results":
      return prepareResults(message);
  }
}

function nameMedia(content: Content): Content {
  if (typeof content === "string" || content.every((block) => block.type === "text")) return content;
  return content.map((block) => (block.type === "text" ? block : { type: "text", text: textOfContent([block]) }));
}

function prepareResults(message: ToolResultsMessage): ToolResultsMessage {
  const results = message.results.map((result) => {
    const content = nameMedia(result.content);
    return content === result.content ? result : { ...result, content };
  });
  return isSame(results, message.results) ? message : { ...message, results };
}

function prepareAnswer(message: AssistantMessage): AssistantMessage {
  const blocks = message.blocks.flatMap(prepareBlock);
  return isSame(blocks, message.blocks) ? message : { ...message, blocks };
}

function prepareBlock(block: AssistantBlock): AssistantBlock[] {
  switch (block.block_type) {
    case "reasoning":
      return [];
    case "image":
      return [{ block_type: "text", data: { text: `[image: ${block.data.media_type}]` } }];
    case "text":
      // Gemini signs empty texts; without the signature that goes below they are refused, as everyone refuses them.
      return block.data.text.trim() === "" ? [] : [withoutMeta(block)];
    case "tool_use":
    case "server_tool_content":
      return [withoutMeta(block)];
  }
}

/**
 * A provider sends `meta` back with its block: signatures of Anthropic and Gemini, item ids of OpenAI. Each holds for
 * its own exchange with the reasoning in it and for its own model, and a summariser may be another one of the same
 * family: OpenAI refuses an item without its reasoning, Gemini the signature of another model. Gemini demands one only
 * for calls made since the user last spoke, and a request for a summary ends with the user speaking.
 */
function withoutMeta(block: AssistantBlock): AssistantBlock {
  if (block.data.meta === undefined) return block;
  const { meta: _dropped, ...data } = block.data;
  // The same block type with the same data but for the optional meta.
  return { ...block, data } as AssistantBlock;
}

function isSame<T>(some: readonly T[], others: readonly T[]): boolean {
  return some.length === others.length && some.every((one, index) => one === others[index]);
}
