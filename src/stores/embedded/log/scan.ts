import { findRecord } from "./record.ts";
import type { SegmentIo } from "./segment-file.ts";

/** Bytes of a segment that are no record although records follow: damage in the middle, never cut off. */
interface Hole {
  readonly offset: number;
  readonly bytes: number;
  readonly why: string;
}

interface Scan {
  /** End of the last whole record. */
  readonly end: number;
  readonly holes: readonly Hole[];
  /** What follows `end` and is no record: an append that a crash cut off. */
  readonly torn: { readonly bytes: number; readonly why: string } | undefined;
}

const SIZE_MAX = 2 ** 31;

/** Walks the records of a segment from an offset, calling `visit` for each whole one. */
export function scanSegment(
  io: SegmentIo,
  fd: number,
  from: number,
  visit: (buffer: Buffer, offset: number, place: { offset: number; bytes: number }) => void,
): Scan {
  const buffer = readFrom(io, fd, from);
  const holes: Hole[] = [];
  let at = 0;
  for (;;) {
    const found = findRecord(buffer, at);
    if (found.kind === "end") return { end: from + at, holes, torn: undefined };
    if (found.kind === "record") {
      visit(buffer, at, { offset: from + at, bytes: found.bytes });
      at += found.bytes;
      continue;
    }
    const next = nextRecord(buffer, at + 1);
    if (next === undefined) return { end: from + at, holes, torn: { bytes: buffer.length - at, why: found.why } };
    holes.push({ offset: from + at, bytes: next - at, why: found.why });
    at = next;
  }
}

/** The next offset at which a whole record with a right checksum stands. */
function nextRecord(buffer: Buffer, from: number): number | undefined {
  for (let at = from; at < buffer.length; at += 1) {
    if (findRecord(buffer, at).kind === "record") return at;
  }
  return undefined;
}

function readFrom(io: SegmentIo, fd: number, from: number): Buffer {
  const length = Math.min(Math.max(0, io.size(fd) - from), SIZE_MAX);
  const buffer = Buffer.allocUnsafe(length);
  let read = 0;
  while (read < length) {
    const bytes = io.read(fd, buffer.subarray(read), from + read);
    if (bytes === 0) break;
    read += bytes;
  }
  return buffer.subarray(0, read);
}
