import type { Entry, NewEntry } from "../../contract/entry.ts";
import { messageOf, RuntimeError } from "../../contract/error.ts";
import { SHARED_OWNERS } from "../../ports/seal.ts";
import type { EventLog, FoldRow, LogRow } from "../../ports/store.ts";
import type { Leases } from "./leases.ts";
import type { LogIndex } from "./log-index.ts";
import { isGap, type RecordPlace, readPlaces, readRecord } from "./read-places.ts";
import { decodeRecord, encodeInPieces, encodeRecord, encodeToFit, PIECE_ENTRIES, scanSegment } from "./record.ts";
import { type NewRecord, rewriteRecords } from "./rewrite-records.ts";
import { openSegmentWriter, type SegmentIo, type Segments, type SegmentWriter } from "./segments.ts";
import { mendSession, type Tail } from "./tail.ts";

export interface LogParts<B, R> {
  /** That of the segments. */
  readonly folder: string;
  readonly index: LogIndex<R>;
  readonly segments: Segments;
  readonly tail: Tail<R>;
  readonly leases: Leases;
  readonly io: SegmentIo;
  readonly foldRow: FoldRow<B, R>;
  readonly now: () => number;
  readonly warn: (sentence: string) => void;
  /** Whether another process has taken a session that this one holds. */
  isLost(sessionId: string): boolean;
  /** The segments this process writes; shared with the tail, which leaves them alone. */
  readonly own: Set<number>;
  readonly sizes: LogSizes;
}

export interface LogSizes {
  /** A full segment is sealed and another begun. */
  readonly segmentBytes: number;
  /** The index is brought up to date this often; a process that dies leaves at most this much to read again. */
  readonly checkpointBytes: number;
}

export const LOG_SIZES: LogSizes = { segmentBytes: 64 * 1_024 * 1_024, checkpointBytes: 4 * 1_024 * 1_024 };

/** To mend a session every log is read: a folder that is all damage must not do nothing else. */
const MENDED_MAX = 100;

interface EmbeddedLog<B> extends EventLog<B> {
  /** Seals what is left of a session with a key that all of its kind share, and destroys its own. */
  shred(sessionId: string): Promise<void>;
  close(): Promise<void>;
}

