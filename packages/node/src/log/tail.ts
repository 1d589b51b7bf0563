import { type FoldRow, hasWork, type LogRow, type RowQuery } from "@rkat/core/ports/store";
import { pageOf } from "@rkat/core/stores/page";
import type { Checkpoint, LogIndex, SegmentState } from "./log-index.ts";
import {
  type Chain,
  leftOutSentence,
  type RecordPlace,
  readableEntries,
  readPlaces,
  soleChain,
} from "./read-places.ts";
import { findRecord, recordHead, scanFaults, scanSegment } from "./record.ts";
import { readBytes } from "./segment-bytes.ts";
import type { Segments } from "./segments.ts";

/** What the index on disk does not know yet: found by reading the ends of the segments, and added to by appends. */
export interface Tail<R> {
  /** Reads what was appended since the last time, by any process. */
  catchUp(): void;
  /** Every place of a session's records that count, oldest first, and of those that do not. */
  chain(sessionId: string): Chain;
  /** Knows of a session only what the index does. */
  forget(sessionId: string): void;
  /** Folds a session's row anew where two processes wrote the same seq. */
  settle(sessionId: string): void;
  /** Folds a session's row anew where its records say something else than they did, and saves it. */
  refold(sessionId: string): void;
  row(sessionId: string): R | undefined;
  /** The row when it ends at `lastSeq`; quicker, for a caller that holds the session and knows where it ends. */
  rowAt(sessionId: string, lastSeq: number): R | undefined;
  page(query: RowQuery): readonly R[];
  /** Takes in a record this process just wrote. */
  add(sessionId: string, place: RecordPlace, row: R): void;
  readTo(segment: number): number;
  setReadTo(segment: number, offset: number): void;
  /** What is not on disk of one segment, with the rows it touched. */
  unsaved(segment: number): {
    places: readonly { sessionId: string; place: RecordPlace }[];
    rows: readonly R[];
  };
  /** Lets go of what a checkpoint has saved. */
  saved(segment: number, upTo: number): void;
}

const TOLD_MAX = 1_000;
/** Who reads a session page by page asks for its chain with every page. */
const CHAINS_MAX = 64;

/** A chain without a dispute, as long as the index is what it was and nothing but newer records was added. */
interface KnownChain {
  readonly stamp: object;
  readonly added: readonly RecordPlace[];
  /** How many of those it has. */
  taken: number;
  readonly chain: { readonly places: RecordPlace[]; readonly leftOut: readonly RecordPlace[] };
}

const NONE: readonly RecordPlace[] = [];

/** Whether all that was added could be taken in, because it follows. */
function isTakenIn(known: KnownChain): boolean {
  const { added, chain } = known;
  for (; known.taken < added.length; known.taken += 1) {
    const next = added[known.taken];
    if (next === undefined || next.seq <= (chain.places.at(-1)?.seq ?? 0)) return false;
    chain.places.push(next);
  }
  return true;
}

export interface TailParts<B, R> {
  readonly index: LogIndex<R>;
  readonly segments: Segments;
  readonly foldRow: FoldRow<B, R>;
  readonly warn: (sentence: string) => void;
  /** Segments this process writes itself: it knows what it put there. */
  isOwn(segment: number): boolean;
  /** Called for each session another process is found to have appended to. */
  grown?(sessionId: string): void;
}

