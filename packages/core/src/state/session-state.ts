import type { CompactionCadence, SeqRange } from "../contract/compaction.ts";
import type { Entry, EntryBody, EntryBodyOf, TurnSetup } from "../contract/entry.ts";
import type { BudgetType, Usage } from "../contract/event.ts";
import type { JobEnd } from "../contract/input.ts";
import type { AssistantMessage, Content, Message, ToolUseBlock } from "../contract/message.ts";
import type { SessionSettings } from "../contract/session.ts";
import { closeChild, type DelegatedState, NOTHING_DELEGATED, openChild } from "../turn/budget.ts";
import { addUsage, NO_USAGE } from "../turn/cost.ts";
import { isStanding } from "../turn/skills.ts";
import { assistantText } from "../turn/tokens.ts";
import { advanceCadence, NO_CADENCE, type Placed, type ShownRef } from "./context.ts";
import { spanOf } from "./entry-events.ts";
import { advanceGoal, type GoalRun, isActive } from "./goal.ts";
import type { KeptCompaction } from "./rewrites.ts";
import { measure, place, type ShownState, withSystem } from "./shown-state.ts";

/**
 * The session state that a turn needs: a fold of the log, as large as the context. Each entry is applied once, in
 * order; `WholeState` adds the full history.
 */
export interface SessionState extends ShownState, DelegatedState {
  readonly sessionId: string;
  settings: SessionSettings;
  /** The entry that last set the settings, and whether a rewrite changed the system prompt since. */
  settingsFrom: { readonly seq: number; readonly isRewritten: boolean };
  /** The messages that the active compaction shows; later ones come from the log. */
  shownFrom: readonly ShownRef[];
  /** Seq of the last entry that replaced the context; since then it only grew. */
  shownAnewSeq: number;
  /** Active compactions, the newest last; before it those whose summaries it still shows. */
  shownBy: readonly KeptCompaction[];
  /** Messages that are no longer in the context. */
  hidden: readonly SeqRange[];
  /** Seq of the newest eviction, and of the last evicted output; 0 for none. */
  evictions: { readonly lastSeq: number; readonly upTo: number };
  /** Seqs of messages that compactions keep. */
  readonly pins: Set<number>;
  cadence: CompactionCadence;
  /** A compaction started and has not ended: it runs, or its process died. */
  isCompacting: boolean;
  /** A compaction that is ready; its user has to check that the covered messages are unchanged. */
  prepared: PreparedRecord | undefined;
  /** Input tokens the model counted for its last answer; 0 after a compaction. */
  lastInputTokens: number;
  /** When the model last answered, which is when its provider's cache was last used; 0 before the first answer. */
  lastAnswerMs: number;
  /** The pause between the last answer and the newest turn; 0 before the second turn. */
  lastPauseMs: number;
  /** Seq of the last event; the next append names it. */
  lastSeq: number;
  updatedAtMs: number;
  usage: Usage;
  /** Usage since the newest turn was opened. */
  turnUsage: Usage;
  toolCallsUsed: number;
  readonly warned: Set<BudgetType>;
  turnsOpened: number;
  /** The last applied entry, and the newest model call: they tie a checkpoint to its log. */
  lastEntry: Entry | undefined;
  callEntry: Entry | undefined;
  /** A turn was opened and is not closed: it runs, or its process ended. */
  isTurnOpen: boolean;
  /** The newest turn, as far as another process needs it to continue; undefined before the first one. */
  turn: TurnRecord | undefined;
  pendingPrompt: Content | undefined;
  /** Tool calls of the newest answer that have no result yet. */
  openCalls: readonly ToolUseBlock[];
  /** Seq of their answer; 0 if there are none. */
  openCallsSeq: number;
  /** Ids of the open calls that the caller runs. */
  pending: readonly string[];
  /** Results of the other calls, as far as they have ended. */
  heldResults: readonly { readonly seq: number; readonly body: EntryBodyOf<"results_held"> }[];
  /** Recorded steps of the open calls. */
  steps: readonly { readonly seq: number; readonly body: EntryBodyOf<"step_ended"> }[];
  /** Its background jobs, oldest first; of those that have ended the newest. */
  jobs: readonly JobRecord[];
  /** The approval that the turn waits for, or has received for its open calls. */
  approval: PendingApproval | undefined;
  /** Rules added to the session by approvals. */
  allowed: readonly string[];
  /** Seqs of those approvals. */
  allowedBy: readonly number[];
  /** Notices that arrived while calls were open: they must not separate a call from its result. */
  heldNotices: readonly Placed[];
  /** Seqs of texts injected under a key, newest last. */
  readonly injected: Map<string, number>;
  /** Seqs of turns by the key of their request, newest last. */
  readonly requests: Map<string, number>;
  /** Messages that wait, in the order of the log. */
  inbox: readonly QueuedMessage[];
  /** By the ids of the newest messages: 0 while it waits, the seq of the turn that it reached, -1 if it was removed. */
  readonly messages: Map<string, number>;
  /** The newest goal; undefined before the first. */
  goal: GoalRun | undefined;
  /** When messages of each other session came, by its id, as far as that still counts. */
  readonly senders: Map<string, readonly number[]>;
  lastText: { readonly seq: number; readonly text: string } | undefined;
  archived: boolean;
}

