import type { AssistantBlock, Message, ToolResult } from "../../../contract/message.ts";
import { textOfContent } from "../../message-text.ts";
import { type CallNames, UNKNOWN_TOOL } from "./call-names.ts";

/** A message as a reader of a transcript is shown it; empty when there is nothing to show. */
export function transcriptText(message: Message, names: CallNames | undefined): string {
  switch (message.role) {
    case "system":
      return labelled("Note", message.content);
    case "system_notice":
      return labelled("Note", message.body === undefined ? message.kind : `${message.kind}: ${message.body}`);
    case "user":
      return labelled("User", textOfContent(message.content));
    case "block_assistant":
      return message.blocks
        .map(blockText)
        .filter((text) => text !== "")
        .join("\n");
    case "tool_results":
      return message.results.map((result) => resultText(result, names)).join("\n");
  }
}

function labelled(label: string, text: string): string {
  return text.trim() === "" ? "" : `${label}: ${text}`;
}

function blockText(block: AssistantBlock): string {
  switch (block.block_type) {
    case "text":
      return labelled("Assistant", block.data.text);
    case "reasoning":
      return "";
    case "tool_use":
      return `Assistant called ${block.data.name} with ${JSON.stringify(block.data.args)}`;
    case "server_tool_content":
      return `Result of ${block.data.name}: ${JSON.stringify(block.data.content)}`;
    case "image":
      return `Assistant: [image: ${block.data.media_type}]`;
  }
}

/** An empty result is shown too: that a call came back with nothing is news. */
function resultText({ tool_use_id, content, is_error }: ToolResult, names: CallNames | undefined): string {
  const name = names?.get(tool_use_id) ?? UNKNOWN_TOOL;
  return `Result of ${name}${is_error ? " (failed)" : ""}: ${textOfContent(content)}`;
}
