import type { Entry } from "../../contract/entry.ts";
import { RuntimeError } from "../../contract/error.ts";
import type { LogRow, RowQuery } from "../../ports/store.ts";
import { pageOf } from "../page.ts";
import { openPrivateDb, type Table } from "./private-db.ts";
import { decodeRecord, findRecord, type LogRecord, recordHead } from "./record.ts";
import { openRowOrder } from "./row-order.ts";
import type { SegmentIo, Segments } from "./segments.ts";
import { DamagedDb } from "./table-file.ts";

/** Where a record lies: found by its session and the seq of its first entry. */
export interface RecordPlace {
  readonly seq: number;
  readonly segment: number;
  readonly offset: number;
  readonly bytes: number;
}

export interface SegmentState {
  /** Records before this offset are in the index. */
  readonly indexed: number;
  /** Where the last of them begins; -1 when there is none. */
  readonly last: number;
  /** Nothing will be appended to it any more. */
  readonly sealed: boolean;
}

/** What a checkpoint saves; all of it or nothing. */
export interface Checkpoint<R> {
  readonly places: readonly { readonly sessionId: string; readonly place: RecordPlace }[];
  readonly rows: readonly R[];
  readonly segments: ReadonlyMap<number, SegmentState>;
}

/** The records of one session that count, oldest first, and the row they come to. */
interface SessionRecords<R> {
  readonly places: readonly RecordPlace[];
  readonly row: R;
}

/** The part of the index that is on disk. It lags behind the logs and is caught up from them; it is never ahead. */
export interface LogIndex<R> {
  places(sessionId: string): readonly RecordPlace[];
  /** The same for as long as nobody saves. */
  stamp(): object;
  row(sessionId: string): R | undefined;
  rows(): readonly R[];
  /** The first rows of those asked for that are not `elsewhere`. */
  page(query: RowQuery, elsewhere: (row: R) => boolean): readonly R[];
  segments(): ReadonlyMap<number, SegmentState>;
  save(checkpoint: Checkpoint<R>): Promise<void>;
  /** Corrects a row, also to an earlier end. */
  saveRow(row: R): void;
  /** Replaces what is known of a session, unless there is nothing to replace it by. Nobody else saves while it is made. */
  replaceSession(sessionId: string, make: () => SessionRecords<R> | undefined): boolean;
  /** Replaces everything with what `survey` finds, while nobody else saves: for an index that does not fit its logs. */
  replace(survey: () => Checkpoint<R>): void;
  close(): Promise<void>;
}

const KEY_BYTES = 22;
const PLACE_BYTES = 20;

export interface LogIndexOptions<R> {
  readonly path: string;
  readonly warn: (sentence: string) => void;
  /** What the logs hold: an index that is damaged is made anew of it. */
  readonly survey: () => Checkpoint<R>;
}

