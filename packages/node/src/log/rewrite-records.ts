import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { crc32 } from "node:zlib";
import { RuntimeError } from "@rkat/core/contract/error";
import type { Leases } from "./leases.ts";
import type { RecordPlace } from "./read-places.ts";
import { type SegmentIo, type Segments, syncFolder } from "./segments.ts";
import { explained } from "./whole-file.ts";
import { openPackedFile, type Piece, type Steps, takeSteps, UNFINISHED, writeWhole } from "./write-packed.ts";

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
    // A packing that was killed or is under way holds what is forgotten here; the latter is given up.
    for (const name of readdirSync(folder)) if (name.endsWith(UNFINISHED)) rmSync(join(folder, name), { force: true });
    writeAll(io, { path, flags: "w" }, [{ bytes: encode(records), position: 0 }]);
    syncFolder(folder);
    await takeSteps(io, overwrite(parts, records));
    rmSync(path, { force: true });
    syncFolder(folder);
  } catch (error) {
    throw explained(error, folder, "what is forgotten is overwritten when the folder is opened again");
  } finally {
    leases.give(REWRITING);
  }
}

/** Finishes what a process that died was writing over the log. Without room on the disk that waits for the next open. */
export function finishRewrites(parts: RewriteParts & { readonly warn: (sentence: string) => void }): void {
  const path = join(parts.folder, REDO);
  // Another process finishes it.
  if (!existsSync(path) || !parts.leases.take(REWRITING, "dead")) return;
  try {
    redo(parts, path);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOSPC")) throw error;
    parts.warn(
      `${path}: the disk is full; what is forgotten is overwritten when there is room and the folder is opened`,
    );
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

/** Plain files first: what is half overwritten in place cannot be read, and a packed file needs room on the disk. */
function* overwrite({ segments, io }: RewriteParts, records: readonly NewRecord[]): Steps {
  const packed: (readonly [path: string, pieces: readonly Piece[]])[] = [];
  for (const [segment, own] of Map.groupBy(records, ({ place }) => place.segment)) {
    const pieces = own.map(({ place, record }) => ({ bytes: record, position: place.offset }));
    const path = segments.path(segment);
    if (segments.reader(segment).packedAt === undefined) writeAll(io, { path, flags: "r+" }, pieces);
    else packed.push([path, pieces]);
  }
  for (const [path, pieces] of packed) {
    const file = openPackedFile(io, path, pieces);
    try {
      yield* file.write();
      file.replace();
    } finally {
      file.close();
    }
  }
  segments.refresh();
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
