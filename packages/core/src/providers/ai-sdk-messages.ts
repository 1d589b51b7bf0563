import type {
  AssistantBlock,
  AssistantMessage,
  Content,
  ContentBlock,
  Message,
  ToolResult,
  ToolResultsMessage,
} from "../contract/message.ts";
import { asRecord, type Loose } from "./http-stream.ts";

/** A message of the AI SDK: of a model's prompt, or as callers write it. */
export interface SdkMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: unknown;
}

/** A message and its SDK originals; results of one batch may come in several messages. */
export interface ReadMessage<M> {
  readonly said: Message;
  readonly from: readonly M[];
}

export interface ReadMessages<M> {
  /** Those before the conversation. */
  readonly systems: readonly M[];
  readonly system: string;
  readonly conversation: readonly ReadMessage<M>[];
}

/** Distinguishes files by content. */
type Digest = (data: string | Uint8Array) => string;

/** The time is unknown. */
const created_at = new Date(0).toISOString();

/**
 * Reads messages of the AI SDK as far as a compaction needs them: without provider metadata, files by name. A
 * conversation reads the same in both of its forms, whatever options, such as cache marks, its messages have.
 */
export function readMessages<M extends SdkMessage>(messages: readonly M[], digest: Digest): ReadMessages<M> {
  const begins = messages.findIndex(({ role }) => role !== "system");
  const systems = messages.slice(0, begins < 0 ? messages.length : begins);
  const conversation: ReadMessage<M>[] = [];
  for (const message of messages.slice(systems.length)) {
    const last = conversation.at(-1);
    if (message.role === "tool" && last?.said.role === "tool_results") {
      const results = [...last.said.results, ...resultsIn(message, digest)];
      conversation[conversation.length - 1] = { said: { ...last.said, results }, from: [...last.from, message] };
    } else conversation.push({ said: read(message, digest), from: [message] });
  }
  return { systems, system: systems.map(({ content }) => textOf(content)).join("\n\n"), conversation };
}

function read(message: SdkMessage, digest: Digest): Message {
  switch (message.role) {
    case "system":
      return { role: "system_notice", kind: "system", body: textOf(message.content), created_at };
    case "user":
      return { role: "user", content: plainest(partsOf(message).map((part) => blockOf(part, digest))), created_at };
    case "assistant": {
      const blocks = partsOf(message).flatMap(assistantBlock);
      const stop_reason = blocks.some(({ block_type }) => block_type === "tool_use") ? "tool_use" : "end_turn";
      return { role: "block_assistant", blocks, stop_reason, created_at };
    }
    case "tool":
      return { role: "tool_results", results: resultsIn(message, digest), created_at };
  }
}

function partsOf({ content }: SdkMessage): readonly Loose[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  return Array.isArray(content) ? content.map(asRecord) : [];
}

/** One text becomes a plain string. */
function plainest(blocks: ContentBlock[]): Content {
  const [first, ...rest] = blocks;
  return first?.type === "text" && rest.length === 0 ? first.text : blocks;
}

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined ? "" : JSON.stringify(value);
}

function blockOf(part: Loose, digest: Digest): ContentBlock {
  if (part.type === "text") return { type: "text", text: textOf(part.text) };
  const data = part.type === "image" ? part.image : part.data;
  const tagged = asRecord(data);
  if (tagged.type === "text") return { type: "text", text: textOf(tagged.text) };
  const named = textOf(part.mediaType ?? part.mimeType);
  const media_type = named === "" ? (part.type === "image" ? "image/*" : "application/octet-stream") : named;
  const bytes = tagged.type === "data" ? tagged.data : data;
  const { blob_id, size } = blobOf(bytes, digest);
  const blob = { media_type, source: "blob" as const, blob_id, size };
  if (part.type === "image" || media_type.startsWith("image")) return { type: "image", ...blob };
  return { type: "file", ...blob, ...(typeof part.filename === "string" ? { name: part.filename } : {}) };
}

function blobOf(data: unknown, digest: Digest): { readonly blob_id: string; readonly size: number } {
  const bytes = data instanceof ArrayBuffer ? new Uint8Array(data) : data;
  if (bytes instanceof Uint8Array) return { blob_id: digest(bytes), size: bytes.length };
  const text = textOf(data);
  // The size of a URL or a provider's file id is unknown here.
  const isBase64 = typeof data === "string" && !/^[a-z][a-z0-9+.-]{0,20}:/i.test(text);
  return { blob_id: digest(text), size: isBase64 ? Math.floor((text.length * 3) / 4) : 0 };
}

