import type { Chunk, MemoryBatch, Scope } from "@rkat/core/ports/memory";
import { type Columns, readColumns } from "./segment.ts";
import { lacking, type Manifest, readManifest, type Tables } from "./tables.ts";

/** Bits of a chunk's state. */
export const LIVE = 1;
export const DISCARDED = 2;
/** Found by its words alone: it is to have no vector. */
export const BY_WORDS = 4;

/** What a scope covers: bits a chunk's state must have, and ids in ascending order; without `sessions`, of all of them. */
export interface Reach {
  readonly bits: number;
  readonly sessions: ReadonlySet<number> | undefined;
  readonly ranges: readonly IdRange[];
  readonly chunks: number;
  readonly termsTotal: number;
}

/**
 * What a search must know of every chunk, in memory: 14 bytes each. Read when the first search comes and from then on as
 * the tables grow, in any process.
 */
export interface Catalogue {
  /** Takes in what is new; all that is read afterwards in the same tick is of one state of the tables. */
  refresh(): Manifest;
  /** Takes in some of what is new; whether there is more. The first search would hold up others for long with all at once. */
  refreshSome(): boolean;
  readonly states: Uint8Array;
  readonly sessions: Uint32Array;
  readonly lengths: Uint32Array;
  reach(scope: Scope): Reach;
  /** The ids next to one in its session; 0 where there is none. */
  beside(id: number): Pick<Chunk, "before" | "after">;
}

interface Totals {
  chunks: number;
  terms: number;
}

const IDS_FIRST = 4_096;
const CHUNKS_AT_ONCE = 16_384;

export function createCatalogue(tables: Tables): Catalogue {
  const discarded = new Map<number, MemoryBatch["discarded"]>();
  const dropped = new Set<number>();
  const left: Totals = { chunks: 0, terms: 0 };
  const runs = createIdRuns();
  let states = new Uint8Array(IDS_FIRST);
  let byWords = new Uint8Array(IDS_FIRST);
  let sessions = new Uint32Array(IDS_FIRST);
  let seqs = new Uint32Array(IDS_FIRST);
  let lengths = new Uint32Array(IDS_FIRST);
  let manifest: Manifest | undefined;
  let lastId = 0;
  let lastMark = 0;

  const setState = (id: number, given: number): void => {
    const was = states[id] ?? 0;
    const state = given | (byWords[id] === 0 ? 0 : BY_WORDS);
    if (was === state) return;
    const step = ((state & DISCARDED) - (was & DISCARDED)) / DISCARDED;
    left.chunks += step;
    left.terms += step * (lengths[id] ?? 0);
    states[id] = state;
  };
  /** Gives ids of one session their state. */
  const giveStates = (session: number, { first, last }: IdRange): void => {
    const ranges = discarded.get(session) ?? [];
    const live = dropped.has(session) ? 0 : LIVE;
    for (let id = first; id < last; id += 1) {
      const seq = seqs[id] ?? 0;
      const isLeft = live !== 0 && ranges.some(({ from_seq, to_seq }) => from_seq <= seq && seq <= to_seq);
      setState(id, isLeft ? LIVE | DISCARDED : live);
    }
  };
  const giveStatesFrom = (from: number): void => {
    for (let first = from; first <= lastId; ) {
      const session = sessions[first] ?? 0;
      let last = first + 1;
      while (last <= lastId && sessions[last] === session) last += 1;
      giveStates(session, { first, last });
      first = last;
    }
  };
  const grow = (ids: number): void => {
    if (ids < states.length) return;
    const room = 2 ** Math.ceil(Math.log2(ids + 1));
    states = enlarge(states, new Uint8Array(room));
    byWords = enlarge(byWords, new Uint8Array(room));
    sessions = enlarge(sessions, new Uint32Array(room));
    seqs = enlarge(seqs, new Uint32Array(room));
    lengths = enlarge(lengths, new Uint32Array(room));
  };
  /** The chunks after the last, of one segment at most. */
  const takeInSome = ({ segments, lastId: newest }: Manifest): void => {
    const from = lastId + 1;
    const segment = segments.find(({ firstId, chunks }) => from < firstId + chunks);
    lastId = newest;
    if (segment === undefined) return;
    const first = Math.max(from, segment.firstId);
    lastId = Math.min(segment.firstId + segment.chunks, first + CHUNKS_AT_ONCE) - 1;
    takeIn(partOf(readColumns(tables, segment), first - segment.firstId), first);
    giveStatesFrom(from);
  };
  const takeIn = (columns: Columns, firstId: number): void => {
    sessions.set(columns.sessions, firstId);
    seqs.set(columns.seqs, firstId);
    lengths.set(columns.lengths, firstId);
    byWords.set(columns.byWords, firstId);
    for (const [place, session] of columns.sessions.entries()) runs.add(firstId + place, session);
  };
  const readMarks = (last: number): void => {
    for (const { key, value } of tables.marks.getRange({ start: lastMark + 1 })) {
      lastMark = key;
      if (value.dropped) dropped.add(value.session);
      discarded.set(value.session, value.discarded);
      for (const range of runs.of(value.session)) giveStates(value.session, range);
    }
    if (lastMark < last) throw lacking(`mark ${last} is missing`);
  };
  const reachOf = (sessions: ReadonlySet<number>, bits: number, upToSeq: number): Reach => {
    const ranges = [...sessions]
      .flatMap((session) => runs.of(session))
      .map(({ first, last }) => ({ first, last: cut({ first, last }, (id) => (seqs[id] ?? 0) <= upToSeq) }))
      .filter(({ first, last }) => first < last)
      .sort((a, b) => a.first - b.first);
    const sum: Totals = { chunks: 0, terms: 0 };
    for (const { first, last } of ranges) {
      for (let id = first; id < last; id += 1) {
        if (((states[id] ?? 0) & bits) !== bits) continue;
        sum.chunks += 1;
        sum.terms += lengths[id] ?? 0;
      }
    }
    return { bits, sessions, ranges, chunks: sum.chunks, termsTotal: sum.terms };
  };

  const catalogue = {
    beside: runs.beside,
    get states() {
      return states;
    },
    get sessions() {
      return sessions;
    },
    get lengths() {
      return lengths;
    },
    refresh: (): Manifest => {
      const current = readManifest(tables);
      if (manifest?.revision === current.revision) return manifest;
      grow(current.lastId + 1);
      while (lastId < current.lastId) takeInSome(current);
      if (current.lastMark > lastMark) readMarks(current.lastMark);
      manifest = current;
      return current;
    },
    refreshSome: () => {
      const current = readManifest(tables);
      grow(current.lastId + 1);
      if (lastId < current.lastId) takeInSome(current);
      return lastId < current.lastId;
    },
    reach: ({ sessionId, among, discardedOnly, upToSeq = Number.POSITIVE_INFINITY }: Scope): Reach => {
      const { entries, termsTotal } = catalogue.refresh();
      const bits = discardedOnly ? LIVE | DISCARDED : LIVE;
      if (sessionId !== undefined || among !== undefined) {
        const isIn = (id: string): boolean => among?.has(id) !== false;
        const wanted = sessionId === undefined ? [...(among ?? [])] : [sessionId].filter(isIn);
        const numbers = wanted.flatMap((id) => tables.sessions.get(id)?.number ?? []);
        return reachOf(new Set(numbers), bits, sessionId === undefined ? Number.POSITIVE_INFINITY : upToSeq);
      }
      const ranges = [{ first: 1, last: lastId + 1 }];
      if (discardedOnly) return { bits, sessions: undefined, ranges, chunks: left.chunks, termsTotal: left.terms };
      return { bits, sessions: undefined, ranges, chunks: entries, termsTotal };
    },
  };
  return catalogue;
}

