import type { FoldRow, LogRow } from "../../../ports/store.ts";
import type { Checkpoint, LogIndex, RecordPlace, SegmentState } from "./log-index.ts";
import { leftOutSentence, soleChain } from "./read-places.ts";
import { decodeRecord, findRecord, recordHead } from "./record.ts";
import { scanSegment } from "./scan.ts";
import type { SegmentIo } from "./segment-file.ts";
import type { Segments } from "./segments.ts";

/** Everything the logs hold, read from their first byte to their last. */
export interface Survey<R> extends Checkpoint<R> {
  readonly bytes: number;
  readonly problems: readonly string[];
  /** The sessions of which two processes wrote the same seqs. */
  readonly twice: ReadonlySet<string>;
}

interface SurveyParts<B, R> {
  readonly segments: Segments;
  readonly io: SegmentIo;
  readonly foldRow: FoldRow<B, R>;
}

/** Reads every record and checks it; what it finds is what an index of these logs has to say. */
export function surveyLogs<B, R extends LogRow>(
  { segments, io, foldRow }: SurveyParts<B, R>,
  sealed: ReadonlySet<number>,
): Survey<R> {
  const found: { sessionId: string; place: RecordPlace }[] = [];
  const states = new Map<number, SegmentState>();
  const problems: string[] = [];
  let bytes = 0;
  for (const segment of segments.list()) {
    let last = -1;
    const scan = scanSegment(io, segments.reader(segment), 0, (buffer, at, place) => {
      last = place.offset;
      const { sessionId, seq } = recordHead(buffer, at);
      found.push({ sessionId, place: { seq, segment, ...place } });
    });
    const path = segments.path(segment);
    for (const hole of scan.holes)
      problems.push(`${path}: ${hole.bytes} bytes at ${hole.offset} are no record (${hole.why})`);
    if (scan.torn !== undefined)
      problems.push(`${path}: the last ${scan.torn.bytes} bytes are no record (${scan.torn.why})`);
    states.set(segment, { indexed: scan.end, last, sealed: sealed.has(segment) && scan.torn === undefined });
    bytes += scan.end;
  }
  const rows = new Map<string, R>();
  const places: { sessionId: string; place: RecordPlace }[] = [];
  // A session may have gone from segment to segment: it is folded by its seqs, one record in memory at a time.
  const twice = new Set<string>();
  const bySession = Map.groupBy(
    found.sort((a, b) => a.place.seq - b.place.seq),
    ({ sessionId }) => sessionId,
  );
  const chains = [...bySession].flatMap(([sessionId, all]) => {
    const chain = soleChain(
      { segments, io },
      all.map(({ place }) => place),
    );
    for (const place of chain.leftOut) {
      twice.add(sessionId);
      problems.push(leftOutSentence(sessionId, place, segments.path(place.segment)));
    }
    return chain.places.map((place) => ({ sessionId, place }));
  });
  for (const { sessionId, place } of chains) {
    const end = rows.get(sessionId)?.last_seq ?? 0;
    if (place.seq !== end + 1) {
      problems.push(`session ${sessionId}: seq ${place.seq} follows ${end}`);
      continue;
    }
    places.push({ sessionId, place });
    const record = Buffer.allocUnsafe(place.bytes);
    io.read(segments.reader(place.segment), record, place.offset);
    for (const entry of decodeRecord<B>(record, 0).entries)
      rows.set(sessionId, foldRow(rows.get(sessionId), sessionId, entry));
  }
  return { places, rows: [...rows.values()], segments: states, bytes, problems, twice };
}

/**
 * Makes the index anew when it speaks of records that are not there: a disk lost what it had acknowledged. Returns what
 * was lost, a sentence a session.
 */
export function mendIndex<B, R extends LogRow>(
  index: LogIndex<R>,
  parts: SurveyParts<B, R>,
  warn: (sentence: string) => void,
): readonly string[] {
  const known = index.segments();
  const broken = [...known].filter(([segment, state]) => !state.sealed && !holdsLast(parts, segment, state));
  if (broken.length === 0) return [];
  const paths = broken.map(([segment]) => parts.segments.path(segment)).join(", ");
  warn(`${paths}: the end is damaged or missing; the index is made anew from what is there`);
  const sealed = new Set([...known].flatMap(([segment, state]) => (state.sealed ? [segment] : [])));
  const rows = index.rows();
  let lost: readonly string[] = [];
  index.replace(() => {
    const survey = surveyLogs(parts, sealed);
    lost = lossesOf(rows, survey.rows);
    return survey;
  });
  for (const sentence of lost) warn(sentence);
  return lost;
}

/**
 * Looks a session up in the logs in which two processes wrote the same seqs: the index may lack what one of them saved.
 * False when there is no such session in the logs.
 */
export function mendSession<B, R extends LogRow>(
  index: LogIndex<R>,
  parts: SurveyParts<B, R>,
  sessionId: string,
): boolean {
  return index.replaceSession(sessionId, () => {
    const { places, rows, twice } = surveyLogs(parts, new Set());
    const row = rows.find(({ session_id }) => session_id === sessionId);
    if (row === undefined || !twice.has(sessionId)) return undefined;
    return { places: places.flatMap(({ sessionId: id, place }) => (id === sessionId ? [place] : [])), row };
  });
}

/** What rows knew that the logs do not hold any more. */
export function lossesOf(known: readonly LogRow[], found: readonly LogRow[]): readonly string[] {
  const ends = new Map(found.map((row) => [row.session_id, row.last_seq]));
  return known
    .filter((row) => row.last_seq > (ends.get(row.session_id) ?? 0))
    .map(
      (row) => `session ${row.session_id} had ${row.last_seq} events, and ${ends.get(row.session_id) ?? 0} are left`,
    );
}

function holdsLast(
  { segments, io }: Pick<SurveyParts<never, never>, "segments" | "io">,
  segment: number,
  { indexed, last }: SegmentState,
): boolean {
  if (!segments.list().includes(segment)) return false;
  const fd = segments.reader(segment);
  if (io.size(fd) < indexed) return false;
  if (last < 0) return true;
  const record = Buffer.alloc(indexed - last);
  io.read(fd, record, last);
  return findRecord(record, 0).kind === "record";
}
