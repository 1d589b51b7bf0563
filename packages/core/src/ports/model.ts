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
  /** A provider that does not support it sends the messages unchanged; they carry the same information. */
  readonly native?: NativeSummary | undefined;
}

/** A provider's own compaction of earlier messages, in place of a summary; only that provider can read it. */
export interface NativeSummary {
  /** The id of the summary message it replaces. */
  readonly compactionId: string;
  /** As returned by the provider. */
  readonly item: JsonObject;
  /** The text after it; empty for none. */
  readonly following: string;
}

/** Why a call failed, in terms a policy can use. */
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

/** One part of an answer. Deltas are for display; a `block` is stored and follows its deltas. */
export type ModelPart =
  | { readonly type: "text_delta"; readonly delta: string }
  | { readonly type: "reasoning_delta"; readonly delta: string }
  | { readonly type: "block"; readonly block: AssistantBlock }
  | {
      readonly type: "finish";
      readonly stopReason: StopReason;
      readonly usage: Usage;
      /** The provider's id of the answer, and the model, if it names them. */
      readonly response?: { readonly id?: string | undefined; readonly model?: string | undefined } | undefined;
    }
  | { readonly type: "failed"; readonly failure: ModelFailure };

/** A provider's own compaction of a conversation. */
export interface NativeCompaction {
  /** Whether it accepts instructions. */
  readonly takesInstructions: boolean;
  /**
   * Compacts the messages of the request; behaves like a model's `stream`. The result is the content of a
   * `server_tool_content` block; an answer without one has no result.
   */
  stream(request: NativeRequest, signal: AbortSignal): AsyncIterable<ModelPart>;
}

export interface NativeRequest extends Pick<ModelRequest, "messages" | "tools" | "maxOutputTokens" | "native"> {
  /** The whole prompt, instead of the provider's own. */
  readonly instructions?: string | undefined;
}

export interface ModelClient {
  readonly provider: string;
  readonly modelId: string;
  /** The context window in tokens, if known. */
  readonly contextWindow: number | undefined;
  /** Its prices; absent if unknown, which does not mean free. */
  readonly prices?: ModelPrices | undefined;
  /** Its address, if known. */
  readonly url?: string | undefined;
  /** Absent if the provider has none. */
  readonly compaction?: NativeCompaction | undefined;
  /** The parameter it does not accept, as `name: reason`; absent if all are passed on. */
  refuseParams?(params: JsonObject): string | undefined;
  /** Why it cannot be forced to call a tool; absent if it can. */
  readonly noToolChoice?: string | undefined;
  /** Why it cannot read a block; if absent, unreadable blocks are replaced by a description. */
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
