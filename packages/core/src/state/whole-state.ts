import { CASCADE } from "../compaction/shown-messages.ts";
import type { SeqRange } from "../contract/compaction.ts";
import type { Entry, EntryBody, EntryBodyOf } from "../contract/entry.ts";
import type { Clock } from "../ports/clock.ts";
import {
  activeCompaction,
  type CompactionRecord,
  evictedFrom,
  type Placed,
  rangesOf,
  type ShownState,
  showBy,
} from "./context.ts";
import {
  everSaid,
  judgeCompactions,
  type KeptCompaction,
  lastTextIn,
  type RewriteRecord,
  rewrite,
  saidIn,
  withSystemOf,
} from "./rewrites.ts";
import { advance, applyAlone, beginState, type SessionState, withoutNative } from "./session-state.ts";
import { measure, withSystem } from "./shown-state.ts";

/** A session state with the full history, which only compactions, forks and rewrites need. */
export interface WholeState extends SessionState {
  /** The full transcript, the system message first. */
  transcript: Placed[];
  rewrites: readonly RewriteRecord[];
  compactions: readonly KeptCompaction[];
  /** Erased ranges. */
  holes: readonly SeqRange[];
  /** The tools that said of themselves that they change nothing. */
  readonly readOnlyTools: Set<string>;
}

export function isWhole(state: SessionState): state is WholeState {
  return "transcript" in state;
}

export function foldSession(sessionId: string, entries: readonly Entry[]): WholeState {
  const state = beginFold(sessionId, entries);
  for (const entry of entries) applyUnshown(state, entry);
  // Once at the end: the contexts in between are not needed.
  showAnew(state);
  return state;
}

