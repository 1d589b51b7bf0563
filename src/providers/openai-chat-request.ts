import { chatMessages } from "../contract/chat-wire.ts";
import type { Message } from "../contract/message.ts";
import type { ModelRequest, ToolSpec } from "../ports/model.ts";

/** A request's JSON, in bytes. What the call before said is remembered, so a call pays for what is new in it. */
export function serialiseRequest(
  request: ModelRequest,
  asked: { model: string; stopSequences: readonly string[] | undefined },
): Buffer<ArrayBuffer> {
  const { tools, maxOutputTokens, providerParams, outputSchema, toolChoice: choice } = request;
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
    // Servers refuse it where there is nothing to call.
    ...(tools.length === 0 ? { parallel_tool_calls: undefined } : { tools: tools.map(toolOf) }),
    ...(choice === undefined
      ? {}
      : { tool_choice: choice === "required" ? choice : { type: "function", function: choice } }),
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
    for (const wire of chatMessages(message)) {
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
