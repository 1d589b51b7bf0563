import type { Usage } from "../contract/event.ts";
import type { AssistantBlock, Message, StopReason } from "../contract/message.ts";
import type { JsonObject } from "../contract/session.ts";
import type { ModelClient, ModelPart, ModelRequest } from "../ports/model.ts";
import { textOf } from "./offline/conversation.ts";
import { composeReply, type Reply } from "./offline/reply.ts";

const CONTEXT_TOKENS = 128_000;
const BYTES_PER_TOKEN = 4;
const MEDIA_TOKENS = 1_600;
/** Text without spaces is streamed in pieces of this size. */
const CHUNK_CHARS_MAX = 24;

/** A model that needs no network, weights, clock or chance: it quotes, counts, summarises and calls tools. */
export function createOfflineModel({ contextWindow = CONTEXT_TOKENS }: { contextWindow?: number } = {}): ModelClient {
  return { provider: "offline", modelId: "offline", contextWindow, refuseParams, stream: streamReply };
}

/** What tunes chance is as good as done where there is none. */
const OF_CHANCE = ["temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty"];

function refuseParams(params: JsonObject): string | undefined {
  const unknown = Object.keys(params).find((name) => !OF_CHANCE.includes(name.replace(/[A-Z]/g, "_$&").toLowerCase()));
  return unknown === undefined ? undefined : `${unknown}: the offline model has no such parameter; leave it out`;
}

async function* streamReply(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelPart> {
  const reply = signal.aborted ? { text: "", calls: [] } : composeReply(request);
  const { chunks, stopReason } = limit(reply, request);
  for (const delta of chunks) {
    if (signal.aborted) break;
    yield { type: "text_delta", delta };
  }
  if (signal.aborted) {
    yield { type: "failed", failure: { kind: "unknown", message: "aborted" } };
    return;
  }
  const blocks = blocksOf(chunks.join(""), stopReason === "max_tokens" ? [] : reply.calls, request.messages);
  for (const block of blocks) yield { type: "block", block };
  yield { type: "finish", stopReason, usage: estimateUsage(request, blocks) };
}

/** The answer in word-sized pieces, ended where the request wants it ended. */
function limit({ text, calls }: Reply, request: ModelRequest): { chunks: string[]; stopReason: StopReason } {
  const stops = (request.stopSequences ?? []).filter((stop) => stop !== "").map((stop) => text.indexOf(stop));
  const stop = Math.min(...stops.filter((at) => at >= 0));
  const kept = Number.isFinite(stop) ? text.slice(0, stop) : text;
  const bytesMax = (request.maxOutputTokens ?? Number.POSITIVE_INFINITY) * BYTES_PER_TOKEN;
  const chunks: string[] = [];
  let bytes = 0;
  for (const chunk of chunksOf(kept)) {
    bytes += Buffer.byteLength(chunk);
    // At least one piece is said: an empty answer would be taken for a broken model and asked again.
    if (bytes > bytesMax && chunks.length > 0) return { chunks, stopReason: "max_tokens" };
    chunks.push(chunk);
  }
  if (kept !== text) return { chunks, stopReason: "stop_sequence" };
  return { chunks, stopReason: calls.length > 0 ? "tool_use" : "end_turn" };
}

function chunksOf(text: string): string[] {
  return (text.match(/\s+\S*|\S+/gu) ?? []).flatMap((word) => {
    if (word.length <= CHUNK_CHARS_MAX) return [word];
    return word.match(new RegExp(`[^]{1,${CHUNK_CHARS_MAX}}`, "gu")) ?? [];
  });
}

function blocksOf(text: string, calls: Reply["calls"], messages: readonly Message[]): AssistantBlock[] {
  const said: AssistantBlock[] = text === "" ? [] : [{ block_type: "text", data: { text } }];
  const used = messages.flatMap((message) => (message.role === "block_assistant" ? message.blocks : []));
  const count = used.filter((block) => block.block_type === "tool_use").length;
  // Compaction hides earlier calls, so a count alone would come back to ids the log already holds.
  const moment = hash(messages.findLast((message) => message.role === "user"));
  return [
    ...said,
    ...calls.map(({ name, args }, index): AssistantBlock => {
      return {
        block_type: "tool_use",
        data: { id: `offline-${count + index + 1}-${moment}`, name, args: { ...args } },
      };
    }),
  ];
}

/** FNV-1a of what makes a user message this one. */
function hash(message: Message | undefined): string {
  const text = message?.role === "user" ? `${message.created_at}\n${textOf(message.content).slice(0, 1_000)}` : "";
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return (value >>> 0).toString(36);
}

function estimateUsage({ messages, tools }: ModelRequest, blocks: readonly AssistantBlock[]): Usage {
  const answer = blocks.map((block) => (block.block_type === "text" ? block.data.text : JSON.stringify(block.data)));
  const output_tokens = Math.ceil(Buffer.byteLength(answer.join("")) / BYTES_PER_TOKEN);
  return { input_tokens: estimateTokens(messages) + estimateTokens(tools), output_tokens };
}

/** JSON bytes / 4; media count as media, not as the text that encodes them. */
function estimateTokens(value: readonly unknown[]): number {
  let media = 0;
  const json = JSON.stringify(value, function replace(this: unknown, key: string, inner: unknown) {
    if (key !== "data" || typeof inner !== "string" || !isMedia(this)) return inner;
    media += 1;
    return "";
  });
  return value.length === 0 ? 0 : Math.ceil(Buffer.byteLength(json) / BYTES_PER_TOKEN) + media * MEDIA_TOKENS;
}

function isMedia(holder: unknown): boolean {
  return typeof holder === "object" && holder !== null && "media_type" in holder;
}
