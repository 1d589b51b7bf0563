import { CompactionFacts, ContextPart, Forgotten, KeptNative, PrunedResult, SeqRange } from "./compaction.ts";
import { Adoption, AgentEvent, ErrorClass, TerminalCause, Usage } from "./event.ts";
import { InboxSource, JobEnd, WhenBusy } from "./input.ts";
import { Content, Message, StopReason, ToolResult } from "./message.ts";
import { Cost } from "./money.ts";
import { Answer, AskedEntry, content, TurnInputs } from "./permission.ts";
import { RewriteCommit } from "./rewrite.ts";
import { z } from "./schema.ts";
import { SessionSettings } from "./session.ts";
import { EndPhase, GoalRecord } from "./wire/goal.ts";

const count = z.number().int().nonnegative();
const messageOf = <R extends Message["role"]>(role: R) =>
  Message.refine((message): message is Extract<Message, { role: R }> => message.role === role);

const QueuedMessage = Message.refine(
  (message): message is Extract<Message, { role: "user" | "system_notice" }> =>
    message.role === "user" || message.role === "system_notice",
);

/** How a turn ended. The text it ended with is not repeated: `text_seq` points at the entry that holds it. */
export const TurnEnd = z.discriminatedUnion("status", [
  z.object({
    status: z.literal("completed"),
    /** Absent when a limit, not the model, ended the turn. */
    final_call: z.object({ stop_reason: StopReason, usage: Usage }).optional(),
    cause: TerminalCause.optional(),
    extraction_required: z.boolean(),
    text_seq: count.optional(),
    /** The ids of calls whose results the client will send. */
    pending: z.array(z.string()).optional(),
    usage: Usage,
    turn_cost: Cost.optional(),
  }),
  z.object({
    status: z.literal("failed"),
    error_class: ErrorClass,
    error: z.string(),
    cause: TerminalCause.optional(),
    reason: z.looseObject({ reason_type: z.string() }).optional(),
    turn_cost: Cost.optional(),
  }),
]);
export type TurnEnd = z.infer<typeof TurnEnd>;

/** Who asked for it, by name; absent where it was the user of the process, and in logs of before names were kept. */
const by = z.string().optional();

/**
 * The inputs of a turn that its settings do not contain, as far as it has any. A process continues the turn of another one
 * only if it has what is named here.
 */
const TurnSetup = z.object({
  ...TurnInputs,
  /** Names of the tools that are functions of the program. */
  code_tools: z.array(z.string()).optional(),
  /** Names of the tools that a client runs over its connection. */
  callback_tools: z.array(z.string()).optional(),
  mcp_servers: z.array(z.string()).optional(),
  /** Ids of the hooks that are functions of the program. */
  code_hooks: z.array(z.string()).optional(),
  /** Its request changed the hooks; they may contain secrets, so they are not recorded. */
  has_own_hooks: z.literal(true).optional(),
  /** A function of the program answers its approvals. */
  has_approver: z.literal(true).optional(),
  /** No approver is available: calls that need approval are denied. */
  is_unattended: z.literal(true).optional(),
  tool_choice: z.union([z.literal("required"), z.object({ name: z.string() })]).optional(),
  /** Identifies the request, so that a repeated one gets the end of this turn. */
  request_key: z.string().optional(),
  /** The queued message that it was begun with. */
  inbox_id: z.string().optional(),
  /** The goal that it begins. */
  goal: GoalRecord.optional(),
  /** How many messages between sessions led to it since a prompt. */
  hops: count.optional(),
});
export type TurnSetup = z.infer<typeof TurnSetup>;

/** Where a job runs. */
const Place = {
  /** The machine, and its boot with the process namespace, within which process ids can be looked up. */
  host: z.string(),
  boot: z.string(),
  /** The id of the process group and of its first process, and when that started; "" where the platform does not report it. */
  pid: count,
  started: z.string(),
};

