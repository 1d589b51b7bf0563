import { RuntimeError } from "@rkat/core/contract/error";
import type { MemoryBatch, MemoryStore } from "@rkat/core/ports/memory";
import type { Change } from "@rkat/node/recall-index/batches";
import type { EmbeddedMemory } from "@rkat/node/recall-index/open";
import type { IndexedChunk } from "@rkat/node/recall-index/segment";
import { DamagedDb } from "@rkat/node/tables/table-file";
import { fromRow, knownVectors, type MemoryLog, numbersOf, putVectors } from "./memory-log.ts";

/** What is not about vectors. */
const NO_EMBEDDER = "";
/** Rounds of concurrent drops to follow before the search proceeds. */
const ROUNDS_MAX = 8;

/**
 * A shared memory that is searched in a copy on this machine. Every search first reads the changes since the last, so that
 * it finds what any process has added before. The copy may be deleted, and several processes may each have one.
 */
export function createLocalMemory(log: MemoryLog, copy: EmbeddedMemory): MemoryStore {
  const follow = async (embedderId: string): Promise<void> => {
    for (let round = 1; round <= ROUNDS_MAX; round += 1) {
      const here = await copy.following.position(embedderId);
      const there = await endOf(log, here.number, embedderId);
      if (here.number > 0 && there.mark !== here.mark) {
        // The copy belongs to another memory: another database, or one restored from a backup.
        await copy.following.empty();
        continue;
      }
      const isWhole = await followChanges(log, copy, { after: here.number, upTo: there.lastBatch });
      await followVectors(log, copy, { embedderId, after: here.vectors, upTo: there.lastPut });
      if (isWhole) return;
    }
  };

  let running: Promise<void> = Promise.resolve();
  const next = new Map<string, Promise<void>>();
  /** A caller during an update shares the next update: the running one may have begun before changes that the caller knows of. */
  const bringUp = (embedderId: string): Promise<void> => {
    const waiting =
      next.get(embedderId) ??
      running.then(() => {
        next.delete(embedderId);
        return follow(embedderId);
      });
    next.set(embedderId, waiting);
    running = waiting.catch(() => {});
    return waiting;
  };
  const asking = async <T>(embedderId: string, ask: () => Promise<T>): Promise<T> => {
    try {
      await bringUp(embedderId);
      return await ask();
    } catch (error) {
      if (!(error instanceof RuntimeError) || !(error.cause instanceof DamagedDb)) throw error;
      // The copy is empty now.
      await bringUp(embedderId);
      return ask();
    }
  };

  return {
    cursor: log.cursor,
    behind: log.behind,
    add: log.add,
    drop: log.drop,
    reset: log.reset,
    purge: async () => {
      await log.purge();
      await asking(NO_EMBEDDER, copy.purge);
    },
    read: (ids, scope) => asking(NO_EMBEDDER, () => copy.read(ids, scope)),
    match: (query, scope) => asking(NO_EMBEDDER, () => copy.match(query, scope)),
    nearest: (embedderId, vector, options) => asking(embedderId, () => copy.nearest(embedderId, vector, options)),
    vectors: {
      missing: (embedderId, max, wanted) => asking(embedderId, () => copy.vectors.missing(embedderId, max, wanted)),
      known: (embedderId, passages) => knownVectors(log, embedderId, passages),
      put: async (embedderId, vectors) => {
        await putVectors(log, embedderId, vectors);
        // After damage to a file of the copy, the missing vectors exist in the database and would not be read again.
        await copy.vectors.put(embedderId, vectors);
      },
    },
    status: (embedderId) => asking(embedderId, () => copy.status(embedderId)),
    close: async () => {
      await running;
      await copy.close();
    },
  };
}

interface End {
  readonly lastBatch: number;
  readonly lastPut: number;
  /** The kind of the requested change, if it exists. */
  readonly mark: string | undefined;
}

/** The ends of the shared memory, both read at one moment, since a vector follows its chunk. */
async function endOf({ connection, realm }: MemoryLog, number: number, embedderId: string): Promise<End> {
  const [row] = await connection.query<{ last_batch: number; last_put: number | null; mark: string | null }>`
    select last_batch,
      (select last_put from rkat.memory_embedders where realm = ${realm} and embedder = ${embedderId}) as last_put,
      (select mark from rkat.memory_batches where realm = ${realm} and number = ${number}) as mark
    from rkat.memory_realms where realm = ${realm}`;
  const { last_batch = 0, last_put, mark } = row ?? {};
  return { lastBatch: last_batch, lastPut: last_put ?? 0, mark: mark ?? undefined };
}

interface Stretch {
  readonly after: number;
  readonly upTo: number;
}

/** How much is read and applied at once; applying blocks the process. */
const PAGE_BATCHES_MAX = 256;
const PAGE_BYTES_MAX = 512 * 1_024;

