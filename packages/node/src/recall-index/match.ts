import type { LexicalMatches, Scope, TermQuery } from "@rkat/core/ports/memory";
import { type Matched, type Postings, rankPostings } from "@rkat/core/stores/recall-rank-postings";
import type { Catalogue, Reach } from "./catalogue.ts";
import { COUNT_LARGE, countAt, keyOf, type PostingPage } from "./posting-page.ts";
import { findTerm } from "./segment.ts";
import { aligned, lacking, type Segment, type Tables } from "./tables.ts";

/** Finds the chunks of a scope that hold terms. */
export function createMatcher(tables: Tables, catalogue: Catalogue) {
  // Segments never change, so what was read of one holds as long as it is there.
  const fencesBySegment = new Map<number, Float64Array>();

  const fencesOf = (number: number): Float64Array => {
    const known = fencesBySegment.get(number);
    if (known !== undefined) return known;
    const value = tables.fences.get(number);
    if (value === undefined) throw lacking(`segment ${number} has no fences`);
    const fences = new Float64Array(aligned(value));
    fencesBySegment.set(number, fences);
    return fences;
  };
  const forgetMerged = (segments: readonly Segment[]): void => {
    const there = new Set(segments.map(({ number }) => number));
    for (const number of fencesBySegment.keys()) if (!there.has(number)) fencesBySegment.delete(number);
  };

  const postingsOf = (term: string, segments: readonly Segment[], reach: Reach): Postings => {
    const key = keyOf(term);
    const into: Gathered = { ids: new Uint32Array(), counts: new Uint32Array(), size: 0 };
    for (const { number, firstId } of segments) {
      const found = findTerm(tables, { number, fences: fencesOf(number) }, key);
      if (found === undefined) continue;
      if (reach.sessions === undefined) gather({ ...found, firstId }, { reach, states: catalogue.states }, into);
      else gatherOfSessions({ ...found, firstId }, { reach, states: catalogue.states }, into);
    }
    return { term, ids: into.ids.subarray(0, into.size), counts: into.counts.subarray(0, into.size) };
  };

  const gatherAll = (terms: Iterable<string>, reach: Reach): Matched => {
    const { segments } = catalogue.refresh();
    if (fencesBySegment.size > segments.length) forgetMerged(segments);
    const reached = segments.filter(({ firstId, chunks }) => overlaps(reach, firstId, firstId + chunks));
    const { chunks, termsTotal } = reach;
    const postings = Array.from(terms, (term) => postingsOf(term, reached, reach));
    return { postings, chunks, termsTotal, lengths: catalogue.lengths };
  };

  return {
    match: (query: TermQuery, scope: Scope): LexicalMatches =>
      rankPostings(gatherAll(query.weights.keys(), catalogue.reach(scope)), query),
    /** Of these ids, those in the scope. */
    within: (ids: readonly number[], scope: Scope): readonly number[] => {
      const { bits, ranges } = catalogue.reach(scope);
      const { states } = catalogue;
      const isReached = (id: number): boolean => ranges.some(({ first, last }) => first <= id && id < last);
      return ids.filter((id) => ((states[id] ?? 0) & bits) === bits && isReached(id));
    },
  };
}

interface Found {
  readonly page: PostingPage;
  readonly term: number;
  readonly firstId: number;
}

interface Filter {
  readonly reach: Reach;
  readonly states: Uint8Array;
}

interface Gathered {
  ids: Uint32Array;
  counts: Uint32Array;
  size: number;
}

/** Written with plain variables: a common word has a posting for every other chunk, and all of them pass here. */
function gather({ page, term, firstId }: Found, { reach: { bits }, states }: Filter, into: Gathered): void {
  const { places, counts } = page;
  const end = page.starts[term + 1] ?? 0;
  const start = page.starts[term] ?? 0;
  makeRoom(into, end - start);
  const { ids, counts: often } = into;
  let size = into.size;
  for (let at = start; at < end; at += 1) {
    const id = firstId + (places[at] ?? 0);
    if (((states[id] ?? 0) & bits) !== bits) continue;
    const count = counts[at] ?? 0;
    ids[size] = id;
    often[size] = count < COUNT_LARGE ? count : countAt(page, at);
    size += 1;
  }
  into.size = size;
}

/** The ids of some sessions are few and close together: their postings are looked up run by run. */
function gatherOfSessions({ page, term, firstId }: Found, { reach, states }: Filter, into: Gathered): void {
  const end = page.starts[term + 1] ?? 0;
  let at = page.starts[term] ?? 0;
  makeRoom(into, Math.min(end - at, reach.chunks));
  for (const { first, last } of reach.ranges) {
    at = firstFrom(page.places, { from: at, to: end }, first - firstId);
    for (; at < end && firstId + (page.places[at] ?? 0) < last; at += 1) {
      const id = firstId + (page.places[at] ?? 0);
      if (((states[id] ?? 0) & reach.bits) !== reach.bits) continue;
      into.ids[into.size] = id;
      into.counts[into.size] = countAt(page, at);
      into.size += 1;
    }
  }
}

function makeRoom(into: Gathered, more: number): void {
  if (into.size + more <= into.ids.length) return;
  const { ids, counts, size } = into;
  // The eldest segments are the largest: what follows them is about as much again at most.
  const room = size + more + (size >> 1);
  into.ids = new Uint32Array(room);
  into.counts = new Uint32Array(room);
  into.ids.set(ids.subarray(0, size));
  into.counts.set(counts.subarray(0, size));
}

/** Index of the first place at or after `place`. */
function firstFrom(places: Uint16Array, { from, to }: { from: number; to: number }, place: number): number {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((places[middle] ?? 0) < place) low = middle + 1;
    else high = middle;
  }
  return low;
}

function overlaps({ sessions, ranges }: Reach, first: number, last: number): boolean {
  if (sessions === undefined) return true;
  return ranges.some((range) => range.first < last && first < range.last);
}
