import { crc32 } from "node:zlib";
import type { Entry } from "@rkat/core/contract/entry";
import { RuntimeError } from "@rkat/core/contract/error";
import { type Seal, SHARED_OWNERS } from "@rkat/core/ports/store";
import { isSealed, isUnreadable, SEAL_BYTES, sealOn } from "@rkat/core/stores/sealing";
import { readBytes, type SegmentBytes } from "./segment-bytes.ts";

/** Entries of one append: they are written, checked and found together. */
export interface LogRecord<B> {
  readonly sessionId: string;
  readonly entries: readonly Entry<B>[];
}

// length u32 · checksum u32 · session id 16 · first seq u48 · time u48 · entries u16 · fence u16, then the payload.
export const HEADER_BYTES = 40;
const CHECKED_FROM = 8;
/** One append may not be larger: a length beyond it is damage, not a record. */
const RECORD_BYTES_MAX = 64 * 1_024 * 1_024;

/** A larger number is written as this one. */
const FENCE_MAX = 2 ** 16 - 1;

/** Writes entries as one record, sealed where there is a seal. Of two for the same seq the one with the higher fence counts. */
export function encodeRecord(sessionId: string, entries: readonly Entry<unknown>[], fence = 0, seal?: Seal): Buffer {
  const payload = JSON.stringify(entries.map(({ span, body }) => [span, body]));
  const record = Buffer.allocUnsafe(HEADER_BYTES + checked(Buffer.byteLength(payload)));
  record.write(payload, HEADER_BYTES);
  return headed(record, { sessionId, entries, fence, seal });
}

/**
 * Writes other entries as a record that is as long as the one whose place it takes, and sealed if that was: what is over is
 * blanks before the last bracket.
 */
export function encodeToFit(
  before: Buffer,
  entries: readonly Entry<unknown>[],
  { seal, owner }: { readonly seal: Seal | undefined; readonly owner?: string },
): Buffer {
  const { sessionId, fence } = recordHead(before, 0);
  const by = isSealed(before.subarray(HEADER_BYTES)) ? seal : undefined;
  const bytes = before.length - (by === undefined ? 0 : SEAL_BYTES);
  const payload = JSON.stringify(entries.map(({ span, body }) => [span, body]));
  const room = bytes - HEADER_BYTES - Buffer.byteLength(payload);
  if (room < 0) throw new RuntimeError("SESSION_STORE_ERROR", `a record may not grow, and this one would by ${-room}`);
  const record = Buffer.allocUnsafe(bytes);
  record.write(`${payload.slice(0, -1)}${" ".repeat(room)}]`, HEADER_BYTES);
  return headed(record, { sessionId, entries, fence, seal: by, owner });
}

/** So many entries are a moment's work. */
export const PIECE_ENTRIES = 64;

/** The same bytes, made in pieces: others have their turn between them. */
export async function encodeInPieces(
  sessionId: string,
  entries: readonly Entry<unknown>[],
  {
    fence,
    yieldToEventLoop,
    seal,
  }: { readonly fence: number; readonly yieldToEventLoop: () => Promise<void>; readonly seal?: Seal | undefined },
): Promise<Buffer> {
  const pieces = [Buffer.alloc(HEADER_BYTES)];
  for (let first = 0; first < entries.length; first += PIECE_ENTRIES) {
    const rows = entries.slice(first, first + PIECE_ENTRIES).map(({ span, body }) => JSON.stringify([span, body]));
    pieces.push(Buffer.from(`${first === 0 ? "[" : ","}${rows.join(",")}`));
    await yieldToEventLoop();
  }
  pieces.push(Buffer.from("]"));
  checked(pieces.reduce((sum, piece) => sum + piece.length, -HEADER_BYTES));
  return headed(Buffer.concat(pieces), { sessionId, entries, fence, seal });
}

function checked(payloadBytes: number): number {
  const total = HEADER_BYTES + payloadBytes;
  if (total <= RECORD_BYTES_MAX) return payloadBytes;
  throw new RuntimeError("PAYLOAD_TOO_LARGE", `an append of ${total} bytes is over the limit of ${RECORD_BYTES_MAX}`);
}

/** More entries are written as this many. */
const ENTRIES_MAX = 2 ** 16 - 1;

interface Heading {
  readonly sessionId: string;
  readonly entries: readonly Entry<unknown>[];
  readonly fence: number;
  readonly seal: Seal | undefined;
  /** Whose key it is sealed with; else the session's. */
  readonly owner?: string | undefined;
}