export function createTail<B, R extends LogRow>(parts: TailParts<B, R>): Tail<R> {
  const { index, segments, foldRow, warn } = parts;
  const readTo = new Map<number, number>();
  const recent = new Map<string, RecordPlace[]>();
  const rows = new Map<string, R>();
  // Of those, the ones with an open turn: they are looked for every second.
  const open = new Map<string, R>();
  const onProgress = new Set<string>();
  const chains = new Map<string, KnownChain>();
  let known = index.segments();
  let stamp = index.stamp();

  const rowOf = (sessionId: string): R | undefined => {
    const row = rows.get(sessionId);
    const saved = index.row(sessionId);
    return saved !== undefined && (row === undefined || saved.last_seq > row.last_seq) ? saved : row;
  };

  const setRow = (sessionId: string, row: R): void => {
    rows.set(sessionId, row);
    if (hasWork(row)) open.set(sessionId, row);
    else open.delete(sessionId);
  };
  const deleteRow = (sessionId: string): void => {
    rows.delete(sessionId);
    open.delete(sessionId);
  };

  const note = (sessionId: string, place: RecordPlace): void => {
    const places = recent.get(sessionId);
    if (places === undefined) recent.set(sessionId, [place]);
    else places.push(place);
  };

  const drop = (segment: number, upTo: number): void => {
    for (const [sessionId, all] of recent) {
      const left = all.filter((place) => place.segment !== segment || place.offset >= upTo);
      if (left.length > 0) recent.set(sessionId, left);
      else recent.delete(sessionId);
      const row = rows.get(sessionId);
      const isSaved = row !== undefined && index.row(sessionId)?.last_seq === row.last_seq;
      if (left.length === 0 && isSaved) deleteRow(sessionId);
    }
  };

  const catchUp = (): void => {
    const found: { readonly sessionId: string; readonly place: RecordPlace; readonly record: Buffer }[] = [];
    // Who replaces a segment saves the index afterwards.
    const before = stamp;
    stamp = index.stamp();
    if (stamp !== before) segments.refresh();
    for (const segment of segments.list()) {
      if (parts.isOwn(segment)) continue;
      if (!readTo.has(segment)) known = index.segments();
      const state = known.get(segment);
      if (state?.sealed === true) continue;
      const from = readTo.get(segment) ?? state?.indexed ?? 0;
      const bytes = segments.reader(segment);
      if (bytes.size() <= from) {
        readTo.set(segment, from);
        continue;
      }
      const scan = scanSegment(bytes, from, (buffer, at, place) => {
        const { sessionId, seq } = recordHead(buffer, at);
        const record = buffer.subarray(at, at + place.bytes);
        found.push({ sessionId, place: { seq, segment, ...place }, record });
      });
      for (const hole of scan.holes) {
        warn(`${segments.path(segment)} is damaged at ${hole.offset}: ${hole.bytes} bytes are no record (${hole.why})`);
      }
      readTo.set(segment, scan.end);
    }
    if (found.length === 0) return;
    // What other processes have brought into the index since need not be kept here as well.
    known = index.segments();
    for (const [segment, { indexed }] of known) if (!parts.isOwn(segment)) drop(segment, indexed);
    const suspects = new Set<string>();
    // A session may have gone from process to process: its records are folded in the order of their seqs.
    for (const { sessionId, place, record } of found.sort((a, b) => a.place.seq - b.place.seq)) {
      note(sessionId, place);
      if (place.seq <= (rowOf(sessionId)?.last_seq ?? 0)) suspects.add(sessionId);
      for (const entry of readableEntries<B>(record, segments)) {
        const row = rowOf(sessionId);
        if (entry.seq === (row?.last_seq ?? 0) + 1) setRow(sessionId, foldRow(row, sessionId, entry));
      }
    }
    for (const sessionId of suspects) settle(sessionId);
    for (const sessionId of new Set(found.map((one) => one.sessionId))) parts.grown?.(sessionId);
  };

  const settle = (sessionId: string): void => {
    try {
      chainOf(sessionId);
    } catch {
      // It is damaged as well: its readers get an error, and the other sessions are not affected.
    }
  };
  const everyPlace = (sessionId: string): readonly RecordPlace[] => {
    const saved = index.places(sessionId);
    const added = recent.get(sessionId) ?? [];
    // In order, unless the session went from process to process and some of it was read before it was saved.
    const all = [...saved, ...added];
    if (all.every((place, at) => at === 0 || (all[at - 1]?.seq ?? 0) < place.seq)) return all;
    const byPlace = new Map(all.map((place) => [`${place.segment} ${place.offset}`, place]));
    return [...byPlace.values()].sort((a, b) => a.seq - b.seq || a.segment - b.segment || a.offset - b.offset);
  };
  const chainOf = (sessionId: string): Chain => {
    const stamp = index.stamp();
    const added = recent.get(sessionId) ?? NONE;
    const known = chains.get(sessionId);
    if (known?.stamp === stamp && known.added === added && isTakenIn(known)) return known.chain;
    const { places, leftOut } = settledChain(sessionId);
    const chain = { places: [...places], leftOut };
    if (chains.size >= CHAINS_MAX) chains.clear();
    if (leftOut.length === 0) chains.set(sessionId, { stamp, added, taken: added.length, chain });
    return chain;
  };
  const settledChain = (sessionId: string): Chain => {
    const chain = soleChain(segments, everyPlace(sessionId));
    const { places, leftOut } = chain;
    const sentences = leftOut.map((place) => leftOutSentence(sessionId, place, segments.path(place.segment)));
    const news = sentences.filter((sentence) => !onProgress.has(sentence));
    if (news.length === 0) return chain;
    if (onProgress.size >= TOLD_MAX) onProgress.clear();
    for (const sentence of news) {
      onProgress.add(sentence);
      warn(sentence);
    }
    foldAnew(sessionId, places);
    return chain;
  };
  /** A row may have been folded from a record that is left out. */
  const foldAnew = (sessionId: string, places: readonly RecordPlace[], how?: "saved"): void => {
    const entries = readPlaces<B>(segments, places, {
      sessionId,
      fromSeq: 1,
      max: Number.MAX_SAFE_INTEGER,
      // The row may say more than what is left.
      lastSeq: 0,
    });
    let row: R | undefined;
    for (const entry of entries) row = foldRow(row, sessionId, entry);
    if (row === undefined) return;
    setRow(sessionId, row);
    if (how === "saved" || (index.row(sessionId)?.last_seq ?? 0) > row.last_seq) index.saveRow(row);
  };

  /** A page of the rows that the index does not know yet. */
  const pageHere = (query: RowQuery): readonly R[] => {
    for (;;) {
      const page = pageOf((query.open === true ? open : rows).values(), query);
      const passed = page.filter((row) => (index.row(row.session_id)?.last_seq ?? 0) > row.last_seq);
      if (passed.length === 0) return page;
      // Another process went further with these, and saved them.
      for (const { session_id } of passed) deleteRow(session_id);
    }
  };

  return {
    catchUp,
    row: rowOf,
    rowAt: (sessionId, lastSeq) => {
      const row = rows.get(sessionId);
      return row?.last_seq === lastSeq ? row : rowOf(sessionId);
    },
    page: (query) => {
      const isHere = ({ session_id, last_seq }: R): boolean => (rows.get(session_id)?.last_seq ?? 0) >= last_seq;
      const saved = index.page(query, isHere);
      return pageOf([...pageHere(query), ...saved], query);
    },
    chain: chainOf,
    forget: (sessionId) => {
      recent.delete(sessionId);
      deleteRow(sessionId);
    },
    settle,
    refold: (sessionId) => foldAnew(sessionId, chainOf(sessionId).places, "saved"),
    add: (sessionId, place, row) => {
      note(sessionId, place);
      setRow(sessionId, row);
    },
    readTo: (segment) => readTo.get(segment) ?? known.get(segment)?.indexed ?? 0,
    setReadTo: (segment, offset) => readTo.set(segment, offset),
    unsaved: (segment) => {
      const places = [...recent].flatMap(([sessionId, all]) =>
        all.filter((place) => place.segment === segment).map((place) => ({ sessionId, place })),
      );
      const touched = new Set(places.map(({ sessionId }) => sessionId));
      return { places, rows: [...touched].flatMap((sessionId) => rows.get(sessionId) ?? []) };
    },
    saved: drop,
  };
}

