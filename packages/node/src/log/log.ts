import type { Entry, NewEntry } from "@rkat/core/contract/entry";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import { type EventLog, type FoldRow, type LogRow, numbered, SHARED_OWNERS } from "@rkat/core/ports/store";
import type { Leases } from "./leases.ts";
import type { LogIndex } from "./log-index.ts";
import { isGap, type RecordPlace, readPlaces, readRecord } from "./read-places.ts";
import { decodeRecord, encodeInPieces, encodeRecord, encodeToFit, PIECE_ENTRIES, scanSegment } from "./record.ts";
import { type NewRecord, rewriteRecords } from "./rewrite-records.ts";
import { openSegmentWriter, type SegmentIo, type Segments, type SegmentWriter } from "./segments.ts";
import { mendSession, type Tail } from "./tail.ts";

export interface LogParts<B, R> {
  readonly folder: string;
  readonly index: LogIndex<R>;
  readonly segments: Segments;
  readonly tail: Tail<R>;
  readonly leases: Leases;
  readonly io: SegmentIo;
  readonly foldRow: FoldRow<B, R>;
  readonly now: () => number;
  readonly warn: (sentence: string) => void;
  /** Whether another process took a session that this one holds. */
  isLost(sessionId: string): boolean;
  /** The segments this process writes; shared with the tail, which skips them. */
  readonly own: Set<number>;
  readonly sizes: LogSizes;
}

export interface LogSizes {
  /** A full segment is closed and another begun. */
  readonly segmentBytes: number;
  /** How often the index is saved; a crashed process leaves at most this much to read again. */
  readonly checkpointBytes: number;
}

export const LOG_SIZES: LogSizes = { segmentBytes: 64 * 1_024 * 1_024, checkpointBytes: 4 * 1_024 * 1_024 };

/** A long log is read in pages, with other work in between. */
const PAGE_ENTRIES = 1_000;
const PAGE_BYTES = 1_024 * 1_024;

/** Repairing a session reads every log, so a badly damaged folder must not do it without bound. */
const REPAIRED_MAX = 100;

interface EmbeddedLog<B> extends EventLog<B> {
  /** Encrypts the rest of a session with a shared key and destroys its own. */
  shred(sessionId: string): Promise<void>;
  close(): Promise<void>;
}

