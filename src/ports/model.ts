import type { Usage } from "../contract/event.ts";
import type { AssistantBlock, ContentBlock, Message, StopReason } from "../contract/message.ts";
import type { ModelPrices } from "../contract/money.ts";
import type { JsonObject } from "../contract/session.ts";

/** A tool as the model is told of it. */
export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
}

/** Any tool, or the one of a name. */
export type ToolChoice = "required" | { readonly name: string };

export interface ModelRequest {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
  readonly maxOutputTokens?: number | undefined;
  readonly providerParams?: JsonObject | undefined;
  /** Ask for JSON of this schema, where the provider can be held to it. */
  readonly outputSchema?: JsonObject | undefined;
  readonly stopSequences?: readonly string[] | undefined;
  /** The answer must call a tool; without it, the model decides. */
  readonly toolChoice?: ToolChoice | undefined;
  /** A provider that cannot send it sends the messages instead, which say the same. */
  readonly native?: NativeSummary | undefined;
}

/** A provider's own compaction of earlier messages, for the place of a summary; only that provider can read it. */
export interface NativeSummary {
  /** The summary it stands for: the message with this id. */
  readonly compactionId: string;
  /** As the provider gave it. */
  readonly item: JsonObject;
  /** What is said after it, in words; empty for nothing. */
  readonly following: string;
}

/** Why a call failed, in terms a policy can decide by. */
export type FailureKind =
  | "rate_limited"
  | "overloaded"
  | "server_error"
  | "network"
  | "call_timeout"
  | "stalled"
  | "empty_response"
  | "malformed_stream"
  | "answer_too_long"
  | "context_exceeded"
  | "auth"
  | "invalid_request"
  | "model_not_found"
  | "content_filtered"
  | "unknown";

export interface ModelFailure {
  readonly kind: FailureKind;
  readonly message: string;
  readonly status?: number | undefined;
  readonly retryAfterMs?: number | undefined;
}

/** One piece of an answer. Deltas are for showing; a `block` is what is kept, and comes after its deltas. */
export type ModelPart =
  | { readonly type: "text_delta"; readonly delta: string }
  | { readonly type: "reasoning_delta"; readonly delta: string }
  | { readonly type: "block"; readonly block: AssistantBlock }
  | {
      readonly type: "finish";
      readonly stopReason: StopReason;
      readonly usage: Usage;
      /** What the provider calls its answer, and the model that gave it, where it says so. */
      readonly response?: { readonly id?: string | undefined; readonly model?: string | undefined } | undefined;
    }
  | { readonly type: "failed"; readonly failure: ModelFailure };

/** A provider's own way to compact a conversation. */
export interface NativeCompaction {
  /** Whether it can be told what not to leave out. */
  readonly takesInstructions: boolean;
  /**
   * Compacts the messages of the request, and promises what the `stream` of a model does. What it gives is the content of
   * a block `server_tool_content`; an answer without one is an answer that gives none.
   */
  stream(request: NativeRequest, signal: AbortSignal): AsyncIterable<ModelPart>;
}

export interface NativeRequest extends Pick<ModelRequest, "messages" | "tools" | "maxOutputTokens" | "native"> {
  /** The whole prompt, instead of the provider's own. */
  readonly instructions?: string | undefined;
}

/** A model that can be asked. */
export interface ModelClient {
  readonly provider: string;
  readonly modelId: string;
  /** Tokens the model can see at once, when known. */
  readonly contextWindow: number | undefined;
  /** Its price; absent where it is unknown, which is not the same as free. */
  readonly prices?: ModelPrices | undefined;
  /** The address it is asked at; absent where there is none, or it is not known. */
  readonly url?: string | undefined;
  /** Absent where its provider has none. */
  readonly compaction?: NativeCompaction | undefined;
  /** Which parameter it cannot take, and why, as `name: why`; absent where all are passed on as they are. */
  refuseParams?(params: JsonObject): string | undefined;
  /** Why it cannot be made to call a tool, in a sentence; absent where it can. */
  readonly noToolChoice?: string | undefined;
  /** Why it cannot be shown a block, in a sentence; absent where it names what it cannot show. */
  refuseContent?(block: ContentBlock): string | undefined;
  /**
   * Streams one answer and ends with exactly one `finish` or `failed`. A failure is a part, not an exception;
   * an aborted call ends with any failure, or throws.
   */
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelPart>;
}

/** Finds the client for a model name, loading its provider on first use. */
export interface ModelResolver {
  /** Throws INVALID_PARAMS, in one sentence, for an unknown model or a missing key. */
  resolve(model: string | undefined, provider: string | undefined): Promise<ModelClient>;
}
