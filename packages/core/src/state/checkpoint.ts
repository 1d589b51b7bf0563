import type { Entry, EntryBody, EntryBodyOf } from "../contract/entry.ts";
import type { Message } from "../contract/message.ts";
import type { Child } from "../turn/budget.ts";
import { assistantText } from "../turn/tokens.ts";
import { type Hash, type Placed, rebuild } from "./context.ts";
import type { GoalRun } from "./goal.ts";
import { type KeptCompaction, withSystemOf } from "./rewrites.ts";
import {
  advance,
  beginState,
  callsIn,
  type JobRecord,
  type PendingApproval,
  type SessionState,
} from "./session-state.ts";
import { measure, withSystem } from "./shown-state.ts";

/** A session state beside its log: numbers and seqs only, so that erasing need not look here. */
type KeptState = ReturnType<typeof keepState>;

/** Fields computed from the others. */
type Derived = "shownTokens" | "shownMediaBytes" | "openCalls" | "allowed" | "lastEntry";

function keepState(state: SessionState) {
  const { settingsFrom, shownFrom, shownBy, lastText } = state;
  // Typed here, since the inferred type of this function must name it.
  const children: readonly Child[] = state.children;
  const jobs: readonly JobRecord[] = state.jobs;
  const [first] = state.shown;
  // The first message of a compaction is no system message of the transcript, whatever its role.
  const hasSystem = first?.message.role === "system" && first.seq !== shownBy.at(-1)?.seq;
  const system = hasSystem ? first.seq : 0;
  const made = (hasSystem ? 1 : 0) + shownFrom.length;
  return {
    sessionId: state.sessionId,
    settings: settingsFrom.seq,
    settingsFrom,
    shown: { system, said: state.shown.slice(made).map(({ seq }) => seq) },
    shownFrom,
    shownAnewSeq: state.shownAnewSeq,
    shownBy: shownBy.map(({ body: _said, ...record }) => record),
    hidden: state.hidden,
    evictions: state.evictions,
    pins: [...state.pins],
    cadence: state.cadence,
    isCompacting: state.isCompacting,
    prepared: state.prepared?.seq ?? 0,
    lastInputTokens: state.lastInputTokens,
    lastAnswerMs: state.lastAnswerMs,
    lastPauseMs: state.lastPauseMs,
    lastSeq: state.lastSeq,
    updatedAtMs: state.updatedAtMs,
    usage: state.usage,
    turnUsage: state.turnUsage,
    toolCallsUsed: state.toolCallsUsed,
    children,
    delegated: state.delegated,
    tasksOpened: state.tasksOpened,
    warned: [...state.warned],
    turnsOpened: state.turnsOpened,
    turnsSaid: state.turnsSaid,
    callEntry: state.callEntry?.seq ?? 0,
    isTurnOpen: state.isTurnOpen,
    turn: state.turn && { ...state.turn, setup: state.turn.seq },
    pendingPrompt: state.pendingPrompt !== undefined,
    openCallsSeq: state.openCallsSeq,
    pending: state.pending,
    heldResults: state.heldResults.map(({ seq }) => seq),
    steps: state.steps.map(({ seq }) => seq),
    jobs,
    approval: state.approval?.seqs ?? [],
    allowedBy: state.allowedBy,
    heldNotices: state.heldNotices.map(({ seq }) => seq),
    injected: [...state.injected],
    requests: [...state.requests],
    inbox: state.inbox.map(({ seq }) => seq),
    messages: [...state.messages],
    goal: state.goal && keepGoal(state.goal),
    senders: [...state.senders],
    lastText: lastText?.seq ?? 0,
    archived: state.archived,
  } satisfies Record<Exclude<keyof SessionState, Derived>, unknown>;
}

function keepGoal({ record: _record, setup: _setup, judged, ended, ...goal }: GoalRun) {
  return { ...goal, judged: judged?.seq ?? 0, ended: ended?.seq ?? 0 };
}

/** Increase when the fold or this format changes: older checkpoints would restore a wrong state. */
const VERSION = 6;
const HEAD = `rkat checkpoint ${VERSION} `;

/** Serializes a checkpoint. Two entries tie it to its log: it is ignored for another log or after they changed. */
export function writeCheckpoint(state: SessionState, hash: Hash): string {
  const text = JSON.stringify({ anchor: anchorOf(state, hash), kept: keepState(state) });
  return `${HEAD}${hash(text)}\n${text}`;
}