export interface QueuedMessage {
  readonly seq: number;
  readonly body: EntryBodyOf<"message_queued">;
}

export interface PreparedRecord {
  readonly seq: number;
  readonly body: EntryBodyOf<"compaction_prepared">;
}

/** A turn in its log. */
export interface TurnRecord {
  /** Seq of the entry that opened it. */
  readonly seq: number;
  readonly setup: TurnSetup;
  readonly openedAtMs: number;
  readonly toolCallsBefore: number;
  /** How many messages between sessions led here since a prompt. */
  readonly hops: number;
  /** How many processes have run it; those that released it are not counted. */
  readonly attempt: number;
  /** Answered model calls, and whether one more was made whose answer is not in the log. */
  readonly calls: number;
  readonly isCalling: boolean;
  readonly isReleased: boolean;
  /** It has ended, and its structured output has not been extracted. */
  readonly isExtracting: boolean;
}

/** A background job; its command and its output are in the entries. */
export interface JobRecord {
  readonly jobId: string;
  readonly startedAtMs: number;
  readonly timeoutMs: number;
  /** Seqs of the entries of its start and its end; 0 until it has ended. */
  readonly seq: number;
  readonly endSeq: number;
  readonly status: "running" | JobEnd;
}

/** A request for approval, and its answers by call. */
export interface PendingApproval {
  readonly asked: EntryBodyOf<"approval_asked">;
  readonly askedAtMs: number;
  readonly answers: ReadonlyMap<string, EntryBodyOf<"approval_answered">>;
  /** Seqs of the request and its answers. */
  readonly seqs: readonly number[];
}

export function isWaiting({ approval }: Pick<SessionState, "approval">): boolean {
  return approval?.asked.calls.some(({ id }) => !approval.answers.has(id)) ?? false;
}

export function beginState(sessionId: string, [first]: readonly Entry[]): SessionState {
  if (first?.body.kind !== "session_created") throw new Error(`log of session ${sessionId} has no beginning`);
  return {
    sessionId,
    settings: first.body.settings,
    settingsFrom: { seq: first.seq, isRewritten: false },
    shown: [],
    shownTokens: 0,
    shownMediaBytes: 0,
    shownFrom: [],
    shownAnewSeq: 0,
    shownBy: [],
    hidden: [],
    evictions: { lastSeq: 0, upTo: 0 },
    pins: new Set(),
    cadence: NO_CADENCE,
    isCompacting: false,
    prepared: undefined,
    lastInputTokens: 0,
    lastAnswerMs: 0,
    lastPauseMs: 0,
    lastSeq: 0,
    updatedAtMs: first.timestamp_ms,
    usage: NO_USAGE,
    turnUsage: NO_USAGE,
    toolCallsUsed: 0,
    ...NOTHING_DELEGATED,
    warned: new Set(),
    turnsOpened: 0,
    turnsSaid: 0,
    lastEntry: undefined,
    callEntry: undefined,
    isTurnOpen: false,
    turn: undefined,
    pendingPrompt: undefined,
    openCalls: [],
    openCallsSeq: 0,
    pending: [],
    heldResults: [],
    steps: [],
    jobs: [],
    approval: undefined,
    allowed: [],
    allowedBy: [],
    heldNotices: [],
    injected: new Map(),
    requests: new Map(),
    inbox: [],
    messages: new Map(),
    goal: undefined,
    senders: new Map(),
    lastText: undefined,
    archived: false,
  };
}

/** A state with unsaved entries. Existing messages are left out: copying them would cost more with every turn. */
export interface Ahead extends Omit<SessionState, "shown"> {
  /** Messages added to the context. */
  readonly added: readonly Placed[];
}