export function openLogIndex<R extends LogRow>({ path, warn, survey }: LogIndexOptions<R>): LogIndex<R> {
  const root = openPrivateDb<number, string>(path, {}, warn);
  const records: Table<Buffer, Buffer> = root.openDB("records", "binary");
  const rows: Table<R, string> = root.openDB("rows", "json");
  const segments: Table<SegmentState, number> = root.openDB("segments", "json");
  const order = openRowOrder(root, rows);
  const putRow = (row: R, before: R | undefined): void => {
    rows.put(row.session_id, row);
    order.place(row, before);
  };
  const orderAnew = (): void =>
    root.transactionSync(() => {
      order.clear();
      rows.visit({}, (_, row) => void order.place(row, undefined));
    });
  /** What an order cannot be made of is found by reading every row. */
  const pageOfAll = (query: RowQuery, elsewhere: (row: R) => boolean): readonly R[] => {
    const all = rows.getRange().map(({ value }) => value);
    return pageOf(
      all.filter((row) => !elsewhere(row)),
      query,
    );
  };
  const put = (checkpoint: Checkpoint<R>): void => {
    // One value for all a session appended since the last checkpoint: a value each took most of the time.
    const bySession = Map.groupBy(checkpoint.places, ({ sessionId }) => sessionId);
    for (const [sessionId, placed] of bySession) {
      const places = placed.map(({ place }) => place);
      const first = places.reduce((least, { seq }) => Math.min(least, seq), SEQ_MAX);
      // Two processes may have written from the same seq on: neither may hide the other.
      const there = records.get(keyOf(sessionId, first));
      const before = there === undefined ? [] : decodePlaces(there).filter((place) => !places.some(isAt(place)));
      records.put(keyOf(sessionId, first), writePlaces([...before, ...places]));
    }
    for (const row of checkpoint.rows) {
      // Another process may have gone further with the session since.
      const before = rows.get(row.session_id);
      if ((before?.last_seq ?? 0) < row.last_seq) putRow(row, before);
    }
    for (const [segment, state] of checkpoint.segments) segments.put(segment, state);
  };
  const replace = (make: () => Checkpoint<R>): void =>
    root.transactionSync(() => {
      for (const table of [records, rows, segments, order]) table.clear();
      put(make());
    });
  /** What is damaged is made anew, once: on a disk where that does not help the second failure is told. */
  const soundly = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof DamagedDb)) throw error;
      warn(`${error.message}; it is made anew from the logs`);
      root.renew();
      replace(survey);
      return work();
    }
  };
  const placesOf = (sessionId: string): readonly RecordPlace[] => {
    const range = { start: keyOf(sessionId, 0), end: keyOf(sessionId, SEQ_MAX) };
    return records.getRange(range).flatMap(({ value }) => decodePlaces(value));
  };
  return {
    places: (sessionId) => soundly(() => placesOf(sessionId)),
    stamp: () => soundly(root.stamp),
    row: (sessionId) => soundly(() => rows.get(sessionId)),
    rows: () => soundly(() => rows.getRange().map(({ value }) => value)),
    page: (query, elsewhere) =>
      soundly(() => {
        const page = order.page(query, elsewhere);
        if (page !== undefined) return page;
        orderAnew();
        return order.page(query, elsewhere) ?? pageOfAll(query, elsewhere);
      }),
    segments: () => soundly(() => new Map(segments.getRange().map(({ key, value }) => [key, value]))),
    save: async (checkpoint) => soundly(() => root.transactionSync(() => put(checkpoint))),
    saveRow: (row) => soundly(() => root.transactionSync(() => putRow(row, rows.get(row.session_id)))),
    replaceSession: (sessionId, make) =>
      soundly(() =>
        root.transactionSync(() => {
          const made = make();
          if (made === undefined) return false;
          const range = { start: keyOf(sessionId, 0), end: keyOf(sessionId, SEQ_MAX) };
          for (const { key } of records.getRange(range)) records.remove(key);
          records.put(keyOf(sessionId, made.places[0]?.seq ?? 0), writePlaces(made.places));
          putRow(made.row, rows.get(sessionId));
          return true;
        }),
      ),
    replace: (make) => soundly(() => replace(make)),
    close: () => root.close(),
  };
}

/** Whether a place is where another is. */
function isAt({ segment, offset }: RecordPlace): (other: RecordPlace) => boolean {
  return (other) => other.segment === segment && other.offset === offset;
}

const SEQ_MAX = 2 ** 48 - 1;

function keyOf(sessionId: string, seq: number): Buffer {
  const key = Buffer.allocUnsafe(KEY_BYTES);
  key.write(sessionId.replaceAll("-", ""), 0, "hex");
  key.writeUIntBE(seq, 16, 6);
  return key;
}

function writePlaces(places: readonly RecordPlace[]): Buffer {
  const value = Buffer.allocUnsafe(PLACE_BYTES * places.length);
  for (const [index, { seq, segment, offset, bytes }] of places.entries()) {
    const at = index * PLACE_BYTES;
    value.writeUIntLE(seq, at, 6);
    value.writeUInt32LE(segment, at + 6);
    value.writeUIntLE(offset, at + 10, 6);
    value.writeUInt32LE(bytes, at + 16);
  }
  return value;
}

