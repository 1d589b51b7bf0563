import type { NewChunk } from "@rkat/core/ports/memory";
import { lastUpTo } from "@rkat/core/stores/recall-rank-postings";
import {
  countAt,
  createPageWriter,
  decodePage,
  keyOf,
  lastAlike,
  type PostingPage,
  placeOfKey,
  SEGMENT_CHUNKS_MAX,
} from "./posting-page.ts";
import { aligned, lacking, type Manifest, readManifest, type Segment, type Tables, writeManifest } from "./tables.ts";

/** A segment that has no number and no ids yet. */
export interface SegmentDraft {
  readonly chunks: number;
  readonly seqs: Uint32Array;
  readonly lengths: Uint32Array;
  readonly byWords: Uint8Array;
  readonly pages: readonly Buffer[];
  readonly fences: Buffer;
}

/** A chunk with what it is found by: terms, or the keys of terms. */
export type IndexedChunk = Omit<NewChunk, "terms"> & { readonly terms: ReadonlyMap<string | number, number> };

/** Chunks of one session as segments. */
export function draftSegments(chunks: readonly IndexedChunk[]): readonly SegmentDraft[] {
  const drafts: SegmentDraft[] = [];
  for (let from = 0; from < chunks.length; from += SEGMENT_CHUNKS_MAX) {
    drafts.push(draftSegment(chunks.slice(from, from + SEGMENT_CHUNKS_MAX)));
  }
  return drafts;
}

function draftSegment(chunks: readonly IndexedChunk[]): SegmentDraft {
  const byTerm = new Map<string | number, number[]>();
  const lengths = new Uint32Array(chunks.length);
  for (const [place, { terms }] of chunks.entries()) {
    let length = 0;
    for (const [term, count] of terms) {
      length += count;
      const postings = byTerm.get(term);
      if (postings === undefined) byTerm.set(term, [place, count]);
      else postings.push(place, count);
    }
    lengths[place] = length;
  }
  const byKey = new Map<number, number[]>();
  for (const [term, postings] of byTerm) {
    const key = placeOfKey(typeof term === "string" ? keyOf(term) : term);
    const others = byKey.get(key);
    byKey.set(key, others === undefined ? postings : joinPostings(others, postings));
  }
  const writer = createPageWriter();
  for (const key of Float64Array.from(byKey.keys()).sort()) {
    writer.term(key);
    const postings = byKey.get(key) ?? [];
    for (let at = 0; at < postings.length; at += 2) writer.posting(postings[at] ?? 0, postings[at + 1] ?? 0);
  }
  const seqs = Uint32Array.from(chunks, ({ seq }) => seq);
  const byWords = Uint8Array.from(chunks, ({ byWordsAlone }) => (byWordsAlone ? 1 : 0));
  return { chunks: chunks.length, seqs, lengths, byWords, ...writer.finish() };
}

/** Two terms of one key count as one, in the order of the places. */
function joinPostings(ones: readonly number[], others: readonly number[]): number[] {
  const counts = new Map<number, number>();
  for (const postings of [others, ones])
    for (let at = 0; at < postings.length; at += 2) counts.set(postings[at] ?? 0, postings[at + 1] ?? 0);
  return [...counts].sort(([a], [b]) => a - b).flat();
}

/** What a search needs to know of every chunk, by its place in the segment. */
export interface Columns {
  readonly sessions: Uint32Array;
  readonly seqs: Uint32Array;
  readonly lengths: Uint32Array;
  /** 1 where a chunk is found by its words alone. */
  readonly byWords: Uint8Array;
}

function encodeColumns({ sessions, seqs, lengths, byWords }: Columns): Buffer {
  const chunks = sessions.length;
  const all = new Uint32Array(chunks * 3 + Math.ceil(chunks / 4));
  all.set(sessions);
  all.set(seqs, chunks);
  all.set(lengths, chunks * 2);
  new Uint8Array(all.buffer).set(byWords, chunks * 12);
  return Buffer.from(all.buffer);
}

