import type { Usage } from "../contract/event.ts";
import type { AssistantBlock, Message, StopReason } from "../contract/message.ts";
import type { ModelPrices } from "../contract/money.ts";
import type { JsonObject } from "../contract/session.ts";

/** A tool as the model is told of it. */
export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
}

export interface ModelRequest {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
  readonly maxOutputTokens?: number | undefined;
  readonly providerParams?: JsonObject | undefined;
  /** Ask for JSON of this schema, where the provider can be held to it. */
  readonly outputSchema?: JsonObject | undefined;
  readonly stopSequences?: readonly string[] | undefined;
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

/** A model that can be asked. */
export interface ModelClient {
  readonly provider: string;
  readonly modelId: string;
  /** Tokens the model can see at once, when known. */
  readonly contextWindow: number | undefined;
  /** What it charges; absent where nobody knows, which is not the same as nothing. */
  readonly prices?: ModelPrices | undefined;
  /** The address it is asked at; absent where there is none, or it is not known. */
  readonly url?: string | undefined;
  /** Which parameter it cannot take, and why, as `name: why`; absent where all are passed on as they are. */
  refuseParams?(params: JsonObject): string | undefined;
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
