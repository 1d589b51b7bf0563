import type { AgentEntryBody, AgentEntryBodyOf, Tier } from "../contract/agent.ts";
import type { Entry } from "../contract/entry.ts";
import { defined } from "../contract/json.ts";
import type { LogRow, Spent } from "../ports/store.ts";
import { addSpending, totalTokens } from "../turn/cost.ts";

/** From this memory number on, memories are consecutive in the log, starting at this seq. */
interface Place {
  readonly number: number;
  readonly seq: number;
}

/** The state of an agent without reading its log: an up-to-date fold. */
export interface AgentRow extends LogRow {
  readonly agent: string;
  readonly created_at_ms: number;
  /** The number of memories, which is the number of the newest. */
  readonly count: number;
  readonly note_seqs: readonly number[];
  readonly recent?: Tier;
  readonly longterm?: Tier;
  readonly compactions: number;
  readonly compacted_at_ms?: number;
  /** Seq of the last compaction; absent in older rows. */
  readonly compacted_seq?: number;
  /** Quality of the long-term summary; absent if not measured. */
  readonly longterm_quality?: number;
  /** The compaction count at the last rebuild that did not reach the floor. */
  readonly in_vain_at?: number;
  /** The memory count at the last failed compaction; absent if it succeeded. */
  readonly failed_at_count?: number;
  readonly last_error?: string;
  /** Seq of the last erasure, which changed entries before it; absent if there was none. */
  readonly forgotten_seq?: number;
  /** Usage of summaries by day, model and caller; bounded, absent in older rows. */
  readonly spent?: readonly Spent[];
  /** Where the memories are that no summary covers. */
  readonly places: readonly Place[];
  /** Where summaries are among or after those. */
  readonly summary_seqs: readonly number[];
}

/** Folds one entry into a row; `undefined` starts a new one. */
export function foldAgent(row: AgentRow | undefined, id: string, entry: Entry<AgentEntryBody>): AgentRow {
  const { seq, timestamp_ms, body } = entry;
  const before = row ?? emptyRow(id, timestamp_ms);
  const after = { ...before, updated_at_ms: timestamp_ms, last_seq: seq };
  switch (body.kind) {
    case "memory_added":
      return { ...after, agent: body.agent, count: body.number, places: placed(before.places, body.number, seq) };
    case "note_added":
      return { ...after, agent: body.agent, note_seqs: [...before.note_seqs, seq] };
    case "tiers_compacted":
      return compacted(withSpending(after, body), body, entry);
    case "forgotten": {
      const { recent: _recent, longterm: _longterm, last_error: _error, ...rest } = after;
      const { agent, recent, longterm, last_error } = body;
      return {
        ...rest,
        agent,
        forgotten_seq: seq,
        ...defined({ recent, longterm, last_error }),
      };
    }
    case "tiers_failed":
      return { ...withSpending(after, body), failed_at_count: body.at_count, last_error: body.error };
  }
}

function withSpending(
  row: AgentRow,
  { usage, model = "", by }: AgentEntryBodyOf<"tiers_compacted" | "tiers_failed">,
): AgentRow {
  if (row.spent === undefined || usage === undefined || totalTokens(usage) === 0) return row;
  return { ...row, spent: addSpending(row.spent, { model, by, usage, timestamp_ms: row.updated_at_ms }) };
}

function emptyRow(session_id: string, created_at_ms: number): AgentRow {
  return {
    session_id,
    last_seq: 0,
    agent: "",
    created_at_ms,
    updated_at_ms: created_at_ms,
    count: 0,
    note_seqs: [],
    compactions: 0,
    spent: [],
    places: [],
    summary_seqs: [],
  };
}

function placed(places: readonly Place[], number: number, seq: number): readonly Place[] {
  const last = places.at(-1);
  const follows = last !== undefined && seq - last.seq === number - last.number;
  return follows ? places : [...places, { number, seq }];
}