/** The state after these bodies of a turn are appended; the given state does not change. */
export function foldAhead(state: SessionState, bodies: readonly EntryBody[]): Ahead {
  const ahead: SessionState = {
    ...state,
    shown: [],
    warned: new Set(state.warned),
    pins: new Set(state.pins),
    injected: new Map(state.injected),
    requests: new Map(state.requests),
    messages: new Map(state.messages),
    senders: new Map(state.senders),
  };
  for (const body of bodies) {
    advance(ahead, { body, seq: ahead.lastSeq + 1, span: spanOf(body), timestamp_ms: state.updatedAtMs });
  }
  const { shown: added, ...rest } = ahead;
  return { ...rest, added };
}

/** Entries whose effect on the context needs the full history. */
const NEEDS_ALL: ReadonlySet<EntryBody["kind"]> = new Set([
  "compacted",
  "compaction_undone",
  "expanded",
  "pinned",
  "rewritten",
  "forgotten",
]);

/** Applies one entry; returns false, without a change, if that needs the full history. */
export function applyAlone(state: SessionState, entry: Entry): boolean {
  const { body } = entry;
  if (NEEDS_ALL.has(body.kind)) return false;
  advance(state, entry);
  if (body.kind !== "settings_changed") return true;
  const [first] = state.shown;
  // The first message of a compaction is no system message of the transcript, whatever its role.
  const isMade = first !== undefined && first.seq === state.shownBy.at(-1)?.seq;
  const said = isMade ? [] : state.shown;
  const next = withSystem(said, entry, body.settings);
  if (next === said) return true;
  state.shown = isMade ? [...next, ...state.shown] : next;
  measure(state);
  return true;
}