/** Where the ids that pass end; a session's chunks stand in the order of their seqs. */
function cut({ first, last }: IdRange, passes: (id: number) => boolean): number {
  if (last > first && passes(last - 1)) return last;
  let end = first;
  while (end < last && passes(end)) end += 1;
  return end;
}

function partOf({ sessions, seqs, lengths, byWords }: Columns, from: number): Columns {
  const to = from + CHUNKS_AT_ONCE;
  return {
    sessions: sessions.subarray(from, to),
    seqs: seqs.subarray(from, to),
    lengths: lengths.subarray(from, to),
    byWords: byWords.subarray(from, to),
  };
}

/** Ids from `first` up to, not including, `last`. */
export interface IdRange {
  readonly first: number;
  readonly last: number;
}

/** Ids of each session as runs, linked with each other: arrays of numbers, since there may be a run a batch. */
function createIdRuns() {
  let ends = new Uint32Array(1_024);
  let firsts = new Uint32Array(1_024);
  let earlier = new Uint32Array(1_024);
  let later = new Uint32Array(1_024);
  const newest = new Map<number, number>();
  let count = 0;
  let current = 0;
  /** The run that holds an id: they are in the order of their ids. */
  const runOf = (id: number): number => {
    let low = 1;
    let high = count;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((firsts[middle] ?? 0) <= id) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  return {
    add: (id: number, session: number): void => {
      if (count > 0 && session === current && ends[count] === id) {
        ends[count] = id + 1;
        return;
      }
      count += 1;
      if (count >= ends.length) {
        ends = enlarge(ends, new Uint32Array(count * 2));
        firsts = enlarge(firsts, new Uint32Array(count * 2));
        earlier = enlarge(earlier, new Uint32Array(count * 2));
        later = enlarge(later, new Uint32Array(count * 2));
      }
      firsts[count] = id;
      ends[count] = id + 1;
      earlier[count] = newest.get(session) ?? 0;
      later[earlier[count] ?? 0] = count;
      newest.set(session, count);
      current = session;
    },
    /** The ids next to one in its session; 0 where there is none. */
    beside: (id: number): { readonly before: number; readonly after: number } => {
      const run = runOf(id);
      // Of run 0, which is none, both ends are 0.
      const lastBefore = Math.max(0, (ends[earlier[run] ?? 0] ?? 0) - 1);
      const firstAfter = firsts[later[run] ?? 0] ?? 0;
      return {
        before: id === firsts[run] ? lastBefore : id - 1,
        after: id + 1 === ends[run] ? firstAfter : id + 1,
      };
    },
    of: (session: number): IdRange[] => {
      const ranges: IdRange[] = [];
      for (let run = newest.get(session) ?? 0; run > 0; run = earlier[run] ?? 0) {
        ranges.push({ first: firsts[run] ?? 0, last: ends[run] ?? 0 });
      }
      return ranges.reverse();
    },
  };
}

/** A larger array that begins with what a smaller one holds. */
function enlarge<Numbers extends Uint8Array | Uint32Array>(from: Numbers, to: Numbers): Numbers {
  to.set(from);
  return to;
}
