import type { Entry } from "../../../contract/entry.ts";
import { RuntimeError } from "../../../contract/error.ts";
import type { RecordPlace } from "./log-index.ts";
import { decodeRecord, findRecord, recordHead } from "./record.ts";
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

/** What stands in a session's log: each seq once, and the records that were left out for it. */
export interface Chain {
  readonly places: readonly RecordPlace[];
  readonly leftOut: readonly RecordPlace[];
}

/**
 * Of records that follow the same seq one counts: that of the later holder, else the one written first. A process that
 * stood still while another took its session over may have written after it; what it added to such a record is left
 * out with it. Places are in the order of their seqs.
 */
export function soleChain(
  { segments, io }: { segments: Segments; io: SegmentIo },
  places: readonly RecordPlace[],
): Chain {
  const twiceAt = places.findIndex((place, at) => place.seq === places[at - 1]?.seq);
  if (twiceAt < 0) return { places, leftOut: [] };
  const kept = places.slice(0, twiceAt - 1);
  const disputed = places.slice(twiceAt - 1).map((place) => {
    const record = readRun(io, segments, [place]);
    const { entries } = recordAt(record, place, place.offset, segments);
    const last = entries.at(-1);
    const end = last === undefined ? place.seq : last.seq + last.span;
    return { place, end, fence: recordHead(record, 0).fence, at: entries[0]?.timestamp_ms ?? 0 };
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
  // What is beyond a gap stays, so that whoever reads is told of the gap.
  const beyond = rest.filter(({ seq }) => seq > expected);
  const leftOut = [...out, ...rest.filter(({ seq }) => seq <= expected)];
  return { places: [...kept, ...beyond], leftOut };
}

/** Says of a record that it is left out. */
export function leftOutSentence(sessionId: string, { seq, offset }: RecordPlace, path: string): string {
  return `session ${sessionId}: seq ${seq} was written twice, by two processes; the record in ${path} at ${offset} is left out`;
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
  return new RuntimeError("SESSION_STORE_ERROR", message, { cause: GAP });
}

const GAP = new Error("a record is not where the index says, or the index says nothing of it");

/** Whether a read failed because seqs are missing, which may be the fault of the index alone. */
export function isGap(thrown: unknown): boolean {
  return thrown instanceof RuntimeError && thrown.cause === GAP;
}