/** Applies an entry that only extends the context. */
export function advance(state: SessionState, entry: Entry): void {
  const { body, seq } = entry;
  state.goal = advanceGoal(state, entry);
  state.lastSeq = seq + entry.span - 1;
  state.lastEntry = entry;
  state.cadence = advanceCadence(state.cadence, body);
  state.updatedAtMs = entry.timestamp_ms;
  switch (body.kind) {
    case "session_created":
    case "settings_changed":
      if (body.kind === "session_created") state.pendingPrompt = body.pending_prompt;
      state.settings = body.settings;
      state.settingsFrom = { seq, isRewritten: false };
      return;
    case "imported":
      applyMessage(state, seq, body.message);
      if (isStanding(body.message)) state.pins.add(seq);
      // The importer of a history has, or can get, the results of its last calls.
      state.pending = state.openCalls.map(({ data }) => data.id);
      return;
    case "notice":
      if (body.idempotency_key !== undefined) rememberKey(state.injected, body.idempotency_key, seq);
      if (isStanding(body.message)) state.pins.add(seq);
      if (state.openCalls.length > 0) state.heldNotices = [...state.heldNotices, { seq, message: body.message }];
      else place(state, { seq, message: body.message });
      return;
    case "turn_opened":
      applyMessage(state, seq, body.message);
      openTurn(state, entry, body.setup);
      state.pendingPrompt = undefined;
      return;
    case "turn_continued":
      openTurn(state, entry, body.setup);
      return;
    case "message_queued":
      state.inbox = [...state.inbox, { seq, body }];
      rememberKey(state.messages, body.id, 0);
      if (body.source.type === "session") rememberSender(state, body.source.id ?? "", entry.timestamp_ms);
      return;
    case "message_delivered":
      changeTurn(state, { hops: Math.max(state.turn?.hops ?? 0, hopsOf(state, body.id)) });
      applyMessage(state, seq, body.message);
      leaveInbox(state, body.id, state.turn?.seq ?? seq);
      return;
    case "message_removed":
      leaveInbox(state, body.id, -1);
      return;
    case "goal_judged":
      if (body.usage !== undefined) count(state, body.usage);
      return;
    case "turn_released":
      changeTurn(state, { isReleased: true });
      return;
    case "turn_adopted":
      changeTurn(state, { attempt: body.attempt, isReleased: false, isCalling: false });
      return;
    case "assistant":
      applyMessage(state, seq, body.message);
      if (state.turn?.isCalling === true) changeTurn(state, { isCalling: false, calls: state.turn.calls + 1 });
      if (body.usage === undefined) return;
      count(state, body.usage);
      state.lastInputTokens = body.usage.input_tokens;
      state.lastAnswerMs = entry.timestamp_ms;
      return;
    case "tool_results":
      applyMessage(state, seq, body.message);
      state.toolCallsUsed += body.calls.filter((call) => call.counted).length;
      return;
    case "results_held":
      state.heldResults = [...state.heldResults, { seq, body }];
      state.toolCallsUsed += body.calls.filter((call) => call.counted).length;
      return;
    case "step_ended":
      state.steps = [...state.steps, { seq, body }];
      return;
    case "job_started": {
      const { job_id: jobId, timeout_ms: timeoutMs } = body;
      const job = { jobId, startedAtMs: entry.timestamp_ms, timeoutMs, seq, endSeq: 0, status: "running" as const };
      state.jobs = [...state.jobs, job];
      return;
    }
    case "job_ended": {
      const jobs = state.jobs.map((job) =>
        job.jobId === body.job_id && job.endSeq === 0 ? { ...job, endSeq: seq, status: body.status } : job,
      );
      const surplus = jobs.filter(({ endSeq }) => endSeq > 0).slice(0, -JOBS_ENDED_MAX);
      state.jobs = jobs.filter((job) => !surplus.includes(job));
      return;
    }
    case "approval_asked":
      state.approval = { asked: body, askedAtMs: entry.timestamp_ms, answers: new Map(), seqs: [seq] };
      return;
    case "approval_answered":
      if (state.approval?.asked.approval_id !== body.approval_id) return;
      state.approval = {
        ...state.approval,
        answers: new Map([...state.approval.answers, ...body.calls.map((id) => [id, body] as const)]),
        seqs: [...state.approval.seqs, seq],
      };
      if (body.remember !== "session") return;
      state.allowed = [...new Set([...state.allowed, ...(body.rules ?? [])])];
      state.allowedBy = [...state.allowedBy, seq];
      return;
    case "call_failed":
    case "extraction_attempt":
      count(state, body.usage);
      return;
    case "event":
      if (body.event.type === "budget_warning") state.warned.add(body.event.budget_type);
      if (body.event.type === "compaction_started") state.isCompacting = true;
      if (body.event.type === "extraction_succeeded" || body.event.type === "extraction_failed")
        changeTurn(state, { isExtracting: false });
      if (body.event.type === "native_compaction_refused") {
        state.shownBy = withoutNative(state.shownBy, body.event.compaction_id);
      }
      return;
    case "compacted":
      // The usage of a prepared compaction was counted when it was prepared.
      if (body.prepared === undefined) count(state, body.usage);
      else if (state.prepared?.seq === body.prepared.seq) state.prepared = undefined;
      if (body.evicted !== undefined) {
        // Both thresholds apply to the remaining context, which the model has not counted yet.
        state.lastInputTokens = Math.max(0, state.lastInputTokens - (body.tokens_before - body.tokens_after));
        return;
      }
      state.lastInputTokens = 0;
      state.isCompacting = false;
      return;
    case "compaction_prepared":
      count(state, body.compaction.usage);
      state.prepared = { seq, body };
      return;
    case "compaction_dropped":
      if (body.compaction_id === undefined) {
        if (body.usage !== undefined) count(state, body.usage);
      } else if (state.prepared?.body.compaction.compaction_id === body.compaction_id) state.prepared = undefined;
      return;
    case "compaction_failed":
      if (body.usage !== undefined) count(state, body.usage);
      state.isCompacting = false;
      return;
    case "pinned":
      if (body.pinned) state.pins.add(body.seq);
      else state.pins.delete(body.seq);
      return;
    case "rewritten":
    case "forgotten":
      // The model counted a different context.
      state.lastInputTokens = 0;
      return;
    case "archived":
      state.archived = true;
      return;
    case "child_opened":
      openChild(state, body);
      return;
    case "child_closed":
      closeChild(state, body);
      return;
    case "turn_closed":
      state.isTurnOpen = false;
      if (body.end.status !== "completed") return;
      state.pending = body.end.pending ?? [];
      changeTurn(state, { isExtracting: body.end.extraction_required });
      return;
    case "model_called":
      state.callEntry = entry;
      changeTurn(state, { isCalling: true });
      return;
    case "goal_ended":
    case "seqs_skipped":
    case "compaction_undone":
    case "expanded":
    case "attempt_failed":
      return;
  }
}

/** Jobs that have ended and can still be listed; the oldest go first. */
const JOBS_ENDED_MAX = 100;

