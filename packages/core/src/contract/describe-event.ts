import type { Receipt, SpecificStatus } from "./compaction.ts";
import type { AgentEvent, AgentEventOf, BudgetType } from "./event.ts";

/** An event in words, for every place that shows one; a place that shows more starts from it. */
export interface EventLine {
  /**
   * A piece is part of what another event reports whole, a step is for readers who follow a turn closely, a remark belongs
   * between the messages of a transcript, and a notice is for everybody.
   */
  readonly level: "piece" | "step" | "remark" | "notice";
  readonly tone: "plain" | "warn" | "bad";
  /** One sentence, in lower case and without its full stop; texts of users, models and tools are in it as they are. */
  readonly text: string;
}

const piece = (text: string): EventLine => ({ level: "piece", tone: "plain", text });
const step = (text: string): EventLine => ({ level: "step", tone: "plain", text });
const remark = (text: string, tone: EventLine["tone"] = "plain"): EventLine => ({ level: "remark", tone, text });
const notice = (text: string): EventLine => ({ level: "notice", tone: "warn", text });

/** An event as a line for people. One without a case here is described by its type and its reason. */
export function describeEvent(event: AgentEvent): EventLine {
  switch (event.type) {
    case "run_started":
      return step(`turn started in session ${event.session_id}`);
    case "run_completed": {
      const cause = event.terminal_cause_kind;
      if (cause === undefined) return step(`turn completed, ${tokens(event.usage)} in the session`);
      return remark(`turn stopped short: ${CAUSES[cause] ?? cause.replaceAll("_", " ")}`, "warn");
    }
    case "run_failed":
      if (event.error_class === "cancelled") return remark("turn interrupted", "warn");
      return remark(`turn failed: ${event.error}`, "bad");
    case "turn_adopted": {
      const why = event.reason === "released" ? "its process stopped" : "its process ended";
      return remark(`turn continued by another process, attempt ${event.attempt}: ${why}`, "warn");
    }
    case "extraction_succeeded":
      return step("the output matches the schema");
    case "extraction_failed":
      return remark(`the output does not match the schema: ${event.reason}`, "bad");
    case "turn_started":
      return step(`model call ${event.turn_number + 1}`);
    case "turn_completed":
      return step(`model stopped: ${event.stop_reason}, ${tokens(event.usage)}`);
    case "reasoning_complete":
      return step(`thought: ${event.content}`);
    case "text_complete":
      return piece(`said: ${event.content}`);
    case "text_delta":
    case "reasoning_delta":
      return piece(event.delta);
    case "tool_call_requested":
      return step(`→ ${event.name} ${JSON.stringify(event.args)}`);
    case "tool_execution_started":
      return piece(`${event.name} started`);
    case "tool_execution_completed":
      return step(
        `← ${event.name} ${event.is_error ? "failed" : "answered"} in ${event.duration_ms} ms: ${event.result}`,
      );
    case "tool_execution_timed_out":
      return notice(`${event.name} was stopped after ${seconds(event.timeout_ms)}`);
    case "tool_result_received":
      return piece(`the result of ${event.name} was shown to the model`);
    // The approval request shows the calls themselves.
    case "tool_approval_requested":
      return piece(`waiting for approval of ${counted(event.calls.length, "call")}`);
    case "tool_approval_answered":
      return answerLine(event);
    case "hook_started":
      return step(`hook ${event.hook_id} at ${event.point}`);
    case "hook_completed":
      return step(`hook ${event.hook_id} ${event.rewrote === true ? "rewrote" : "took"} it in ${event.duration_ms} ms`);
    case "hook_denied":
      return remark(`hook ${event.hook_id} denied it: ${event.message}`, "warn");
    case "hook_failed":
      return notice(`hook ${event.hook_id} failed: ${event.error}`);
    case "compaction_started": {
      const size = `about ${counted(event.estimated_history_tokens, "token")}`;
      return step(`compacting ${counted(event.message_count, "message")}, ${size}…`);
    }
    case "compaction_completed":
      return step(compactedLine(event));
    case "compaction_prepared":
      return step(`a compaction is ready: a summary of ${counted(event.summary_tokens, "token")}`);
    case "compaction_dropped":
      return notice(`a prepared compaction was dropped: ${event.reason}`);
    case "compaction_failed":
      return notice(`compaction failed: ${event.error}`);
    case "native_compaction_refused":
      return notice(`${event.provider} refused its own compaction, so the summary is sent: ${event.error}`);
    case "context_evicted": {
      const change = `${grouped(event.tokens_before)} → ${grouped(event.tokens_after)} tokens`;
      return step(`evicted: ${counted(event.outputs, "tool output")}, about ${change}`);
    }
    case "budget_warning":
      return notice(budgetLine(event));
    case "retrying":
      return notice(
        `retrying in ${seconds(event.delay_ms)} (${event.attempt} of ${event.max_attempts}): ${event.error}`,
      );
    case "skills_resolved":
      return step(`loaded: ${event.skills.map(({ skill_name }) => skill_name).join(", ")}`);
    case "skill_resolution_failed":
      return step(`not loaded: ${event.error}`);
    case "sub_agent_started":
      return remark(`▸ ${event.agent}: ${event.task}`);
    case "sub_agent_event":
      return piece(`${event.agent}: ${event.event.type}`);
    case "sub_agent_completed": {
      const used = `${grouped(event.usage.input_tokens + event.usage.output_tokens)} tokens`;
      return remark(`◂ ${event.agent} ${event.status}: ${used}, ${counted(event.tool_calls, "tool call")}`);
    }
    case "stream_truncated":
      return notice(event.reason);
    case "message_queued":
      return remark(`message of ${senderOf(event.source)} queued (${event.when_busy})`);
    case "message_delivered":
      return remark(`message of ${senderOf(event.source)} delivered`);
    case "message_removed":
      return remark(`message removed from the inbox${event.why === undefined ? "" : `: ${event.why}`}`, "warn");
    case "goal_judged":
      return remark(`goal ${event.met ? "reached" : "not reached yet"}: ${event.reason}`);
    case "goal_ended":
      return event.phase === "reached"
        ? step("goal ended: reached")
        : remark(`goal ended, ${event.phase.replace("_", " ")}: ${event.reason}`, "warn");
    case "message_refused":
      return notice(event.why);
    case "background_job_completed":
      return remark(`job ${event.display_name} ended: ${event.terminal_status}`);
    case "transcript_rewrite_committed": {
      const { messages_before, messages_after, reason } = event.record.commit;
      const change = `${grouped(messages_before)} → ${grouped(messages_after)} messages`;
      return remark(`transcript rewritten: ${change} (${reason.note ?? reason.kind})`);
    }
    default:
      return step(plainLine(event));
  }
}

