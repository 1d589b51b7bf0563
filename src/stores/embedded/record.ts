import { crc32 } from "node:zlib";
import type { Entry } from "../../contract/entry.ts";
import { RuntimeError } from "../../contract/error.ts";
import type { SegmentIo } from "./segments.ts";

/** Entries of one append: they are written, checked and found together. */
export interface LogRecord<B> {
  readonly sessionId: string;
  readonly entries: readonly Entry<B>[];
}

// length u32 · checksum u32 · session id 16 · first seq u48 · time u48 · entries u16 · fence u16, then the payload.
const HEADER_BYTES = 40;
const CHECKED_FROM = 8;
/** One append may not be larger: a length beyond it is damage, not a record. */
const RECORD_BYTES_MAX = 64 * 1_024 * 1_024;

/** A larger number is written as this one. */
const FENCE_MAX = 2 ** 16 - 1;

/** Writes entries as one record. Of two for the same seq the one with the higher fence counts. */
export function encodeRecord(sessionId: string, entries: readonly Entry<unknown>[], fence = 0): Buffer {
  const [first] = entries;
  if (first === undefined) throw new Error("a record holds at least one entry");
  const payload = JSON.stringify(entries.map(({ span, body }) => [span, body]));
  const payloadBytes = Buffer.byteLength(payload);
  const total = HEADER_BYTES + payloadBytes;
  if (total > RECORD_BYTES_MAX) {
    const message = `an append of ${total} bytes is over the limit of ${RECORD_BYTES_MAX}`;
    throw new RuntimeError("PAYLOAD_TOO_LARGE", message);
  }
  const record = Buffer.allocUnsafe(total);
  record.writeUInt32LE(payloadBytes, 0);
  idBytes(sessionId).copy(record, 8);
  record.writeUIntLE(first.seq, 24, 6);
  record.writeUIntLE(first.timestamp_ms, 30, 6);
  record.writeUInt16LE(entries.length, 36);
  record.writeUInt16LE(Math.min(fence, FENCE_MAX), 38);
  record.write(payload, HEADER_BYTES);
  record.writeUInt32LE(crc32(record.subarray(CHECKED_FROM)), 4);
  return record;
}

const knownIds = new Map<string, Buffer>();
const KNOWN_IDS_MAX = 10_000;

function idBytes(sessionId: string): Buffer {
  const known = knownIds.get(sessionId);
  if (known !== undefined) return known;
  if (knownIds.size >= KNOWN_IDS_MAX) knownIds.clear();
  const bytes = Buffer.from(sessionId.replaceAll("-", ""), "hex");
  knownIds.set(sessionId, bytes);
  return bytes;
}

/** What stands at an offset: a whole record, nothing more, or bytes that are no record. */
export type Found =
  | { readonly kind: "record"; readonly bytes: number }
  | { readonly kind: "end" }
  | { readonly kind: "damaged"; readonly why: string };

/** Looks at an offset without reading the payload into objects. */
export function findRecord(buffer: Buffer, offset: number): Found {
  const left = buffer.length - offset;
  if (left === 0) return { kind: "end" };
  if (left < HEADER_BYTES) return { kind: "damaged", why: `${left} bytes are too few for a record` };
  const bytes = HEADER_BYTES + buffer.readUInt32LE(offset);
  if (bytes > RECORD_BYTES_MAX) return { kind: "damaged", why: "the length is beyond every record's" };
  if (bytes > left) return { kind: "damaged", why: `${left} of ${bytes} bytes are there` };
  const checked = crc32(buffer.subarray(offset + CHECKED_FROM, offset + bytes));
  if (checked !== buffer.readUInt32LE(offset + 4)) return { kind: "damaged", why: "the checksum is wrong" };
  return { kind: "record", bytes };
}

/** Where a record belongs, read off a whole record's header. */
export function recordHead(buffer: Buffer, offset: number): { sessionId: string; seq: number; fence: number } {
  return {
    sessionId: readId(buffer, offset + 8),
    seq: buffer.readUIntLE(offset + 24, 6),
    fence: buffer.readUInt16LE(offset + 38),
  };
}

/** Reads a whole record. */
export function decodeRecord<B>(buffer: Buffer, offset: number): LogRecord<B> {
  const length = buffer.readUInt32LE(offset);
  const timestamp_ms = buffer.readUIntLE(offset + 30, 6);
  let seq = buffer.readUIntLE(offset + 24, 6);
  const payload = buffer.toString("utf8", offset + HEADER_BYTES, offset + HEADER_BYTES + length);
  // Its checksum matches, so it is what `encodeRecord` wrote.
  const rows = JSON.parse(payload) as [span: number, body: B][];
  const entries = rows.map(([span, body]): Entry<B> => {
    const entry = { seq, span, timestamp_ms, body };
    seq += span;
    return entry;
  });
  return { sessionId: readId(buffer, offset + 8), entries };
}

function readId(buffer: Buffer, offset: number): string {
  const hex = buffer.toString("hex", offset, offset + 16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

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
