import type { Compacting } from "../compaction/prepare.ts";
import type { EntryBody, TurnSetup } from "../contract/entry.ts";
import type { AgentEvent, BudgetType, TerminalCause } from "../contract/event.ts";
import type { Content, Message } from "../contract/message.ts";
import type { Progress } from "../contract/permission.ts";
import type { Clock } from "../ports/clock.ts";
import type { ModelClient, ToolChoice } from "../ports/model.ts";
import type { Tool } from "../ports/tool.ts";
import type { Hash } from "../state/context.ts";
import { isTurnOf } from "../state/goal.ts";
import { foldAhead, type SessionState } from "../state/session-state.ts";
import type { WholeState } from "../state/whole-state.ts";
import type { Approvals } from "./approval.ts";
import { readBudget, spentIn } from "./budget.ts";
import { dollarsOf } from "./cost.ts";
import type { Hooks } from "./hooks.ts";
import type { CheckInWorker } from "./json-schema.ts";
import type { CallLimits } from "./model-call.ts";
import type { Redact } from "./redact.ts";
import type { RetryPolicy } from "./retry.ts";
import type { ToolLimits } from "./tool-batch.ts";

export interface TurnPolicy {
  /** The share of a budget at which its warning is given. */
  readonly warnAt: number;
  readonly retry: RetryPolicy;
  readonly calls: CallLimits;
  readonly tools: ToolLimits;
}

/** Everything a turn needs from outside. Effects are injected; `state` changes only through `append`. */
export interface Turn {
  readonly state: SessionState;
  /** The state with the full transcript: read from the log on first use, then cached. */
  whole(): Promise<WholeState>;
  readonly model: ModelClient;
  readonly tools: ReadonlyMap<string, Tool>;
  /** The text about tools that is sent with every request and is not part of the transcript. */
  readonly skill: string | undefined;
  /** Absent without the capability. */
  readonly compacting: Compacting | undefined;
  /** Absent if compactions are not prepared. */
  readonly background?: BackgroundPreparation | undefined;
  readonly policy: TurnPolicy;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly redact: Redact;
  readonly hash: Hash;
  readonly checkInWorker: CheckInWorker;
  readonly approvals: Approvals;
  readonly hooks?: Hooks | undefined;
  /** Applies to the first call of the turn. */
  readonly toolChoice?: ToolChoice | undefined;
  /** Its inputs besides the settings, for a process that continues it. */
  readonly setup: TurnSetup;
  /**
   * Makes entries durable, advances `state` and emits their events; the turn continues after that. A function is called
   * when nothing else can be appended before its entries.
   */
  append(bodies: readonly EntryBody[] | (() => readonly EntryBody[])): Promise<void>;
  /** Emits events that are not stored, such as deltas. */
  emit(event: AgentEvent): void;
  /** Stores a text too large for the context and returns its blob id. */
  keep(text: string): Promise<string>;
  /** Stores media too large for the log and returns content that references them; `loadMedia` reverses it. */
  keepMedia(content: Content): Promise<Content>;
  fillMedia(messages: readonly Message[]): Promise<readonly Message[]>;
}

/** A compaction prepared in the background. */
export interface BackgroundPreparation {
  /** Starts one from the durable state, if it is worth it and none is running. */
  consider(): void;
  isMaking(): boolean;
  /** Resolves when the running one is over or the signal aborts; at once if none runs. */
  settled(signal: AbortSignal): Promise<void>;
}

/** State of one run besides the session's. */
export interface Run {
  readonly turn: Turn;
  readonly startedMs: number;
  readonly deadlineMs: number;
  /** Seq before the turn's first entry: earlier text is not its result. */
  readonly seqBefore: number;
  readonly toolCallsBefore: number;
  turns: number;
  /** The context was compacted because the provider found it too long, and no answer has come since. */
  isRecovering: boolean;
  recoveries: number;
  /** The native compaction that the call omits after a call with it was refused. */
  leftOut: { readonly compactionId: string; readonly error: string } | undefined;
  /** Steps that observers are notified of after the next save. */
  unnotified: ("run_started" | "pre_llm_request" | "turn_boundary")[];
}

