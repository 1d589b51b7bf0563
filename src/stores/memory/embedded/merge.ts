import { createPageWriter, type PostingPage, SEGMENT_CHUNKS_MAX } from "./posting-page.ts";
import { type Columns, readColumns, readPage, removeSegment, writeSegment } from "./segment.ts";
import type { Manifest, Segment, Tables } from "./tables.ts";

/**
 * Sizes segments are merged to, in chunks, each about eight times the one before: a search asks few segments, and a posting
 * is written again only as often as there are sizes. The last leaves room for the run that reaches it to stay below the
 * most a segment holds.
 */
const SIZES = [16, 128, 1_024, 8_192, 56_320];

/** Merges the newest segments as long as there are enough of a size. Inside a transaction. */
export function mergeSegments(tables: Tables, manifest: Manifest): Manifest {
  let merged = manifest;
  for (;;) {
    const run = mergeableRun(merged.segments);
    if (run.length === 0) return merged;
    const number = merged.lastSegment + 1;
    const whole = mergeRun(tables, run, number);
    const before = merged.segments.slice(0, merged.segments.length - run.length);
    merged = { ...merged, lastSegment: number, segments: [...before, whole] };
  }
}

/** The newest segments that are all smaller than a size, when they are enough to be one of that size. */
function mergeableRun(segments: readonly Segment[]): readonly Segment[] {
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

function mergeRun(tables: Tables, run: readonly Segment[], number: number): Segment {
  const firstId = run[0]?.firstId ?? 0;
  const writer = createPageWriter();
  const readers = run.map((segment) => createTermReader(tables, segment, segment.firstId - firstId));
  for (;;) {
    let least = Number.POSITIVE_INFINITY;
    for (const reader of readers) if (reader.key < least) least = reader.key;
    if (least === Number.POSITIVE_INFINITY) break;
    writer.term(least);
    for (const reader of readers) {
      if (reader.key !== least) continue;
      writer.copy(reader.page, reader.term, reader.shift);
      reader.advance();
    }
  }
  const parts = { columns: joinColumns(run.map((segment) => readColumns(tables, segment))), ...writer.finish() };
  for (const segment of run) removeSegment(tables, segment);
  writeSegment(tables, number, parts);
  return { number, firstId, chunks: sumOf(run), pages: parts.pages.length };
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
  const join = (of: keyof Columns): Uint32Array => {
    const all = new Uint32Array(columns.reduce((sum, { seqs }) => sum + seqs.length, 0));
    let at = 0;
    for (const column of columns) {
      all.set(column[of], at);
      at += column[of].length;
    }
    return all;
  };
  return { sessions: join("sessions"), seqs: join("seqs"), lengths: join("lengths") };
}