/** `tool_config_changed` as `tool config changed`, with the field that says why or what. */
function plainLine(event: { readonly type: string }): string {
  const { error, reason, message, name }: Readonly<Record<string, unknown>> = { ...event };
  const why = [error, reason, message, name].find((value) => typeof value === "string");
  return `${event.type.replaceAll("_", " ")}${why === undefined ? "" : `: ${why}`}`;
}

const CAUSES: Readonly<Record<string, string>> = {
  budget_exhausted: "a budget of the session is used up",
  time_budget_exceeded: "its time is used up",
  turn_limit_reached: "it made as many model calls as a turn may",
  retry_exhausted: "the model failed again and again",
  structured_output_validation_failed: "no answer matched the schema",
};

function answerLine({
  decision,
  by = "you",
  calls,
  remember,
  reason,
}: AgentEventOf<"tool_approval_answered">): EventLine {
  const of = `by ${by}: ${counted(calls.length, "call")}`;
  if (decision === "allow") return remark(`allowed ${remember === "once" ? "" : `for the ${remember} `}${of}`);
  if (decision === "cancel") return remark(`dismissed ${of}`, "warn");
  return remark(`denied ${of}${reason === undefined ? "" : ` (${reason})`}`, "warn");
}

function compactedLine(event: AgentEventOf<"compaction_completed">): string {
  const { messages_before, messages_after, summary_tokens, judged, native } = event;
  const change = `${grouped(messages_before)} → ${grouped(messages_after)} messages`;
  const found = judged && `; judged: ${judged.contradicted} contradicted, ${judged.unverified} unverified`;
  const kept = native && `; beside it, ${native.provider}'s own`;
  return `compacted: ${change}, a summary of ${counted(summary_tokens, "token")}${found ?? ""}${kept ?? ""}`;
}

const BUDGETS: Readonly<Record<BudgetType, string>> = {
  tokens: "token budget",
  time: "time budget (seconds)",
  tool_calls: "tool call budget",
  cost: "cost budget",
};
/** Of a dollar: what a budget of cost is counted in. */
const MILLIONTHS = 1_000_000;

function budgetLine({ budget_type, used, limit, percent }: AgentEventOf<"budget_warning">): string {
  const amount = (count: number) =>
    budget_type === "cost" ? costText({ amount: count / MILLIONTHS }) : grouped(count);
  return `${Math.round(percent)} % of the ${BUDGETS[budget_type]} is used: ${amount(used)} of ${amount(limit)}`;
}

function tokens({ input_tokens, output_tokens }: { input_tokens: number; output_tokens: number }): string {
  return `${grouped(input_tokens)} tokens in / ${grouped(output_tokens)} out`;
}

export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

/** Created on first use: loading the rules of a locale takes 18 ms of CPU. */
let numberFormat: Intl.NumberFormat | undefined;