function assistantBlock(part: Loose): readonly AssistantBlock[] {
  const [id, name] = [textOf(part.toolCallId), textOf(part.toolName)];
  switch (part.type) {
    case "text":
      return [{ block_type: "text", data: { text: textOf(part.text) } }];
    case "reasoning":
      return [{ block_type: "reasoning", data: { text: textOf(part.text) } }];
    case "tool-call":
      // A tool that the provider ran has no separate result.
      if (part.providerExecuted === true) {
        return [{ block_type: "server_tool_content", data: { id, name, content: { input: part.input } } }];
      }
      return [{ block_type: "tool_use", data: { id, name, args: argsOf(part.input) } }];
    case "tool-result":
      return [{ block_type: "server_tool_content", data: { id, name, content: part.output } }];
    case "file":
      return [{ block_type: "text", data: { text: `[file: ${textOf(part.mediaType)}]` } }];
    default:
      return [];
  }
}

function argsOf(input: unknown): Record<string, unknown> {
  return typeof input === "object" && input !== null && !Array.isArray(input) ? { ...input } : { input };
}

function resultsIn(message: SdkMessage, digest: Digest): ToolResult[] {
  return partsOf(message).flatMap((part): ToolResult[] => {
    if (part.type !== "tool-result") return [];
    const output = asRecord(part.output);
    const is_error = output.type === "error-text" || output.type === "error-json" || output.type === "execution-denied";
    return [{ tool_use_id: textOf(part.toolCallId), content: contentOf(output, digest), is_error }];
  });
}

function contentOf(output: Loose, digest: Digest): Content {
  if (output.type === "execution-denied")
    return `denied${output.reason === undefined ? "" : `: ${textOf(output.reason)}`}`;
  if (output.type !== "content" || !Array.isArray(output.value)) return textOf(output.value);
  return plainest(output.value.map((part) => blockOf(asRecord(part), digest)));
}

/** The messages with shorter replacements from `instead`; the others are unchanged. */
export function showInstead<M extends SdkMessage>({ said, from }: ReadMessage<M>, instead: Message): readonly M[] {
  if (said.role === "tool_results" && instead.role === "tool_results") return withResults(from, said, instead);
  if (said.role === "block_assistant" && instead.role === "block_assistant") {
    if (callCount(said) === callCount(instead)) return from.map(withoutReasoning);
    const text = instead.blocks.map((block) => (block.block_type === "text" ? block.data.text : "")).join("\n");
    return [saying<M>("assistant", text)];
  }
  // Results that became text are a user message.
  return instead.role === "user" ? [saying<M>("user", textOf(instead.content))] : from;
}

export function saying<M extends SdkMessage>(role: "user" | "assistant", text: string): M {
  return { role, content: [{ type: "text", text }] } as unknown as M; // Both a prompt and a caller may say so.
}

function callCount({ blocks }: AssistantMessage): number {
  return blocks.filter(({ block_type }) => block_type === "tool_use").length;
}

function withResults<M extends SdkMessage>(
  from: readonly M[],
  said: ToolResultsMessage,
  { results }: ToolResultsMessage,
): readonly M[] {
  const whole = new Map(said.results.map(({ tool_use_id, content }) => [tool_use_id, content]));
  const shorter = new Map(
    results.flatMap(({ tool_use_id: id, content }) =>
      typeof content === "string" && content !== whole.get(id) ? [[id, content] as const] : [],
    ),
  );
  const outputOf = (part: Loose) => (part.type === "tool-result" ? shorter.get(textOf(part.toolCallId)) : undefined);
  return from.map((message) => {
    const parts = partsOf(message);
    if (!parts.some((part) => outputOf(part) !== undefined)) return message;
    const content = parts.map((part) => {
      const value = outputOf(part);
      return value === undefined ? part : { ...part, output: { type: "text", value } };
    });
    return { ...message, content };
  });
}

function withoutReasoning<M extends SdkMessage>(message: M): M {
  const kept = partsOf(message).filter(({ type }) => type !== "reasoning" && type !== "reasoning-file");
  // Provider metadata is valid only together with its reasoning.
  const content = kept.map(({ providerOptions: _dropped, ...part }) => part);
  return { ...message, content: content.length === 0 ? [{ type: "text", text: "(no visible text)" }] : content };
}
