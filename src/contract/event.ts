import { z } from "zod";
import { Content, ContentBlock, StopReason } from "./message.ts";
import { RewriteRecord } from "./transcript/rewrite.ts";

export const Usage = z.object({
  input_tokens: z.number().int().nonnegative(),
  output_tokens: z.number().int().nonnegative(),
  cache_creation_tokens: z.number().int().nonnegative().optional(),
  cache_read_tokens: z.number().int().nonnegative().optional(),
  /** Of a call that was cut no provider tells what it took: a part of the sum is then an estimate. */
  estimated: z.literal(true).optional(),
});
export type Usage = z.infer<typeof Usage>;

const count = z.number().int().nonnegative();

export const Judgement = z.object({
  supported: count.describe("Sentences of the summary that its source says."),
  contradicted: count.describe("Sentences whose source says otherwise."),
  unverified: count.describe("Sentences that the judge could not decide."),
  usage: Usage.describe("What judging took; the usage of the compaction has it in it."),
});
export type Judgement = z.infer<typeof Judgement>;

export const TerminalCause = z.enum([
  "unknown",
  "hook_denied",
  "hook_failure",
  "llm_failure",
  "tool_failure",
  "structured_output_validation_failed",
  "budget_exhausted",
  "time_budget_exceeded",
  "retry_exhausted",
  "turn_limit_reached",
  "runtime_apply_failure",
  "fatal_failure",
]);
export type TerminalCause = z.infer<typeof TerminalCause>;

export const ErrorClass = z.enum([
  "llm",
  "store",
  "tool",
  "mcp",
  "session_not_found",
  "budget",
  "max_tokens",
  "content_filtered",
  "max_turns",
  "cancelled",
  "invalid_state",
  "operation_not_found",
  "depth_limit",
  "concurrency_limit",
  "config",
  "internal",
  "build",
  "auth",
  "callback_pending",
  "structured_output",
  "invalid_output_schema",
  "hook",
  "terminal",
  "no_pending_boundary",
]);
export type ErrorClass = z.infer<typeof ErrorClass>;

const HookPoint = z.enum([
  "run_started",
  "run_completed",
  "run_failed",
  "pre_llm_request",
  "post_llm_response",
  "pre_tool_execution",
  "post_tool_execution",
  "turn_boundary",
]);

export const BudgetType = z.enum(["tokens", "time", "tool_calls"]);
export type BudgetType = z.infer<typeof BudgetType>;

const session_id = z.string();
const SkillKey = z.object({ source_uuid: z.string(), skill_name: z.string() });
const SchemaWarning = z.object({ provider: z.string(), path: z.string(), message: z.string() });

/** What failed in a model call, as `retrying.retry` reports it beside the plan for the next attempt. */
const RetryDetail = z.object({
  failure: z.object({
    provider: z.string(),
    kind: z.string(),
    retry_after_ms: count.optional(),
    duration_ms: count.optional(),
    message: z.string(),
  }),
  plan: z.object({
    attempt: count,
    max_retries: count,
    computed_delay_ms: count,
    selected_delay_ms: count,
    retry_after_hint_ms: count.optional(),
    rate_limit_floor_applied: z.boolean(),
    budget_capped: z.boolean(),
  }),
});

const ErrorReport = z.object({
  class: ErrorClass,
  message: z.string(),
  reason: z.looseObject({ reason_type: z.string() }).optional(),
});

const ToolConfigChange = z.object({
  operation: z.enum(["add", "remove", "reload"]),
  target: z.string(),
  status: z.string(),
  status_info: z.looseObject({ kind: z.string() }),
  persisted: z.boolean(),
  applied_at_turn: count.optional(),
  domain: z.string().optional(),
});