function decodePlaces(value: Buffer): readonly RecordPlace[] {
  return Array.from({ length: value.length / PLACE_BYTES }, (_, index) => {
    const at = index * PLACE_BYTES;
    return {
      seq: value.readUIntLE(at, 6),
      segment: value.readUInt32LE(at + 6),
      offset: value.readUIntLE(at + 10, 6),
      bytes: value.readUInt32LE(at + 16),
    };
  });
}

/** Records that lie near each other are read together: others' records between them cost less than another read. */
const GAP_BYTES_MAX = 64 * 1_024;
const READ_BYTES_MAX = 4 * 1_024 * 1_024;

/** Reads a session's entries from where they lie, checking that nothing is damaged and nothing is missing. */
export function readPlaces<B>(
  { segments, io }: { segments: Segments; io: SegmentIo },
  places: readonly RecordPlace[],
  wanted: { sessionId: string; fromSeq: number; max: number; lastSeq: number },
): readonly Entry<B>[] {
  const start = startOf(places, wanted.fromSeq);
  const entries: Entry<B>[] = [];
  let expected = places[start]?.seq ?? 1;
  if (start === 0 && expected !== 1 && places.length > 0) throw missing(wanted.sessionId, 1, expected);
  for (let first = start; first < places.length && entries.length < wanted.max; ) {
    const run = runFrom(places, first, wanted.max - entries.length);
    const known = run.map((place) => largeAt<B>(segments, place));
    const buffer = known.every((record) => record !== undefined) ? NOTHING : readRun(io, segments, run);
    const base = run[0]?.offset ?? 0;
    for (const [at, place] of run.entries()) {
      if (place.seq !== expected) throw missing(wanted.sessionId, expected, place.seq);
      for (const entry of (known[at] ?? recordAt<B>(buffer, place, base, segments)).entries) {
        expected = entry.seq + entry.span;
        if (expected > wanted.fromSeq && entries.length < wanted.max) entries.push(entry);
      }
    }
    first += run.length;
  }
  if (entries.length < wanted.max && expected <= wanted.lastSeq)
    throw missing(wanted.sessionId, expected, wanted.lastSeq + 1);
  return entries;
}

