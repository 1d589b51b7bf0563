/** A helper that a model can delegate a task to; it works in its own session. */
export interface SubAgent {
  readonly name: string;
  /** What it is for: the model chooses by it. */
  readonly description: string;
  /** Its system prompt. */
  readonly prompt: string;
  /** Without it, that of its parent. */
  readonly model?: string | undefined;
  readonly provider?: string | undefined;
  /** The only tools it has of those its parent has; without it, all of them. */
  readonly tools?: readonly string[] | undefined;
  /** What it may use of what its parent has left, each time it is asked. */
  readonly limits?: SubAgentLimits | undefined;
  /** Model calls for one task; without it, as configured for any turn. */
  readonly maxTurns?: number | undefined;
  /** `fork`: it begins with what its parent was shown; `none`, unless said, with its task alone. */
  readonly inherit?: "none" | "fork" | undefined;
  /** `user`: of the user's own folder, so that one which a project configures under its name holds before it. */
  readonly from?: "user" | undefined;
}

export interface SubAgentLimits {
  readonly max_tokens?: number | undefined;
  readonly max_duration_ms?: number | undefined;
  readonly max_tool_calls?: number | undefined;
  /** In US dollars. */
  readonly max_cost?: number | undefined;
}

/** What no model passes, whatever it asks for. */
export interface SubAgentBounds {
  /** How far sub-agents may have sub-agents: 1 for none of their own. */
  readonly depthMax: number;
  /** How many of one parent run at once; more wait. */
  readonly concurrentMax: number;
  /** How many tasks one turn may hand out; more are refused. */
  readonly tasksMax: number;
  /** Of a result in the parent's context; the rest is in the child's session. */
  readonly resultBytesMax: number;
}