/** `1048576` as `1,048,576`. */
export function grouped(count: number): string {
  numberFormat ??= new Intl.NumberFormat("en");
  return numberFormat.format(count);
}

/** `1 message`, `2 messages`, `3 memories`. */
export function counted(count: number, noun: string): string {
  const plural = noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${grouped(count)} ${count === 1 ? noun : plural}`;
}

/** Of an amount below a cent so many digits are shown. */
const SMALL_DIGITS = 2;

/** `$1.20`, `$0.0013`; `≥ $1.20` where some of it has no known price, `?` where none has. */
export function costText(cost: { readonly amount: number; readonly partial?: true | undefined } | undefined): string {
  if (cost === undefined) return "?";
  const { amount, partial } = cost;
  const isSmall = amount > 0 && amount < 0.01;
  const text = amount.toFixed(isSmall ? Math.ceil(-Math.log10(amount)) + SMALL_DIGITS - 1 : 2);
  return `${partial === true ? "≥ " : ""}$${text}`;
}

/** An event with whose it is: a sub-agent's, or of the session that is listened to. */
interface UnwrappedEvent {
  readonly event: AgentEvent;
  /** 0 for the session that is listened to. */
  readonly depth: number;
  /** The sub-agent it happened to, and the session that works in; undefined at depth 0. */
  readonly agent: string | undefined;
  readonly childId: string | undefined;
}

const DEPTH_MAX = 64;

/** The event inside `sub_agent_event` wrappers, and its depth; an event without a wrapper is its own. */
export function unwrapSubAgentEvent(event: AgentEvent): UnwrappedEvent {
  let unwrapped: UnwrappedEvent = { event, depth: 0, agent: undefined, childId: undefined };
  for (let level = 0; level < DEPTH_MAX && unwrapped.event.type === "sub_agent_event"; level += 1) {
    const { event: inner, depth, agent, child_id } = unwrapped.event;
    // A session emits only events of the table.
    unwrapped = { event: inner as AgentEvent, depth: unwrapped.depth + Math.max(1, depth), agent, childId: child_id };
  }
  return unwrapped;
}

/** The approval that an event requests, of the session or of a sub-agent; undefined for other events. */
export function questionIn(event: AgentEvent): AgentEventOf<"tool_approval_requested"> | undefined {
  const unwrapped = unwrapSubAgentEvent(event);
  return unwrapped.event.type === "tool_approval_requested" ? unwrapped.event : undefined;
}

/** Whose sub-agent works in a session. */
interface Parentage {
  readonly parent: string;
  readonly agent: string;
}

/** The parent of a sub-agent's session, by its labels; undefined for other sessions. */
export function parentageOf({
  labels = {},
}: {
  readonly labels?: Readonly<Record<string, string>> | undefined;
}): Parentage | undefined {
  const { parent, parent_call, agent } = labels;
  // Users may set a label of one of these names; only a sub-agent's session has all three.
  return parent === undefined || parent_call === undefined || agent === undefined ? undefined : { parent, agent };
}

function senderOf(source: AgentEventOf<"message_queued">["source"]): string {
  if (source === undefined || source.type === "user") return "the user";
  if (source.name !== undefined) return `session ${source.name}`;
  return source.id === undefined ? `a ${source.type}` : `${source.type} ${source.id}`;
}

/** The three classes of facts for people; the wire tells where a fact is in view. */
export const CLASS_OF: Readonly<Record<SpecificStatus, "in view" | "recoverable" | "lost">> = {
  in_summary: "in view",
  in_tail: "in view",
  pinned: "in view",
  recoverable: "recoverable",
  lost: "lost",
};

type Told = Pick<Receipt, "recoverable" | "lost" | "invented" | "invented_cut" | "doubtful">;

/** What a receipt comes to, in the words of every surface. */
export function verdictOf({ recoverable, lost, invented, invented_cut, doubtful = [] }: Told): string {
  const told = (count: number, [thing, one, many]: readonly string[], rest: string): string =>
    count === 0 ? "" : `${count.toLocaleString("en")} ${thing}${count === 1 ? ` ${one}` : `s ${many}`} ${rest}.`;
  return [
    lost === 0 ? "Nothing lost." : told(lost, ["fact", "is", "are"], "lost"),
    told(recoverable, ["fact", "is", "are"], "no longer shown to the model and can be found again"),
    told(
      invented.length,
      ["invented fact", ...(invented_cut ? ["was cut", "were cut"] : ["is", "are"])],
      invented_cut ? "from the summary" : "in the summary",
    ),
    told(doubtful.length, ["sentence", "of", "of"], "the summary could not be checked"),
  ]
    .filter((sentence) => sentence !== "")
    .join(" ");
}

export function withVerdict<T extends Told>(receipt: T): T & { readonly verdict: string } {
  return { ...receipt, verdict: verdictOf(receipt) };
}
