import type { FoldRow, LogRow } from "../../../ports/store.ts";
import type { LogIndex, RecordPlace } from "./log-index.ts";
import { type Chain, leftOutSentence, readPlaces, soleChain } from "./read-places.ts";
import { decodeRecord, recordHead } from "./record.ts";
import { scanSegment } from "./scan.ts";
import type { SegmentIo } from "./segment-file.ts";
import type { Segments } from "./segments.ts";

/** What the index on disk does not know yet: found by reading the ends of the segments, and added to by appends. */
export interface Tail<R> {
  /** Reads what was appended since the last time, by any process. */
  catchUp(): void;
  /** Every place of a session's records that count, oldest first, and of those that do not. */
  chain(sessionId: string): Chain;
  /** Knows of a session only what the index does. */
  forget(sessionId: string): void;
  /** Folds a session's row anew where two processes wrote the same seq. */
  settle(sessionId: string): void;
  row(sessionId: string): R | undefined;
  /** The row when it ends at `lastSeq`; quicker, for whoever holds the session and so knows where it ends. */
  rowAt(sessionId: string, lastSeq: number): R | undefined;
  rows(): readonly R[];
  /** Takes in a record this process just wrote. */
  add(sessionId: string, place: RecordPlace, row: R): void;
  /** How far a segment has been read. */
  readTo(segment: number): number;
  setReadTo(segment: number, offset: number): void;
  /** What is not on disk of one segment, with the rows it touched. */
  unsaved(segment: number): {
    places: readonly { sessionId: string; place: RecordPlace }[];
    rows: readonly R[];
  };
  /** Lets go of what a checkpoint has saved. */
  saved(segment: number, upTo: number): void;
}

const TOLD_MAX = 1_000;

export interface TailParts<B, R> {
  readonly index: LogIndex<R>;
  readonly segments: Segments;
  readonly io: SegmentIo;
  readonly foldRow: FoldRow<B, R>;
  readonly warn: (sentence: string) => void;
  /** Segments this process writes itself: it knows what it put there. */
  isOwn(segment: number): boolean;
}

