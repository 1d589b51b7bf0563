import type { Entry } from "@rkat/core/contract/entry";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import { isUnreadable } from "@rkat/core/stores/sealing";
import {
  countUpTo,
  decodeRecord,
  findRecord,
  HEADER_BYTES,
  openRecord,
  type RecordEntries,
  recordHead,
  sumAt,
} from "./record.ts";
import { readBytes } from "./segment-bytes.ts";
import type { Segments } from "./segments.ts";

/** The place of a record: found by its session and the seq of its first entry. */
export interface RecordPlace {
  readonly seq: number;
  readonly segment: number;
  readonly offset: number;
  readonly bytes: number;
}

/** Nearby records are read together: records between them cost less than another read. */
const GAP_BYTES_MAX = 64 * 1_024;
const READ_BYTES_MAX = 4 * 1_024 * 1_024;
/** A read of a few entries must not read megabytes: a record may hold hundreds. */
const READ_BYTES_AN_ENTRY = 1_024;

/** Reads a session's entries from their places and checks for damage and gaps; fewer than `max` where they take `bytesMax`. */
export function readPlaces<B>(
  segments: Segments,
  places: readonly RecordPlace[],
  wanted: { sessionId: string; fromSeq: number; max: number; lastSeq: number; bytesMax?: number },
): readonly Entry<B>[] {
  // The last record that begins at or before a seq may reach it. Places are ordered by seq.
  const start = Math.max(0, countUpTo(places, ({ seq }) => seq, wanted.fromSeq) - 1);
  const entries: Entry<B>[] = [];
  const { bytesMax = Number.POSITIVE_INFINITY } = wanted;
  let expected = places[start]?.seq ?? 1;
  let bytes = 0;
  if (start === 0 && expected !== 1 && places.length > 0) throw missing(wanted.sessionId, 1, expected);
  for (let first = start; first < places.length && entries.length < wanted.max; ) {
    const run = runFrom(places, first, wanted.max - entries.length);
    const known = run.map((place) => largeAt<B>(segments, place));
    const buffer = known.every((record) => record !== undefined) ? NOTHING : readRun(segments, run);
    const base = run[0]?.offset ?? 0;
    for (const [at, place] of run.entries()) {
      if (entries.length >= wanted.max) break;
      if (place.seq !== expected) throw missing(wanted.sessionId, expected, place.seq);
      const record = known[at] ?? recordAt<B>(buffer, place, base, segments);
      for (const entry of record.from(wanted.fromSeq, wanted.max - entries.length)) entries.push(entry);
      expected = record.end;
      bytes += place.bytes;
      if (bytes >= bytesMax && entries.length > 0) return entries;
    }
    first += run.length;
  }
  if (entries.length < wanted.max && expected <= wanted.lastSeq)
    throw missing(wanted.sessionId, expected, wanted.lastSeq + 1);
  return entries;
}

/** The valid records of a session's log, each seq once, and the rejected ones. */
export interface Chain {
  readonly places: readonly RecordPlace[];
  readonly leftOut: readonly RecordPlace[];
}

/**
 * Of records after the same seq one counts: that of the later holder, else the first written. A suspended process may
 * have written after its session was taken over; records that follow its record are rejected with it. Places are
 * ordered by seq.
 */
export function soleChain(segments: Segments, places: readonly RecordPlace[]): Chain {
  const twiceAt = places.findIndex((place, at) => place.seq === places[at - 1]?.seq);
  if (twiceAt < 0) return { places, leftOut: [] };
  const kept = places.slice(0, twiceAt - 1);
  const disputed = places.slice(twiceAt - 1).map((place) => {
    const record = readRun(segments, [place]);
    const { end } = recordAt(record, place, place.offset, segments);
    const { fence, timestamp_ms } = recordHead(record, 0);
    return { place, end, fence, at: timestamp_ms };
  });
  const out = new Set<RecordPlace>();
  let expected = disputed[0]?.place.seq ?? 0;
  for (const { place } of disputed) {
    if (place.seq !== expected || out.has(place)) continue;
    const rivals = disputed.filter((other) => other.place.seq === expected && !out.has(other.place));
    const [winner, ...losers] = rivals.sort((a, b) => b.fence - a.fence || a.at - b.at);
    if (winner === undefined) break;
    for (let loser of losers) {
      out.add(loser.place);
      for (const next of disputed) {
        const isNext = next.place.seq === loser.end && next.fence === loser.fence;
        if (!isNext || next.place.segment !== loser.place.segment || next.place.offset < loser.place.offset) continue;
        out.add(next.place);
        loser = next;
      }
    }
    kept.push(winner.place);
    expected = winner.end;
  }
  const chain = new Set(kept);
  const rest = disputed.filter(({ place }) => !chain.has(place) && !out.has(place)).map(({ place }) => place);
  // Records after a gap stay, so that the reader reports the gap.
  const beyond = rest.filter(({ seq }) => seq > expected);
  const leftOut = [...out, ...rest.filter(({ seq }) => seq <= expected)];
  return { places: [...kept, ...beyond], leftOut };
}

