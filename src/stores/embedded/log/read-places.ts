import type { Entry } from "../../../contract/entry.ts";
import { RuntimeError } from "../../../contract/error.ts";
import type { RecordPlace } from "./log-index.ts";
import { decodeRecord, findRecord } from "./record.ts";
import type { SegmentIo } from "./segment-file.ts";
import type { Segments } from "./segments.ts";

/** Records that lie near each other are read together: others' records between them cost less than another read. */
const GAP_BYTES_MAX = 64 * 1_024;
const READ_BYTES_MAX = 4 * 1_024 * 1_024;

/** Reads a session's entries from where they lie, checking that nothing is damaged and nothing is missing. */
export function readPlaces<B>(
  { segments, io }: { segments: Segments; io: SegmentIo },
  places: readonly RecordPlace[],
  wanted: { sessionId: string; fromSeq: number; max: number; lastSeq: number },
): readonly Entry<B>[] {
  // The last record that begins at or before the wanted seq may reach it.
  const start = Math.max(
    0,
    places.findLastIndex((place) => place.seq <= wanted.fromSeq),
  );
  const entries: Entry<B>[] = [];
  let expected = places[start]?.seq ?? 1;
  if (start === 0 && expected !== 1 && places.length > 0) throw missing(wanted.sessionId, 1, expected);
  for (let first = start; first < places.length && entries.length < wanted.max; ) {
    const run = runFrom(places, first, wanted.max - entries.length);
    const buffer = readRun(io, segments, run);
    const base = run[0]?.offset ?? 0;
    for (const place of run) {
      if (place.seq !== expected) throw missing(wanted.sessionId, expected, place.seq);
      for (const entry of recordAt<B>(buffer, place, base, segments).entries) {
        expected = entry.seq + entry.span;
        if (expected > wanted.fromSeq && entries.length < wanted.max) entries.push(entry);
      }
    }
    first += run.length;
  }
  if (entries.length < wanted.max && expected <= wanted.lastSeq)
    throw missing(wanted.sessionId, expected, wanted.lastSeq + 1);
  return entries;
}

/** The longest run of places that one read covers; each holds an entry at least, and one may lie before the wanted. */
function runFrom(places: readonly RecordPlace[], first: number, entriesMax: number): readonly RecordPlace[] {
  const head = places[first];
  if (head === undefined) return [];
  const run = [head];
  for (let next = first + 1; next < places.length && run.length <= entriesMax; next += 1) {
    const place = places[next];
    const last = run.at(-1) ?? head;
    if (place === undefined || place.segment !== head.segment || place.offset < last.offset) break;
    const gap = place.offset - (last.offset + last.bytes);
    if (gap > GAP_BYTES_MAX || place.offset + place.bytes - head.offset > READ_BYTES_MAX) break;
    run.push(place);
  }
  return run;
}

function readRun(io: SegmentIo, segments: Segments, run: readonly RecordPlace[]): Buffer {
  const first = run[0];
  const last = run.at(-1);
  if (first === undefined || last === undefined) return Buffer.alloc(0);
  const buffer = Buffer.allocUnsafe(last.offset + last.bytes - first.offset);
  let read = 0;
  while (read < buffer.length) {
    const bytes = io.read(segments.reader(first.segment), buffer.subarray(read), first.offset + read);
    if (bytes === 0) break;
    read += bytes;
  }
  return buffer.subarray(0, read);
}

function recordAt<B>(buffer: Buffer, place: RecordPlace, base: number, segments: Segments) {
  const offset = place.offset - base;
  const found = findRecord(buffer, offset);
  if (found.kind === "record") return decodeRecord<B>(buffer, offset);
  const why = found.kind === "damaged" ? found.why : "nothing is there";
  const message = `${segments.path(place.segment)} is damaged at ${place.offset}: ${why}; earlier records are intact`;
  throw new RuntimeError("SESSION_STORE_ERROR", message);
}

function missing(sessionId: string, expected: number, found: number): RuntimeError {
  const message = `the log of session ${sessionId} lacks seqs ${expected} to ${found - 1}; run rkat doctor --verify`;
  return new RuntimeError("SESSION_STORE_ERROR", message);
}