function openTurn(state: SessionState, entry: Entry, setup: TurnSetup = {}): void {
  state.isTurnOpen = true;
  if (setup.request_key !== undefined) rememberKey(state.requests, setup.request_key, entry.seq);
  if (setup.inbox_id !== undefined) leaveInbox(state, setup.inbox_id, entry.seq);
  state.turn = {
    seq: entry.seq,
    setup,
    openedAtMs: entry.timestamp_ms,
    toolCallsBefore: state.toolCallsUsed,
    // A prompt begins anew; what a job, a client or the runtime continues goes on from the turn before.
    hops: entry.body.kind === "turn_opened" ? 0 : (setup.hops ?? state.turn?.hops ?? 0),
    attempt: 1,
    calls: 0,
    isCalling: false,
    isReleased: false,
    isExtracting: false,
  };
  if (state.lastAnswerMs > 0) state.lastPauseMs = Math.max(0, entry.timestamp_ms - state.lastAnswerMs);
  state.turnsOpened += 1;
  state.turnUsage = NO_USAGE;
  state.tasksOpened = 0;
  // The clock runs per turn, so its warning is due again.
  state.warned.delete("time");
}

function leaveInbox(state: SessionState, id: string, to: number): void {
  state.inbox = state.inbox.filter(({ body }) => body.id !== id);
  state.messages.set(id, to);
}

function hopsOf({ inbox }: SessionState, id: string): number {
  return inbox.find(({ body }) => body.id === id)?.body.setup?.hops ?? 0;
}

/** How long a message counts against the rate of its sender. */
const SENT_MS = 60_000;

export function sentLately({ senders }: Pick<SessionState, "senders">, sender: string, nowMs: number) {
  return (senders.get(sender) ?? []).filter((atMs) => atMs > nowMs - SENT_MS);
}

function rememberSender({ senders }: SessionState, sender: string, atMs: number): void {
  senders.set(sender, [...sentLately({ senders }, sender, atMs), atMs]);
  for (const one of senders.keys()) if (sentLately({ senders }, one, atMs).length === 0) senders.delete(one);
}

function changeTurn(state: SessionState, change: Partial<TurnRecord>): void {
  if (state.turn !== undefined) state.turn = { ...state.turn, ...change };
}

const RANKS: Readonly<Record<QueuedMessage["body"]["when_busy"], number>> = { steer: 0, interrupt: 0, queue: 1 };

/** The messages that wait, the next one first: steering before queued before scheduled, each as they came. */
export function inOrder(inbox: SessionState["inbox"]): readonly QueuedMessage[] {
  const rank = ({ body }: QueuedMessage): number => (body.source.type === "schedule" ? 2 : RANKS[body.when_busy]);
  return inbox.length < 2 ? inbox : inbox.toSorted((a, b) => rank(a) - rank(b));
}

/** Whether a turn can begin with the next message that waits. */
export function isFree(state: SessionState): boolean {
  // The client of a turn that ended with its calls sends their results in the next one.
  return !isUnfinished(state) && !isWaiting(state) && state.pending.length === 0 && !state.archived;
}

/** Whether something begins the next turn as soon as the session is free: a message, or its goal. */
export function hasNext({ inbox, goal }: Pick<SessionState, "inbox" | "goal">): boolean {
  return inbox.length > 0 || isActive(goal);
}

/** Whether the newest turn has not ended, or its structured output is still to be extracted. */
export function isUnfinished({ isTurnOpen, turn }: Pick<SessionState, "isTurnOpen" | "turn">): boolean {
  return isTurnOpen || turn?.isExtracting === true;
}

function count(state: SessionState, usage: Usage): void {
  state.usage = addUsage(state.usage, usage);
  state.turnUsage = addUsage(state.turnUsage, usage);
}

export function withoutNative(compactions: readonly KeptCompaction[], compactionId: string): readonly KeptCompaction[] {
  return compactions.map((one) => (one.body.compaction_id === compactionId ? { ...one, nativeRefused: true } : one));
}

function applyMessage(state: SessionState, seq: number, message: Message): void {
  place(state, { seq, message });
  if (message.role === "block_assistant") {
    const text = assistantText(message);
    if (text !== "") state.lastText = { seq, text };
    state.openCalls = callsIn(message);
    state.openCallsSeq = state.openCalls.length > 0 ? seq : 0;
  }
  if (message.role !== "tool_results") return;
  state.openCalls = [];
  state.openCallsSeq = 0;
  state.children = state.children.filter(({ isOpen }) => isOpen);
  state.pending = [];
  state.heldResults = [];
  state.steps = [];
  state.approval = undefined;
  for (const notice of state.heldNotices) place(state, notice);
  state.heldNotices = [];
}

export function callsIn({ blocks }: AssistantMessage): readonly ToolUseBlock[] {
  return blocks.filter((block) => block.block_type === "tool_use");
}

const KEYS_MAX = 1_000;

function rememberKey(keys: Map<string, number>, key: string, seq: number): void {
  keys.set(key, seq);
  const [oldest] = keys.keys();
  if (keys.size > KEYS_MAX && oldest !== undefined) keys.delete(oldest);
}