/** A command's result for the model; `exit_code` is null while it runs and if it was killed. */
export const CommandReport = z.object({
  exit_code: z.number().int().nullable(),
  stdout: z.string(),
  stderr: z.string(),
  timed_out: z.boolean(),
  duration_secs: z.number(),
  stdout_lossy: z.literal(true).optional(),
  stderr_lossy: z.literal(true).optional(),
  /** Only the end of the output is shown. */
  stdout_truncated: z.literal(true).optional(),
  stderr_truncated: z.literal(true).optional(),
  stdout_chars_total: count.optional(),
  stderr_chars_total: count.optional(),
  /** The signal that killed it, if it was not ours. */
  signal: z.string().optional(),
});
export type CommandReport = z.infer<typeof CommandReport>;

/** The exit code that a command's report begins with; its output, which may be long, follows. */
export function exitCodeIn(report: string): number | null | undefined {
  const code = /^\s{0,9}\{\s{0,9}"exit_code"\s{0,9}:\s{0,9}(-?\d{1,9}|null)\b/u.exec(report)?.[1];
  return code === undefined ? undefined : JSON.parse(code);
}

/** `unknown`: it is not running any more, or cannot be found, and left no exit code. */
/** One row a result, in its order: the tool's name and how long it ran; `counted` calls used the budget. */
const RanCalls = z.array(
  z.object({
    name: z.string(),
    duration_ms: count,
    counted: z.boolean(),
    /** The tool says that it changes nothing. */
    read_only: z.literal(true).optional(),
  }),
);

/** The call of the tool `agent`, who was asked, and the session it works in. */
const Child = { call_id: z.string(), child_id: z.string(), agent: z.string() };

const Compacted = {
  ...CompactionFacts,
  native: KeptNative.optional(),
  shows: z.array(ContextPart),
  pruned: z.array(PrunedResult),
};

/** What a prepared compaction was made from. */
const CompactionBasis = z.object({
  /** Messages of the transcript, the system message among them: what comes after them was said since. */
  transcript: count,
  /** Messages of the context. */
  shown: count,
  /** Of those messages and their seqs, and of what else decides how they are compacted. */
  sha256: z.string(),
});
export type CompactionBasis = z.infer<typeof CompactionBasis>;

/** What one record of a session's log says. History is only ever added to. */
export const EntryBody = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("session_created"),
    settings: SessionSettings,
    forked_from: z.object({ session_id: z.string(), message_count: count }).optional(),
    /** The prompt of a deferred session, delivered with its first turn. */
    pending_prompt: Content.optional(),
    /** Identifies the request that created it, so that a repeated one finds it. */
    request_key: z.string().optional(),
  }),
  z.object({ kind: z.literal("settings_changed"), settings: SessionSettings }),
  /** A message of the session this one was forked from. */
  z.object({ kind: z.literal("imported"), message: Message }),
  /** Seqs of the source that a fork leaves out, so that its messages keep their seqs. */
  z.object({ kind: z.literal("seqs_skipped"), count }),
  z.object({
    kind: z.literal("notice"),
    message: messageOf("system_notice"),
    idempotency_key: z.string().optional(),
  }),
  z.object({ kind: z.literal("turn_opened"), message: messageOf("user"), setup: TurnSetup.optional(), by }),
  /** A turn without a message of the user: the results that the previous turn waited for have come. */
  z.object({ kind: z.literal("turn_continued"), setup: TurnSetup.optional(), by }),
  /** The process that stops leaves the open turn to another one. */
  z.object({ kind: z.literal("turn_released") }),
  /** Another process continues the open turn. */
  z.object({ kind: z.literal("turn_adopted"), ...Adoption }),
  z.object({
    kind: z.literal("model_called"),
    turn_number: count,
    model: z.string(),
    /** Of the context the model was shown. */
    context_sha256: z.string(),
    /** What the descriptions of the tools it was made with take, about; absent in logs of before that was kept. */
    tool_tokens: count.optional(),
    /** In whose place the provider was sent its own compaction: the summary of this one. */
    native_of: z.string().optional(),
  }),
  z.object({ kind: z.literal("assistant"), message: messageOf("block_assistant"), usage: Usage.optional(), by }),
  z.object({ kind: z.literal("tool_results"), message: messageOf("tool_results"), calls: RanCalls }),
  /**
   * Results of some calls of an answer, recorded before its other calls have ended, or because the client runs those. The
   * model is shown all of them together.
   */
  z.object({ kind: z.literal("results_held"), results: z.array(ToolResult), calls: RanCalls }),
  /** The turn waits for approval of some calls of its last answer; the session is not locked meanwhile. */
  z.object({ kind: z.literal("approval_asked"), ...AskedEntry }),
  z.object({ kind: z.literal("approval_answered"), approval_id: z.string(), ...Answer, value: content.optional() }),
  /** A step of a running call has ended; if the call runs again, the step returns this value instead of running. */
  z.object({ kind: z.literal("step_ended"), call_id: z.string(), name: z.string(), value: z.unknown() }),
  /** A command runs in the background from here on, also if this process ends. */
  z.object({
    kind: z.literal("job_started"),
    job_id: z.string(),
    command: z.string(),
    timeout_ms: count,
    ...Place,
    /** Its end begins a turn, with these inputs. */
    begins_turn: TurnSetup.optional(),
  }),
  z.object({
    kind: z.literal("job_ended"),
    job_id: z.string(),
    /** The beginning of its command. */
    display_name: z.string(),
    status: JobEnd,
    /** With the end of its output. */
    report: CommandReport,
    /** Why it ended, where its exit code does not say. */
    error: z.string().optional(),
  }),
  z.object({
    kind: z.literal("attempt_failed"),
    event: AgentEvent.refine((event) => event.type === "retrying"),
    /** What the failed attempt had streamed: shown to listeners, so never lost, but not part of the context. */
    partial_text: z.string().optional(),
  }),
  /** What a call took that gave no answer: as reported, or as estimated. */
  z.object({ kind: z.literal("call_failed"), usage: Usage, by }),
  z.object({
    kind: z.literal("extraction_attempt"),
    output: z.string(),
    /** What was wrong with the output; absent when it fits the schema. */
    problem: z.string().optional(),
    usage: Usage,
    by,
  }),
  z.object({ kind: z.literal("event"), event: AgentEvent }),
  /**
   * From here on the context is the system message and `shows`. Nothing is deleted: what is not shown any more is
   * in the entries before this one.
   */
  z.object({ kind: z.literal("compacted"), ...Compacted, by }),
  /**
   * A compaction that was made behind a turn and changes nothing yet: a `compacted` entry made of it does, at a boundary at
   * which the context is due, as long as what it covers is what `basis` says. Its usage counts here and not there.
   */
  z.object({ kind: z.literal("compaction_prepared"), compaction: z.object(Compacted), basis: CompactionBasis, by }),
  /**
   * A prepared compaction that will not be made, by its id; without one, a preparation that came to nothing, whose usage
   * counts here.
   */
  z.object({
    kind: z.literal("compaction_dropped"),
    compaction_id: z.string().optional(),
    reason: z.string(),
    usage: Usage.optional(),
    by,
  }),
  z.object({ kind: z.literal("compaction_failed"), error: z.string(), usage: Usage.optional(), by }),
  /** The context is again what it was without this compaction and those made after it. */
  z.object({ kind: z.literal("compaction_undone"), compaction_id: z.string() }),
  /** Messages a compaction took out of the context stand in it again. */
  z.object({ kind: z.literal("expanded"), ranges: z.array(SeqRange) }),
  /** A message that no compaction takes out of the context, or no longer. */
  z.object({ kind: z.literal("pinned"), seq: count, pinned: z.boolean() }),
  /**
   * From here on the transcript is another. Nothing is deleted: what it no longer says is in the entries before this
   * one, and a later rewrite may restore it.
   */
  z.object({
    kind: z.literal("rewritten"),
    to: z.union([
      /** `messages`, which have the seqs of this entry in their order, for those from `start` to before `end`. */
      z.object({ start: count, end: count, messages: z.array(Message) }),
      /** The first messages of the transcript there was after so many rewrites. */
      z.object({ restores: count, message_count: count }),
    ]),
    commit: RewriteCommit,
    /** What is known of the session without its log, and does not follow from this entry alone. */
    row: z.object({ has_system: z.boolean(), title: z.string(), text_seq: count }),
  }),
  /** A task was handed to a sub-agent: its session is there, and runs from here on. */
  z.object({
    kind: z.literal("child_opened"),
    ...Child,
    task: z.string(),
    /** Seq of the child's log after which what it uses is of this task. */
    from_seq: count,
  }),
  /** What the task came to, with what the child and its own sub-agents used for it: that is part of this session's budgets. */
  z.object({
    kind: z.literal("child_closed"),
    ...Child,
    status: z.enum(["completed", "failed", "interrupted"]),
    usage: Usage,
    tool_calls: count,
  }),
  /** A message waits for the session to be free, or for the running turn's next model call. */
  z.object({
    kind: z.literal("message_queued"),
    id: z.string(),
    when_busy: WhenBusy.exclude(["reject"]),
    /** That of the user, or a notice: what others send is data. */
    message: QueuedMessage,
    source: InboxSource,
    /** Fields of `turn/start` for its turn. */
    options: z.record(z.string(), z.unknown()).optional(),
    setup: TurnSetup.optional(),
    by,
  }),
  /**
   * A queued message reaches the model: with the next call of the running turn, or with the turn that the entry before it
   * begins. That of the user that begins a turn is in `turn_opened`, whose setup names it.
   */
  z.object({
    kind: z.literal("message_delivered"),
    id: z.string(),
    message: QueuedMessage,
    source: InboxSource,
    by,
  }),
  /** A queued message does not reach the model. */
  z.object({ kind: z.literal("message_removed"), id: z.string(), why: z.string().optional(), by }),
  /** The condition of the goal was judged after a turn. */
  z.object({
    kind: z.literal("goal_judged"),
    goal_id: z.string(),
    met: z.boolean(),
    reason: z.string(),
    /** The end of the command's output. */
    output: z.string().optional(),
    /** How often in a row it was judged so, without a turn that did something new. */
    stuck: count,
    usage: Usage.optional(),
    by,
  }),
  z.object({ kind: z.literal("goal_ended"), goal_id: z.string(), phase: EndPhase, reason: z.string(), by }),
  z.object({ kind: z.literal("turn_closed"), end: TurnEnd }),
  z.object({ kind: z.literal("archived") }),
  /**
   * What entries before this one said was forgotten: they stand in the log and say nothing of it any more. It is the one
   * thing by which a log is changed.
   */
  z.object({
    kind: z.literal("forgotten"),
    ...Forgotten,
    /** What is known of the session without its log, as it is from here on. */
    row: z.object({ title: z.string(), labels: z.record(z.string(), z.string()) }),
    /** Whether that is everything the session said. */
    whole: z.literal(true).optional(),
    by,
  }),
]);
export type EntryBody = z.infer<typeof EntryBody>;
export type EntryBodyOf<K extends EntryBody["kind"]> = Extract<EntryBody, { kind: K }>;

/** A body to append. It takes `span` seqs: one for each durable event or each message it stands for, at least one. */
export interface NewEntry<B = EntryBody> {
  readonly span: number;
  readonly body: B;
}

/** A record of the log; its events are numbered `seq`, `seq + 1`, … `seq + span - 1`. */
export interface Entry<B = EntryBody> extends NewEntry<B> {
  readonly seq: number;
  readonly timestamp_ms: number;
}
