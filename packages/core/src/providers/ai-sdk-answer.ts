import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { Usage } from "../contract/event.ts";
import { defined } from "../contract/json.ts";
import type { AssistantBlock, StopReason } from "../contract/message.ts";
import type { ModelFailure, ModelPart } from "../ports/model.ts";
import { keepMetadata, mergeMetadata, type ProviderMetadata } from "./ai-sdk-dialect.ts";
import { asRecord, countOf, parseArguments, toolUseBlock } from "./http-stream.ts";
import { CUT_OFF } from "./model-failure.ts";

/** A stream part of any version; only the finish part differs between them. */
export type StreamPart =
  | Exclude<LanguageModelV4StreamPart, { type: "finish" }>
  | { readonly type: "finish"; readonly finishReason: unknown; readonly usage: unknown };

export type AnswerEnd =
  | Extract<ModelPart, { type: "finish" }>
  | { readonly type: "failed"; readonly failure: ModelFailure }
  | { readonly type: "error"; readonly error: unknown };

/** Prevents a stall timeout while a long tool input or hidden reasoning shows nothing. */
export const SIGN_OF_LIFE: ModelPart = { type: "text_delta", delta: "" };

interface OpenBlock {
  readonly kind: "text" | "reasoning";
  text: string;
  metadata: ProviderMetadata | undefined;
}

/** Collects the pieces of an answer into blocks. Parts to emit are in `ready`, which the reader empties. */
export class Answer {
  readonly ready: ModelPart[] = [];
  readonly #open = new Map<string, OpenBlock>();
  #hasToolCall = false;
  #hasContent = false;
  #response: { readonly id: string | undefined; readonly model: string | undefined } | undefined;

  /** Adds one part; returns how the answer ended, once it has. */
  take(part: StreamPart): AnswerEnd | undefined {
    switch (part.type) {
      case "text-start":
      case "reasoning-start":
        this.#start(part.type === "text-start" ? "text" : "reasoning", part.id, part.providerMetadata);
        return undefined;
      case "text-delta":
      case "reasoning-delta":
        this.#extend(part.type === "text-delta" ? "text" : "reasoning", part);
        return undefined;
      case "text-end":
      case "reasoning-end":
        this.#finish(`${part.type === "text-end" ? "text" : "reasoning"} ${part.id}`, part.providerMetadata);
        return undefined;
      case "tool-call":
        this.#finishAll();
        this.#keep(toolBlock(part));
        this.#hasToolCall ||= part.providerExecuted !== true;
        return undefined;
      case "tool-result":
        this.#finishAll();
        this.#keep({
          block_type: "server_tool_content",
          data: { id: part.toolCallId, name: part.toolName, content: part.result, ...metaOf(part.providerMetadata) },
        });
        return undefined;
      case "file":
        this.#finishAll();
        this.#keepFile(part);
        return undefined;
      case "error":
        return { type: "error", error: part.error };
      case "finish":
        return this.#end(part.finishReason, part.usage);
      case "tool-input-start":
      case "tool-input-delta":
      case "ping":
        this.ready.push(SIGN_OF_LIFE);
        return undefined;
      // Tool input is taken whole from its tool-call; the other parts hold nothing to keep.
      case "tool-input-end":
      case "tool-approval-request":
      case "custom":
      case "reasoning-file":
      case "source":
      case "stream-start":
      case "raw":
        return undefined;
      case "response-metadata":
        this.#response = { id: part.id ?? this.#response?.id, model: part.modelId ?? this.#response?.model };
        return undefined;
    }
  }

  #start(kind: OpenBlock["kind"], id: string, metadata: ProviderMetadata | undefined): void {
    // Some packages reuse an id for the next block.
    this.#finish(`${kind} ${id}`, undefined);
    this.#open.set(`${kind} ${id}`, { kind, text: "", metadata: mergeMetadata(undefined, metadata) });
  }

  #extend(kind: OpenBlock["kind"], part: { id: string; delta: string; providerMetadata?: ProviderMetadata }): void {
    const key = `${kind} ${part.id}`;
    let block = this.#open.get(key);
    if (block === undefined) {
      block = { kind, text: "", metadata: undefined };
      this.#open.set(key, block);
    }
    if (part.providerMetadata !== undefined) block.metadata = mergeMetadata(block.metadata, part.providerMetadata);
    if (part.delta === "") return;
    block.text += part.delta;
    this.ready.push({ type: kind === "text" ? "text_delta" : "reasoning_delta", delta: part.delta });
  }

  #finish(key: string, metadata: ProviderMetadata | undefined): void {
    const block = this.#open.get(key);
    if (block === undefined) return;
    this.#open.delete(key);
    const data = { text: block.text, ...metaOf(mergeMetadata(block.metadata, metadata)) };
    // A block may be only its signature: redacted or hidden reasoning, or Gemini's signed empty text.
    if (data.text === "" && data.meta === undefined) return;
    this.#keep({ block_type: block.kind, data });
  }

  /** Chat servers end a text only with the whole stream; text before a tool call must stay before it. */
  #finishAll(): void {
    for (const key of [...this.#open.keys()]) this.#finish(key, undefined);
  }

  #keep(block: AssistantBlock): void {
    this.#hasContent = true;
    this.ready.push({ type: "block", block });
  }

  #keepFile(part: Extract<StreamPart, { type: "file" }>): void {
    const data: unknown = typeof part.data === "object" && "data" in part.data ? part.data.data : part.data;
    if (!part.mediaType.startsWith("image/")) return;
    const base64 = data instanceof Uint8Array ? Buffer.from(data).toString("base64") : data;
    if (typeof base64 !== "string") return;
    this.#keep({
      block_type: "image",
      data: { media_type: part.mediaType, data: base64, ...metaOf(part.providerMetadata) },
    });
  }

  #end(finishReason: unknown, usage: unknown): AnswerEnd {
    const reason = readReason(finishReason);
    const isCutOff = reason.unified === "interrupted" || (reason.unified === "unknown" && !this.#hasContent);
    if (isCutOff) return { type: "failed", failure: CUT_OFF };
    if (reason.unified === "error") return { type: "failed", failure: stoppedByError(reason.raw) };
    this.#finishAll();
    const stopReason = stopReasonOf(reason, this.#hasToolCall);
    const response = this.#response === undefined ? {} : { response: this.#response };
    return { type: "finish", stopReason, usage: readUsage(usage), ...response };
  }
}