function compacted(
  row: AgentRow,
  body: AgentEntryBodyOf<"tiers_compacted">,
  { seq, timestamp_ms }: Pick<Entry, "seq" | "timestamp_ms">,
): AgentRow {
  const {
    failed_at_count: _failed,
    last_error: _error,
    longterm: _longterm,
    longterm_quality: _quality,
    in_vain_at: inVainAt,
    ...rest
  } = row;
  const compactions = row.compactions + 1;
  const quality = body.quality?.quality;
  const isLow = quality !== undefined && quality < QUALITY_FLOOR;
  const vain = !isLow ? undefined : body.remaking === undefined ? inVainAt : compactions;
  const places = placesFrom(row, body.recent.to + 1);
  const first = places[0]?.seq ?? seq;
  return {
    ...rest,
    recent: body.recent,
    ...(body.longterm === undefined ? {} : { longterm: body.longterm }),
    compactions,
    compacted_at_ms: timestamp_ms,
    compacted_seq: seq,
    ...defined({ longterm_quality: quality, in_vain_at: vain }),
    places,
    summary_seqs: [...row.summary_seqs, seq].filter((one) => one >= first),
  };
}

/** Below this quality a long-term summary is compared with a rebuild from all memories. */
export const QUALITY_FLOOR = 0.5;
/** After a rebuild in vain, the next is tried only after this many further short-term summaries. */
const REST_COMPACTIONS = 8;

/** Whether to try a rebuild of the long-term summary. */
export function isDoubtful(quality: number, { compactions, in_vain_at }: AgentRow): boolean {
  if (quality >= QUALITY_FLOOR) return false;
  return in_vain_at === undefined || compactions - in_vain_at >= REST_COMPACTIONS;
}

function placesFrom({ places, count }: AgentRow, number: number): readonly Place[] {
  if (number > count) return [];
  const at = places.findLastIndex((place) => place.number <= number);
  const holder = places[at];
  if (holder === undefined) return places;
  return [{ number, seq: holder.seq + number - holder.number }, ...places.slice(at + 1)];
}

/** The number of the last memory that summaries cover; 0 without any. */
export function coveredBy({ recent }: Pick<AgentRow, "recent">): number {
  return recent?.to ?? 0;
}

export interface Windows {
  /** How many of the newest memories are shown in full. */
  readonly immediate: number;
  readonly recent: number;
}

/** A compaction, in numbers of memories. */
export interface Waterfall {
  /** Later memories are ignored. */
  readonly atCount: number;
  readonly recent: { readonly from: number; readonly to: number };
  /** Absent the first time. */
  readonly longterm?: { readonly from: number; readonly to: number };
}

/**
 * The number of memories at which a compaction is due: first when both windows are full, then whenever a short-term
 * window of memories has left the immediate window.
 */
export function dueAt({ recent: covered }: Pick<AgentRow, "recent">, { immediate, recent }: Windows): number {
  return covered === undefined ? immediate + recent + 1 : covered.to + immediate + recent;
}

/**
 * The due compaction, if any. It covers the same memories whenever it is made, so a crash or an import of a hundred
 * memories changes nothing. After a failure it waits for another memory and covers up to two windows.
 */
export function dueWaterfall(row: AgentRow, windows: Windows): Waterfall | undefined {
  const due = dueAt(row, windows);
  if (row.count < due) return undefined;
  if (row.failed_at_count === undefined) return waterfallAt(row, windows, due);
  if (row.count <= row.failed_at_count) return undefined;
  return waterfallAt(row, windows, Math.min(row.count, due + windows.recent - 1));
}

/** Whether an agent cannot continue without a compaction: one failed, and another whole window waits. */
export function mustCompact(row: AgentRow, windows: Windows): boolean {
  return row.failed_at_count !== undefined && row.count >= dueAt(row, windows) + windows.recent;
}

/** A compaction of everything outside the immediate window; undefined if summaries cover it already. */
export function waterfallNow(row: AgentRow, windows: Windows): Waterfall | undefined {
  return waterfallAt(row, windows, row.count);
}

function waterfallAt(row: AgentRow, { immediate }: Windows, atCount: number): Waterfall | undefined {
  const covered = coveredBy(row);
  const to = atCount - immediate;
  if (to <= covered) return undefined;
  const recent = { from: covered + 1, to };
  return covered === 0 ? { atCount, recent } : { atCount, recent, longterm: { from: 1, to: covered } };
}
