import type { Compaction } from "../contract/compaction.ts";
import type { Usage } from "../contract/event.ts";
import type { FailurePolicy, HookCapability, HookMode, HookPoint } from "../contract/hook.ts";
import type { Content, StopReason } from "../contract/message.ts";
import type { JsonObject } from "../contract/session.ts";
import type { CompactionPlan } from "./compactor.ts";

/** The payload of a hook; fields that do not apply to the point are absent. */
export interface HookCall extends HookSubject {
  readonly point: HookPoint;
  readonly session_id: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** Texts were truncated to fit `hooks.payload_max_bytes`. */
  readonly truncated?: true;
}

/** The subject of a point. */
export interface HookSubject {
  /** The turn's model calls so far. */
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
    /** The output as text. */
    readonly content: string;
    readonly is_error: boolean;
    readonly has_images: boolean;
  };
  readonly compaction?: Omit<CompactionPlan, "sessionId"> | Compaction;
}

/** Observes or guards a step of a turn. */
export interface Hook {
  /** Identifies it in events; unique within a runtime. */
  readonly id: string;
  readonly point: HookPoint;
  /** Whether the turn waits for it. */
  readonly mode: HookMode;
  /** What its answer can change. */
  readonly capability: HookCapability;
  /** Lower runs first; equal ones in the order given. */
  readonly priority: number;
  readonly failurePolicy: FailurePolicy;
  /** How long the runtime waits; by default as configured. */
  readonly timeoutMs?: number | undefined;
  /** For tool points: only tools with these names; `*` matches any characters. */
  readonly tools?: readonly string[] | undefined;
  /** Set for a function of the program: a process of another program does not have it. */
  readonly isCode?: true;
  /**
   * Returns nothing, an answer, or a promise of either; an error or an invalid answer is a failure of the hook. The
   * signal aborts when the runtime stops waiting.
   */
  run(call: HookCall, signal: AbortSignal): unknown;
}