function metaOf(metadata: ProviderMetadata | undefined) {
  const meta = keepMetadata(metadata);
  return meta === undefined ? {} : { meta };
}

type ToolCallPart = Extract<StreamPart, { type: "tool-call" }>;

function toolBlock(part: ToolCallPart): AssistantBlock {
  const { toolCallId: id, toolName: name, input } = part;
  const meta = metaOf(mergeMetadata(undefined, part.providerMetadata));
  if (part.providerExecuted !== true) return toolUseBlock({ id, name, input, ...meta });
  const { args } = parseArguments(input, name);
  return { block_type: "server_tool_content", data: { id, name, content: { input: args }, ...meta } };
}

interface Reason {
  readonly unified: string;
  readonly raw: string;
}

/** A string in v2; later a pair of the SDK's and the provider's reason. */
function readReason(finishReason: unknown): Reason {
  if (typeof finishReason === "string") return { unified: finishReason, raw: "" };
  if (typeof finishReason !== "object" || finishReason === null) return { unified: "unknown", raw: "" };
  const unified = "unified" in finishReason ? finishReason.unified : undefined;
  const raw = "raw" in finishReason ? finishReason.raw : undefined;
  return { unified: typeof unified === "string" ? unified : "unknown", raw: typeof raw === "string" ? raw : "" };
}

function stoppedByError(raw: string): ModelFailure {
  const why = raw === "" ? "" : `: ${raw}`;
  return { kind: "malformed_stream", message: `the provider stopped the answer because of an error${why}` };
}

function stopReasonOf(reason: Reason, hasToolCall: boolean): StopReason {
  if (reason.unified === "length") return "max_tokens";
  if (reason.unified === "content-filter") return "content_filter";
  // The calls decide, not the reason: some servers say "stop" with calls, and calls must be answered.
  if (hasToolCall) return "tool_use";
  return reason.raw === "stop_sequence" ? "stop_sequence" : "end_turn";
}

/** Token counts of any version's finish part; missing ones are 0, since a finished answer must not fail. */
function readUsage(usage: unknown): Usage {
  const { inputTokens, outputTokens, cachedInputTokens, reasoningTokens } = asRecord(usage);
  // v2 has plain numbers; later versions have a total with details.
  const input =
    typeof inputTokens === "number" ? { total: inputTokens, cacheRead: cachedInputTokens } : asRecord(inputTokens);
  const output =
    typeof outputTokens === "number" ? { total: outputTokens, reasoning: reasoningTokens } : asRecord(outputTokens);
  const thought = countOf(output.reasoning) ?? 0;
  const cacheRead = countOf(input.cacheRead);
  const cacheWrite = countOf(input.cacheWrite);
  return {
    input_tokens: countOf(input.total) ?? 0,
    output_tokens: countOf(output.total) ?? 0,
    ...defined({ cache_read_tokens: cacheRead, cache_creation_tokens: cacheWrite }),
    ...(thought > 0 ? { reasoning_tokens: thought } : {}),
  };
}