export function leftOutSentence(sessionId: string, { seq, offset }: RecordPlace, path: string): string {
  return `session ${sessionId}: seq ${seq} was written twice, by two processes; the record in ${path} at ${offset} is left out`;
}

export function isAt({ segment, offset }: RecordPlace): (other: RecordPlace) => boolean {
  return (other) => other.segment === segment && other.offset === offset;
}

/** The longest run of places that one read covers; each holds at least one entry, and one may precede the wanted. */
function runFrom(places: readonly RecordPlace[], first: number, entriesMax: number): readonly RecordPlace[] {
  const head = places[first];
  if (head === undefined) return [];
  const run = [head];
  const bytesMax = Math.min(READ_BYTES_MAX, Math.max(GAP_BYTES_MAX, entriesMax * READ_BYTES_AN_ENTRY));
  for (let next = first + 1; next < places.length && run.length <= entriesMax; next += 1) {
    const place = places[next];
    const last = run.at(-1) ?? head;
    if (place === undefined || place.segment !== head.segment || place.offset < last.offset) break;
    const gap = place.offset - (last.offset + last.bytes);
    if (gap > GAP_BYTES_MAX || place.offset + place.bytes - head.offset > bytesMax) break;
    run.push(place);
  }
  return run;
}

/** A raw record, for overwriting it. */
export function readRecord(segments: Segments, place: RecordPlace): Buffer {
  return readRun(segments, [place]);
}

function readRun(segments: Segments, run: readonly RecordPlace[]): Buffer {
  const first = run[0];
  const last = run.at(-1);
  if (first === undefined || last === undefined) return NOTHING;
  return readBytes(segments.reader(first.segment), first.offset, last.offset + last.bytes - first.offset);
}

/** A fork is one record of any length: reading it in pages would read all of it with every page. */
const LARGE_BYTES = 64 * 1_024;
const larges = new WeakMap<Segments, RecordPlace & { readonly record: WeakRef<RecordEntries<unknown>>; sum: number }>();
const NOTHING = Buffer.alloc(0);

/** The last large record, while it is in memory and unchanged by erasing. */
function largeAt<B>(segments: Segments, place: RecordPlace): RecordEntries<B> | undefined {
  const known = larges.get(segments);
  if (known === undefined || !isAt(place)(known)) return undefined;
  const head = readRun(segments, [{ ...place, bytes: HEADER_BYTES }]);
  if (head.length < HEADER_BYTES || sumAt(head, 0) !== known.sum) return undefined;
  return known.record.deref() as RecordEntries<B> | undefined; // Written by the same kind of log.
}

/** Another process may be overwriting the record, which takes a moment. */
const READS_MAX = 5;

function recordAt<B>(buffer: Buffer, place: RecordPlace, base: number, segments: Segments): RecordEntries<B> {
  let [bytes, offset] = [buffer, place.offset - base];
  let found = findRecord(bytes, offset);
  for (let read = 1; found.kind !== "record" && read < READS_MAX; read += 1) {
    [bytes, offset] = [readRun(segments, [place]), 0];
    found = findRecord(bytes, offset);
  }
  if (found.kind === "record") {
    const record = openRecord<B>(bytes, offset, segments.seal);
    const sum = sumAt(bytes, offset);
    if (place.bytes >= LARGE_BYTES) larges.set(segments, { ...place, record: new WeakRef(record), sum });
    return record;
  }
  const why = found.kind === "damaged" ? found.why : "nothing is there";
  const message = `${segments.path(place.segment)} is damaged at ${place.offset}: ${why}; earlier records are intact`;
  throw new RuntimeError("SESSION_STORE_ERROR", message);
}

/** Skips a record that cannot be decrypted: its reader receives an error, and other sessions continue. */
export function readableEntries<B>(record: Buffer, { seal }: Segments, problems: string[] = []): readonly Entry<B>[] {
  try {
    return decodeRecord<B>(record, 0, seal).entries;
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    problems.push(messageOf(error));
    return [];
  }
}

function missing(sessionId: string, expected: number, found: number): RuntimeError {
  const message = `the log of session ${sessionId} lacks seqs ${expected} to ${found - 1}; run rkat doctor --verify`;
  return new RuntimeError("SESSION_STORE_ERROR", message, { cause: GAP });
}

const GAP = new Error("a record is not where the index says, or the index says nothing of it");

/** Whether a read failed because of missing seqs, which may be the index's fault alone. */
export function isGap(thrown: unknown): boolean {
  return thrown instanceof RuntimeError && thrown.cause === GAP;
}