/** Hash of the last entry and of the newest model call, which contains a context hash. */
function anchorOf({ lastEntry, callEntry }: Pick<SessionState, "lastEntry" | "callEntry">, hash: Hash): string {
  const facts = [lastEntry, callEntry].map((entry) => entry && [entry.seq, entry.span, entry.timestamp_ms, entry.body]);
  return hash(JSON.stringify(facts));
}

interface Checkpoint {
  readonly anchor: string;
  readonly kept: KeptState;
}

/** Undefined for invalid or incomplete text, another session, or another version. */
export function readCheckpoint(text: string, sessionId: string, hash: Hash): Checkpoint | undefined {
  const end = text.indexOf("\n");
  const body = text.slice(end + 1);
  if (end < 0 || text.slice(0, end) !== HEAD + hash(body)) return undefined;
  // `as`: the hash matches, so `writeCheckpoint` of this version wrote it.
  const checkpoint = JSON.parse(body) as Checkpoint;
  return checkpoint.kept.sessionId === sessionId ? checkpoint : undefined;
}

/** The seqs to read to restore the state, in order. */
export function neededSeqs({ kept }: Checkpoint): readonly number[] {
  const seqs = new Set([
    // The first entry is always needed.
    1,
    kept.settings,
    kept.shown.system,
    ...kept.shown.said,
    ...kept.shownFrom.map(([seq]) => seq),
    ...kept.shownBy.map(({ seq }) => seq),
    kept.prepared,
    kept.openCallsSeq,
    kept.turn?.setup ?? 0,
    ...kept.heldResults,
    ...kept.steps,
    ...kept.approval,
    ...kept.allowedBy,
    ...kept.heldNotices,
    ...kept.inbox,
    ...(kept.goal === undefined ? [] : [kept.goal.seq, kept.goal.judged, kept.goal.ended]),
    kept.lastText,
    kept.lastSeq,
    kept.callEntry,
  ]);
  seqs.delete(0);
  return [...seqs].sort((a, b) => a - b);
}

/** Restores the state from the log; undefined if the checkpoint belongs to another log. */
export function restoreState(
  { anchor, kept }: Checkpoint,
  entryAt: (seq: number) => Entry | undefined,
  hash: Hash,
): SessionState | undefined {
  const tied = { lastEntry: entryAt(kept.lastSeq), callEntry: entryAt(kept.callEntry) };
  if (anchorOf(tied, hash) !== anchor) return undefined;
  const first = entryAt(1);
  const said = entryAt(kept.settings)?.body;
  const prepared = kept.prepared === 0 ? undefined : entryAt(kept.prepared)?.body;
  const shown = shownOf(kept, entryAt);
  const shownBy = compactionsOf(kept, entryAt);
  const heldNotices = placedAt(kept.heldNotices, entryAt);
  if (first?.body.kind !== "session_created" || !saysSettings(said)) return undefined;
  if (shown === undefined || shownBy === undefined || heldNotices === undefined) return undefined;
  const opening = kept.turn && entryAt(kept.turn.setup)?.body;
  if (opening !== undefined && opening.kind !== "turn_opened" && opening.kind !== "turn_continued") return undefined;
  if (prepared !== undefined && prepared.kind !== "compaction_prepared") return undefined;
  const allowed = kept.allowedBy.flatMap((seq) => {
    const body = entryAt(seq)?.body;
    return body?.kind === "approval_answered" ? (body.rules ?? []) : [];
  });
  const goal = goalOf(kept.goal, entryAt);
  if (kept.goal !== undefined && goal === undefined) return undefined;
  const { settingsFrom, openCallsSeq, lastText } = kept;
  const calling = messageIn(entryAt(openCallsSeq), openCallsSeq);
  const spoken = messageIn(entryAt(lastText), lastText);
  const state: SessionState = {
    ...kept,
    ...tied,
    settings: settingsFrom.isRewritten ? withSystemOf(said.settings, shown) : said.settings,
    shown,
    shownTokens: 0,
    shownMediaBytes: 0,
    shownBy,
    pins: new Set(kept.pins),
    prepared: prepared && { seq: kept.prepared, body: prepared },
    warned: new Set(kept.warned),
    pendingPrompt: kept.pendingPrompt ? first.body.pending_prompt : undefined,
    openCalls: calling?.role === "block_assistant" ? callsIn(calling) : [],
    turn: kept.turn && { ...kept.turn, setup: opening?.setup ?? {} },
    heldResults: recordsAt(kept.heldResults, "results_held", entryAt),
    steps: recordsAt(kept.steps, "step_ended", entryAt),
    approval: approvalOf(kept.approval, first, entryAt),
    allowed: [...new Set(allowed)],
    heldNotices,
    injected: new Map(kept.injected),
    requests: new Map(kept.requests),
    inbox: recordsAt(kept.inbox, "message_queued", entryAt),
    messages: new Map(kept.messages),
    goal,
    senders: new Map(kept.senders),
    lastText: spoken?.role === "block_assistant" ? { seq: lastText, text: assistantText(spoken) } : undefined,
  };
  measure(state);
  return state;
}

