import { mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import type { Chunk, LexicalMatches, LogMark, MemoryStore, Scope, TermQuery } from "@rkat/core/ports/memory";
import type { Seal } from "@rkat/core/ports/store";
import { type Postings, rankPostings } from "@rkat/core/stores/recall-rank-postings";
import { DamagedDb } from "../tables/table-file.ts";
import {
  addBatch,
  type Change,
  draftsOf,
  dropSession,
  FIRST_VERSION,
  followChange,
  isOutdated,
  resetSession,
} from "./batches.ts";
import { type Catalogue, createCatalogue, LIVE, type Reach } from "./catalogue.ts";
import { createNearest } from "./nearest.ts";
import { COUNT_LARGE, countAt, keyOf, type PostingPage, placeOfKey } from "./posting-page.ts";
import { findTerm, mergeableRun, mergeRun, readPage, replaceRun, withoutPostings } from "./segment.ts";
import {
  aligned,
  decodeRow,
  lacking,
  openTables,
  readManifest,
  type Segment,
  type Tables,
  writeManifest,
} from "./tables.ts";
import { createVectorTable } from "./vector-table.ts";

export interface EmbeddedMemoryOptions {
  readonly folder: string;
  /** Told of damage and how it was dealt with. */
  readonly warn?: (sentence: string) => void;
  /** Counts up with what chunks are made by: a session taken in under a lower one is taken in again from its log. */
  readonly version?: number;
  /** What is kept is sealed by it; undefined: it is kept as it is. */
  readonly seal?: Seal | undefined;
}

/** How far a store has followed a memory that is kept elsewhere. */
interface Followed {
  /** 0 and no mark where nothing was followed. */
  readonly number: number;
  readonly mark: string;
  /** Of the vectors of the embedder asked for. */
  readonly vectors: number;
}

/** A memory store that can stand in, on this machine, for one that is kept elsewhere. */
export interface EmbeddedMemory extends MemoryStore {
  /** How it follows another: what it is given by these and by nothing else. */
  readonly following: {
    position(embedderId: string): Promise<Followed>;
    /** Does changes in their order, all of them or none; those that were done already, maybe by another process, are passed over. */
    follow(changes: readonly Change[]): Promise<void>;
    /** Takes in vectors, with which it has those of the other up to `position`. */
    followVectors(
      embedderId: string,
      position: number,
      vectors: Parameters<MemoryStore["vectors"]["put"]>[1],
    ): Promise<void>;
    /** Forgets everything: what it followed is not what it follows now. */
    empty(): Promise<void>;
  };
}

/**
 * A memory store on disk: chunks and postings in tables, vectors in files beside them. Opening reads nothing of what is in it;
 * the first search reads what every search needs. Several processes may read and write at once. One that is found
 * damaged is emptied, and the caller is warned: it is indexed from the logs again.
 */
export function openMemoryStore(options: EmbeddedMemoryOptions): EmbeddedMemory {
  const { folder, warn = () => {}, version = FIRST_VERSION, seal } = options;
  makeFolder(folder);
  const path = join(folder, "memory.db");
  const tables = openTables(path, warn, seal);
  let view = openView(tables, { folder, warn, seal });
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
    view = openView(tables, { folder, warn, seal });
    isEmptied = true;
    asked.clear();
  };
  const renew = (): void => {
    tables.root.renew();
    follow();
    removeVectors(folder, generation);
  };
  const soundly = async <T>(work: () => T | Promise<T>): Promise<T> => {
    try {
      follow();
      return await work();
    } catch (error) {
      if (!(error instanceof DamagedDb)) throw asStoreError(error);
      renew();
      warn(`${error.message}; it is made anew from the logs`);
      throw new RuntimeError("SESSION_STORE_ERROR", `${error.message}; it is made anew, ask again`, { cause: error });
    }
  };
  /** A commit is done at once: without a pause, who takes in one log after another would let nothing else happen. */
  const writing = async <T>(work: () => T): Promise<T> => {
    const result = await soundly(() =>
      tables.root.whenAlone(() => {
        follow();
        return work();
      }),
    );
    await setImmediate();
    return result;
  };
  const reading = <T>(work: () => T): Promise<T> => soundly(() => tables.root.snapshot(work));
  const known = <T>(work: () => T): Promise<T> => knowing(() => reading(work));
  let takingIn: Promise<void> = Promise.resolve();
  const takeIn = async (): Promise<void> => {
    while (await reading(() => view.refreshSome())) await setImmediate();
  };
  /** Works once what every search must know is in memory: it is read in pieces, and who comes meanwhile waits for the same. */
  const knowing = async <T>(work: () => Promise<T>): Promise<T> => {
    takingIn = takingIn.then(takeIn, takeIn);
    await takingIn;
    return work();
  };
  /** Reads in pieces, with other work in between and after the last; from the start if the memory was made anew meanwhile. */
  const inPieces = async <T>(piecesOf: (at: typeof view) => Iterator<unknown, T>): Promise<T> => {
    let asked = view;
    let pieces = piecesOf(asked);
    for (;;) {
      const { done, value } = await reading(() => {
        if (asked !== view) pieces = piecesOf(view);
        asked = view;
        return pieces.next();
      });
      await setImmediate();
      if (done) return value;
    }
  };
  /** Merges the newest segments while there are enough of a size. */
  const merge = async (): Promise<void> => {
    for (;;) {
      const run = mergeableRun((await reading(() => readManifest(tables))).segments);
      if (run.length === 0) return;
      const parts = await inPieces(() => mergeRun(tables, run));
      if (parts !== undefined) await writing(() => tables.root.transactionSync(() => replaceRun(tables, run, parts)));
    }
  };
  let adding: Promise<void> = Promise.resolve();
  /** Adds one batch after the other: several merges at once would each read the same segments, and one would count. */
  const addInTurn = (work: () => void): Promise<void> => {
    const added = adding.then(async () => {
      await writing(work);
      await merge();
    });
    adding = added.catch(() => {});
    return added;
  };
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    // First what may still write to the files.
    await tables.root.close();
    view.close();
  };
  const cursorOf = (sessionId: string): number => {
    const session = tables.sessions.get(sessionId);
    if (isEmptied) asked.add(sessionId);
    if (session?.dropped) return Number.MAX_SAFE_INTEGER;
    return session === undefined || isOutdated(session, version) ? 0 : session.cursor;
  };
  const marksOf = (): Readonly<Record<string, LogMark>> => {
    const { logMarks } = readManifest(tables);
    return logMarks?.version === version ? logMarks.byKind : {};
  };
  return {
    cursor: (sessionId) => reading(() => cursorOf(sessionId)),
    cursors: (sessionIds) => reading(() => sessionIds.map(cursorOf)),
    marks: {
      read: (kind) => reading(() => marksOf()[kind]),
      write: (kind, mark) =>
        writing(() =>
          tables.root.transactionSync(() => {
            const logMarks = { version, byKind: { ...marksOf(), [kind]: mark } };
            writeManifest(tables, { ...readManifest(tables), logMarks });
          }),
        ),
    },
    add: (batch) =>
      addInTurn(() => {
        if (isEmptied && !asked.has(batch.session_id)) throw new RuntimeError("SESSION_STORE_ERROR", EMPTIED);
        // Made before the transaction: what cannot be read to its end leaves nothing, and no other writer waits for it.
        const drafts = draftsOf(batch.chunks);
        tables.root.transactionSync(() => addBatch({ ...tables, version }, batch, drafts));
      }),
    read: (ids, scope) => known(() => view.read(scope === undefined ? ids : view.within(ids, scope))),
    match: (query, scope) => knowing(() => inPieces((at) => at.match(query, scope))),
    nearest: (embedderId, vector, { scope, max }) =>
      knowing(() => inPieces((at) => at.vectorsOf(embedderId).nearest(vector, scope, max))),
    vectors: {
      missing: (embedderId, max, wanted) => known(() => view.read(view.vectorsOf(embedderId).missing(max, wanted))),
      known: (embedderId, passages) => known(() => view.vectorsOf(embedderId).known(passages)),
      put: (embedderId, vectors) => writing(() => view.vectorsOf(embedderId).put(vectors)),
    },
    following: {
      position: (embedderId) =>
        reading(() => ({
          ...(readManifest(tables).followed ?? { number: 0, mark: "" }),
          vectors: tables.embedders.get(embedderId)?.followed ?? 0,
        })),
      follow: (changes) =>
        addInTurn(() =>
          tables.root.transactionSync(() => {
            for (const change of changes) {
              const done = readManifest(tables).followed?.number ?? 0;
              if (change.number <= done) continue;
              if (change.number !== done + 1) throw lacking(`change ${done + 1} is missing`);
              followChange(tables, change);
              const { number, mark } = change;
              writeManifest(tables, { ...readManifest(tables), followed: { number, mark } });
            }
          }),
        ),
      followVectors: (embedderId, position, vectors) =>
        writing(() => view.vectorsOf(embedderId).put(vectors, position)),
      empty: () => writing(renew),
    },
    drop: (sessionId) => writing(() => tables.root.transactionSync(() => dropSession(tables, sessionId))),
    reset: (sessionId) => writing(() => tables.root.transactionSync(() => resetSession(tables, sessionId))),
    purge: async () => {
      const { segments } = await reading(() => readManifest(tables));
      for (const { firstId } of segments) await writing(() => cleanSegment(tables, firstId));
      for (const { key } of await reading(() => tables.embedders.getRange()))
        await writing(() => view.vectorsOf(key).purge());
      await soundly(tables.root.compactInPieces);
    },
    status: (embedderId) =>
      known(() => {
        const { entries } = readManifest(tables);
        const found = view.vectorsOf(embedderId);
        return { entries, ...found.count(), bytes: bytesOf(folder) + found.bytes(), index: "exact" };
      }),
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

const EMPTIED = "the memory was made anew meanwhile; what this adds to is to be taken in first";

/** Takes out of a segment, by its first id, what speaks of chunks that are gone. */
function cleanSegment(tables: Tables, firstId: number): void {
  tables.root.transactionSync(() => {
    const manifest = readManifest(tables);
    // It may have been merged with others since, which are looked at as one.
    const at = manifest.segments.findLastIndex((segment) => segment.firstId <= firstId);
    const segment = manifest.segments[at];
    if (segment === undefined) return;
    const gone = new Set<number>();
    for (let place = 0; place < segment.chunks; place += 1)
      if (!tables.rows.doesExist(segment.firstId + place)) gone.add(place);
    if (gone.size === 0) return;
    const lastSegment = manifest.lastSegment + 1;
    const cleaned = withoutPostings(tables, segment, { number: lastSegment, isGone: (place) => gone.has(place) });
    writeManifest(tables, { ...manifest, lastSegment, segments: manifest.segments.with(at, cleaned) });
  });
}

/** What is known of the tables in this process. */
function openView(tables: Tables, { folder, warn, seal }: Required<Omit<EmbeddedMemoryOptions, "version">>) {
  const catalogue = createCatalogue(tables);
  const openVectorTable = (embedderId: string) => {
    const found = createVectorTable({ tables, catalogue, folder, embedderId, warn, seal });
    return { ...found, nearest: createNearest(found, catalogue) };
  };
  const opened = new Map<string, ReturnType<typeof openVectorTable>>();
  const nameOf = (session: number): string => {
    const name = tables.names.get(session);
    if (name === undefined) throw lacking(`session ${session} has no name`);
    return name;
  };
  return {
    refreshSome: catalogue.refreshSome,
    ...createMatcher(tables, catalogue),
    vectorsOf: (embedderId: string): ReturnType<typeof openVectorTable> => {
      const found = opened.get(embedderId) ?? openVectorTable(embedderId);
      opened.set(embedderId, found);
      return found;
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
      for (const found of opened.values()) found.close();
    },
  };
}

function asStoreError(error: unknown): unknown {
  // A file of vectors that cannot be used; anything else is a defect, and stays one.
  if (error instanceof RuntimeError || !(error instanceof Error && "syscall" in error)) return error;
  return new RuntimeError("SESSION_STORE_ERROR", `cannot use the memory: ${messageOf(error)}`, { cause: error });
}

/** What the tables take on the disk, with what is on its way into them. */
function bytesOf(folder: string): number {
  const files = readdirSync(folder).filter((name) => name.startsWith("memory.db") && !name.endsWith("-shm"));
  return files.reduce((sum, name) => sum + (statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0), 0);
}

/** Those of memory stores before this one. */
function removeVectors(folder: string, generation: number): void {
  for (const name of readdirSync(folder))
    if (/^vectors-/.test(name) && !name.startsWith(`vectors-${generation}-`))
      rmSync(join(folder, name), { force: true });
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (cause) {
    const message = `cannot make the memory's folder ${folder}: ${messageOf(cause)}`;
    throw new RuntimeError("SESSION_STORE_ERROR", message, { cause });
  }
}

const TERMS_AT_ONCE = 4;
const PAGES_KNOWN_BYTES_MAX = 8 * 1_024 * 1_024;

/** Finds the chunks of a scope that hold terms. */
function createMatcher(tables: Tables, catalogue: Catalogue) {
  // Segments never change, so what was read of one holds as long as it is there.
  const fencesBySegment = new Map<number, Float64Array>();
  const pagesKnown = new Map<string, PostingPage>();
  let bytesKnown = 0;

  /** Common words stand on the same pages in every search. */
  const pageOf = (segment: number, page: number): PostingPage => {
    const place = `${segment} ${page}`;
    const known = pagesKnown.get(place);
    if (known !== undefined) return known;
    const read = readPage(tables, segment, page);
    bytesKnown += read.keys.buffer.byteLength;
    for (const [eldest, { keys }] of pagesKnown) {
      if (bytesKnown <= PAGES_KNOWN_BYTES_MAX) break;
      pagesKnown.delete(eldest);
      bytesKnown -= keys.buffer.byteLength;
    }
    pagesKnown.set(place, read);
    return read;
  };
  const fencesOf = (number: number): Float64Array => {
    const known = fencesBySegment.get(number);
    if (known !== undefined) return known;
    const value = tables.fences.get(number);
    if (value === undefined) throw lacking(`segment ${number} has no fences`);
    const fences = new Float64Array(aligned(value));
    fencesBySegment.set(number, fences);
    return fences;
  };
  const forgetMerged = (segments: readonly Segment[]): void => {
    const there = new Set(segments.map(({ number }) => number));
    for (const number of fencesBySegment.keys()) if (!there.has(number)) fencesBySegment.delete(number);
    // They are of chunks that may be gone.
    pagesKnown.clear();
    bytesKnown = 0;
  };

  const postingsOf = (term: string, segments: readonly Segment[], reach: Reach): Postings => {
    const key = placeOfKey(keyOf(term));
    const end = reach.ranges.at(-1)?.last ?? 0;
    const found = segments.flatMap(({ number, firstId }): readonly Found[] => {
      const { page, term } = findTerm((at) => pageOf(number, at), fencesOf(number), key) ?? {};
      if (page === undefined || term === undefined) return [];
      const from = page.starts[term] ?? 0;
      // Without those added since the search began.
      const to = firstFrom(page.places, { from, to: page.starts[term + 1] ?? 0 }, end - firstId);
      return [{ page, firstId, from, to }];
    });
    const most = found.reduce((sum, { from, to }) => sum + to - from, 0);
    const room = reach.sessions === undefined ? most : Math.min(most, reach.chunks);
    const into: Gathered = { ids: new Uint32Array(room), counts: new Uint32Array(room), size: 0 };
    const gatherFrom = reach.sessions === undefined ? gather : gatherOfSessions;
    for (const one of found) gatherFrom(one, { reach, states: catalogue.states }, into);
    return { term, ids: into.ids.subarray(0, into.size), counts: into.counts.subarray(0, into.size) };
  };

  /** Yields between terms, whatever is written meanwhile: ids stay as they are when segments are merged. */
  function* match(query: TermQuery, scope: Scope): Generator<undefined, LexicalMatches> {
    const reach = catalogue.reach(scope);
    const postings: Postings[] = [];
    for (const term of query.weights.keys()) {
      if (postings.length % TERMS_AT_ONCE === TERMS_AT_ONCE - 1) yield;
      const { segments } = catalogue.refresh();
      if (fencesBySegment.size > segments.length) forgetMerged(segments);
      const reached = segments.filter(({ firstId, chunks }) => overlaps(reach, firstId, firstId + chunks));
      postings.push(postingsOf(term, reached, reach));
    }
    const { chunks, termsTotal } = reach;
    return rankPostings({ postings, chunks, termsTotal, lengths: catalogue.lengths }, query);
  }

  return {
    match,
    /** Of these ids, those in the scope. */
    within: (ids: readonly number[], scope: Scope): readonly number[] => {
      const { bits, ranges } = catalogue.reach(scope);
      const { states } = catalogue;
      const isReached = (id: number): boolean => ranges.some(({ first, last }) => first <= id && id < last);
      return ids.filter((id) => ((states[id] ?? 0) & bits) === bits && isReached(id));
    },
  };
}

interface Found {
  readonly page: PostingPage;
  readonly firstId: number;
  /** Where the postings of the term lie in the page. */
  readonly from: number;
  readonly to: number;
}

interface Filter {
  readonly reach: Reach;
  readonly states: Uint8Array;
}

interface Gathered {
  readonly ids: Uint32Array;
  readonly counts: Uint32Array;
  size: number;
}

/** Written with plain variables: a common word has a posting for every other chunk, and all of them pass here. */
function gather({ page, firstId, from, to }: Found, { reach: { bits }, states }: Filter, into: Gathered): void {
  const { places, counts } = page;
  const { ids, counts: often } = into;
  let size = into.size;
  for (let at = from; at < to; at += 1) {
    const id = firstId + (places[at] ?? 0);
    if (((states[id] ?? 0) & bits) !== bits) continue;
    const count = counts[at] ?? 0;
    ids[size] = id;
    often[size] = count < COUNT_LARGE ? count : countAt(page, at);
    size += 1;
  }
  into.size = size;
}

/** The ids of some sessions are few and close together: their postings are looked up run by run. */
function gatherOfSessions({ page, firstId, from, to }: Found, { reach, states }: Filter, into: Gathered): void {
  let at = from;
  for (const { first, last } of reach.ranges) {
    at = firstFrom(page.places, { from: at, to }, first - firstId);
    for (; at < to && firstId + (page.places[at] ?? 0) < last; at += 1) {
      const id = firstId + (page.places[at] ?? 0);
      if (((states[id] ?? 0) & reach.bits) !== reach.bits) continue;
      into.ids[into.size] = id;
      into.counts[into.size] = countAt(page, at);
      into.size += 1;
    }
  }
}

/** Index of the first place at or after `place`. */
function firstFrom(places: Uint16Array, { from, to }: { from: number; to: number }, place: number): number {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((places[middle] ?? 0) < place) low = middle + 1;
    else high = middle;
  }
  return low;
}

function overlaps({ sessions, ranges }: Reach, first: number, last: number): boolean {
  if (sessions === undefined) return true;
  return ranges.some((range) => range.first < last && first < range.last);
}