/** The logs of all sessions of a folder, in shared segments. */
export function createLog<B, R extends LogRow>(parts: LogParts<B, R>): EmbeddedLog<B> {
  const { index, tail, foldRow, now, sizes } = parts;
  const { seal: sealing } = parts.segments;
  let writer: { readonly segment: number; readonly file: SegmentWriter } | undefined;
  const repaired = new Set<string>();
  let checkpointed = 0;
  let checkpointing: Promise<void> = Promise.resolve();
  let isLagging = false;
  /**
   * The part of each own segment that is in the tail: a record is durable a moment earlier, and must not count as
   * indexed then.
   */
  const takenTo = new Map<number, number>();
  // Ends of logs with a running append, which no row shows yet.
  const ends = new Map<string, number>();

  const append = async (
    sessionId: string,
    after: number,
    added: readonly NewEntry<B>[],
    atMs?: number,
  ): Promise<readonly Entry<B>[]> => {
    if (added.length === 0) return [];
    if (parts.isLost(sessionId)) throw takenOver(sessionId, "nothing was kept of this append");
    // With the current number of takeovers: a process that takes the session over later writes a higher one.
    const fence = parts.leases.takeovers();
    const row = rowForAppend(sessionId, after, fence);
    if (sealing?.has(sessionId) === false) requireReadable(sessionId);
    const end = ends.get(sessionId) ?? row?.last_seq ?? 0;
    if (end !== after) {
      throw new RuntimeError("SESSION_BUSY", `the log of session ${sessionId} ends at ${end}, not at ${after}`);
    }
    const entries = numbered(added, after, atMs ?? now());
    ends.set(sessionId, lastSeqOf(entries));
    try {
      const isLong = entries.length > PIECE_ENTRIES;
      const record = isLong
        ? await encodeInPieces(sessionId, entries, { fence, yieldToEventLoop, seal: sealing })
        : encodeRecord(sessionId, entries, fence, sealing);
      let next = row;
      for (const [at, entry] of entries.entries()) {
        next = foldRow(next, sessionId, entry);
        if (isLong && at % PIECE_ENTRIES === 0) await yieldToEventLoop();
      }
      const { segment, file } = ownSegment();
      const { offset, bytes } = await file.append(record);
      // No await in between: written data must be known before more is written.
      if (next !== undefined) tail.add(sessionId, { seq: after + 1, segment, offset, bytes }, next);
      takenTo.set(segment, offset + bytes);
      if (file.end - checkpointed >= sizes.checkpointBytes) {
        checkpointed = file.end;
        checkpointing = checkpointing.then(checkpoint);
      }
      // The process may have been suspended since its check. The record stays: others may have read it and continued.
      if (parts.isLost(sessionId)) {
        tail.catchUp();
        tail.settle(sessionId);
        throw takenOver(sessionId, "read it again to see whether this append was kept");
      }
      return entries;
    } finally {
      ends.delete(sessionId);
    }
  };

  /**
   * Looks for appends of others only if the log does not end where the caller expects, or a lost lease may be
   * unnoticed.
   */
  const rowForAppend = (sessionId: string, after: number, fence: number): R | undefined => {
    if (fence > 0) tail.catchUp();
    const row = tail.rowAt(sessionId, after);
    if ((row?.last_seq ?? 0) === after) return row;
    tail.catchUp();
    return tail.row(sessionId);
  };

  /** A log whose key is gone must not continue under another key: it would be unreadable from there on. */
  const requireReadable = (sessionId: string): void => {
    const { places } = tail.chain(sessionId);
    readPlaces(parts.segments, places, { sessionId, fromSeq: Number.MAX_SAFE_INTEGER, max: 1, lastSeq: 0 });
  };

  /** False if it was tried before or does not help. */
  const repair = (sessionId: string): boolean => {
    if (repaired.has(sessionId) || repaired.size >= REPAIRED_MAX) return false;
    repaired.add(sessionId);
    if (!mendSession(index, parts, sessionId)) return false;
    tail.forget(sessionId);
    return true;
  };

  const ownSegment = () => {
    if (writer !== undefined && writer.file.end < sizes.segmentBytes) return writer;
    const full = writer;
    writer = takeSegment(parts);
    checkpointed = writer.file.end;
    takenTo.set(writer.segment, checkpointed);
    if (full !== undefined) checkpointing = checkpointing.then(() => seal(full));
    return writer;
  };

  const save = async (segment: number, end: number, sealed: boolean): Promise<void> => {
    const { places, rows } = tail.unsaved(segment);
    const last = places.reduce((latest, { place }) => Math.max(latest, place.offset), lastKnown(segment));
    await index.save({ places, rows, segments: new Map([[segment, { indexed: end, last, sealed }]]) });
    tail.saved(segment, end);
  };

  /** The log is complete: missing index data is read from it and saved when that works again. */
  const trySave = async (segment: number, end: number, sealed: boolean): Promise<void> => {
    try {
      await save(segment, end, sealed);
      isLagging = false;
    } catch (error) {
      checkpointed = 0;
      if (!isLagging) parts.warn(`the index lags behind the log until it can be written: ${messageOf(error)}`);
      isLagging = true;
    }
  };

  const lastKnown = (segment: number): number => index.segments().get(segment)?.last ?? -1;

  const checkpoint = async (): Promise<void> => {
    if (writer === undefined) return;
    const { segment } = writer;
    await trySave(segment, takenTo.get(segment) ?? 0, false);
  };

  const seal = async ({ segment, file }: NonNullable<typeof writer>): Promise<void> => {
    await file.close();
    const { end } = file;
    await trySave(segment, end, true);
    takenTo.delete(segment);
    tail.setReadTo(segment, end);
    parts.own.delete(segment);
    parts.leases.give(leaseName(segment));
  };

  return {
    append,
    read: async (sessionId, fromSeq, max) => {
      tail.catchUp();
      const readPage = (from: number, left: number): readonly Entry<B>[] => {
        // Before the places, so that these reach at least as far.
        const lastSeq = tail.row(sessionId)?.last_seq ?? 0;
        const wanted = { sessionId, fromSeq: from, max: left, lastSeq, bytesMax: PAGE_BYTES };
        return readPlaces(parts.segments, tail.chain(sessionId).places, wanted);
      };
      // Where two processes wrote the same seqs, the index may lack data of one.
      if (tail.chain(sessionId).leftOut.length > 0) repair(sessionId);
      const entries: Entry<B>[] = [];
      for (let from = fromSeq; entries.length < max; from = lastSeqOf(entries) + 1) {
        if (from > fromSeq) await yieldToEventLoop();
        const left = Math.min(max - entries.length, PAGE_ENTRIES);
        let page: readonly Entry<B>[];
        try {
          page = readPage(from, left);
        } catch (error) {
          if (!isGap(error) || !repair(sessionId)) throw error;
          page = readPage(from, left);
        }
        for (const entry of page) entries.push(entry);
        if (page.length === 0 || lastSeqOf(page) >= (tail.row(sessionId)?.last_seq ?? 0)) break;
      }
      return entries;
    },
    rewrite: async (sessionId, entries) => {
      tail.catchUp();
      const { places, leftOut } = tail.chain(sessionId);
      const bodies = new Map(entries.map((entry) => [entry.seq, entry.body]));
      const records: NewRecord[] = [];
      for (const place of places) {
        const record = rewritten<B>(parts.segments, place, (entry) => bodies.get(entry.seq) ?? entry.body);
        if (record !== undefined) records.push({ place, record });
        await yieldToEventLoop();
      }
      // They are no longer read but contain erased text.
      for (const place of leftOut) {
        const record = rewritten(parts.segments, place, () => ({}));
        if (record !== undefined) records.push({ place, record });
      }
      await rewriteRecords(parts, records);
      tail.refold(sessionId);
    },
    shred: async (sessionId) => {
      if (sealing?.has(sessionId) !== true) return;
      tail.catchUp();
      const { places, leftOut } = tail.chain(sessionId);
      const records: NewRecord[] = [];
      for (const place of [...places, ...leftOut]) {
        const record = rewritten<B>(parts.segments, place, ({ body }) => body, SHARED_OWNERS.forgotten);
        if (record !== undefined) records.push({ place, record });
        await yieldToEventLoop();
      }
      await rewriteRecords(parts, records);
      await sealing.destroy(sessionId);
    },
    close: async () => {
      await checkpointing;
      if (writer === undefined) return;
      const { segment, file } = writer;
      await file.close();
      await trySave(segment, file.end, false);
      parts.leases.give(leaseName(segment));
      writer = undefined;
    },
  };
}