/** Everything a listener of a session can be told. Names and fields are the wire's. */
export const AgentEvent = z.discriminatedUnion("type", [
  z.object({ type: z.literal("run_started"), session_id, prompt: Content }),
  z.object({
    type: z.literal("run_completed"),
    session_id,
    result: z.string(),
    usage: Usage,
    extraction_required: z.boolean(),
    structured_output: z.unknown().optional(),
    terminal_cause_kind: TerminalCause.optional(),
  }),
  z.object({
    type: z.literal("extraction_succeeded"),
    session_id,
    structured_output: z.unknown(),
    schema_warnings: z.array(SchemaWarning).optional(),
  }),
  z.object({
    type: z.literal("extraction_failed"),
    session_id,
    last_output: z.string(),
    attempts: count,
    reason: z.string(),
  }),
  z.object({
    type: z.literal("run_failed"),
    session_id,
    error_class: ErrorClass,
    error: z.string(),
    terminal_cause_kind: TerminalCause.optional(),
    error_report: ErrorReport.optional(),
  }),
  z.object({ type: z.literal("hook_started"), hook_id: z.string(), point: HookPoint }),
  z.object({ type: z.literal("hook_completed"), hook_id: z.string(), point: HookPoint, duration_ms: count }),
  z.object({ type: z.literal("hook_failed"), hook_id: z.string(), point: HookPoint, error: z.string() }),
  z.object({
    type: z.literal("hook_denied"),
    hook_id: z.string(),
    point: HookPoint,
    reason_code: z.string(),
    message: z.string(),
    payload: z.unknown().optional(),
  }),
  z.object({ type: z.literal("turn_started"), turn_number: count }),
  z.object({ type: z.literal("reasoning_delta"), delta: z.string() }),
  z.object({ type: z.literal("reasoning_complete"), content: z.string() }),
  z.object({ type: z.literal("text_delta"), delta: z.string() }),
  z.object({ type: z.literal("text_complete"), content: z.string() }),
  z.object({
    type: z.literal("server_tool_content"),
    id: z.string().optional(),
    name: z.string(),
    content: z.unknown(),
  }),
  z.object({
    type: z.literal("assistant_image_appended"),
    image: z.looseObject({ media_type: z.string() }),
  }),
  z.object({
    type: z.literal("tool_call_requested"),
    id: z.string(),
    name: z.string(),
    args: z.record(z.string(), z.unknown()),
  }),
  z.object({
    type: z.literal("tool_result_received"),
    id: z.string(),
    name: z.string(),
    content: z.array(ContentBlock).optional(),
    is_error: z.boolean(),
  }),
  z.object({ type: z.literal("turn_completed"), stop_reason: StopReason, usage: Usage }),
  z.object({ type: z.literal("tool_execution_started"), id: z.string(), name: z.string() }),
  z.object({
    type: z.literal("tool_execution_completed"),
    id: z.string(),
    name: z.string(),
    result: z.string(),
    content: z.array(ContentBlock).optional(),
    is_error: z.boolean(),
    duration_ms: count,
  }),
  z.object({ type: z.literal("tool_execution_timed_out"), id: z.string(), name: z.string(), timeout_ms: count }),
  z.object({
    type: z.literal("compaction_started"),
    input_tokens: count,
    estimated_history_tokens: count,
    message_count: count,
  }),
  z.object({
    type: z.literal("compaction_completed"),
    summary_tokens: count,
    messages_before: count,
    messages_after: count,
    judged: Judgement.optional().describe("What a judge found in the summary; only where one was asked."),
  }),
  z.object({ type: z.literal("compaction_failed"), error: z.string() }),
  z.object({
    type: z.literal("budget_warning"),
    budget_type: BudgetType,
    used: count,
    limit: count,
    percent: z.number(),
  }),
  z.object({
    type: z.literal("retrying"),
    attempt: count,
    max_attempts: count,
    error: z.string(),
    delay_ms: count,
    retry: RetryDetail.optional(),
  }),
  z.object({ type: z.literal("skills_resolved"), skills: z.array(SkillKey), injection_bytes: count }),
  z.object({
    type: z.literal("skill_resolution_failed"),
    skill_key: SkillKey.optional(),
    reason: z.looseObject({ reason_type: z.string() }),
    reference: z.string(),
    error: z.string(),
  }),
  z.object({
    type: z.literal("interaction_complete"),
    interaction_id: z.string(),
    result: z.string(),
    structured_output: z.unknown().optional(),
  }),
  z.object({
    type: z.literal("interaction_callback_pending"),
    interaction_id: z.string(),
    tool_name: z.string(),
    args: z.unknown(),
  }),
  z.object({ type: z.literal("interaction_failed"), interaction_id: z.string(), error: z.string() }),
  z.object({ type: z.literal("stream_truncated"), reason: z.string() }),
  z.object({ type: z.literal("tool_config_changed"), payload: ToolConfigChange }),
  z.object({
    type: z.literal("background_job_completed"),
    job_id: z.string(),
    display_name: z.string(),
    status: z.string().optional(),
    terminal_status: z.enum(["completed", "failed", "aborted", "cancelled", "retired", "terminated"]),
    detail: z.string(),
  }),
  z.object({
    type: z.literal("transcript_rewrite_committed"),
    session_id,
    record: RewriteRecord,
  }),
]);
export type AgentEvent = z.infer<typeof AgentEvent>;
export type AgentEventType = AgentEvent["type"];
export type AgentEventOf<T extends AgentEventType> = Extract<AgentEvent, { type: T }>;
