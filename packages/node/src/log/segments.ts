import {
  closeSync,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  statSync,
  write,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { RuntimeError } from "@rkat/core/contract/error";
import type { Seal } from "@rkat/core/ports/store";
import { recordBytes } from "./packed-segment.ts";
import type { SegmentBytes } from "./segment-bytes.ts";

/** What a segment needs of the file system, so that a test can make any call fail. */
export interface SegmentIo {
  open(path: string, flags: string, mode: number): number;
  size(fd: number): number;
  read(fd: number, buffer: Buffer, position: number): number;
  writeSync(fd: number, buffer: Buffer, position: number): number;
  syncSync(fd: number): void;
  write(fd: number, buffer: Buffer, position: number): Promise<number>;
  sync(fd: number): Promise<void>;
  truncate(fd: number, bytes: number): void;
  close(fd: number): void;
}

export const nodeSegmentIo: SegmentIo = {
  open: openSync,
  size: (fd) => fstatSync(fd).size,
  read: (fd, buffer, position) => readSync(fd, buffer, 0, buffer.length, position),
  writeSync: (fd, buffer, position) => writeSync(fd, buffer, 0, buffer.length, position),
  syncSync: fdatasyncSync,
  write: (fd, buffer, position) =>
    new Promise((resolve, reject) =>
      write(fd, buffer, 0, buffer.length, position, (error, bytes) =>
        error === null ? resolve(bytes) : reject(error),
      ),
    ),
  sync: (fd) =>
    new Promise((resolve, reject) => fdatasync(fd, (error) => (error === null ? resolve() : reject(error)))),
  truncate: ftruncateSync,
  close: closeSync,
};

/** A file as it is stored. */
export function storedBytes(io: Pick<SegmentIo, "size" | "read">, fd: number): SegmentBytes {
  return { size: () => io.size(fd), read: (buffer, position) => io.read(fd, buffer, position) };
}

/** Where a record lies once it is durable. */
interface Place {
  readonly offset: number;
  readonly bytes: number;
}

interface Waiting {
  readonly record: Buffer;
  readonly resolve: (place: Place) => void;
  readonly reject: (error: unknown) => void;
}

/** A commit blocks the event loop only while that is cheaper than handing it to a thread. */
const SYNC_MS_QUICK = 1;
/** More takes longer than others should wait, however quick the disk is with little. */
const LARGE_BYTES = 1_024 * 1_024;
const COMMIT_BYTES_MAX = 8 * 1_024 * 1_024;

export interface SegmentWriter {
  /** Resolves once the record is on disk; records of one tick share a write and a sync. */
  append(record: Buffer): Promise<Place>;
  readonly end: number;
  close(): Promise<void>;
}

/** Appends to a segment that this process alone writes, from `end` on. */
export function openSegmentWriter(path: string, end: number, io: SegmentIo = nodeSegmentIo): SegmentWriter {
  const fd = io.open(path, "r+", 0o600);
  let durable = end;
  let waiting: Waiting[] = [];
  let isCommitting = false;
  let isScheduled = false;
  let isClosed = false;
  let isDirty = false;
  let syncMs = 0;
  let idle = Promise.withResolvers<void>();
  idle.resolve();

  const schedule = (): void => {
    if (isScheduled || isCommitting) return;
    isScheduled = true;
    idle = Promise.withResolvers();
    // Behind what is already on its way: appends that the last commit set free are in the same one again.
    queueMicrotask(() => {
      isScheduled = false;
      void commit();
    });
  };

  const commit = async (): Promise<void> => {
    isCommitting = true;
    while (waiting.length > 0) {
      const batch = takeBatch();
      const bytes =
        batch.length === 1 && batch[0] !== undefined ? batch[0].record : Buffer.concat(batch.map((row) => row.record));
      try {
        if (isDirty) repair();
        if (syncMs < SYNC_MS_QUICK && bytes.length < LARGE_BYTES) writeNow(bytes);
        else await writeLater(bytes);
        settle(batch);
      } catch (error) {
        isDirty = true;
        for (const { reject } of batch) reject(storeError(path, error));
      }
    }
    isCommitting = false;
    idle.resolve();
  };

  const takeBatch = (): Waiting[] => {
    let bytes = 0;
    let count = 0;
    for (const { record } of waiting) {
      bytes += record.length;
      if (count > 0 && bytes > COMMIT_BYTES_MAX) break;
      count += 1;
    }
    const batch = waiting.slice(0, count);
    waiting = waiting.slice(count);
    return batch;
  };

  /** After a failed write or sync the content of the disk beyond the last good commit is unknown: it is cut off. */
  const repair = (): void => {
    io.truncate(fd, durable);
    io.syncSync(fd);
    isDirty = false;
  };

  const writeNow = (bytes: Buffer): void => {
    for (let written = 0; written < bytes.length; ) {
      written += io.writeSync(fd, bytes.subarray(written), durable + written);
    }
    const startedMs = performance.now();
    io.syncSync(fd);
    syncMs = average(syncMs, performance.now() - startedMs);
  };

  const writeLater = async (bytes: Buffer): Promise<void> => {
    for (let written = 0; written < bytes.length; ) {
      written += await io.write(fd, bytes.subarray(written), durable + written);
    }
    const startedMs = performance.now();
    await io.sync(fd);
    syncMs = average(syncMs, performance.now() - startedMs);
  };

  const settle = (batch: readonly Waiting[]): void => {
    for (const { record, resolve } of batch) {
      resolve({ offset: durable, bytes: record.length });
      durable += record.length;
    }
  };

  return {
    append: (record) =>
      new Promise((resolve, reject) => {
        if (isClosed) return reject(new RuntimeError("SESSION_STORE_ERROR", "the store is closed"));
        waiting.push({ record, resolve, reject });
        schedule();
      }),
    get end() {
      return durable;
    },
    close: async () => {
      if (isClosed) return;
      isClosed = true;
      await idle.promise;
      io.close(fd);
    },
  };
}

function average(before: number, latest: number): number {
  return before === 0 ? latest : before * 0.9 + latest * 0.1;
}

function storeError(path: string, cause: unknown): RuntimeError {
  const { code, message } = cause as NodeJS.ErrnoException; // what file calls throw
  const why = code === "ENOSPC" ? "the disk is full" : message;
  return new RuntimeError("SESSION_STORE_ERROR", `cannot write ${path}: ${why}; nothing was kept of this append`, {
    cause,
  });
}

const NAME = /^(\d{8})\.log$/;

/** The log's files. Each is written by one process at a time, so that several can append without waiting. */
export interface Segments {
  /** What records in them are sealed by; undefined: they are plain. */
  readonly seal: Seal | undefined;
  /** Numbers of the files that are there, ascending. */
  list(): readonly number[];
  path(segment: number): string;
  /** The records of a file, to be used at once: where the file was replaced, the next call closes it. */
  reader(segment: number): SegmentBytes;
  /** Closes the files that were replaced, so that their bytes leave the disk. */
  refresh(): void;
  /** Makes a new, empty file and returns its number. */
  create(): number;
  close(): void;
}

export function openSegments(folder: string, io: SegmentIo, seal?: Seal): Segments {
  const readers = new Map<number, { readonly fd: number; readonly ino: bigint; readonly bytes: SegmentBytes }>();
  const path = (segment: number): string => join(folder, `${segment.toString().padStart(8, "0")}.log`);
  const list = (): readonly number[] =>
    readdirSync(folder, { withFileTypes: true })
      .flatMap((entry) => {
        const digits = entry.isFile() ? NAME.exec(entry.name)?.[1] : undefined;
        return digits === undefined ? [] : [Number(digits)];
      })
      .sort((a, b) => a - b);
  /** The open file of a segment, unless another has its name. */
  const current = (segment: number) => {
    const known = readers.get(segment);
    if (known === undefined) return undefined;
    const ino = statSync(path(segment), { bigint: true, throwIfNoEntry: false })?.ino ?? known.ino;
    if (known.ino === ino) return known;
    readers.delete(segment);
    io.close(known.fd);
    return undefined;
  };
  return {
    seal,
    list,
    path,
    reader: (segment) => {
      const known = current(segment);
      if (known !== undefined) return known.bytes;
      const { ino } = statSync(path(segment), { bigint: true });
      const fd = io.open(path(segment), "r", 0o600);
      const bytes = recordBytes(storedBytes(io, fd));
      readers.set(segment, { fd, ino, bytes });
      return bytes;
    },
    refresh: () => {
      for (const segment of [...readers.keys()]) current(segment);
    },
    create: () => {
      for (let segment = (list().at(-1) ?? 0) + 1; ; segment += 1) {
        if (!createFile(path(segment), io)) continue;
        syncFolder(folder);
        return segment;
      }
    },
    close: () => {
      for (const { fd } of readers.values()) io.close(fd);
      readers.clear();
    },
  };
}

/** False when another process was quicker. */
function createFile(path: string, io: SegmentIo): boolean {
  try {
    io.close(io.open(path, "wx", 0o600));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false; // what open throws
    throw error;
  }
}

/** A file is only there after a power cut when its folder was synced. */
export function syncFolder(folder: string): void {
  const fd = openSync(folder, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
