import type { NewChunk } from "../../../ports/memory.ts";
import { createPageWriter, decodePage, keyOf, lastUpTo, type PostingPage, SEGMENT_CHUNKS_MAX } from "./posting-page.ts";
import { aligned, lacking, type Segment, type Tables } from "./tables.ts";

/** A segment that has no number and no ids yet. */
export interface SegmentDraft {
  readonly chunks: number;
  readonly seqs: Uint32Array;
  readonly lengths: Uint32Array;
  readonly pages: readonly Buffer[];
  readonly fences: Buffer;
}

/** Chunks of one session as segments. */
export function draftSegments(chunks: readonly NewChunk[]): readonly SegmentDraft[] {
  const drafts: SegmentDraft[] = [];
  for (let from = 0; from < chunks.length; from += SEGMENT_CHUNKS_MAX) {
    drafts.push(draftSegment(chunks.slice(from, from + SEGMENT_CHUNKS_MAX)));
  }
  return drafts;
}

function draftSegment(chunks: readonly NewChunk[]): SegmentDraft {
  const holders = new Map<number, { readonly places: number[]; readonly counts: number[] }>();
  const lengths = new Uint32Array(chunks.length);
  for (const [place, { terms }] of chunks.entries()) {
    for (const [term, count] of terms) {
      const key = keyOf(term);
      const postings = holders.get(key) ?? { places: [], counts: [] };
      holders.set(key, postings);
      lengths[place] = (lengths[place] ?? 0) + count;
      // Two terms of one key count as one.
      if (postings.places.at(-1) === place) continue;
      postings.places.push(place);
      postings.counts.push(count);
    }
  }
  const writer = createPageWriter();
  for (const key of Float64Array.from(holders.keys()).sort()) {
    writer.term(key);
    const { places = [], counts = [] } = holders.get(key) ?? {};
    for (const [index, place] of places.entries()) writer.posting(place, counts[index] ?? 0);
  }
  return { chunks: chunks.length, seqs: Uint32Array.from(chunks, ({ seq }) => seq), lengths, ...writer.finish() };
}

/** What a search needs to know of every chunk, by its place in the segment. */
export interface Columns {
  readonly sessions: Uint32Array;
  readonly seqs: Uint32Array;
  readonly lengths: Uint32Array;
}

function encodeColumns({ sessions, seqs, lengths }: Columns): Buffer {
  const all = new Uint32Array(sessions.length * 3);
  all.set(sessions);
  all.set(seqs, sessions.length);
  all.set(lengths, sessions.length * 2);
  return Buffer.from(all.buffer);
}

export function readColumns({ columns }: Tables, segment: Segment): Columns {
  const value = columns.get(segment.number);
  if (value === undefined) throw lacking(`segment ${segment.number} has no columns`);
  const all = new Uint32Array(aligned(value));
  const { chunks } = segment;
  return {
    sessions: all.subarray(0, chunks),
    seqs: all.subarray(chunks, chunks * 2),
    lengths: all.subarray(chunks * 2),
  };
}

/** Inside a transaction. */
export function writeSegment(
  tables: Tables,
  number: number,
  parts: { readonly columns: Columns; readonly pages: readonly Buffer[]; readonly fences: Buffer },
): void {
  tables.columns.put(number, encodeColumns(parts.columns));
  tables.fences.put(number, parts.fences);
  for (const [page, value] of parts.pages.entries()) tables.pages.put([number, page], value);
}

/** Inside a transaction. */
export function removeSegment(tables: Tables, { number, pages }: Segment): void {
  tables.columns.remove(number);
  tables.fences.remove(number);
  for (let page = 0; page < pages; page += 1) tables.pages.remove([number, page]);
}

export function readPage({ pages }: Tables, segment: number, page: number): PostingPage {
  const value = pages.get([segment, page]);
  if (value === undefined) throw lacking(`segment ${segment} has no page ${page}`);
  return decodePage(aligned(value));
}

/** The page and the place in it of a term's postings; undefined when no chunk of the segment holds it. */
export function findTerm(
  tables: Tables,
  segment: { readonly number: number; readonly fences: Float64Array },
  key: number,
): { readonly page: PostingPage; readonly term: number } | undefined {
  const number = lastUpTo(segment.fences, key);
  if (number < 0) return undefined;
  const value = tables.pages.get([segment.number, number]);
  if (value === undefined) throw lacking(`segment ${segment.number} has no page ${number}`);
  const page = value.byteOffset % 8 === 0 ? decodePage(value.buffer, value.byteOffset) : decodePage(aligned(value));
  const term = lastUpTo(page.keys, key);
  return page.keys[term] === key ? { page, term } : undefined;
}
