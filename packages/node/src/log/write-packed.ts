import { chownSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { setImmediate, setTimeout } from "node:timers/promises";
import { BLOCK_BYTES, LAST_BLOCK, packBlock, recordBytes } from "./packed-segment.ts";
import { readBytes, type SegmentBytes } from "./segment-bytes.ts";
import { type SegmentIo, storedBytes, syncFolder } from "./segments.ts";

/** Bytes for a position of a file. */
export interface Piece {
  readonly bytes: Buffer;
  readonly position: number;
}

export function writeWhole(io: SegmentIo, fd: number, { bytes, position }: Piece): number {
  for (let written = 0; written < bytes.length; )
    written += io.writeSync(fd, bytes.subarray(written), position + written);
  return bytes.length;
}

/** Work of a moment each. A descriptor is yielded where its file must be on the disk before the work continues. */
export type Steps = Generator<number | undefined>;

/** Takes steps with other work in between. With a signal they end with it, and keep no process running. */
export async function takeSteps(io: SegmentIo, steps: Steps, signal?: AbortSignal): Promise<void> {
  // An idle process would not come to an immediate that does not keep it running.
  const pause = () => (signal === undefined ? setImmediate() : setTimeout(0, undefined, { ref: false }));
  for (const fd of steps) {
    await (fd === undefined ? pause() : io.sync(fd));
    signal?.throwIfAborted();
  }
}

/** The end of the names of files that do not count yet. */
export const UNFINISHED = ".tmp";

/** A segment that is written anew, packed, beside the one whose place it takes. */
export interface PackedFile {
  write(): Steps;
  /** Takes the name of the segment: a reader finds the old file or the new one. Throws ENOENT if an erasure removed it meanwhile. */
  replace(): void;
  close(): void;
}

/** Begins to write a segment anew, with some of its bytes replaced. */
export function openPackedFile(io: SegmentIo, path: string, pieces: readonly Piece[] = []): PackedFile {
  const made = `${path}${UNFINISHED}`;
  const opened: number[] = [];
  const openOne = (name: string, flags: "r" | "wx", mode: number): number => {
    const fd = io.open(name, flags, mode);
    opened.push(fd);
    return fd;
  };
  const close = (): void => {
    for (const fd of opened.splice(0)) io.close(fd);
    rmSync(made, { force: true });
  };
  try {
    rmSync(made, { force: true });
    const { mode, uid, gid } = statSync(path);
    const source = openOne(path, "r", mode);
    const target = openOne(made, "wx", mode);
    chownSync(made, uid, gid);
    return {
      write: () => writePacked(io, { bytes: recordBytes(storedBytes(io, source)), target, pieces }),
      replace: () => {
        renameSync(made, path);
        syncFolder(dirname(path));
      },
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

interface Writing {
  readonly bytes: SegmentBytes;
  readonly target: number;
  readonly pieces: readonly Piece[];
}

function* writePacked(io: SegmentIo, { bytes, target, pieces }: Writing): Steps {
  let position = 0;
  for (let at = 0; at < bytes.size(); at += BLOCK_BYTES) {
    const own = pieces.filter((piece) => piece.position < at + BLOCK_BYTES && piece.position + piece.bytes.length > at);
    const same = own.length === 0 ? bytes.packedAt?.(at) : undefined;
    const block = same ?? packBlock(at / BLOCK_BYTES, replaced(bytes, at, own));
    position += writeWhole(io, target, { bytes: block, position });
    yield undefined;
  }
  writeWhole(io, target, { bytes: LAST_BLOCK, position });
  yield target;
}

function replaced(bytes: SegmentBytes, at: number, pieces: readonly Piece[]): Buffer {
  const plain = readBytes(bytes, at, Math.min(BLOCK_BYTES, bytes.size() - at));
  for (const piece of pieces)
    piece.bytes.copy(plain, Math.max(0, piece.position - at), Math.max(0, at - piece.position));
  return plain;
}