export function readColumns({ columns }: Tables, segment: Segment): Columns {
  const value = columns.get(segment.number);
  if (value === undefined) throw lacking(`segment ${segment.number} has no columns`);
  const all = new Uint32Array(aligned(value));
  const { chunks } = segment;
  const isWarned = all.length > chunks * 3;
  return {
    sessions: all.subarray(0, chunks),
    seqs: all.subarray(chunks, chunks * 2),
    lengths: all.subarray(chunks * 2, chunks * 3),
    // A segment of before says nothing of it.
    byWords: isWarned ? new Uint8Array(all.buffer, all.byteOffset + chunks * 12, chunks) : new Uint8Array(chunks),
  };
}

interface SegmentParts {
  readonly columns: Columns;
  readonly pages: readonly Buffer[];
  readonly fences: Buffer;
}

/** Inside a transaction. */
export function writeSegment(tables: Tables, number: number, parts: SegmentParts): void {
  tables.columns.put(number, encodeColumns(parts.columns));
  tables.fences.put(number, parts.fences);
  for (const [page, value] of parts.pages.entries()) tables.pages.put([number, page], value);
}

/** The page and the place in it of a term's postings; undefined when no chunk of the segment holds it. */
export function findTerm(
  pageOf: (page: number) => PostingPage,
  fences: Float64Array,
  key: number,
): { readonly page: PostingPage; readonly term: number } | undefined {
  // The fences of earlier segments are whole keys.
  const number = lastUpTo(fences, lastAlike(key));
  if (number < 0) return undefined;
  const page = pageOf(number);
  const term = lastUpTo(page.keys, key);
  return page.keys[term] === key ? { page, term } : undefined;
}

export function readPage({ pages }: Tables, segment: number, page: number): PostingPage {
  const value = pages.get([segment, page]);
  if (value === undefined) throw lacking(`segment ${segment} has no page ${page}`);
  return decodePage(value);
}

/**
 * Sizes segments are merged to, in chunks, each about eight times the one before: a search asks few segments, and a posting
 * is written again only as often as there are sizes. The last leaves room for the run that reaches it to stay below the
 * most a segment holds.
 */
const SIZES = [16, 128, 1_024, 8_192, 56_320];

/** The newest segments that are all smaller than a size, when they are enough to be one of that size. */
export function mergeableRun(segments: readonly Segment[]): readonly Segment[] {
  for (const size of SIZES) {
    const run = segments.slice(segments.findLastIndex(({ chunks }) => chunks >= size) + 1);
    // After a large batch the eldest of them stay as they are.
    while (sumOf(run) > SEGMENT_CHUNKS_MAX) run.shift();
    if (run.length > 1 && sumOf(run) >= size) return run;
  }
  return [];
}

function sumOf(segments: readonly Segment[]): number {
  return segments.reduce((sum, { chunks }) => sum + chunks, 0);
}

/** Postings that are merged between two looks at other work. */
const PIECE_POSTINGS = 16_384;

/** Makes one segment of a run, in pieces, as long as the run is there. Nothing is written. */
export function* mergeRun(tables: Tables, run: readonly Segment[]): Generator<undefined, SegmentParts | undefined> {
  const isGone = () => placeOfRun(readManifest(tables), run) < 0;
  if (isGone()) return;
  const firstId = run[0]?.firstId ?? 0;
  const writer = createPageWriter();
  let postings = 0;
  const readers = run.map((segment) => createTermReader(tables, segment, segment.firstId - firstId));
  for (;;) {
    let least = Number.POSITIVE_INFINITY;
    for (const reader of readers) if (reader.key < least) least = reader.key;
    if (least === Number.POSITIVE_INFINITY) break;
    writer.term(least);
    for (const reader of readers) {
      if (reader.key !== least) continue;
      postings += writer.copy(reader.page, reader.term, reader.shift);
      reader.advance();
    }
    if (postings < PIECE_POSTINGS) continue;
    postings = 0;
    yield;
    if (isGone()) return;
  }
  return { columns: joinColumns(run.map((segment) => readColumns(tables, segment))), ...writer.finish() };
}

