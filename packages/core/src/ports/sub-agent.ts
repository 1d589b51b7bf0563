/** A sub-agent that a model can delegate a task to; it works in its own session. */
export interface SubAgent {
  readonly name: string;
  /** Its purpose: the model chooses by it. */
  readonly description: string;
  /** Its system prompt. */
  readonly prompt: string;
  /** By default that of its parent. */
  readonly model?: string | undefined;
  readonly provider?: string | undefined;
  /** The subset of its parent's tools; by default all. */
  readonly tools?: readonly string[] | undefined;
  /** Its limits for one task, within its parent's remaining budget. */
  readonly limits?: SubAgentLimits | undefined;
  /** Model calls per task; by default as configured for turns. */
  readonly maxTurns?: number | undefined;
  /** `fork`: it begins with its parent's context; `none`, the default: with its task alone. */
  readonly inherit?: "none" | "fork" | undefined;
  /** `user`: from the user's own folder; a project's sub-agent of the same name takes precedence. */
  readonly from?: "user" | undefined;
}

export interface SubAgentLimits {
  readonly max_tokens?: number | undefined;
  readonly max_duration_ms?: number | undefined;
  readonly max_tool_calls?: number | undefined;
  /** In US dollars. */
  readonly max_cost?: number | undefined;
}

/** Limits that no model can exceed. */
export interface SubAgentBounds {
  /** How deep sub-agents may nest: 1 for none of their own. */
  readonly depthMax: number;
  /** How many of one parent run at once; others wait. */
  readonly concurrentMax: number;
  /** How many tasks one turn may delegate; others are rejected. */
  readonly tasksMax: number;
  /** Of a result in the parent's context; the child's session has the rest. */
  readonly resultBytesMax: number;
}