/** The record at a place with other bodies, of the same length; undefined if nothing changes. */
function rewritten<B>(
  segments: Segments,
  place: RecordPlace,
  bodyOf: (entry: Entry<B>) => unknown,
  owner?: string,
): Buffer | undefined {
  const record = readRecord(segments, place);
  const { entries } = decodeRecord<B>(record, 0, segments.seal);
  const bodies = entries.map(bodyOf);
  if (owner === undefined && entries.every(({ body }, at) => bodies[at] === body)) return undefined;
  const changed = entries.map((entry, at) => ({ ...entry, body: bodies[at] }));
  return encodeToFit(record, changed, { seal: segments.seal, ...(owner === undefined ? {} : { owner }) });
}

function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function lastSeqOf(entries: readonly Entry<unknown>[]): number {
  const last = entries.at(-1);
  return last === undefined ? 0 : last.seq + last.span - 1;
}

function takenOver(sessionId: string, what: string): RuntimeError {
  return new RuntimeError("SESSION_BUSY", `another process has taken session ${sessionId} over; ${what}`);
}

export function leaseName(segment: number): string {
  return `segment ${segment}`;
}

/** Takes over a free segment, repairing its end, or begins a new one. */
function takeSegment<B, R>({ index, segments, tail, leases, io, warn, own }: LogParts<B, R>) {
  const isSealed = (segment: number): boolean =>
    index.segments().get(segment)?.sealed === true || segments.reader(segment).packedAt !== undefined;
  const open = segments.list().filter((segment) => !own.has(segment) && !isSealed(segment));
  const free = open.find((segment) => {
    // Not one whose writer may only be suspended: it would write to the same place.
    if (!leases.take(leaseName(segment), "dead")) return false;
    // Its owner may have closed it after our check.
    if (!isSealed(segment)) return true;
    leases.give(leaseName(segment));
    return false;
  });
  const segment = free ?? createSegment(segments, leases);
  tail.catchUp();
  own.add(segment);
  const path = segments.path(segment);
  const scan = scanSegment(segments.reader(segment), tail.readTo(segment), () => {});
  if (scan.torn !== undefined) {
    warn(`${path}: cut off ${scan.torn.bytes} bytes of an append that was not finished (${scan.torn.why})`);
    const fd = io.open(path, "r+", 0o600);
    io.truncate(fd, scan.end);
    io.syncSync(fd);
    io.close(fd);
  }
  return { segment, file: openSegmentWriter(path, scan.end, io) };
}

function createSegment(segments: Segments, leases: Leases): number {
  for (;;) {
    const segment = segments.create();
    if (leases.take(leaseName(segment))) return segment;
  }
}
