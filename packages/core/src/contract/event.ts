import { HookPoint } from "./hook.ts";
import { InboxSource, WhenBusy } from "./input.ts";
import { Content, ContentBlock, StopReason } from "./message.ts";
import { Cost, Economy } from "./money.ts";
import { Answer, AskedCall, approval_id } from "./permission.ts";
import { RewriteRecord } from "./rewrite.ts";
import { z } from "./schema.ts";
import { EndPhase, GoalRecord } from "./wire/goal.ts";

const count = z.number().int().nonnegative();

export const Usage = z.object({
  input_tokens: count.describe("input tokens"),
  output_tokens: count.describe("output tokens"),
  cache_creation_tokens: count.optional().describe("input tokens written to the provider's cache"),
  cache_read_tokens: count.optional().describe("input tokens read from the provider's cache"),
  reasoning_tokens: count
    .optional()
    .describe("reasoning tokens among the output; absent where the provider reports none"),
  estimated: z
    .literal(true)
    .optional()
    .describe("a part of it is an estimate: providers report no usage for a call that was cut off"),
  cost: Cost.optional().describe("what it cost by the prices of its time; absent where no price is known"),
});
export type Usage = z.infer<typeof Usage>;

export const Judgement = z.object({
  supported: count.describe("Sentences of the summary that its source says."),
  contradicted: count.describe("Sentences whose source says otherwise."),
  unverified: count.describe("Sentences that the judge could not decide."),
  usage: Usage.describe("The usage of judging; included in the usage of the compaction."),
});
export type Judgement = z.infer<typeof Judgement>;

/** A provider's own compaction as an event shows it: only that provider can read its content. */
export const NativeFacts = z.object({
  provider: z.string().describe("whose it is"),
  model: z.string().describe("the model it is for"),
  bytes: count.describe("how large it is, as JSON"),
  usage: Usage.describe("its usage; included in the usage of the compaction"),
});

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

export const BudgetType = z.enum(["tokens", "time", "tool_calls", "cost"]);
export type BudgetType = z.infer<typeof BudgetType>;

const session_id = z.string().describe("the session's id");
const SkillKey = z.object({
  source_uuid: z.string().describe("the source the skill comes from"),
  skill_name: z.string().describe("its name there"),
});
const SchemaWarning = z.object({
  provider: z.string().describe("the provider"),
  path: z.string().describe("where in the schema"),
  message: z.string().describe("what was left out"),
});

/** What failed in a model call, as `retrying.retry` reports it beside the plan for the next attempt. */
const RetryDetail = z.object({
  failure: z
    .object({
      provider: z.string().describe("who failed"),
      kind: z.string().describe("what kind of failure it was, such as rate_limited"),
      retry_after_ms: count.optional().describe("how long the provider asks to wait"),
      duration_ms: count.optional().describe("how long the call took"),
      message: z.string().describe("what it said"),
    })
    .describe("what failed"),
  plan: z
    .object({
      attempt: count.describe("which attempt comes next"),
      max_retries: count.describe("the maximum number of attempts"),
      computed_delay_ms: count.describe("the wait by the configuration"),
      selected_delay_ms: count.describe("the wait that was chosen"),
      retry_after_hint_ms: count.optional().describe("the wait the provider asked for"),
      rate_limit_floor_applied: z.boolean().describe("whether a rate limit made it longer"),
      budget_capped: z.boolean().describe("whether the time that is left made it shorter"),
    })
    .describe("how it is tried again"),
});

const reason_type = z.string().describe("which reason it is");

const ErrorReport = z.object({
  class: ErrorClass.describe("what kind of error it was"),
  message: z.string().describe("what went wrong"),
  reason: z.looseObject({ reason_type }).optional().describe("details by type"),
});

const ToolConfigChange = z.object({
  operation: z.enum(["add", "remove", "reload"]).describe("what was done"),
  target: z.string().describe("the server it was done to"),
  status: z.string().describe("how far it got"),
  status_info: z.looseObject({ kind: z.string().describe("which status it is") }).describe("more of the status"),
  persisted: z.boolean().describe("whether it was written to a file"),
  applied_at_turn: count.optional().describe("the turn from which it holds"),
  domain: z.string().optional().describe("what kind of tools it is about"),
});