type EntryAt = (seq: number) => Entry | undefined;

function recordsAt<K extends EntryBody["kind"]>(seqs: readonly number[], kind: K, entryAt: EntryAt) {
  return seqs.flatMap((seq) => {
    const body = entryAt(seq)?.body;
    // The discriminant decides the type, which TypeScript does not see for a generic kind.
    return body?.kind === kind ? [{ seq, body: body as EntryBodyOf<K> }] : [];
  });
}

function saysSettings(body: Entry["body"] | undefined) {
  return body?.kind === "session_created" || body?.kind === "settings_changed";
}

function shownOf(kept: KeptState, entryAt: EntryAt): Placed[] | undefined {
  const { shown, shownFrom, shownBy } = kept;
  const active = shownBy.at(-1);
  const body = active && entryAt(active.seq)?.body;
  const messageAt = (seq: number): Message | undefined => messageIn(entryAt(seq), seq);
  const made =
    active === undefined || body?.kind !== "compacted" ? [] : rebuild(shownFrom, { seq: active.seq, body }, messageAt);
  const before = placedAt(shown.system === 0 ? [] : [shown.system], entryAt);
  const after = placedAt(shown.said, entryAt);
  return made && before && after && [...before, ...made, ...after];
}

function placedAt(seqs: readonly number[], entryAt: EntryAt): readonly Placed[] | undefined {
  const placed = seqs.flatMap((seq): Placed[] => {
    const message = messageIn(entryAt(seq), seq);
    return message === undefined ? [] : [{ seq, message }];
  });
  return placed.length === seqs.length ? placed : undefined;
}

/** The message that an entry adds to the transcript under a seq. */
function messageIn(entry: Entry | undefined, seq: number): Message | undefined {
  if (entry === undefined) return undefined;
  const { body } = entry;
  switch (body.kind) {
    case "session_created":
    case "settings_changed":
      return withSystem([], entry, body.settings)[0]?.message;
    case "imported":
    case "notice":
    case "turn_opened":
    case "message_delivered":
    case "assistant":
    case "tool_results":
      return body.message;
    case "rewritten":
      return "messages" in body.to ? body.to.messages[seq - entry.seq] : undefined;
    default:
      return undefined;
  }
}

function compactionsOf({ shownBy }: KeptState, entryAt: EntryAt): readonly KeptCompaction[] | undefined {
  const records = shownBy.flatMap(({ seq, ...record }): KeptCompaction[] => {
    const body = entryAt(seq)?.body;
    return body?.kind === "compacted" ? [{ seq, body, ...record }] : [];
  });
  return records.length === shownBy.length ? records : undefined;
}

function goalOf(kept: KeptState["goal"], entryAt: EntryAt): GoalRun | undefined {
  const opening = kept && entryAt(kept.seq)?.body;
  const setup = opening?.kind === "turn_opened" || opening?.kind === "turn_continued" ? opening.setup : undefined;
  if (kept === undefined || setup?.goal === undefined) return undefined;
  const [judged] = recordsAt([kept.judged], "goal_judged", entryAt);
  const [ended] = recordsAt([kept.ended], "goal_ended", entryAt);
  return { ...kept, record: setup.goal, setup, judged, ended };
}

/** A pending approval and its answers, from their entries. */
function approvalOf(seqs: readonly number[], first: Entry, entryAt: EntryAt): PendingApproval | undefined {
  const state = beginState("", [first]);
  for (const seq of seqs) {
    const entry = entryAt(seq);
    if (entry !== undefined) advance(state, entry);
  }
  return state.approval;
}