/** The same for a long log: yields to the event loop between entries. */
export async function foldLongSession(
  sessionId: string,
  entries: readonly Entry[],
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<WholeState> {
  const state = beginFold(sessionId, entries);
  for (const entry of entries) {
    applyUnshown(state, entry);
    await yieldToEventLoop();
  }
  showAnew(state);
  await yieldToEventLoop();
  return state;
}

export function beginFold(sessionId: string, entries: readonly Entry[]): WholeState {
  const folded = { transcript: [], rewrites: [], compactions: [], holes: [], readOnlyTools: new Set<string>() };
  return { ...beginState(sessionId, entries), ...folded };
}

/** Applies one entry; returns false, without a change, if the state lacks what that needs. */
export function applyTo(state: SessionState, entry: Entry): boolean {
  // The entries it was folded from have changed.
  if (entry.body.kind === "forgotten") return false;
  if (!isWhole(state)) return applyAlone(state, entry);
  applyEntry(state, entry);
  return true;
}

export function applyEntry(state: WholeState, entry: Entry): void {
  applyUnshown(state, entry);
  if (SHOWS_ANEW.has(entry.body.kind)) showAnew(state);
}

/** Entries that replace the context instead of extending it. */
const SHOWS_ANEW: ReadonlySet<EntryBody["kind"]> = new Set([
  "session_created",
  "settings_changed",
  "compacted",
  "compaction_undone",
  "expanded",
  "pinned",
  "rewritten",
  "forgotten",
]);

/** The same without recomputing the context, which `showAnew` does. */
export function applyUnshown(state: WholeState, entry: Entry): void {
  const { body, seq } = entry;
  const { length } = state.shown;
  advance(state, entry);
  for (const placed of state.shown.slice(length)) state.transcript.push(placed);
  switch (body.kind) {
    case "session_created":
    case "settings_changed":
      state.transcript = withSystem(state.transcript, entry, body.settings);
      return;
    case "tool_results":
    case "results_held":
      for (const { name, read_only } of body.calls) if (read_only === true) state.readOnlyTools.add(name);
      return;
    case "event":
      if (body.event.type !== "native_compaction_refused") return;
      state.compactions = withoutNative(state.compactions, body.event.compaction_id);
      return;
    case "compacted":
      state.compactions = [...state.compactions, keptCompaction(state, seq, body)];
      state.shownAnewSeq = seq;
      return;
    case "compaction_undone": {
      const from = state.compactions.findIndex((record) => record.body.compaction_id === body.compaction_id);
      state.shownAnewSeq = seq;
      if (from < 0) return;
      state.compactions = state.compactions.map((one, at) =>
        at < from ? one : { ...one, undone: true, undoneByHand: true },
      );
      return;
    }
    case "expanded": {
      const active = activeCompaction(state);
      state.compactions = state.compactions.map((one) =>
        one === active ? { ...one, expanded: [...one.expanded, ...body.ranges] } : one,
      );
      state.shownAnewSeq = seq;
      return;
    }
    case "pinned":
      state.shownAnewSeq = seq;
      return;
    case "rewritten":
      applyRewrite(state, seq, body);
      state.shownAnewSeq = seq;
      return;
    case "forgotten":
      state.holes = [...state.holes, ...body.holes.map(({ from_seq, to_seq }) => ({ from_seq, to_seq }))];
      state.shownAnewSeq = seq;
      return;
    default:
      return;
  }
}

export function showAnew(state: WholeState): void {
  const active = activeCompaction(state);
  const made = active && showBy(state.transcript, active, state.pins);
  state.shown = made === undefined ? [...state.transcript] : made.shown;
  state.shownFrom = made?.from ?? [];
  state.shownBy = showing(state);
  state.evictions = evictionsIn(state);
  measure(state);
  state.hidden = hiddenIn(state);
}

/** The compactions that determine the context. */
function showing({ compactions, shown }: WholeState): readonly KeptCompaction[] {
  const active = activeCompaction({ compactions });
  if (active === undefined) return [];
  const ids = new Set(shown.map(({ message }) => (message.role === "user" ? message.compaction_id : undefined)));
  return compactions.filter((one) => one === active || (!one.undone && ids.has(one.body.compaction_id)));
}

export function evictionsIn({ compactions }: Pick<WholeState, "compactions">): SessionState["evictions"] {
  const isMade = (one: KeptCompaction): boolean => one.undoneByHand || !one.undone;
  const made = compactions.findLast((one) => one.body.evicted !== undefined && isMade(one));
  const last = compactions.findLast(({ body }) => body.evicted !== undefined);
  return { lastSeq: last?.seq ?? 0, upTo: made?.body.evicted?.up_to_seq ?? 0 };
}

function keptCompaction(state: WholeState, seq: number, body: EntryBodyOf<"compacted">): KeptCompaction {
  const madeFrom = saidIn(state.transcript).length;
  // An eviction keeps the rest of the context, including expanded messages.
  const expanded = body.evicted === undefined ? [] : (activeCompaction(state)?.expanded ?? []);
  return { seq, body, madeFrom, madeAfter: state.rewrites.length, undone: false, undoneByHand: false, expanded };
}

/** Calls are closed before a rewrite, so none are open and no notice waits. */
function applyRewrite(state: WholeState, seq: number, { to, commit }: EntryBodyOf<"rewritten">): void {
  const before = state.transcript;
  // A new list: caches of the old one must not apply to it.
  state.transcript = rewrite(state, to, seq);
  state.rewrites = [...state.rewrites, { commit, before }];
  state.compactions = judgeCompactions(state.compactions, state);
  state.settings = withSystemOf(state.settings, state.transcript);
  state.settingsFrom = { ...state.settingsFrom, isRewritten: true };
  state.lastText = lastTextIn(state.transcript);
  state.turnsSaid = everSaid(state).filter(({ message }) => message.role === "user").length;
}

interface Hiding extends ShownState {
  readonly transcript: readonly Placed[];
  readonly rewrites: readonly RewriteRecord[];
  readonly compactions: readonly CompactionRecord[];
}

/**
 * The messages that left the context, and their summaries unless undone. What a rewrite removed is excluded: its author
 * does not want the model to see it.
 */
function hiddenIn(state: Hiding): readonly SeqRange[] {
  if (state.compactions.length === 0) return [];
  // Of an evicted output only a line is shown.
  const evicted = new Set(evictedFrom(state).map(({ seq }) => seq));
  const shown = new Set(state.shown.map(({ seq }) => seq).filter((seq) => !evicted.has(seq)));
  const said = new Set(state.transcript.map(({ seq }) => seq));
  const cascades = new Map(cascadesIn(state.compactions).map((record) => [record.seq, record]));
  const isHidden = (seq: number): boolean => {
    const record = cascades.get(seq);
    return record === undefined ? said.has(seq) && !shown.has(seq) : !record.undone;
  };
  const all = [...everSaid(state), ...cascades.values()].sort((a, b) => a.seq - b.seq);
  return rangesOf(
    all.filter(({ seq }) => isHidden(seq)),
    all,
  );
}

/** Compactions by cascade: their recent sections become memory, since the next compaction shortens them. */
export function cascadesIn(compactions: readonly CompactionRecord[]): readonly CompactionRecord[] {
  return compactions.filter(({ body }) => body.strategy === CASCADE && body.summary !== "");
}
