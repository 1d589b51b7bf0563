import { type AssistantMessage, blockText, type Content, type Message } from "../contract/message.ts";
import type { ModelRequest, ToolSpec } from "../ports/model.ts";

/** A request's JSON, in bytes. What the call before said is remembered, so a call pays for what is new in it. */
export function serialiseRequest(
  request: ModelRequest,
  asked: { model: string; stopSequences: readonly string[] | undefined },
): Buffer<ArrayBuffer> {
  const { tools, maxOutputTokens, providerParams, outputSchema } = request;
  const { model, stopSequences: stop } = asked;
  const schema = { name: "output", schema: outputSchema };
  const settings = JSON.stringify({
    ...providerParams,
    messages: undefined, // They stand before, and of two a server takes the later.
    model,
    stream: true,
    stream_options: { include_usage: true },
    ...(maxOutputTokens === undefined ? {} : { max_tokens: maxOutputTokens }),
    ...(stop === undefined || stop.length === 0 ? {} : { stop }),
    ...(tools.length === 0 ? {} : { tools: tools.map(toolOf) }),
    ...(outputSchema === undefined ? {} : { response_format: { type: "json_schema", json_schema: schema } }),
  });
  const written = recall(request.messages);
  const end = writeMessages(written, request.messages);
  return Buffer.concat([written.bytes.subarray(0, end), Buffer.from(`],${settings.slice(1)}`)]);
}

function toolOf({ name, description, inputSchema }: ToolSpec) {
  return { type: "function", function: { name, description, parameters: inputSchema } };
}

/**
 * The messages of a conversation's newest request; `ends` says where in its JSON each of them ends. They are kept in bytes:
 * one sign that is not Latin makes a text of as many megabytes a wide one, and to encode that at every call cost four
 * times as much.
 */
interface Written {
  readonly messages: Message[];
  readonly ends: number[];
  /** Longer than what is written in it. */
  bytes: Buffer;
}

const OPENING = Buffer.from('{"messages":[');

/** By first message: it is what a conversation keeps, whatever is added to it or compacted away. */
const conversations = new WeakMap<Message, Written>();

function recall([first]: readonly Message[]): Written {
  const known = first === undefined ? undefined : conversations.get(first);
  if (known !== undefined) return known;
  const written: Written = { messages: [], ends: [], bytes: OPENING };
  if (first !== undefined) conversations.set(first, written);
  return written;
}

/**
 * Writes a request up to the end of its messages, and says where that is. It begins like the one before, so that is taken as
 * it is: to look every message up and join them again was a quarter of what a turn cost after 1,000 turns.
 */
function writeMessages(written: Written, messages: readonly Message[]): number {
  const same = sharedLength(written.messages, messages);
  written.messages.length = same;
  written.ends.length = same;
  let end = written.ends.at(-1) ?? OPENING.length;
  for (const message of messages.slice(same)) {
    for (const wire of wireMessages(message)) {
      const json = `${end === OPENING.length ? "" : ","}${JSON.stringify(wire)}`;
      written.bytes = withRoom(written.bytes, end + Buffer.byteLength(json));
      end += written.bytes.write(json, end);
    }
    written.messages.push(message);
    written.ends.push(end);
  }
  return end;
}

/** The same bytes in a buffer that takes so many; twice as many, so that they are not moved at every message. */
function withRoom(bytes: Buffer, length: number): Buffer {
  if (length <= bytes.length) return bytes;
  const roomy = Buffer.alloc(2 * length);
  bytes.copy(roomy);
  return roomy;
}

/** How many messages two conversations begin with alike. */
function sharedLength(one: readonly Message[], other: readonly Message[]): number {
  const length = Math.min(one.length, other.length);
  for (let index = 0; index < length; index += 1) if (one[index] !== other[index]) return index;
  return length;
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