/** Everything the logs hold, read from their first byte to their last. */
export interface Survey<R> extends Checkpoint<R> {
  readonly bytes: number;
  readonly problems: readonly string[];
  /** The sessions of which two processes wrote the same seqs. */
  readonly twice: ReadonlySet<string>;
}

interface SurveyParts<B, R> {
  readonly segments: Segments;
  readonly foldRow: FoldRow<B, R>;
}

/** Reads every record and checks it; what it finds is what an index of these logs has to say. */
export function surveyLogs<B, R extends LogRow>(
  { segments, foldRow }: SurveyParts<B, R>,
  sealed: ReadonlySet<number>,
): Survey<R> {
  const found: { sessionId: string; place: RecordPlace }[] = [];
  const states = new Map<number, SegmentState>();
  const problems: string[] = [];
  let bytes = 0;
  for (const segment of segments.list()) {
    let last = -1;
    const stored = segments.reader(segment);
    const scan = scanSegment(stored, 0, (buffer, at, place) => {
      last = place.offset;
      const { sessionId, seq } = recordHead(buffer, at);
      found.push({ sessionId, place: { seq, segment, ...place } });
    });
    problems.push(...scanFaults(segments.path(segment), scan));
    const isSealed = stored.packedAt !== undefined || (sealed.has(segment) && scan.torn === undefined);
    states.set(segment, { indexed: scan.end, last, sealed: isSealed });
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
      segments,
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
    const record = readBytes(segments.reader(place.segment), place.offset, place.bytes);
    for (const entry of readableEntries<B>(record, segments, problems))
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
  // A packed segment has no writer, which would bring its records into the index.
  const isLacking = (segment: number): boolean =>
    known.get(segment)?.sealed !== true && parts.segments.reader(segment).packedAt !== undefined;
  if (broken.length === 0 && !parts.segments.list().some(isLacking)) return [];
  const paths = broken.map(([segment]) => parts.segments.path(segment)).join(", ");
  if (broken.length > 0) warn(`${paths}: the end is damaged or missing; the index is made anew from what is there`);
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
  { segments }: Pick<SurveyParts<never, never>, "segments">,
  segment: number,
  { indexed, last }: SegmentState,
): boolean {
  if (!segments.list().includes(segment)) return false;
  const bytes = segments.reader(segment);
  if (bytes.size() < indexed) return false;
  return last < 0 || findRecord(readBytes(bytes, last, indexed - last), 0).kind === "record";
}
