import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { RuntimeError } from "../../../contract/error.ts";
import type { Chunk, MemoryBatch, MemoryStore } from "../../../ports/memory.ts";
import { createCatalogue } from "./catalogue.ts";
import { assignSession, decodeRow, encodeRow } from "./chunk-row.ts";
import { createMatcher } from "./match.ts";
import { mergeSegments } from "./merge.ts";
import { draftSegments, readColumns, type SegmentDraft, writeSegment } from "./segment.ts";
import {
  type Manifest,
  openTables,
  readManifest,
  type Segment,
  type SessionState,
  type Tables,
  writeManifest,
} from "./tables.ts";
import { createNearest } from "./vectors/nearest.ts";
import type { Scanner } from "./vectors/scan/scanner.ts";
import { createShelf } from "./vectors/shelf.ts";

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
 * A memory on disk: chunks and postings in LMDB, vectors in files beside it. Opening reads nothing of what is in it; the
 * first search reads what every search needs. Several processes may read and write at once.
 */
export function openMemoryStore(options: EmbeddedMemoryOptions): MemoryStore {
  const { folder, warn = () => {}, version = FIRST_VERSION, scanner = "simd" } = options;
  makeFolder(folder);
  const path = join(folder, "memory.mdb");
  const tables = openTables(path, warn);
  const catalogue = createCatalogue(tables);
  const match = createMatcher(tables, catalogue);
  const shelves = new Map<string, ReturnType<typeof openShelf>>();
  const openShelf = (embedderId: string) => {
    const shelf = createShelf({ tables, catalogue, folder, embedderId, warn });
    return { ...shelf, nearest: createNearest(shelf, catalogue, scanner) };
  };
  const shelfOf = (embedderId: string): ReturnType<typeof openShelf> => {
    const shelf = shelves.get(embedderId) ?? openShelf(embedderId);
    shelves.set(embedderId, shelf);
    return shelf;
  };
  const read = (ids: readonly number[]): readonly Chunk[] => {
    const nameOf = (session: number): string => tables.names.get(session) ?? "";
    catalogue.refresh();
    return ids.flatMap((id) => {
      const row = tables.rows.get(id);
      return row === undefined ? [] : [{ id, ...decodeRow(row, nameOf), ...catalogue.beside(id) }];
    });
  };
  /** What other processes have written by now is seen by what follows in the same tick. */
  const renew = (): void => tables.root.resetReadTxn();
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    // First what may still write to the files.
    await tables.root.close();
    for (const shelf of shelves.values()) shelf.close();
  };
  return {
    cursor: async (sessionId) => {
      renew();
      const session = tables.sessions.get(sessionId);
      if (session?.dropped) return Number.MAX_SAFE_INTEGER;
      return session === undefined || isOutdated(session, version) ? 0 : session.cursor;
    },
    add: async (batch) => {
      // Made before the transaction: what cannot be read to its end leaves nothing, and nobody waits for it.
      const drafts = draftsOf(batch.chunks);
      await tables.root.transaction(() => addBatch({ ...tables, version }, batch, drafts));
    },
    read: async (ids) => {
      renew();
      return read(ids);
    },
    match: async (terms, scope) => {
      renew();
      return match(terms, scope);
    },
    nearest: async (embedderId, vector, { scope, max }) => {
      renew();
      return shelfOf(embedderId).nearest(vector, scope, max);
    },
    vectors: {
      missing: async (embedderId, max) => {
        renew();
        return read(shelfOf(embedderId).missing(max));
      },
      put: (embedderId, vectors) => shelfOf(embedderId).put(vectors),
    },
    drop: async (sessionId) => {
      await tables.root.transaction(() => dropSession(tables, sessionId));
    },
    status: async (embedderId) => {
      renew();
      const { entries } = readManifest(tables);
      const shelf = shelfOf(embedderId);
      const pending = entries - shelf.count();
      return { entries, pending, bytes: statSync(path).size + shelf.bytes(), index: "exact" };
    },
    close: () => {
      closing ??= close();
      return closing;
    },
  };
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
  if (known === undefined) void tables.names.put(session.number, batch.session_id);
  for (const [index, row] of rows.entries()) {
    assignSession(row, session.number);
    void tables.rows.put(before.lastId + 1 + index, row);
  }
  const added = addSegments(tables, before, { session: session.number, drafts: segments });
  const isMarked = JSON.stringify(session.discarded) !== JSON.stringify(batch.discarded);
  const lastMark = isMarked
    ? putMark(tables, before.lastMark, { ...session, discarded: batch.discarded })
    : before.lastMark;
  const mark = isMarked ? lastMark : session.mark;
  const { cursor, discarded } = batch;
  void tables.sessions.put(batch.session_id, { ...session, cursor, discarded, mark, version: tables.version });
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
  if (mark !== 0) void tables.marks.remove(mark);
  void tables.marks.put(lastMark + 1, { session: number, discarded, dropped });
  return lastMark + 1;
}

/** Takes a session's texts away for good. Inside a transaction. */
function dropSession(tables: Tables, sessionId: string): void {
  const before = readManifest(tables);
  const session = tables.sessions.get(sessionId) ?? newSession(before);
  if (session.dropped) return;
  const mark = letGo(tables, session);
  void tables.names.put(session.number, sessionId);
  void tables.sessions.put(sessionId, { ...session, dropped: true, discarded: [], mark });
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
      void tables.rows.remove(segment.firstId + place);
      entries -= 1;
      termsTotal -= lengths[place] ?? 0;
    }
  }
  const lastMark = putMark(tables, before.lastMark, { ...session, dropped: true, discarded: [] });
  const lastSession = Math.max(before.lastSession, session.number);
  writeManifest(tables, { ...before, lastMark, lastSession, entries, termsTotal });
  return lastMark;
}
