import type { MemoryBatch } from "@rkat/core/ports/memory";
import { draftSegments, type IndexedChunk, readColumns, type SegmentDraft, writeSegment } from "./segment.ts";
import {
  assignSession,
  encodeRow,
  lacking,
  type Manifest,
  readManifest,
  type Segment,
  type SessionState,
  type Tables,
  writeManifest,
} from "./tables.ts";

export interface Drafts {
  readonly rows: readonly Buffer[];
  readonly segments: readonly SegmentDraft[];
}

export function draftsOf(chunks: readonly IndexedChunk[]): Drafts {
  return { rows: chunks.map(encodeRow), segments: draftSegments(chunks) };
}

export const FIRST_VERSION = 1;

export function isOutdated(session: SessionState, version: number): boolean {
  return (session.version ?? FIRST_VERSION) < version;
}

/** Inside a transaction. */
export function addBatch(tables: Tables & { readonly version: number }, batch: MemoryBatch, drafts: Drafts): void {
  const there = tables.sessions.get(batch.session_id);
  if (there?.dropped === true) return;
  const isStale = there !== undefined && isOutdated(there, tables.version);
  // Its chunks are let go of under the number they have; what is made now has another.
  if (isStale) letGo(tables, there);
  const known = isStale ? undefined : there;
  const taken = known?.cursor ?? 0;
  if (batch.cursor <= taken) return;
  // Another process may have indexed the beginning since the batch was made.
  const isWhole = batch.chunks.every(({ seq }) => seq > taken);
  const { version } = tables;
  takeIn(tables, batch, {
    known,
    version,
    ...(isWhole ? drafts : draftsOf(batch.chunks.filter(({ seq }) => seq > taken))),
  });
}

/** What happened to a memory that is kept elsewhere, in the order in which it happened there. */
export interface Change {
  /** Counts up without a gap. */
  readonly number: number;
  /** No two changes of two memories have the same. */
  readonly mark: string;
  readonly session_id: string;
  readonly happened: Dropped | Added;
}

interface Dropped {
  readonly kind: "dropped";
}

interface Added {
  readonly kind: "added" | "begun anew";
  readonly firstId: number;
  readonly cursor: number;
  readonly chunks: readonly IndexedChunk[];
  readonly discarded: MemoryBatch["discarded"];
}

/** Does what was done elsewhere, so that every id is the same here. Inside a transaction. */
export function followChange(tables: Tables, { number, session_id, happened }: Change): void {
  if (happened.kind === "dropped") {
    dropSession(tables, session_id);
    return;
  }
  const { lastId } = readManifest(tables);
  if (happened.firstId !== lastId + 1)
    throw lacking(`change ${number} begins at ${happened.firstId}, not ${lastId + 1}`);
  const there = tables.sessions.get(session_id);
  if (happened.kind === "begun anew" && there !== undefined) letGo(tables, there);
  const known = happened.kind === "begun anew" ? undefined : there;
  takeIn(tables, { ...happened, session_id }, { known, version: FIRST_VERSION, ...draftsOf(happened.chunks) });
}

/** Inside a transaction. */
function takeIn(
  tables: Tables,
  batch: Omit<MemoryBatch, "chunks">,
  { known, version, rows, segments }: Drafts & { readonly known: SessionState | undefined; readonly version: number },
): void {
  const before = readManifest(tables);
  const session = known ?? newSession(before);
  if (known === undefined) tables.names.put(session.number, batch.session_id);
  for (const [index, row] of rows.entries()) {
    assignSession(row, session.number);
    tables.rows.put(before.lastId + 1 + index, row);
  }
  const added = addSegments(tables, before, { session: session.number, drafts: segments });
  const isMarked = JSON.stringify(session.discarded) !== JSON.stringify(batch.discarded);
  const lastMark = isMarked
    ? putMark(tables, before.lastMark, { ...session, discarded: batch.discarded })
    : before.lastMark;
  const mark = isMarked ? lastMark : session.mark;
  const { cursor, discarded } = batch;
  tables.sessions.put(batch.session_id, { ...session, cursor, discarded, mark, version });
  const lastSession = Math.max(before.lastSession, session.number);
  writeManifest(tables, { ...added, lastSession, lastMark });
}

function newSession({ lastSession }: Manifest): SessionState {
  return { number: lastSession + 1, cursor: 0, discarded: [], mark: 0, dropped: false };
}

/** Inside a transaction. */
function addSegments(
  tables: Tables,
  manifest: Manifest,
  { session, drafts }: { readonly session: number; readonly drafts: readonly SegmentDraft[] },
): Manifest {
  let { lastId, lastSegment, entries, termsTotal } = manifest;
  const segments: Segment[] = [];
  for (const { chunks, seqs, lengths, byWords, pages, fences } of drafts) {
    lastSegment += 1;
    const columns = { sessions: new Uint32Array(chunks).fill(session), seqs, lengths, byWords };
    writeSegment(tables, lastSegment, { columns, pages, fences });
    segments.push({ number: lastSegment, firstId: lastId + 1, chunks, pages: pages.length });
    lastId += chunks;
    entries += chunks;
    termsTotal += lengths.reduce((sum, length) => sum + length, 0);
  }
  return { ...manifest, lastId, lastSegment, entries, termsTotal, segments: [...manifest.segments, ...segments] };
}

/** Tells readers of a change to chunks they may know already. Inside a transaction. */
function putMark(tables: Tables, lastMark: number, { number, discarded, dropped, mark }: SessionState): number {
  if (mark !== 0) tables.marks.remove(mark);
  tables.marks.put(lastMark + 1, { session: number, discarded, dropped });
  return lastMark + 1;
}

/** Takes a session's texts away for good. Inside a transaction. */
export function dropSession(tables: Tables, sessionId: string): void {
  const before = readManifest(tables);
  const session = tables.sessions.get(sessionId) ?? newSession(before);
  if (session.dropped) return;
  const mark = letGo(tables, session);
  tables.names.put(session.number, sessionId);
  tables.sessions.put(sessionId, { ...session, dropped: true, discarded: [], mark });
}

/** Takes away what was taken in of a session: what is taken in next has another number. Inside a transaction. */
export function resetSession(tables: Tables, sessionId: string): void {
  const session = tables.sessions.get(sessionId);
  if (session === undefined || session.dropped) return;
  letGo(tables, session);
  tables.sessions.remove(sessionId);
  // A process that ends before it is taken in again must not leave a mark that says it is.
  const { logMarks: _, ...rest } = readManifest(tables);
  writeManifest(tables, rest);
}

/** Takes texts away; what else speaks of them is passed over from now on. Inside a transaction. */
function letGo(tables: Tables, session: SessionState): number {
  const before = readManifest(tables);
  let { entries, termsTotal } = before;
  // Read off the tables: the catalogue may lag, and may not run ahead of a commit that fails.
  for (const segment of before.segments) {
    const { sessions, lengths } = readColumns(tables, segment);
    for (
      let place = sessions.indexOf(session.number);
      place >= 0;
      place = sessions.indexOf(session.number, place + 1)
    ) {
      tables.rows.remove(segment.firstId + place);
      entries -= 1;
      termsTotal -= lengths[place] ?? 0;
    }
  }
  const lastMark = putMark(tables, before.lastMark, { ...session, dropped: true, discarded: [] });
  const lastSession = Math.max(before.lastSession, session.number);
  writeManifest(tables, { ...before, lastMark, lastSession, entries, termsTotal });
  return lastMark;
}