/** Applies a change to the copy; returns whether all its chunks still exist, or a later drop has deleted some. */
async function followChanges(log: MemoryLog, copy: EmbeddedMemory, { after, upTo }: Stretch): Promise<boolean> {
  let [isWhole, isLess] = [true, false];
  for (let last = after; last < upTo; ) {
    const page = await changesAfter(log, { after: last, upTo });
    await copy.following.follow(page.changes);
    isWhole &&= page.isWhole;
    last = page.changes.at(-1)?.number ?? upTo;
    isLess ||= page.changes.some(({ happened }) => happened.kind !== "added");
  }
  // An erasure elsewhere must also erase this copy.
  if (isLess && after > 0) await copy.purge();
  return isWhole;
}

interface BatchRow {
  readonly number: number;
  readonly id: string;
  readonly happened: "added" | "begun anew" | "dropped";
  readonly mark: string;
  readonly cursor: number;
  readonly discarded: string;
  readonly first_id: number;
  readonly chunks: number;
  readonly bytes: number;
}

async function changesAfter(
  log: MemoryLog,
  { after, upTo }: Stretch,
): Promise<{ readonly changes: readonly Change[]; readonly isWhole: boolean }> {
  const { connection, realm } = log;
  const rows = await connection.query<BatchRow>`
    select number, id, happened, mark, cursor, discarded, first_id, chunks, bytes from rkat.memory_batches
    where realm = ${realm} and number > ${after} and number <= ${upTo} order by number limit ${PAGE_BATCHES_MAX}`;
  const batches = firstOf(rows);
  const first = batches[0]?.first_id ?? 1;
  const last = (batches.at(-1)?.first_id ?? 1) + (batches.at(-1)?.chunks ?? 0);
  const chunks = await chunksBetween(log, first, last);
  const changes = batches.map((batch): Change => {
    const { number, id: session_id, happened: kind, mark, cursor, first_id: firstId, chunks: length } = batch;
    if (kind === "dropped") return { number, mark, session_id, happened: { kind } };
    const own = Array.from({ length }, (_, place) => chunks.get(firstId + place) ?? gone(session_id, cursor));
    // As `add` wrote it.
    const ranges = JSON.parse(batch.discarded) as MemoryBatch["discarded"];
    return { number, mark, session_id, happened: { kind, firstId, cursor, chunks: own, discarded: ranges } };
  });
  return { changes, isWhole: chunks.size === last - first };
}

/** As many as fit into a page, at least one. */
function firstOf(batches: readonly BatchRow[]): readonly BatchRow[] {
  let bytes = 0;
  const end = batches.findIndex((batch, index) => {
    bytes += batch.bytes;
    return index > 0 && bytes > PAGE_BYTES_MAX;
  });
  return end < 0 ? batches : batches.slice(0, end);
}

async function chunksBetween(
  { connection, realm }: MemoryLog,
  first: number,
  last: number,
): Promise<ReadonlyMap<number, IndexedChunk>> {
  if (first >= last) return new Map();
  const rows = await connection.query<ChunkRow>`
    select id, session_id, seq, body, keys::text, counts::text, by_words from rkat.memory_chunks
    where realm = ${realm} and id >= ${first} and id < ${last}`;
  return new Map(
    rows.map((row) => {
      const counts = numbersIn(row.counts);
      const terms = new Map(numbersIn(row.keys).map((key, index) => [key, counts[index] ?? 0]));
      return [row.id, { ...fromRow(row), terms, byWordsAlone: row.by_words }];
    }),
  );
}

interface ChunkRow {
  readonly id: number;
  readonly session_id: string;
  readonly seq: number;
  readonly body: string;
  readonly keys: string;
  readonly counts: string;
  readonly by_words: boolean;
}

/** The numbers of an array in the notation of PostgreSQL. */
function numbersIn(array: string): readonly number[] {
  return array === "{}" ? [] : array.slice(1, -1).split(",").map(Number);
}

/** A placeholder for a chunk that was deleted since; the drop that follows deletes it, too. */
function gone(session_id: string, seq: number): IndexedChunk {
  const nothing = { turn: 0, part: 0, role: "notice", kind: "text", created_at_ms: 0, text: "" } as const;
  return { ...nothing, session_id, seq, terms: new Map() };
}

const PAGE_VECTORS_MAX = 1_000;

async function followVectors(
  { connection, realm }: MemoryLog,
  copy: EmbeddedMemory,
  { embedderId, after, upTo }: Stretch & { readonly embedderId: string },
): Promise<void> {
  let [put, id] = [after, Number.MAX_SAFE_INTEGER];
  while (put < upTo) {
    const rows = await connection.query<{ id: number; put: number; data: Buffer }>`
      select id, put, data from rkat.memory_vectors
      where realm = ${realm} and embedder = ${embedderId} and (put, id) > (${put}, ${id}) and put <= ${upTo}
      order by put, id limit ${PAGE_VECTORS_MAX}`;
    const last = rows.at(-1);
    const isLast = last === undefined || rows.length < PAGE_VECTORS_MAX;
    // The last put of a page may be incomplete: it counts only with the next page.
    const done = isLast ? upTo : last.put - 1;
    const vectors = rows.map((row) => ({ id: row.id, vector: Float32Array.from(numbersOf(row.data)) }));
    await copy.following.followVectors(embedderId, done, vectors);
    [put, id] = isLast ? [upTo, 0] : [last.put, last.id];
  }
}
