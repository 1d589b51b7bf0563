import type { AssistantMessage, Content, ContentBlock, Message } from "../../contract/message.ts";
import type { ModelRequest, ToolSpec } from "../../ports/model.ts";

/** A request's JSON. Each message is written once and remembered, so a call pays for what is new in it. */
export function serialiseRequest(
  request: ModelRequest,
  asked: { model: string; stopSequences: readonly string[] | undefined },
): string {
  const { tools, maxOutputTokens, providerParams, outputSchema } = request;
  const { model, stopSequences: stop } = asked;
  const schema = { name: "output", schema: outputSchema };
  const settings = JSON.stringify({
    ...providerParams,
    model,
    stream: true,
    stream_options: { include_usage: true },
    ...(maxOutputTokens === undefined ? {} : { max_tokens: maxOutputTokens }),
    ...(stop === undefined || stop.length === 0 ? {} : { stop }),
    ...(tools.length === 0 ? {} : { tools: tools.map(toolOf) }),
    ...(outputSchema === undefined ? {} : { response_format: { type: "json_schema", json_schema: schema } }),
  });
  const messages = request.messages.map(remembered).filter((json) => json !== "");
  return `${settings.slice(0, -1)},"messages":[${messages.join(",")}]}`;
}

function toolOf({ name, description, inputSchema }: ToolSpec) {
  return { type: "function", function: { name, description, parameters: inputSchema } };
}

const written = new WeakMap<Message, string>();

/** A message as JSON, several separated by commas; empty when there is nothing to send. */
function remembered(message: Message): string {
  const known = written.get(message);
  if (known !== undefined) return known;
  const json = wireMessages(message)
    .map((wire) => JSON.stringify(wire))
    .join(",");
  written.set(message, json);
  return json;
}

function wireMessages(message: Message): readonly object[] {
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
    if (block.type !== "image" || block.source !== "inline") return { type: "text", text: textOf(block) };
    return { type: "image_url", image_url: { url: `data:${block.media_type};base64,${block.data}` } };
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
  return typeof content === "string" ? content : content.map(textOf).join("\n");
}

function textOf(block: ContentBlock): string {
  return block.type === "text" ? block.text : `[${block.type}: ${block.media_type}]`;
}