/** The logs of all sessions of a folder, in segments shared by all. */
export function createLog<B, R extends LogRow>(parts: LogParts<B, R>): EmbeddedLog<B> {
  const { index, tail, foldRow, now, sizes } = parts;
  const { seal: sealing } = parts.segments;
  let writer: { readonly segment: number; readonly file: SegmentWriter } | undefined;
  const mended = new Set<string>();
  let checkpointed = 0;
  let checkpointing: Promise<void> = Promise.resolve();
  let isLagging = false;
  /** How far each segment of ours is in the tail: a record is durable a moment before, and must not count as indexed then. */
  const takenTo = new Map<number, number>();
  // Ends of logs with an append under way, which no row shows yet.
  const ends = new Map<string, number>();

  const append = async (
    sessionId: string,
    after: number,
    added: readonly NewEntry<B>[],
    atMs?: number,
  ): Promise<readonly Entry<B>[]> => {
    if (added.length === 0) return [];
    if (parts.isLost(sessionId)) throw takenOver(sessionId, "nothing was kept of this append");
    // With the number of takeovers as of now: whoever takes the session from here on writes a higher one.
    const fence = parts.leases.takeovers();
    const row = rowForAppend(sessionId, after, fence);
    if (sealing?.has(sessionId) === false) requireReadable(sessionId);
    const end = ends.get(sessionId) ?? row?.last_seq ?? 0;
    if (end !== after) {
      throw new RuntimeError("SESSION_BUSY", `the log of session ${sessionId} ends at ${end}, not at ${after}`);
    }
    const entries = number(added, after, atMs ?? now());
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
      // Nothing is waited for in between: what is written must be known before more is.
      if (next !== undefined) tail.add(sessionId, { seq: after + 1, segment, offset, bytes }, next);
      takenTo.set(segment, offset + bytes);
      if (file.end - checkpointed >= sizes.checkpointBytes) {
        checkpointed = file.end;
        checkpointing = checkpointing.then(checkpoint);
      }
      // It may have stood still since it looked. The record stays: others may have read it and gone on from it.
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
   * What others appended is looked up only when the log is not where the caller thinks it is, or somebody may not have
   * noticed yet that what it held was taken.
   */
  const rowForAppend = (sessionId: string, after: number, fence: number): R | undefined => {
    if (fence > 0) tail.catchUp();
    const row = tail.rowAt(sessionId, after);
    if ((row?.last_seq ?? 0) === after) return row;
    tail.catchUp();
    return tail.row(sessionId);
  };

  /** A log whose key is gone must not go on under another one: it would be read up to there, and then not at all. */
  const requireReadable = (sessionId: string): void => {
    const { places } = tail.chain(sessionId);
    readPlaces(parts, places, { sessionId, fromSeq: Number.MAX_SAFE_INTEGER, max: 1, lastSeq: 0 });
  };

  /** False when that was tried before, or does not help. */
  const mend = (sessionId: string): boolean => {
    if (mended.has(sessionId) || mended.size >= MENDED_MAX) return false;
    mended.add(sessionId);
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

  /** The log has everything: what the index lacks is found by reading it, and saved when that works again. */
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
      const read = (): readonly Entry<B>[] => {
        // Before the places, so that these reach at least as far.
        const lastSeq = tail.row(sessionId)?.last_seq ?? 0;
        return readPlaces(parts, tail.chain(sessionId).places, { sessionId, fromSeq, max, lastSeq });
      };
      // Where two processes wrote the same seqs, the index may lack what one of them saved.
      if (tail.chain(sessionId).leftOut.length > 0) mend(sessionId);
      try {
        return read();
      } catch (error) {
        if (!isGap(error) || !mend(sessionId)) throw error;
        return read();
      }
    },
    rewrite: async (sessionId, entries) => {
      tail.catchUp();
      const { places, leftOut } = tail.chain(sessionId);
      const bodies = new Map(entries.map((entry) => [entry.seq, entry.body]));
      const records: NewRecord[] = [];
      for (const place of places) {
        const record = rewritten<B>(parts, place, (entry) => bodies.get(entry.seq) ?? entry.body);
        if (record !== undefined) records.push({ place, record });
        await yieldToEventLoop();
      }
      // Nobody reads them any more, and they say what was forgotten.
      for (const place of leftOut) {
        const record = rewritten(parts, place, () => ({}));
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
        const record = rewritten<B>(parts, place, ({ body }) => body, SHARED_OWNERS.forgotten);
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

/** The record at a place with other bodies, as long as it was; undefined where they are what they were. */
function rewritten<B>(
  { segments, io }: Pick<LogParts<B, unknown>, "segments" | "io">,
  place: RecordPlace,
  bodyOf: (entry: Entry<B>) => unknown,
  owner?: string,
): Buffer | undefined {
  const record = readRecord({ segments, io }, place);
  const { entries } = decodeRecord<B>(record, 0, segments.seal);
  const bodies = entries.map(bodyOf);
  if (owner === undefined && entries.every(({ body }, at) => bodies[at] === body)) return undefined;
  const changed = entries.map((entry, at) => ({ ...entry, body: bodies[at] }));
  return encodeToFit(record, changed, { seal: segments.seal, ...(owner === undefined ? {} : { owner }) });
}

/** One round of the event loop. */
function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function number<B>(added: readonly NewEntry<B>[], after: number, timestamp_ms: number): readonly Entry<B>[] {
  let seq = after + 1;
  return added.map(({ span, body }) => {
    const entry = { seq, span, timestamp_ms, body };
    seq += span;
    return entry;
  });
}

function lastSeqOf(entries: readonly Entry<unknown>[]): number {
  const last = entries.at(-1);
  return last === undefined ? 0 : last.seq + last.span - 1;
}

function takenOver(sessionId: string, what: string): RuntimeError {
  return new RuntimeError("SESSION_BUSY", `another process has taken session ${sessionId} over; ${what}`);
}

function leaseName(segment: number): string {
  return `segment ${segment}`;
}

/** Takes over a segment nobody writes, mending its end, or begins a new one. */
function takeSegment<B, R>({ index, segments, tail, leases, io, warn, own }: LogParts<B, R>) {
  const isSealed = (segment: number): boolean => index.segments().get(segment)?.sealed === true;
  const open = segments.list().filter((segment) => !own.has(segment) && !isSealed(segment));
  const free = open.find((segment) => {
    // Not one whose writer may only stand still: it would go on to write where we do.
    if (!leases.take(leaseName(segment), "dead")) return false;
    // Its owner may have sealed it before giving it up, after we looked.
    if (!isSealed(segment)) return true;
    leases.give(leaseName(segment));
    return false;
  });
  const segment = free ?? createSegment(segments, leases);
  tail.catchUp();
  own.add(segment);
  const path = segments.path(segment);
  const scan = scanSegment(io, segments.reader(segment), tail.readTo(segment), () => {});
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