/** Where the run begins; -1 when another process has merged or cleaned a segment of it. */
function placeOfRun({ segments }: Manifest, run: readonly Segment[]): number {
  const at = segments.findIndex(({ number }) => number === run[0]?.number);
  return run.every(({ number }, index) => segments[at + index]?.number === number) ? at : -1;
}

/** Puts the segment made of a run in its place. Inside a transaction. */
export function replaceRun(tables: Tables, run: readonly Segment[], parts: SegmentParts): void {
  const manifest = readManifest(tables);
  const at = placeOfRun(manifest, run);
  if (at < 0) return;
  const number = manifest.lastSegment + 1;
  for (const segment of run) removeSegment(tables, segment);
  writeSegment(tables, number, parts);
  const whole = { number, firstId: run[0]?.firstId ?? 0, chunks: sumOf(run), pages: parts.pages.length };
  writeManifest(tables, {
    ...manifest,
    lastSegment: number,
    segments: manifest.segments.toSpliced(at, run.length, whole),
  });
}

/** The segment without the postings of chunks that are gone, under a number of its own. Inside a transaction. */
export function withoutPostings(
  tables: Tables,
  segment: Segment,
  { number, isGone }: { readonly number: number; readonly isGone: (place: number) => boolean },
): Segment {
  const writer = createPageWriter();
  for (const reader = createTermReader(tables, segment, 0); reader.key !== Number.POSITIVE_INFINITY; reader.advance()) {
    const { page, term } = reader;
    const from = page.starts[term] ?? 0;
    const to = page.starts[term + 1] ?? from;
    let isWarned = false;
    for (let at = from; at < to; at += 1) {
      const place = page.places[at] ?? 0;
      if (isGone(place)) continue;
      if (!isWarned) writer.term(reader.key);
      isWarned = true;
      writer.posting(place, countAt(page, at));
    }
  }
  const { sessions, seqs, lengths, byWords } = readColumns(tables, segment);
  const kept = lengths.map((length, place) => (isGone(place) ? 0 : length));
  const parts = { columns: { sessions, seqs, lengths: kept, byWords }, ...writer.finish() };
  removeSegment(tables, segment);
  writeSegment(tables, number, parts);
  return { ...segment, number, pages: parts.pages.length };
}

/** Inside a transaction. */
function removeSegment(tables: Tables, { number, pages }: Segment): void {
  tables.columns.remove(number);
  tables.fences.remove(number);
  for (let page = 0; page < pages; page += 1) tables.pages.remove([number, page]);
}

const NO_PAGE: PostingPage = {
  keys: new Float64Array(),
  starts: new Uint32Array(),
  large: new Uint32Array(),
  places: new Uint16Array(),
  counts: new Uint8Array(),
};

/** Goes over the terms of a segment; past the last, the key is infinite. */
function createTermReader(tables: Tables, segment: Segment, shift: number) {
  let next = 0;
  const reader = {
    key: Number.POSITIVE_INFINITY,
    page: NO_PAGE,
    term: -1,
    shift,
    advance: (): void => {
      reader.term += 1;
      if (reader.term >= reader.page.keys.length && next < segment.pages) {
        reader.page = readPage(tables, segment.number, next);
        reader.term = 0;
        next += 1;
      }
      reader.key = reader.page.keys[reader.term] ?? Number.POSITIVE_INFINITY;
    },
  };
  reader.advance();
  return reader;
}

function joinColumns(columns: readonly Columns[]): Columns {
  const chunks = columns.reduce((sum, { seqs }) => sum + seqs.length, 0);
  const join = <Numbers extends Uint8Array | Uint32Array>(all: Numbers, of: keyof Columns): Numbers => {
    let at = 0;
    for (const column of columns) {
      all.set(column[of], at);
      at += column[of].length;
    }
    return all;
  };
  return {
    sessions: join(new Uint32Array(chunks), "sessions"),
    seqs: join(new Uint32Array(chunks), "seqs"),
    lengths: join(new Uint32Array(chunks), "lengths"),
    byWords: join(new Uint8Array(chunks), "byWords"),
  };
}