const error = z.string().describe("what went wrong");
const text = z.string().describe("the whole text");
const message_id = z.string().describe("the id of the message, where it was in the inbox");
const goal_id = z.string().describe("the id of the goal");
const inboxMessage = { session_id, message_id, source: InboxSource.optional().describe("who sent it") };
const delta = z.string().describe("the next piece of the text");
const duration_ms = count.describe("how long it took, in milliseconds");
const is_error = z.boolean().describe("whether the tool failed");
const blocks = z.array(ContentBlock).optional().describe("what the tool gave, where that is more than a text");
const structured_output = z.unknown().optional().describe("the result that matches the schema");
const interaction_id = z.string().describe("what the caller knows it by");
const hook = { hook_id: z.string().describe("the hook's id"), point: HookPoint.describe("where it runs") };
const subAgent = {
  call_id: z.string().describe("the call of the tool agent"),
  agent: z.string().describe("the sub-agent's name"),
  child_id: z.string().describe("the session it works in, by its id"),
};
const call = { id: z.string().describe("the call's id"), name: z.string().describe("the tool's name") };
const usage = (of: string) => Usage.describe(`the tokens ${of} used`);
const turn_cost = Cost.optional().describe(
  "what the turn cost, its compactions included; absent where no price is known",
);

const economy = Economy.optional().describe("whether it pays; absent where no price of the model is known");
const summarised = {
  summary_tokens: count.describe("the length of the summary"),
  messages_before: count.describe("messages of the context before"),
  messages_after: count.describe("messages of the context after"),
};

/** How a turn changed hands: the fields of its entry and of its event. */
export const Adoption = {
  attempt: count.describe(
    "how many processes have run the turn, this one included; a turn that was released is not counted",
  ),
  from_seq: count.describe("the last durable seq of the process before: the turn continues from there"),
  reason: z.enum(["process_ended", "released"]).describe("why the process before stopped"),
  superseded: z
    .boolean()
    .describe("whether a model call is made again: what it had streamed since from_seq is replaced by what follows"),
};

const event = <const T extends string, F extends z.ZodRawShape>(type: T, meaning: string, fields: F) =>
  z.object({ type: z.literal(type).describe(meaning), ...fields });