export function createTail<B, R extends LogRow>(parts: TailParts<B, R>): Tail<R> {
  const { index, segments, io, foldRow, warn } = parts;
  const readTo = new Map<number, number>();
  const recent = new Map<string, RecordPlace[]>();
  const rows = new Map<string, R>();
  const told = new Set<string>();
  let known = index.segments();

  const rowOf = (sessionId: string): R | undefined => {
    const row = rows.get(sessionId);
    const saved = index.row(sessionId);
    return saved !== undefined && (row === undefined || saved.last_seq > row.last_seq) ? saved : row;
  };

  const note = (sessionId: string, place: RecordPlace): void => {
    const places = recent.get(sessionId);
    if (places === undefined) recent.set(sessionId, [place]);
    else places.push(place);
  };

  const drop = (segment: number, upTo: number): void => {
    for (const [sessionId, all] of recent) {
      const left = all.filter((place) => place.segment !== segment || place.offset >= upTo);
      if (left.length > 0) recent.set(sessionId, left);
      else recent.delete(sessionId);
      const row = rows.get(sessionId);
      const isSaved = row !== undefined && index.row(sessionId)?.last_seq === row.last_seq;
      if (left.length === 0 && isSaved) rows.delete(sessionId);
    }
  };

  const catchUp = (): void => {
    const found: { readonly sessionId: string; readonly place: RecordPlace; readonly record: Buffer }[] = [];
    for (const segment of segments.list()) {
      if (parts.isOwn(segment)) continue;
      if (!readTo.has(segment)) known = index.segments();
      const state = known.get(segment);
      if (state?.sealed === true) continue;
      const from = readTo.get(segment) ?? state?.indexed ?? 0;
      const fd = segments.reader(segment);
      if (io.size(fd) <= from) {
        readTo.set(segment, from);
        continue;
      }
      const scan = scanSegment(io, fd, from, (buffer, at, { offset, bytes }) => {
        const { sessionId, seq } = recordHead(buffer, at);
        found.push({ sessionId, place: { seq, segment, offset, bytes }, record: buffer.subarray(at, at + bytes) });
      });
      for (const hole of scan.holes) {
        warn(`${segments.path(segment)} is damaged at ${hole.offset}: ${hole.bytes} bytes are no record (${hole.why})`);
      }
      readTo.set(segment, scan.end);
    }
    if (found.length === 0) return;
    // What other processes have brought into the index since need not be kept here as well.
    known = index.segments();
    for (const [segment, { indexed }] of known) if (!parts.isOwn(segment)) drop(segment, indexed);
    const suspects = new Set<string>();
    // A session may have gone from process to process: its records are folded in the order of their seqs.
    for (const { sessionId, place, record } of found.sort((a, b) => a.place.seq - b.place.seq)) {
      note(sessionId, place);
      if (place.seq <= (rowOf(sessionId)?.last_seq ?? 0)) suspects.add(sessionId);
      for (const entry of decodeRecord<B>(record, 0).entries) {
        const row = rowOf(sessionId);
        if (entry.seq === (row?.last_seq ?? 0) + 1) rows.set(sessionId, foldRow(row, sessionId, entry));
      }
    }
    for (const sessionId of suspects) settle(sessionId);
  };

  const settle = (sessionId: string): void => {
    try {
      chainOf(sessionId);
    } catch {
      // It is damaged as well: whoever reads it is told, and the other sessions go on.
    }
  };
  const everyPlace = (sessionId: string): readonly RecordPlace[] => {
    const saved = index.places(sessionId);
    const added = recent.get(sessionId) ?? [];
    // In order, unless the session went from process to process and some of it was read before it was saved.
    const all = [...saved, ...added];
    if (all.every((place, at) => at === 0 || (all[at - 1]?.seq ?? 0) < place.seq)) return all;
    const byPlace = new Map(all.map((place) => [`${place.segment} ${place.offset}`, place]));
    return [...byPlace.values()].sort((a, b) => a.seq - b.seq || a.segment - b.segment || a.offset - b.offset);
  };
  const chainOf = (sessionId: string): Chain => {
    const chain = soleChain({ segments, io }, everyPlace(sessionId));
    const { places, leftOut } = chain;
    const sentences = leftOut.map((place) => leftOutSentence(sessionId, place, segments.path(place.segment)));
    const news = sentences.filter((sentence) => !told.has(sentence));
    if (news.length === 0) return chain;
    if (told.size >= TOLD_MAX) told.clear();
    for (const sentence of news) {
      told.add(sentence);
      warn(sentence);
    }
    foldAnew(sessionId, places);
    return chain;
  };
  /** A row may have been folded from a record that is left out. */
  const foldAnew = (sessionId: string, places: readonly RecordPlace[]): void => {
    const entries = readPlaces<B>({ segments, io }, places, {
      sessionId,
      fromSeq: 1,
      max: Number.MAX_SAFE_INTEGER,
      // The row may say more than what is left.
      lastSeq: 0,
    });
    let row: R | undefined;
    for (const entry of entries) row = foldRow(row, sessionId, entry);
    if (row === undefined) return;
    rows.set(sessionId, row);
    if ((index.row(sessionId)?.last_seq ?? 0) > row.last_seq) index.saveRow(row);
  };

  return {
    catchUp,
    row: rowOf,
    rowAt: (sessionId, lastSeq) => {
      const row = rows.get(sessionId);
      return row?.last_seq === lastSeq ? row : rowOf(sessionId);
    },
    rows: () => {
      const all = new Map(index.rows().map((row) => [row.session_id, row]));
      for (const [sessionId, row] of rows)
        if ((all.get(sessionId)?.last_seq ?? 0) < row.last_seq) all.set(sessionId, row);
      return [...all.values()];
    },
    chain: chainOf,
    forget: (sessionId) => {
      recent.delete(sessionId);
      rows.delete(sessionId);
    },
    settle,
    add: (sessionId, place, row) => {
      note(sessionId, place);
      rows.set(sessionId, row);
    },
    readTo: (segment) => readTo.get(segment) ?? known.get(segment)?.indexed ?? 0,
    setReadTo: (segment, offset) => readTo.set(segment, offset),
    unsaved: (segment) => {
      const places = [...recent].flatMap(([sessionId, all]) =>
        all.filter((place) => place.segment === segment).map((place) => ({ sessionId, place })),
      );
      const touched = new Set(places.map(({ sessionId }) => sessionId));
      return { places, rows: [...touched].flatMap((sessionId) => rows.get(sessionId) ?? []) };
    },
    saved: drop,
  };
}
