import { type LogRow, type RowQuery, type Seal, SHARED_OWNERS } from "@rkat/core/ports/store";
import { pageOf } from "@rkat/core/stores/page";
import { openPrivateDb, type Table } from "../tables/private-db.ts";
import { DamagedDb } from "../tables/table-file.ts";
import { isAt, type RecordPlace } from "./read-places.ts";
import { openRowOrder } from "./row-order.ts";

export interface SegmentState {
  /** Records before this offset are indexed. */
  readonly indexed: number;
  /** The offset of the last of them; -1 if there is none. */
  readonly last: number;
  /** Nothing will be appended any more. */
  readonly sealed: boolean;
  /** It was packed. Unset where that is not known. */
  readonly isPacked?: true;
}

/** The data of a checkpoint, saved atomically. */
export interface Checkpoint<R> {
  readonly places: readonly { readonly sessionId: string; readonly place: RecordPlace }[];
  readonly rows: readonly R[];
  readonly segments: ReadonlyMap<number, SegmentState>;
}

/** The valid records of one session, oldest first, and their row. */
interface SessionRecords<R> {
  readonly places: readonly RecordPlace[];
  readonly row: R;
}

/** The index on disk. It lags behind the logs and is caught up from them; it is never ahead. */
export interface LogIndex<R> {
  places(sessionId: string): readonly RecordPlace[];
  /** Unchanged until the next save. */
  stamp(): object;
  row(sessionId: string): R | undefined;
  rows(): readonly R[];
  /** The first matching rows that are not `elsewhere`. */
  page(query: RowQuery, elsewhere: (row: R) => boolean): readonly R[];
  segments(): ReadonlyMap<number, SegmentState>;
  save(checkpoint: Checkpoint<R>): Promise<void>;
  /** Corrects a row, also to an earlier end. */
  saveRow(row: R): void;
  /** Replaces the data of a session, unless there is none to replace it by. No other process saves meanwhile. */
  replaceSession(sessionId: string, make: () => SessionRecords<R> | undefined): boolean;
  /** Leaves no trace of data that is no longer saved. */
  compact(): void;
  /** Rebuilds the index from `survey`, exclusively, when it does not match its logs. */
  replace(survey: () => Checkpoint<R>): void;
  close(): Promise<void>;
}

const KEY_BYTES = 22;
const PLACE_BYTES = 20;

export interface LogIndexOptions<R> {
  readonly path: string;
  readonly warn: (sentence: string) => void;
  /** Reads the logs; a damaged index is rebuilt from it. */
  readonly survey: () => Checkpoint<R>;
  readonly seal?: Seal | undefined;
}

export function openLogIndex<R extends LogRow>({ path, warn, survey, seal }: LogIndexOptions<R>): LogIndex<R> {
  const sealed = seal === undefined ? undefined : { by: seal, owner: SHARED_OWNERS.index };
  const root = openPrivateDb<number, string>(path, { sealed }, warn);
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
  /** Without a usable order every row is read. */
  const pageOfAll = (query: RowQuery, elsewhere: (row: R) => boolean): readonly R[] => {
    const all = rows.getRange().map(({ value }) => value);
    return pageOf(
      all.filter((row) => !elsewhere(row)),
      query,
    );
  };
  const put = (checkpoint: Checkpoint<R>): void => {
    // One value per session and checkpoint: one per record took most of the time.
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
      // Another process may have appended to the session since.
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
  /** Damage is repaired once; a second failure is reported. */
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
    compact: () => soundly(root.compact),
    replace: (make) => soundly(() => replace(make)),
    close: () => root.close(),
  };
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