/** The progress of an open turn, from its log. The time between its processes does not count. */
export function progressOf({ turn, updatedAtMs }: Pick<SessionState, "turn" | "updatedAtMs">): Progress {
  if (turn === undefined) throw new Error("no turn was opened");
  return {
    turns: turn.calls,
    elapsed_ms: Math.max(0, updatedAtMs - turn.openedAtMs),
    seq_before: turn.seq - 1,
    tool_calls_before: turn.toolCallsBefore,
  };
}

/** The limits of a turn: those of its session, and what is left of those of its goal. */
function limitsOf({ setup }: Turn, { settings, goal }: Pick<SessionState, "settings" | "goal">, startedMs: number) {
  const { budget_limits: limits } = settings;
  const isOwn = goal !== undefined && (setup.goal?.goal_id === goal.record.goal_id || isTurnOf(goal, setup));
  const own = isOwn ? goal.record : setup.goal;
  const { max_cost, max_duration_ms } = own ?? {};
  const least = (one: number | undefined, other: number | undefined) =>
    one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);
  const before = isOwn ? dollarsOf(goal.nanosBefore) : 0;
  const leftMs = max_duration_ms && Math.max(1, max_duration_ms - (isOwn ? startedMs - goal.startedAtMs : 0));
  return {
    ...limits,
    max_cost: least(limits.max_cost, max_cost && before + max_cost),
    max_duration_ms: least(limits.max_duration_ms, leftMs),
  };
}

export function createRun(turn: Turn, before?: Progress): Run {
  const startedMs = turn.clock.now() - (before?.elapsed_ms ?? 0);
  const durationMs = limitsOf(turn, turn.state, startedMs).max_duration_ms ?? Number.POSITIVE_INFINITY;
  return {
    turn,
    startedMs,
    deadlineMs: startedMs + durationMs,
    seqBefore: before?.seq_before ?? turn.state.lastSeq,
    toolCallsBefore: before?.tool_calls_before ?? turn.state.toolCallsUsed,
    turns: before?.turns ?? 0,
    isRecovering: false,
    recoveries: 0,
    leftOut: undefined,
    unnotified: [],
  };
}

/** Adds due warnings to the unsaved entries; returns the exhausted budget, if any. */
export function checkBudget(run: Run, unsaved: EntryBody[]): BudgetType | undefined {
  const { state, policy, clock } = run.turn;
  const ahead = foldAhead(state, unsaved);
  const { warned } = ahead;
  const spent = { ...spentIn(ahead), elapsedMs: clock.now() - run.startedMs };
  const reading = readBudget(limitsOf(run.turn, ahead, run.startedMs), spent, { at: policy.warnAt, given: warned });
  for (const event of reading.warnings) unsaved.push({ kind: "event", event });
  return reading.exhausted;
}

export function causeOf(exhausted: BudgetType): TerminalCause {
  return exhausted === "time" ? "time_budget_exceeded" : "budget_exhausted";
}

/** Emits the time warning when it is due: a call or a tool can take all the remaining time. */
export async function warnOfTime(run: Run, over: AbortSignal): Promise<void> {
  const { turn } = run;
  const { max_duration_ms } = turn.state.settings.budget_limits;
  if (max_duration_ms === undefined) return;
  await turn.clock.sleep(max_duration_ms * turn.policy.warnAt, over);
  if (over.aborted) return;
  await turn.append(() => {
    const warnings: EntryBody[] = [];
    if (turn.state.isTurnOpen) checkBudget(run, warnings);
    return warnings;
  });
}

/** Drops warnings that were given meanwhile. */
export function stillUnsaved({ turn }: Run, unsaved: readonly EntryBody[]): readonly EntryBody[] {
  const { isTurnOpen, warned } = turn.state;
  const isGiven = (body: EntryBody): boolean =>
    isTurnOpen && body.kind === "event" && body.event.type === "budget_warning" && warned.has(body.event.budget_type);
  return unsaved.filter((body) => !isGiven(body));
}

/** The turn's signal, which also aborts at its deadline. */
export function watchDeadline({ turn, deadlineMs }: Run): { readonly signal: AbortSignal; release(): Promise<void> } {
  const { clock, signal } = turn;
  if (deadlineMs === Number.POSITIVE_INFINITY) return { signal, release: async () => {} };
  const expired = new AbortController();
  const released = new AbortController();
  const expiry = clock.sleep(deadlineMs - clock.now(), released.signal).then(() => expired.abort());
  return {
    signal: AbortSignal.any([signal, expired.signal]),
    release: () => {
      released.abort();
      return expiry;
    },
  };
}
