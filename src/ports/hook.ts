import type { Compaction } from "../contract/compaction.ts";
import type { Usage } from "../contract/event.ts";
import type { FailurePolicy, HookCapability, HookMode, HookPoint } from "../contract/hook.ts";
import type { Content, StopReason } from "../contract/message.ts";
import type { JsonObject } from "../contract/session.ts";
import type { CompactionPlan } from "./compactor.ts";

/** What a hook is told of the step it is called at; what the point is not about is not there. */
export interface HookCall extends HookSubject {
  readonly point: HookPoint;
  readonly session_id: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** Texts were cut, since all of it would have been longer than `hooks.payload_max_bytes`. */
  readonly truncated?: true;
}

/** What a point is about. */
export interface HookSubject {
  /** Model calls the turn has made before. */
  readonly turn_number?: number;
  readonly prompt?: Content;
  readonly error?: string;
  readonly llm_request?: {
    readonly max_tokens?: number;
    readonly provider_params?: JsonObject;
    readonly message_count: number;
    readonly model: string;
  };
  readonly llm_response?: {
    readonly assistant_text: string;
    readonly tool_call_names: readonly string[];
    readonly stop_reason: StopReason;
    readonly usage: Usage;
  };
  readonly tool_call?: { readonly tool_use_id: string; readonly name: string; readonly args: JsonObject };
  readonly tool_result?: {
    readonly tool_use_id: string;
    readonly name: string;
    /** As a text, whatever else the tool gave. */
    readonly content: string;
    readonly is_error: boolean;
    readonly has_images: boolean;
  };
  readonly compaction?: Omit<CompactionPlan, "sessionId"> | Compaction;
}

/** Watches or guards a step of a turn. */
export interface Hook {
  /** By which events tell of it; no two hooks of a runtime have the same. */
  readonly id: string;
  readonly point: HookPoint;
  /** Whether the turn waits for it. */
  readonly mode: HookMode;
  /** What its answer can do. */
  readonly capability: HookCapability;
  /** Lower runs first; of two alike, the one that was given first. */
  readonly priority: number;
  readonly failurePolicy: FailurePolicy;
  /** How long it is waited for; without it, as configured. */
  readonly timeoutMs?: number | undefined;
  /** Of a point about tools: only for tools of these names, in which `*` stands for any signs. */
  readonly tools?: readonly string[] | undefined;
  /**
   * Gives nothing, or an answer, or a promise of that; what it throws, or what is no answer, is a failure of the hook. The
   * signal aborts when the hook is not waited for any more.
   */
  run(call: HookCall, signal: AbortSignal): unknown;
}
