import { mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { messageOf, RuntimeError } from "../../contract/error.ts";
import type { Chunk, MemoryBatch, MemoryStore } from "../../ports/memory.ts";
import { DamagedDb } from "../embedded/table-file.ts";
import { createCatalogue, LIVE } from "./catalogue.ts";
import { createMatcher } from "./match.ts";
import { createNearest } from "./nearest.ts";
import type { Scanner } from "./scanner.ts";
import { draftSegments, mergeSegments, readColumns, type SegmentDraft, writeSegment } from "./segment.ts";
import { createShelf } from "./shelf.ts";
import {
  assignSession,
  decodeRow,
  encodeRow,
  lacking,
  type Manifest,
  openTables,
  readManifest,
  type Segment,
  type SessionState,
  type Tables,
  writeManifest,
} from "./tables.ts";

export interface EmbeddedMemoryOptions {
  readonly folder: string;
  /** Told of damage and how it was dealt with. */
  readonly warn?: (sentence: string) => void;
  /** Counts up with what chunks are made by: a session taken in under a lower one is taken in again from its log. */
  readonly version?: number;
  /** How vectors are compared; plain loops for what has no SIMD. */
  readonly scanner?: Scanner["kind"];
}

/**
 * A memory store on disk: chunks and postings in tables, vectors in files beside them. Opening reads nothing of what is in it;
 * the first search reads what every search needs. Several processes may read and write at once. One that is found
 * damaged is emptied, which whoever asked is told: it is taken in from the logs again.
 */
export function openMemoryStore(options: EmbeddedMemoryOptions): MemoryStore {
  const { folder, warn = () => {}, version = FIRST_VERSION, scanner = "simd" } = options;
  makeFolder(folder);
  const path = join(folder, "memory.db");
  const tables = openTables(path, warn);
  let view = openView(tables, { folder, warn, scanner });
  let generation = tables.root.generation();
  let isEmptied = false;
  /** Sessions whose cursor was asked for since the memory was emptied: a batch that follows an earlier one has a gap. */
  const asked = new Set<string>();
  /** What is known here is of a memory store that was emptied since, by us or by another process. */
  const follow = (): void => {
    const now = tables.root.generation();
    if (now === generation) return;
    generation = now;
    view.close();
    view = openView(tables, { folder, warn, scanner });
    isEmptied = true;
    asked.clear();
  };
  const soundly = async <T>(work: () => T): Promise<T> => {
    try {
      follow();
      return work();
    } catch (error) {
      if (!(error instanceof DamagedDb)) throw asStoreError(error);
      tables.root.renew();
      follow();
      removeVectors(folder, generation);
      warn(`${error.message}; it is made anew from the logs`);
      throw new RuntimeError("SESSION_STORE_ERROR", `${error.message}; it is made anew, ask again`, { cause: error });
    }
  };
  /** A commit is done at once: without a pause, who takes in one log after another would let nothing else happen. */
  const writing = async <T>(work: () => T): Promise<T> => {
    const result = await soundly(work);
    await setImmediate();
    return result;
  };
  const reading = <T>(work: () => T): Promise<T> => soundly(() => tables.root.snapshot(work));
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    // First what may still write to the files.
    await tables.root.close();
    view.close();
  };
  return {
    cursor: (sessionId) =>
      reading(() => {
        const session = tables.sessions.get(sessionId);
        if (isEmptied) asked.add(sessionId);
        if (session?.dropped) return Number.MAX_SAFE_INTEGER;
        return session === undefined || isOutdated(session, version) ? 0 : session.cursor;
      }),
    add: (batch) =>
      writing(() => {
        if (isEmptied && !asked.has(batch.session_id)) throw new RuntimeError("SESSION_STORE_ERROR", EMPTIED);
        // Made before the transaction: what cannot be read to its end leaves nothing, and nobody waits for it.
        const drafts = draftsOf(batch.chunks);
        tables.root.transactionSync(() => addBatch({ ...tables, version }, batch, drafts));
      }),
    read: (ids, holding) =>
      reading(() => {
        const holders = holding && view.holders(ids, holding);
        return view.read(ids.filter((id) => holders?.has(id) !== false));
      }),
    match: (query, scope) => reading(() => view.match(query, scope)),
    nearest: (embedderId, vector, { scope, max }) =>
      reading(() => view.shelfOf(embedderId).nearest(vector, scope, max)),
    vectors: {
      missing: (embedderId, max) => reading(() => view.read(view.shelfOf(embedderId).missing(max))),
      put: (embedderId, vectors) => writing(() => view.shelfOf(embedderId).put(vectors)),
    },
    drop: (sessionId) => writing(() => tables.root.transactionSync(() => dropSession(tables, sessionId))),
    status: (embedderId) =>
      reading(() => {
        const { entries } = readManifest(tables);
        const shelf = view.shelfOf(embedderId);
        const pending = entries - shelf.count();
        return { entries, pending, bytes: bytesOf(folder) + shelf.bytes(), index: "exact" };
      }),
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

const EMPTIED = "the memory was made anew meanwhile; what this adds to is to be taken in first";

/** What is known of the tables in this process. */
function openView(tables: Tables, { folder, warn, scanner }: Required<Omit<EmbeddedMemoryOptions, "version">>) {
  const catalogue = createCatalogue(tables);
  const openShelf = (embedderId: string) => {
    const shelf = createShelf({ tables, catalogue, folder, embedderId, warn });
    return { ...shelf, nearest: createNearest(shelf, catalogue, scanner) };
  };
  const shelves = new Map<string, ReturnType<typeof openShelf>>();
  const nameOf = (session: number): string => {
    const name = tables.names.get(session);
    if (name === undefined) throw lacking(`session ${session} has no name`);
    return name;
  };
  return {
    ...createMatcher(tables, catalogue),
    shelfOf: (embedderId: string): ReturnType<typeof openShelf> => {
      const shelf = shelves.get(embedderId) ?? openShelf(embedderId);
      shelves.set(embedderId, shelf);
      return shelf;
    },
    read: (ids: readonly number[]): readonly Chunk[] => {
      catalogue.refresh();
      return ids.flatMap((id) => {
        const row = tables.rows.get(id);
        if (row !== undefined) return [{ id, ...decodeRow(row, nameOf), ...catalogue.beside(id) }];
        if (((catalogue.states[id] ?? 0) & LIVE) !== 0) throw lacking(`chunk ${id} is missing`);
        return [];
      });
    },
    close: (): void => {
      for (const shelf of shelves.values()) shelf.close();
    },
  };
}

function asStoreError(error: unknown): unknown {
  if (error instanceof RuntimeError) return error;
  // A file of vectors that cannot be used; anything else is a defect, and stays one.
  const isOfFiles = error instanceof Error && "syscall" in error;
  if (!isOfFiles) return error;
  return new RuntimeError("SESSION_STORE_ERROR", `cannot use the memory: ${messageOf(error)}`, { cause: error });
}

/** What the tables take on the disk, with what is on its way into them. */
function bytesOf(folder: string): number {
  const files = readdirSync(folder).filter((name) => name.startsWith("memory.db") && !name.endsWith("-shm"));
  return files.reduce((sum, name) => sum + (statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0), 0);
}

/** Those of memory stores before this one. */
function removeVectors(folder: string, generation: number): void {
  const old = readdirSync(folder).filter(
    (name) => name.startsWith("vectors-") && !name.startsWith(`vectors-${generation}-`),
  );
  for (const name of old) rmSync(join(folder, name), { force: true });
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new RuntimeError("SESSION_STORE_ERROR", `cannot make the memory's folder ${folder}: ${why}`, { cause });
  }
}

interface Drafts {
  readonly rows: readonly Buffer[];
  readonly segments: readonly SegmentDraft[];
}

function draftsOf(chunks: MemoryBatch["chunks"]): Drafts {
  return { rows: chunks.map(encodeRow), segments: draftSegments(chunks) };
}

const FIRST_VERSION = 1;

function isOutdated(session: SessionState, version: number): boolean {
  return (session.version ?? FIRST_VERSION) < version;
}

/** Inside a transaction. */
function addBatch(tables: Tables & { readonly version: number }, batch: MemoryBatch, drafts: Drafts): void {
  const there = tables.sessions.get(batch.session_id);
  if (there?.dropped === true) return;
  const isStale = there !== undefined && isOutdated(there, tables.version);
  // Its chunks are let go of under the number they have; what is made now has another.
  if (isStale) letGo(tables, there);
  const before = readManifest(tables);
  const known = isStale ? undefined : there;
  const taken = known?.cursor ?? 0;
  if (batch.cursor <= taken) return;
  // Somebody else may have taken in the beginning since the batch was made.
  const isWhole = batch.chunks.every(({ seq }) => seq > taken);
  const { rows, segments } = isWhole ? drafts : draftsOf(batch.chunks.filter(({ seq }) => seq > taken));
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
  tables.sessions.put(batch.session_id, { ...session, cursor, discarded, mark, version: tables.version });
  const lastSession = Math.max(before.lastSession, session.number);
  writeManifest(tables, { ...mergeSegments(tables, added), lastSession, lastMark });
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
  for (const { chunks, seqs, lengths, pages, fences } of drafts) {
    lastSegment += 1;
    const columns = { sessions: new Uint32Array(chunks).fill(session), seqs, lengths };
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
function dropSession(tables: Tables, sessionId: string): void {
  const before = readManifest(tables);
  const session = tables.sessions.get(sessionId) ?? newSession(before);
  if (session.dropped) return;
  const mark = letGo(tables, session);
  tables.names.put(session.number, sessionId);
  tables.sessions.put(sessionId, { ...session, dropped: true, discarded: [], mark });
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