/** Every event that a listener of a session can receive. Names and fields are the wire's. */
export const AgentEvent = z.discriminatedUnion("type", [
  event("run_started", "a turn has begun", {
    session_id,
    prompt: Content.describe("the prompt"),
    message_id: message_id.optional(),
    goal: GoalRecord.optional().describe("the goal that the turn begins"),
  }),
  event("run_completed", "a turn has ended", {
    session_id,
    result: z.string().describe("its last text"),
    usage: usage("the turn"),
    turn_cost,
    extraction_required: z.boolean().describe("whether a structured result is still to be extracted"),
    structured_output,
    pending_calls: z
      .array(z.string())
      .optional()
      .describe("the ids of the calls that it ended with, for the client to run"),
    terminal_cause_kind: TerminalCause.optional().describe("why it stopped short; absent where the model ended it"),
  }),
  event("message_queued", "a message waits in the session's inbox", {
    ...inboxMessage,
    when_busy: WhenBusy.describe("how it was sent"),
  }),
  event("message_delivered", "a message of the inbox reaches the model", inboxMessage),
  event("message_removed", "a message of the inbox does not reach the model", {
    ...inboxMessage,
    why: z.string().optional().describe("why, in a sentence; absent where a caller removed it"),
  }),
  event("goal_judged", "the condition of the goal was judged", {
    session_id,
    goal_id,
    met: z.boolean().describe("whether it holds"),
    reason: z.string().describe("why, in the words of the command's output or of the judge, which are data"),
    usage: Usage.optional().describe("the tokens of the judge"),
  }),
  event("goal_ended", "the goal starts no further turns", {
    session_id,
    goal_id,
    phase: EndPhase,
    reason: z.string().describe("why, in a sentence"),
  }),
  event("message_refused", "a message to another session was refused", {
    session_id,
    to: z.string().describe("the session that it was for"),
    reason: z
      .enum(["depth", "rate", "permission"])
      .describe(
        "depth: too many messages since a prompt; rate: too many within a minute; permission: a rule denies it",
      ),
    why: z.string().describe("why, in a sentence"),
  }),
  event("turn_adopted", "another process continues the turn", { session_id, ...Adoption }),
  event("extraction_succeeded", "a structured result was extracted", {
    session_id,
    structured_output: z.unknown().describe("the result that matches the schema"),
    schema_warnings: z.array(SchemaWarning).optional().describe("parts of the schema that a provider does not support"),
  }),
  event("extraction_failed", "no structured result could be extracted", {
    session_id,
    last_output: z.string().describe("the last answer of the model"),
    attempts: count.describe("the number of attempts"),
    reason: z.string().describe("what does not match"),
  }),
  event("run_failed", "a turn has failed", {
    session_id,
    error_class: ErrorClass.describe("what kind of error it was"),
    error,
    terminal_cause_kind: TerminalCause.optional().describe("why it ended"),
    error_report: ErrorReport.optional().describe("details of the error"),
    turn_cost,
  }),
  event("hook_started", "a hook begins", hook),
  event("hook_completed", "a hook has ended", {
    ...hook,
    duration_ms,
    rewrote: z.literal(true).optional().describe("the change of the tool's arguments or result, which is stored"),
    ignored: z.literal(true).optional().describe("it returned more than an observer may; that was ignored"),
  }),
  event("hook_failed", "a hook has failed", { ...hook, error }),
  event("hook_denied", "a hook has refused the step", {
    ...hook,
    reason_code: z.string().describe("the reason, as a short name"),
    message: z.string().describe("why, in a sentence"),
    payload: z.unknown().optional().describe("further output of the hook"),
  }),
  event("turn_started", "a model call begins", { turn_number: count.describe("which call of the turn it is") }),
  event("reasoning_delta", "a piece of the model's reasoning; live only", { delta }),
  event("reasoning_complete", "the model has finished a block of reasoning", { content: text }),
  event("text_delta", "a piece of the model's text; live only", { delta }),
  event("text_complete", "the model has finished a text", { content: text }),
  event("server_tool_content", "a tool of the provider's has answered", {
    id: z.string().optional().describe("the provider's id of the call"),
    name: z.string().describe("the tool's name"),
    content: z.unknown().describe("its result, as the provider sends it"),
  }),
  event("assistant_image_appended", "the model has made an image", {
    image: z.looseObject({ media_type: z.string().describe("such as image/png") }).describe("what is known of it"),
  }),
  event("tool_call_requested", "the model calls a tool", {
    ...call,
    args: z.record(z.string(), z.unknown()).describe("the arguments"),
  }),
  event("tool_result_received", "the model receives the result of a tool", { ...call, content: blocks, is_error }),
  event("turn_completed", "a model call has ended", {
    stop_reason: StopReason.describe("why the model stopped"),
    usage: usage("the call"),
  }),
  event("tool_execution_started", "a tool begins", call),
  event("tool_execution_completed", "a tool has ended", {
    ...call,
    result: z.string().describe("its result as a text"),
    content: blocks,
    is_error,
    duration_ms,
  }),
  event("tool_execution_timed_out", "a tool has timed out", {
    ...call,
    timeout_ms: count.describe("its timeout"),
  }),
  event("tool_approval_requested", "the turn waits for approval of tool calls", {
    session_id,
    approval_id,
    calls: z.array(AskedCall).describe("the calls that wait, all of one answer of the model"),
    expires_at: z.string().describe("until when it can be answered; then it counts as denied"),
  }),
  event("tool_approval_answered", "tool calls were approved or denied", { session_id, approval_id, ...Answer }),
  event("compaction_started", "a compaction begins", {
    compaction_id: z
      .string()
      .optional()
      .describe("its id if it succeeds; absent in logs of versions that did not record it"),
    input_tokens: count.describe("tokens of the last model call's input"),
    estimated_history_tokens: count.describe("the estimated tokens of the context"),
    message_count: count.describe("messages of the context"),
    economy,
  }),
  event("compaction_completed", "the context was compacted", {
    ...summarised,
    judged: Judgement.optional().describe("what a judge found in the summary; only where one was asked"),
    native: NativeFacts.optional().describe("the provider's own compaction, which is kept beside the summary"),
    economy,
    prepared: z
      .boolean()
      .optional()
      .describe("whether its summary was there before it was needed; only of sessions that prepare them"),
    waited_ms: count
      .optional()
      .describe("how long the turn waited for the summary, in milliseconds; only of sessions that prepare them"),
  }),
  event("compaction_prepared", "a summary was made behind a turn, for when the context has to be compacted", {
    compaction_id: z.string().describe("the id the compaction will have"),
    ...summarised,
    usage: usage("the summary"),
    economy,
  }),
  event("compaction_dropped", "a compaction that was prepared, or was to be, is not made", {
    reason: z.string().describe("why, in a sentence"),
    usage: Usage.optional().describe("its usage; absent if there was none"),
  }),
  event("compaction_failed", "the context stays as it was", { error }),
  event("native_compaction_refused", "a provider refused its own compaction; the summary is sent instead", {
    compaction_id: z.string().describe("the compaction it was kept with"),
    provider: z.string().describe("who refused it"),
    error,
  }),
  event("context_evicted", "tool output became one line each, which recall_output shows whole; no model was asked", {
    compaction_id: z.string().describe("the eviction's id, by which it is listed and undone as a compaction is"),
    outputs: count.describe("outputs that became one line each"),
    superseded: count.describe("of them, those that the same call returned again later"),
    failed: count.describe("of them, those of calls of earlier turns that failed"),
    large: count.describe("of them, those that were old and large"),
    tokens_before: count.describe("the estimated tokens of the context"),
    tokens_after: count.describe("the estimated tokens after it"),
  }),
  event("budget_warning", "a budget is nearly used up", {
    budget_type: BudgetType.describe("which budget"),
    used: count.describe("how much of it is used: tokens, whole seconds, calls, or millionths of a US dollar"),
    limit: count.describe("the limit"),
    percent: z.number().describe("how much of it is used, in percent"),
  }),
  event("retrying", "a model call has failed and is made again", {
    attempt: count.describe("which attempt comes next"),
    max_attempts: count.describe("the maximum number of attempts"),
    error,
    delay_ms: count.describe("the delay, in milliseconds"),
    retry: RetryDetail.optional().describe("what failed, and how it is tried again"),
  }),
  event("skills_resolved", "skills were loaded", {
    skills: z.array(SkillKey).describe("which"),
    injection_bytes: count.describe("the size of their texts"),
  }),
  event("skill_resolution_failed", "a skill was not found", {
    skill_key: SkillKey.optional().describe("which"),
    reason: z.looseObject({ reason_type }).describe("why, by its type"),
    reference: z.string().describe("what was asked for"),
    error,
  }),
  event("interaction_complete", "what a caller asked for is done", {
    interaction_id,
    result: z.string().describe("what came of it"),
    structured_output,
  }),
  event("interaction_callback_pending", "a tool of the caller's is waited for", {
    interaction_id,
    tool_name: z.string().describe("the tool's name"),
    args: z.unknown().describe("what it is given"),
  }),
  event("interaction_failed", "what a caller asked for has failed", { interaction_id, error }),
  event("sub_agent_started", "a task was delegated to a sub-agent", {
    ...subAgent,
    task: z.string().describe("its task"),
  }),
  event("sub_agent_event", "something happened in a sub-agent's session; live only, and not every delta", {
    ...subAgent,
    depth: count.describe("how many sessions lie between it and the one that is listened to, itself counted"),
    event: z
      .looseObject({ type: z.string().describe("which event it is") })
      .describe("the event, as that session emits it"),
  }),
  event("sub_agent_completed", "a sub-agent has ended", {
    ...subAgent,
    status: z.enum(["completed", "failed", "interrupted"]).describe("how it ended"),
    usage: usage("it and its own sub-agents"),
    tool_calls: count.describe("tool calls of it and its own sub-agents"),
  }),
  event("stream_truncated", "a subscriber was too slow and has missed events", { reason: z.string().describe("why") }),
  event("tool_config_changed", "the tools of a server have changed", {
    payload: ToolConfigChange.describe("what was changed"),
  }),
  event("background_job_completed", "a job in the background has ended", {
    job_id: z.string().describe("the job's id"),
    display_name: z.string().describe("the job in words"),
    status: z.string().optional().describe("how it ended, as older clients read it"),
    terminal_status: z
      .enum(["completed", "failed", "aborted", "cancelled", "retired", "terminated"])
      .describe("how it ended"),
    detail: z.string().describe("what it said last"),
  }),
  event("transcript_rewrite_committed", "the transcript was rewritten or restored", {
    session_id,
    record: RewriteRecord.describe("what was changed"),
  }),
]);
export type AgentEvent = z.infer<typeof AgentEvent>;
export type AgentEventType = AgentEvent["type"];
export type AgentEventOf<T extends AgentEventType> = Extract<AgentEvent, { type: T }>;
