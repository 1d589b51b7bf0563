import type { Usage } from "../../contract/event.ts";
import type { AssistantBlock, Message, StopReason } from "../../contract/message.ts";
import type { JsonObject } from "../../contract/session.ts";
import type { ModelClient, ModelPart, ModelRequest } from "../../ports/model.ts";
import { answerQuestion, echo, type Knowledge, type Step, useTool } from "./answers.ts";
import { type Ask, readAsks, type ToolCall } from "./asks.ts";
import { contentText, currentTurn, isCompactionPrompt, memoriesOf, readPassages } from "./conversation.ts";
import { fillSchema } from "./structured.ts";
import { extractiveMemorySummary, extractiveSummary } from "./summary.ts";

const CONTEXT_TOKENS = 128_000;
const BYTES_PER_TOKEN = 4;
const MEDIA_TOKENS = 1_600;
/** Text without spaces is streamed in pieces of this size. */
const CHUNK_CHARS_MAX = 24;

/** A model without network, weights, clock or randomness: it echoes, quotes, computes, summarises and calls tools. */
export function createOfflineModel({ contextWindow = CONTEXT_TOKENS }: { contextWindow?: number } = {}): ModelClient {
  return {
    provider: "offline",
    modelId: "offline",
    contextWindow,
    noToolChoice: "the offline model decides itself whether to call a tool; leave it out",
    refuseParams,
    stream: streamReply,
  };
}

/** Sampling parameters are accepted and have no effect: this model does not sample. */
const SAMPLING_PARAMS = ["temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty"];

function refuseParams(params: JsonObject): string | undefined {
  const unknown = Object.keys(params).find(
    (name) => !SAMPLING_PARAMS.includes(name.replace(/[A-Z]/g, "_$&").toLowerCase()),
  );
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

/** Splits the answer into word-sized pieces, and ends it at a stop sequence or the token limit. */
function limit({ text, calls }: Reply, request: ModelRequest): { chunks: string[]; stopReason: StopReason } {
  const stops = (request.stopSequences ?? []).filter((stop) => stop !== "").map((stop) => text.indexOf(stop));
  const stop = Math.min(...stops.filter((at) => at >= 0));
  const kept = Number.isFinite(stop) ? text.slice(0, stop) : text;
  const bytesMax = (request.maxOutputTokens ?? Number.POSITIVE_INFINITY) * BYTES_PER_TOKEN;
  const chunks: string[] = [];
  let bytes = 0;
  for (const chunk of chunksOf(kept)) {
    bytes += Buffer.byteLength(chunk);
    // At least one piece is streamed: an empty answer counts as a broken model and is retried.
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
  // Compaction hides earlier calls, so a count alone would repeat ids that the log already holds.
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

/** FNV-1a of a user message's time and text. */
function hash(message: Message | undefined): string {
  const text = message?.role === "user" ? `${message.created_at}\n${contentText(message.content).slice(0, 1_000)}` : "";
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return (value >>> 0).toString(36);
}

function estimateUsage({ messages, tools }: ModelRequest, blocks: readonly AssistantBlock[]): Usage {
  const answer = blocks.map((block) => (block.block_type === "text" ? block.data.text : JSON.stringify(block.data)));
  const output_tokens = Math.ceil(Buffer.byteLength(answer.join("")) / BYTES_PER_TOKEN);
  return { input_tokens: estimateTokens(messages) + estimateTokens(tools), output_tokens };
}

/** JSON bytes / 4, with media counted separately. */
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

/** Asks beyond this in one message are not answered. */
const ASKS_MAX = 8;
const SUMMARY_TOKENS_DEFAULT = 4_096;

const IDENTITY =
  "I am rkat's built-in offline model: no network, no weights. I answer only from what is in this conversation and from the tools I am given: tell me facts, then ask for them. I can also add up, summarise, and search memory.";

interface Reply {
  readonly text: string;
  readonly calls: readonly ToolCall[];
}

/** Decides on an answer; the same request always gives the same one. */
function composeReply(request: ModelRequest): Reply {
  const { outputSchema } = request;
  const messages = withoutSchema(request);
  const maxTokens = request.maxOutputTokens ?? SUMMARY_TOKENS_DEFAULT;
  const last = messages.findLast((message) => message.role === "user");
  if (last !== undefined && isCompactionPrompt(last)) return sayOnly(extractiveSummary(messages, { maxTokens }));
  const turn = currentTurn(messages);
  const memories = memoriesOf(turn.text);
  if (memories !== undefined) return sayOnly(extractiveMemorySummary(memories, { maxTokens }));

  const passages = readPassages(messages);
  const tools = new Set(request.tools.map((tool) => tool.name));
  const knowledge: Knowledge = { passages, tools, exchanges: turn.exchanges };
  const asks = readAsks(turn.text);
  if (outputSchema !== undefined) {
    const plain = composeText(asks, { ...knowledge, tools: new Set() });
    return sayOnly(JSON.stringify(fillSchema(outputSchema, { passages, reply: plain.text })));
  }
  const reply = composeText(asks, knowledge);
  if (!turn.hasMedia || reply.calls.length > 0) return reply;
  return sayOnly(`I cannot see images or video; I read only the text beside them.\n${reply.text}`.trim());
}

/** The conversation before the message that carries the schema: field descriptions are no evidence. */
function withoutSchema({ messages, outputSchema }: ModelRequest): ModelRequest["messages"] {
  if (outputSchema === undefined) return messages;
  const schema = JSON.stringify(outputSchema);
  const asked = messages.findIndex(
    (message) => message.role === "user" && typeof message.content === "string" && message.content.includes(schema),
  );
  return asked === -1 ? messages : messages.slice(0, asked);
}

function sayOnly(text: string): Reply {
  return { text, calls: [] };
}

/** Calls the tools that are needed, all at once; without any, answers everything in the order it was asked. */
function composeText(asks: readonly Ask[], knowledge: Knowledge): Reply {
  const statements = asks.flatMap((ask) => (ask.kind === "statement" ? [ask.text] : []));
  const others = asks.flatMap((ask) => (ask.kind === "statement" ? [] : [ask]));
  const steps = others.slice(0, ASKS_MAX).map((ask) => takeStep(ask, knowledge));
  const calls = steps.flatMap((step) => ("call" in step ? [step.call] : []));
  if (calls.length > 0) return { text: "", calls: distinct(calls) };
  const echoed = statements.length === 0 ? [] : [echo(statements)];
  const said = [...echoed, ...steps.flatMap((step) => ("say" in step ? [step.say] : []))];
  return sayOnly(said.length === 0 ? IDENTITY : [...new Set(said)].join("\n"));
}

function takeStep(ask: Exclude<Ask, { kind: "statement" }>, knowledge: Knowledge): Step {
  switch (ask.kind) {
    case "identity":
      return { say: IDENTITY };
    case "arithmetic":
      return { say: ask.answer };
    case "call":
      return useTool(ask.call, knowledge);
    case "request":
      return { say: "I cannot do that: I only quote, add up, summarise and call tools." };
    case "question":
      return answerQuestion(ask.text, knowledge);
  }
}

function distinct(calls: readonly ToolCall[]): ToolCall[] {
  return [...new Map(calls.map((call) => [JSON.stringify(call), call])).values()];
}