/** A record with its header, when its payload is there. */
function headed(plain: Buffer, of: Heading): Buffer {
  const [first] = of.entries;
  if (first === undefined) throw new Error("a record holds at least one entry");
  idBytes(of.sessionId).copy(plain, 8);
  plain.writeUIntLE(first.seq, 24, 6);
  plain.writeUIntLE(first.timestamp_ms, 30, 6);
  plain.writeUInt16LE(Math.min(of.entries.length, ENTRIES_MAX), 36);
  plain.writeUInt16LE(Math.min(of.fence, FENCE_MAX), 38);
  const record = of.seal === undefined ? plain : sealedRecord(plain, of.owner ?? of.sessionId, of.seal);
  record.writeUInt32LE(record.length - HEADER_BYTES, 0);
  record.writeUInt32LE(crc32(record.subarray(CHECKED_FROM)), 4);
  return record;
}

/** Its payload opens under this header alone: a record moved to another session or seq is noticed. */
function sealedRecord(plain: Buffer, owner: string, seal: Seal): Buffer {
  const header = plain.subarray(0, HEADER_BYTES);
  const sealed = seal.seal(owner, plain.subarray(HEADER_BYTES), header.subarray(CHECKED_FROM));
  checked(sealed.length);
  return Buffer.concat([header, sealed]);
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

export function sumAt(buffer: Buffer, offset: number): number {
  return buffer.readUInt32LE(offset + 4);
}

/** Where a record belongs, read off a whole record's header. */
export function recordHead(buffer: Buffer, offset: number) {
  return {
    sessionId: readId(buffer, offset + 8),
    seq: buffer.readUIntLE(offset + 24, 6),
    timestamp_ms: buffer.readUIntLE(offset + 30, 6),
    fence: buffer.readUInt16LE(offset + 38),
  };
}

/** Reads a whole record; throws an error that `isUnreadable` recognises for one whose seal does not open. */
export function decodeRecord<B>(buffer: Buffer, offset: number, seal?: Seal): LogRecord<B> {
  const { sessionId, seq, timestamp_ms } = recordHead(buffer, offset);
  const payload = payloadAt(buffer, offset, seal).toString();
  return { sessionId, entries: entriesIn(payload, { seq, timestamp_ms }) };
}

function payloadAt(buffer: Buffer, offset: number, seal: Seal | undefined): Buffer {
  const kept = buffer.subarray(offset + HEADER_BYTES, offset + HEADER_BYTES + buffer.readUInt32LE(offset));
  const { sessionId, seq } = recordHead(buffer, offset);
  const by = sealOn(kept, seal, `seq ${seq} of session ${sessionId}`);
  if (by === undefined) return kept;
  const opened = openKept(by, sessionId, kept, buffer.subarray(offset + CHECKED_FROM, offset + HEADER_BYTES));
  return Buffer.from(opened.buffer, opened.byteOffset, opened.length);
}

/** What is left of a session that was forgotten is sealed with a key that all such share: its own is destroyed. */
function openKept(seal: Seal, sessionId: string, kept: Uint8Array, place: Uint8Array): Uint8Array {
  try {
    return seal.open(sessionId, kept, place);
  } catch (error) {
    if (!isUnreadable(error) || !seal.has(SHARED_OWNERS.forgotten)) throw error;
    try {
      return seal.open(SHARED_OWNERS.forgotten, kept, place);
    } catch {
      // That is not the cause: the first error is thrown.
      throw error;
    }
  }
}

function entriesIn<B>(text: string, from: { readonly seq: number; readonly timestamp_ms: number }): Entry<B>[] {
  // Its checksum matches, so it is what `encodeRecord` wrote.
  const rows = JSON.parse(text) as [span: number, body: B][];
  const { timestamp_ms } = from;
  let { seq } = from;
  return rows.map(([span, body]) => {
    const entry = { seq, span, timestamp_ms, body };
    seq += span;
    return entry;
  });
}

/** The entries of a record, to be read from any seq on. */
export interface RecordEntries<B> {
  readonly end: number;
  /** Those whose seqs reach `seq` or beyond, at most `max`. */
  from(seq: number, max: number): readonly Entry<B>[];
}

/** Opens a whole record. Of a large one only those entries are decoded that are asked for. */
export function openRecord<B>(buffer: Buffer, offset: number, seal?: Seal): RecordEntries<B> {
  const { seq: first, timestamp_ms } = recordHead(buffer, offset);
  const payload = payloadAt(buffer, offset, seal);
  const rows = payload.length < SMALL_BYTES ? undefined : rowsIn(payload, first, buffer.readUInt16LE(offset + 36));
  if (rows === undefined) {
    const entries = entriesIn<B>(payload.toString(), { seq: first, timestamp_ms });
    const last = entries.at(-1);
    return {
      end: last === undefined ? first : last.seq + last.span,
      from: (seq, max) => {
        const at = entries.findIndex((entry) => entry.seq + entry.span > seq);
        return at < 0 ? [] : entries.slice(at, at + max);
      },
    };
  }
  return {
    end: rows.seqs.at(-1) ?? first,
    from: (seq, max) => {
      const at = Math.max(0, countUpTo(rows.seqs, (begins) => begins, seq) - 1);
      const to = Math.min(at + max, rows.starts.length - 1);
      if (to <= at) return [];
      const text = payload.toString("utf8", rows.starts[at], (rows.starts[to] ?? 0) - 1);
      return entriesIn(`[${text}]`, { seq: rows.seqs[at] ?? first, timestamp_ms });
    },
  };
}

/** How many of what is in order begin at or before a seq. */
export function countUpTo<T>(all: readonly T[], seqOf: (one: T) => number, seq: number): number {
  let low = 0;
  let high = all.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const one = all[middle];
    if (one !== undefined && seqOf(one) <= seq) low = middle + 1;
    else high = middle;
  }
  return low;
}

