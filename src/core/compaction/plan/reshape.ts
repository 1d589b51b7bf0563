import type { Reshape } from "../../../contract/compaction.ts";
import type { AssistantBlock, Message } from "../../../contract/message.ts";
import { textOfContent } from "../../message-text.ts";

/** From the mildest to the last resort: how kept messages are simplified when a provider would reject them. */
export const RESHAPES: readonly Reshape[] = ["as_is", "without_reasoning", "text_only"];

/** A kept message in a simpler form; a message that has nothing to lose stays the same object. */
export function reshapeMessage(message: Message, reshape: Reshape): Message {
  switch (reshape) {
    case "as_is":
      return message;
    case "without_reasoning":
      return withoutReasoning(message);
    case "text_only":
      return asText(message);
  }
}

function withoutReasoning(message: Message): Message {
  if (message.role !== "block_assistant") return message;
  const blocks = message.blocks.filter((block) => block.block_type !== "reasoning");
  if (blocks.length === message.blocks.length) return message;
  // Item ids and signatures are only valid together with the reasoning they were made with.
  return { ...message, blocks: blocks.length === 0 ? [NOTHING_SAID] : blocks.map(withoutMeta) };
}

const NOTHING_SAID: AssistantBlock = { block_type: "text", data: { text: "(no visible text)" } };

function withoutMeta(block: AssistantBlock): AssistantBlock {
  const { meta: _dropped, ...data } = block.data;
  // The same block type with the same data but for the optional meta.
  return { ...block, data } as AssistantBlock;
}

/** Calls and results as plain text: no provider can find fault with their pairing. */
function asText(message: Message): Message {
  switch (message.role) {
    case "system":
    case "system_notice":
    case "user":
      return message;
    case "block_assistant": {
      const text = message.blocks.flatMap(textOfBlock).join("\n").trim();
      const said: AssistantBlock = text === "" ? NOTHING_SAID : { block_type: "text", data: { text } };
      return { ...message, blocks: [said], stop_reason: "end_turn" };
    }
    case "tool_results": {
      const lines = message.results.map(
        ({ content, is_error }) => `[${is_error ? "failed tool result" : "tool result"}: ${textOfContent(content)}]`,
      );
      return { role: "user", content: lines.join("\n"), created_at: message.created_at };
    }
  }
}

function textOfBlock(block: AssistantBlock): string[] {
  switch (block.block_type) {
    case "text":
      return [block.data.text];
    case "reasoning":
      return [];
    case "tool_use":
      return [`[called ${block.data.name} with ${JSON.stringify(block.data.args)}]`];
    case "server_tool_content":
      return [`[${block.data.name}: ${JSON.stringify(block.data.content)}]`];
    case "image":
      return [`[image: ${block.data.media_type}]`];
  }
}