/** Where to begin: the last record that begins at or before a seq may reach it. Places are in the order of their seqs. */
function startOf(places: readonly RecordPlace[], fromSeq: number): number {
  let low = 0;
  let high = places.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((places[middle]?.seq ?? 0) <= fromSeq) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

/** What stands in a session's log: each seq once, and the records that were left out for it. */
export interface Chain {
  readonly places: readonly RecordPlace[];
  readonly leftOut: readonly RecordPlace[];
}

/**
 * Of records that follow the same seq one counts: that of the later holder, else the one written first. A process that
 * stood still while another took its session over may have written after it; what it added to such a record is left
 * out with it. Places are in the order of their seqs.
 */
export function soleChain(
  { segments, io }: { segments: Segments; io: SegmentIo },
  places: readonly RecordPlace[],
): Chain {
  const twiceAt = places.findIndex((place, at) => place.seq === places[at - 1]?.seq);
  if (twiceAt < 0) return { places, leftOut: [] };
  const kept = places.slice(0, twiceAt - 1);
  const disputed = places.slice(twiceAt - 1).map((place) => {
    const record = readRun(io, segments, [place]);
    const { entries } = recordAt(record, place, place.offset, segments);
    const last = entries.at(-1);
    const end = last === undefined ? place.seq : last.seq + last.span;
    return { place, end, fence: recordHead(record, 0).fence, at: entries[0]?.timestamp_ms ?? 0 };
  });
  const out = new Set<RecordPlace>();
  let expected = disputed[0]?.place.seq ?? 0;
  for (const { place } of disputed) {
    if (place.seq !== expected || out.has(place)) continue;
    const rivals = disputed.filter((other) => other.place.seq === expected && !out.has(other.place));
    const [winner, ...losers] = rivals.sort((a, b) => b.fence - a.fence || a.at - b.at);
    if (winner === undefined) break;
    for (let loser of losers) {
      out.add(loser.place);
      for (const next of disputed) {
        const isNext = next.place.seq === loser.end && next.fence === loser.fence;
        if (!isNext || next.place.segment !== loser.place.segment || next.place.offset < loser.place.offset) continue;
        out.add(next.place);
        loser = next;
      }
    }
    kept.push(winner.place);
    expected = winner.end;
  }
  const chain = new Set(kept);
  const rest = disputed.filter(({ place }) => !chain.has(place) && !out.has(place)).map(({ place }) => place);
  // What is beyond a gap stays, so that whoever reads is told of the gap.
  const beyond = rest.filter(({ seq }) => seq > expected);
  const leftOut = [...out, ...rest.filter(({ seq }) => seq <= expected)];
  return { places: [...kept, ...beyond], leftOut };
}

/** Says of a record that it is left out. */
export function leftOutSentence(sessionId: string, { seq, offset }: RecordPlace, path: string): string {
  return `session ${sessionId}: seq ${seq} was written twice, by two processes; the record in ${path} at ${offset} is left out`;
}

/** The longest run of places that one read covers; each holds an entry at least, and one may lie before the wanted. */
function runFrom(places: readonly RecordPlace[], first: number, entriesMax: number): readonly RecordPlace[] {
  const head = places[first];
  if (head === undefined) return [];
  const run = [head];
  for (let next = first + 1; next < places.length && run.length <= entriesMax; next += 1) {
    const place = places[next];
    const last = run.at(-1) ?? head;
    if (place === undefined || place.segment !== head.segment || place.offset < last.offset) break;
    const gap = place.offset - (last.offset + last.bytes);
    if (gap > GAP_BYTES_MAX || place.offset + place.bytes - head.offset > READ_BYTES_MAX) break;
    run.push(place);
  }
  return run;
}

function readRun(io: SegmentIo, segments: Segments, run: readonly RecordPlace[]): Buffer {
  const first = run[0];
  const last = run.at(-1);
  if (first === undefined || last === undefined) return NOTHING;
  const buffer = Buffer.allocUnsafe(last.offset + last.bytes - first.offset);
  let read = 0;
  while (read < buffer.length) {
    const bytes = io.read(segments.reader(first.segment), buffer.subarray(read), first.offset + read);
    if (bytes === 0) break;
    read += bytes;
  }
  return buffer.subarray(0, read);
}

/** A fork is one record, however long: who reads it page by page would decode all of it with every page. */
const LARGE_BYTES = 256 * 1_024;
const larges = new WeakMap<Segments, RecordPlace & { readonly record: WeakRef<LogRecord<unknown>> }>();
const NOTHING = Buffer.alloc(0);

/** The large record that was read last, while it is still in memory. */
function largeAt<B>(segments: Segments, place: RecordPlace): LogRecord<B> | undefined {
  const known = larges.get(segments);
  if (known === undefined || !isAt(place)(known)) return undefined;
  // A segment is only added to, so what stands there was written by the same kind of log.
  return known.record.deref() as LogRecord<B> | undefined;
}

function recordAt<B>(buffer: Buffer, place: RecordPlace, base: number, segments: Segments) {
  const offset = place.offset - base;
  const found = findRecord(buffer, offset);
  if (found.kind === "record") {
    const record = decodeRecord<B>(buffer, offset);
    if (place.bytes >= LARGE_BYTES) larges.set(segments, { ...place, record: new WeakRef(record) });
    return record;
  }
  const why = found.kind === "damaged" ? found.why : "nothing is there";
  const message = `${segments.path(place.segment)} is damaged at ${place.offset}: ${why}; earlier records are intact`;
  throw new RuntimeError("SESSION_STORE_ERROR", message);
}

function missing(sessionId: string, expected: number, found: number): RuntimeError {
  const message = `the log of session ${sessionId} lacks seqs ${expected} to ${found - 1}; run rkat doctor --verify`;
  return new RuntimeError("SESSION_STORE_ERROR", message, { cause: GAP });
}

const GAP = new Error("a record is not where the index says, or the index says nothing of it");

/** Whether a read failed because seqs are missing, which may be the fault of the index alone. */
export function isGap(thrown: unknown): boolean {
  return thrown instanceof RuntimeError && thrown.cause === GAP;
}
