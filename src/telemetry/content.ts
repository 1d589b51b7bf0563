import type { AssistantBlock, Content, Message } from "../contract/message.ts";
import type { Spans } from "./spans.ts";

/** What one attribute holds at most; the rest of a long conversation is in the session's log. */
const CONTENT_CHARS_MAX = 65_536;

/** A value as the convention writes it into an attribute: JSON, without secrets. Undefined unless content is asked for. */
export function contentOf({ capturesContent, redact }: Spans, make: () => unknown): string | undefined {
  if (!capturesContent) return undefined;
  try {
    // Before they are written as JSON: what a text holds is not found any more once its quotes and lines are escaped.
    const safe = JSON.stringify(make(), (_key, value: unknown) => (typeof value === "string" ? redact(value) : value));
    return safe?.slice(0, CONTENT_CHARS_MAX);
  } catch {
    // A tool without types may return what no JSON can say; its caller is told so, and not by its telemetry.
    return undefined;
  }
}

/** A text as an attribute; undefined unless content is asked for. */
export function textContent({ capturesContent, redact }: Spans, text: string): string | undefined {
  return capturesContent ? redact(text).slice(0, CONTENT_CHARS_MAX) : undefined;
}

/** Messages in the shape of `gen_ai.input.messages`; media are named and not told. */
export function spokenMessages(messages: readonly Message[]): readonly unknown[] {
  return messages.map(spokenMessage);
}

function spokenMessage(message: Message): unknown {
  switch (message.role) {
    case "system":
      return { role: "system", parts: [textPart(message.content)] };
    case "system_notice":
      return { role: "system", parts: [textPart(message.body ?? "")] };
    case "user":
      return { role: "user", parts: partsOf(message.content) };
    case "block_assistant":
      return answeredMessage(message.blocks);
    case "tool_results":
      return {
        role: "tool",
        parts: message.results.map(({ tool_use_id: id, content }) => ({
          type: "tool_call_response",
          id,
          response: typeof content === "string" ? content : partsOf(content),
        })),
      };
  }
}

/** A model's answer in the shape of `gen_ai.output.messages`. */
export function answeredMessage(blocks: readonly AssistantBlock[]): unknown {
  return { role: "assistant", parts: blocks.map(blockPart) };
}

export function partsOf(content: Content): readonly unknown[] {
  if (typeof content === "string") return [textPart(content)];
  return content.map((block) => {
    if (block.type === "text") return textPart(block.text);
    return { type: block.type, modality: block.type, mime_type: block.media_type };
  });
}

function blockPart(block: AssistantBlock): unknown {
  switch (block.block_type) {
    case "text":
      return textPart(block.data.text);
    case "reasoning":
      return { type: "reasoning", content: block.data.text };
    case "tool_use":
      return { type: "tool_call", id: block.data.id, name: block.data.name, arguments: block.data.args };
    case "server_tool_content":
      return { type: "server_tool_call_response", id: block.data.id, response: block.data.content };
    case "image":
      return { type: "image", modality: "image", mime_type: block.data.media_type };
  }
}

function textPart(content: string): unknown {
  return { type: "text", content };
}
