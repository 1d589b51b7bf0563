import { existsSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { setImmediate, setTimeout } from "node:timers/promises";
import { crc32 } from "node:zlib";
import { RuntimeError } from "@rkat/core/contract/error";
import type { Leases } from "./leases.ts";
import { BLOCK_BYTES, LAST_BLOCK, packBlock, readBytes, recordBytes, type SegmentBytes } from "./packed-segment.ts";
import type { RecordPlace } from "./read-places.ts";
import { type SegmentIo, type Segments, storedBytes, syncFolder } from "./segments.ts";

/** A record that takes the place of another, byte for byte as long. */
export interface NewRecord {
  readonly place: Pick<RecordPlace, "segment" | "offset">;
  readonly record: Buffer;
}

interface RewriteParts {
  readonly folder: string;
  readonly segments: Segments;
  readonly io: SegmentIo;
  readonly leases: Pick<Leases, "take" | "give">;
}

/** What is to be written over the log stands here until it is: a crash half-way is made up for. */
const REDO = "rewrite.redo";
/** Who holds it replaces bytes or files of the log. */
export const REWRITING = "rewriting";
const MADE = ".tmp";
// segment u32 · offset u48 · bytes u32, then the record; a checksum of everything at the end.
const HEAD_BYTES = 14;
const SUM_BYTES = 4;

/** Another process that writes over the log is done in a moment. */
const TAKE_TRIES = 500;
const TAKE_AGAIN_MS = 20;

/** Writes records over those that are forgotten. */
export async function rewriteRecords(parts: RewriteParts, records: readonly NewRecord[]): Promise<void> {
  if (records.length === 0) return;
  const { leases, io, folder } = parts;
  for (let attempt = 1; !leases.take(REWRITING); attempt += 1) {
    if (attempt === TAKE_TRIES)
      throw new RuntimeError("SESSION_BUSY", "another process is forgetting something here; try again when it has");
    await setTimeout(TAKE_AGAIN_MS);
  }
  try {
    const path = join(folder, REDO);
    // What a disk that failed left half written is known nowhere else.
    redo(parts, path);
    // What a killed packing left holds what is forgotten here.
    for (const name of readdirSync(folder)) if (name.endsWith(MADE)) rmSync(join(folder, name), { force: true });
    writeAll(io, { path, flags: "w" }, [{ bytes: encode(records), position: 0 }]);
    syncFolder(folder);
    await takeSteps(io, overwrite(parts, records));
    rmSync(path, { force: true });
    syncFolder(folder);
  } finally {
    leases.give(REWRITING);
  }
}

/** Finishes what a process that died was writing over the log. */
export function finishRewrites(parts: RewriteParts): void {
  const path = join(parts.folder, REDO);
  // Another process finishes it.
  if (!existsSync(path) || !parts.leases.take(REWRITING, "dead")) return;
  try {
    redo(parts, path);
  } finally {
    parts.leases.give(REWRITING);
  }
}

function redo(parts: RewriteParts, path: string): void {
  if (!existsSync(path)) return;
  // One that is not whole was never begun with: the log is as it was.
  for (const fd of overwrite(parts, decode(readFileSync(path)))) if (fd !== undefined) parts.io.syncSync(fd);
  rmSync(path, { force: true });
  syncFolder(parts.folder);
}

function* overwrite({ segments, io }: RewriteParts, records: readonly NewRecord[]): Steps {
  for (const [segment, own] of Map.groupBy(records, ({ place }) => place.segment)) {
    const pieces = own.map(({ place, record }) => ({ bytes: record, position: place.offset }));
    const path = segments.path(segment);
    if (segments.reader(segment).packedAt === undefined) writeAll(io, { path, flags: "r+" }, pieces);
    else yield* packSegment(io, path, pieces);
  }
}

/** Work of a moment each. A descriptor is yielded where its file must be on the disk before the work continues. */
type Steps = Generator<number | undefined>;

/** Takes steps with other work in between. */
export async function takeSteps(io: SegmentIo, steps: Steps, signal?: AbortSignal): Promise<void> {
  for (const fd of steps) {
    await (fd === undefined ? setImmediate() : io.sync(fd));
    signal?.throwIfAborted();
  }
}

/**
 * Writes a segment anew, packed, with some of its bytes replaced. The file is replaced at the end: a reader finds the old
 * one or the new one.
 */
export function* packSegment(io: SegmentIo, path: string, edits: readonly Piece[] = []): Steps {
  const made = `${path}${MADE}`;
  try {
    yield* writePacked(io, { from: path, to: made, edits });
    renameSync(made, path);
    syncFolder(dirname(path));
  } finally {
    rmSync(made, { force: true });
  }
}

interface Packing {
  readonly from: string;
  readonly to: string;
  readonly edits: readonly Piece[];
}

function* writePacked(io: SegmentIo, { from, to, edits }: Packing): Steps {
  const source = io.open(from, "r", 0o600);
  const target = io.open(to, "w", 0o600);
  try {
    const bytes = recordBytes(storedBytes(io, source));
    let written = 0;
    for (let at = 0; at < bytes.size(); at += BLOCK_BYTES) {
      const own = edits.filter((edit) => edit.position < at + BLOCK_BYTES && edit.position + edit.bytes.length > at);
      const same = own.length === 0 ? bytes.packedAt?.(at) : undefined;
      const block = same ?? packBlock(edited(bytes, at, own));
      written += writeWhole(io, target, { bytes: block, position: written });
      yield undefined;
    }
    writeWhole(io, target, { bytes: LAST_BLOCK, position: written });
    yield target;
  } finally {
    io.close(source);
    io.close(target);
  }
}

function edited(bytes: SegmentBytes, at: number, edits: readonly Piece[]): Buffer {
  const plain = readBytes(bytes, at, Math.min(BLOCK_BYTES, bytes.size() - at));
  for (const edit of edits) {
    const skipped = Math.max(0, at - edit.position);
    edit.bytes.copy(plain, Math.max(0, edit.position - at), skipped);
  }
  return plain;
}

function writeAll(
  io: SegmentIo,
  { path, flags }: { readonly path: string; readonly flags: "w" | "r+" },
  pieces: readonly Piece[],
): void {
  const fd = io.open(path, flags, 0o600);
  try {
    for (const piece of pieces) writeWhole(io, fd, piece);
    io.syncSync(fd);
  } finally {
    io.close(fd);
  }
}

/** Bytes for a position of a file. */
interface Piece {
  readonly bytes: Buffer;
  readonly position: number;
}

function writeWhole(io: SegmentIo, fd: number, { bytes, position }: Piece): number {
  for (let written = 0; written < bytes.length; )
    written += io.writeSync(fd, bytes.subarray(written), position + written);
  return bytes.length;
}

function encode(records: readonly NewRecord[]): Buffer {
  const pieces = records.flatMap(({ place, record }) => {
    const head = Buffer.alloc(HEAD_BYTES);
    head.writeUInt32LE(place.segment, 0);
    head.writeUIntLE(place.offset, 4, 6);
    head.writeUInt32LE(record.length, 10);
    return [head, record];
  });
  const sum = Buffer.alloc(SUM_BYTES);
  const all = Buffer.concat(pieces);
  sum.writeUInt32LE(crc32(all), 0);
  return Buffer.concat([all, sum]);
}

function decode(bytes: Buffer): readonly NewRecord[] {
  const end = bytes.length - SUM_BYTES;
  if (end < 0 || crc32(bytes.subarray(0, end)) !== bytes.readUInt32LE(end)) return [];
  const records: NewRecord[] = [];
  for (let at = 0; at < end; ) {
    const [segment, offset, length] = [
      bytes.readUInt32LE(at),
      bytes.readUIntLE(at + 4, 6),
      bytes.readUInt32LE(at + 10),
    ];
    const from = at + HEAD_BYTES;
    records.push({ place: { segment, offset }, record: bytes.subarray(from, from + length) });
    at = from + length;
  }
  return records;
}