const SMALL_BYTES = 16 * 1_024;
const BETWEEN_ROWS = Buffer.from("}],[");
/**
 * Where the rows of a payload begin, with the seq of each, found without parsing it; both end with what would come next.
 * What looks like a row within one is no text, whose quotation marks are written otherwise, but may be JSON that a tool was
 * given: then there are more than the record has, and undefined is returned.
 */
function rowsIn(payload: Buffer, first: number, count: number) {
  const starts: number[] = [];
  const seqs = [first];
  let seq = first;
  for (let start = 1, at = 0; ; start = at + BETWEEN_ROWS.length - 1) {
    const span = spanAt(payload, start);
    if (span !== undefined) {
      starts.push(start);
      seq += span;
      seqs.push(seq);
    }
    at = payload.indexOf(BETWEEN_ROWS, start);
    if (at < 0) break;
  }
  starts.push(payload.length);
  return starts.length - 1 === count ? { starts, seqs } : undefined;
}

function readId(buffer: Buffer, offset: number): string {
  const hex = buffer.toString("hex", offset, offset + 16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const [BRACKET = 0, ZERO = 0, NINE = 0, COMMA = 0, BRACE = 0, QUOTE = 0] = Buffer.from('[09,{"');

/** The span of a row that begins here, which is as `[1,{"`; by bytes, since there may be many thousands. */
function spanAt(payload: Buffer, start: number): number | undefined {
  if (payload[start] !== BRACKET) return undefined;
  let span = 0;
  let at = start + 1;
  for (let digit = payload[at] ?? 0; digit >= ZERO && digit <= NINE; digit = payload[at] ?? 0) {
    span = span * 10 + digit - ZERO;
    at += 1;
  }
  const isRow = payload[at] === COMMA && payload[at + 1] === BRACE && payload[at + 2] === QUOTE;
  return isRow && at > start + 1 ? span : undefined;
}

/** Bytes of a segment that are no record although records follow: damage in the middle, never cut off. */
interface Hole {
  readonly offset: number;
  readonly bytes: number;
  readonly why: string;
}

interface Scan {
  readonly end: number;
  readonly holes: readonly Hole[];
  /** What follows `end` and is no record: an append that a crash cut off. */
  readonly torn: { readonly bytes: number; readonly why: string } | undefined;
}

/** A sentence for each stretch of a segment that holds no record. */
export function scanFaults(path: string, { holes, torn }: Pick<Scan, "holes" | "torn">): readonly string[] {
  return [
    ...holes.map(({ offset, bytes, why }) => `${path}: ${bytes} bytes at ${offset} are no record (${why})`),
    ...(torn === undefined ? [] : [`${path}: the last ${torn.bytes} bytes are no record (${torn.why})`]),
  ];
}

const SIZE_MAX = 2 ** 31;

/** Walks the records of a segment from an offset, calling `visit` for each whole one. */
export function scanSegment(
  segment: SegmentBytes,
  from: number,
  visit: (buffer: Buffer, offset: number, place: { offset: number; bytes: number }) => void,
): Scan {
  const buffer = readBytes(segment, from, Math.min(Math.max(0, segment.size() - from), SIZE_MAX));
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
