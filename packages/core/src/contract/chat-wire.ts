import { type AssistantMessage, blockText, type Content, type Message } from "./message.ts";

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
