import { randomUUID } from "node:crypto";
import { RuntimeError } from "@rkat/core/contract/error";
import type { Chunk, MemoryBatch, NewChunk, NewVector } from "@rkat/core/ports/memory";
import { keyOf } from "@rkat/node/recall-index/posting-page";
import { quantise, sumOfPassage } from "@rkat/node/recall-index/vector-files";
import type { Connection } from "./connection.ts";
import { sql } from "./sql.ts";
import { type Query, vacuum, type Work } from "./transaction.ts";

/** The memory of a realm as rows; the callers decide where it is searched. */
export interface MemoryLog {
  readonly connection: Connection;
  readonly realm: string;
  cursor(sessionId: string): Promise<number>;
  behind(): Promise<readonly string[]>;
  add(batch: MemoryBatch): Promise<void>;
  drop(sessionId: string): Promise<void>;
  reset(sessionId: string): Promise<void>;
  purge(): Promise<void>;
}

export interface MemoryLogOptions {
  readonly connection: Connection;
  readonly realm: string;
  /** The version of the chunking: a session that was added under a lower version is added again from its log. */
  readonly version: number;
}

export function createMemoryLog({ connection, realm, version }: MemoryLogOptions): MemoryLog {
  let isRenewed = false;
  let writing: Promise<void> = Promise.resolve();
  /** Batches run in the order of the calls; in the database, two waiting batches of a session have no fixed order. */
  const write = (work: Work<void>): Promise<void> => {
    const written = writing.then(() => connection.transaction(work));
    writing = written.catch(() => {});
    return written;
  };
  return {
    connection,
    realm,
    cursor: async (sessionId) => {
      const known = await sessionOf(connection.query, realm, sessionId);
      if (known?.is_dropped === true) return Number.MAX_SAFE_INTEGER;
      return known === undefined || known.version < version ? 0 : known.cursor;
    },
    behind: async () => {
      if (!isRenewed) await connection.transaction((query) => renewOutdated(query, realm, version));
      isRenewed = true;
      const rows = await connection.query<{ id: string }>`
        select id from rkat.sessions where realm = ${realm} and last_seq > memory_seq`;
      return rows.map(({ id }) => id);
    },
    add: async (batch) => {
      // Built before the transaction: an unreadable log changes nothing, and no lock is held while reading.
      const rows = batch.chunks.map(toRow);
      await write((query) => addBatch(query, { realm, version }, { ...batch, rows }));
    },
    drop: (sessionId) => write((query) => dropSession(query, realm, sessionId)),
    reset: (sessionId) => write((query) => resetSession(query, realm, sessionId)),
    purge: () => vacuum(connection.run),
  };
}

/** A chunk as it is stored, without its id. */
interface Row {
  readonly seq: number;
  readonly length: number;
  /** Keys of its terms and their counts, as arrays of PostgreSQL. */
  readonly keys: string;
  readonly counts: string;
  readonly body: string;
  readonly byWords: boolean;
}

function toRow({ seq, turn, part, role, kind, created_at_ms, text, terms, byWordsAlone = false }: NewChunk): Row {
  const counts = new Map<number, number>();
  let length = 0;
  for (const [term, count] of terms) {
    const key = keyOf(term);
    length += count;
    // Two terms of one key count as one.
    if (!counts.has(key)) counts.set(key, count);
  }
  const body = JSON.stringify([turn, part, role, kind, created_at_ms, text]);
  const [keys, often] = [`{${[...counts.keys()]}}`, `{${[...counts.values()]}}`];
  return { seq, length, keys, counts: often, body, byWords: byWordsAlone };
}

type Body = readonly [turn: number, part: number, role: NewChunk["role"], kind: string, atMs: number, text: string];

export function fromRow({ session_id, seq, body }: Pick<Chunk, "session_id" | "seq"> & { readonly body: string }) {
  // As `toRow` wrote it.
  const [turn, part, role, kind, created_at_ms, text] = JSON.parse(body) as Body;
  return { session_id, turn, seq, part, role, kind, created_at_ms, text } satisfies Partial<Chunk>;
}

interface SessionRow {
  readonly cursor: number;
  readonly version: number;
  readonly discarded: string;
  readonly is_dropped: boolean;
}

async function sessionOf(query: Query, realm: string, id: string): Promise<SessionRow | undefined> {
  const [row] = await query<SessionRow>`
    select cursor, version, discarded, is_dropped from rkat.memory_sessions where realm = ${realm} and id = ${id}`;
  return row;
}

/** The counters of a realm, locked until the end of the transaction, which serialises adding and dropping. */
async function hold(query: Query, realm: string) {
  for (;;) {
    const [row] = await query<{ lastBatch: number; lastId: number }>`
      select last_batch as "lastBatch", last_id as "lastId" from rkat.memory_realms
      where realm = ${realm} for no key update`;
    if (row !== undefined) return row;
    await query`insert into rkat.memory_realms (realm) values (${realm}) on conflict do nothing`;
  }
}

async function addBatch(
  query: Query,
  { realm, version }: { readonly realm: string; readonly version: number },
  { session_id, cursor, discarded, rows }: MemoryBatch & { readonly rows: readonly Row[] },
): Promise<void> {
  const { lastBatch, lastId } = await hold(query, realm);
  const there = await sessionOf(query, realm, session_id);
  if (there?.is_dropped === true) return;
  const isStale = there !== undefined && there.version < version;
  const taken = isStale ? 0 : (there?.cursor ?? 0);
  if (cursor <= taken) return;
  if (isStale) await letGo(query, realm, session_id);
  // Another process may have added the beginning since the batch was built.
  const added = rows.filter(({ seq }) => seq > taken);
  if (lastId + added.length > IDS_MAX) throw new RuntimeError("SESSION_STORE_ERROR", FULL);
  const ranges = JSON.stringify(discarded);
  let at = lastId;
  for (const slice of slicesOf(added)) {
    await insertChunks(query, { realm, session_id, firstId: at + 1 }, slice);
    at += slice.length;
  }
  const wasDiscarded = isStale ? undefined : there?.discarded;
  if (discarded.length > 0 || (wasDiscarded ?? "[]") !== ranges) {
    const from = wasDiscarded === ranges ? lastId + 1 : 0;
    await markDiscarded(query, { realm, session_id, from }, discarded);
  }
  const bytes = added.reduce((sum, row) => sum + bytesOf(row), 0);
  const happened = isStale ? "begun anew" : "added";
  await Promise.all([
    query`
      insert into rkat.memory_batches
        (realm, number, id, happened, mark, cursor, discarded, first_id, chunks, bytes)
      values (${realm}, ${lastBatch + 1}, ${session_id}, ${happened}, ${randomUUID()}, ${cursor}, ${ranges},
        ${lastId + 1}, ${added.length}, ${bytes})`,
    query`
      insert into rkat.memory_sessions (realm, id, cursor, version, discarded, is_dropped)
      values (${realm}, ${session_id}, ${cursor}, ${version}, ${ranges}, false)
      on conflict (realm, id) do update set cursor = excluded.cursor, version = excluded.version,
        discarded = excluded.discarded`,
    query`
      update rkat.memory_realms set last_batch = ${lastBatch + 1}, last_id = ${lastId + added.length},
        chunks = chunks + ${added.length}, bytes = bytes + ${bytes} where realm = ${realm}`,
    // Last, since appends to the session wait for this row. Chunks that an older version adds after a newer one has
    // begun stay outdated.
    query`
      update rkat.sessions set memory_seq = case
        when (select version from rkat.memory_realms where realm = ${realm}) > ${version} then 0 else ${cursor}::bigint end
      where realm = ${realm} and id = ${session_id}`,
  ]);
}

const IDS_MAX = 2 ** 32 - 1;
const FULL = "the memory of this realm has used up its 4,294,967,295 ids";

const SLICE_ROWS_MAX = 2_000;
const SLICE_BYTES_MAX = 8 * 1_024 * 1_024;

function* slicesOf(rows: readonly Row[]): Generator<readonly Row[]> {
  let slice: Row[] = [];
  let bytes = 0;
  for (const row of rows) {
    slice.push(row);
    bytes += bytesOf(row);
    if (slice.length < SLICE_ROWS_MAX && bytes < SLICE_BYTES_MAX) continue;
    yield slice;
    [slice, bytes] = [[], 0];
  }
  if (slice.length > 0) yield slice;
}

function bytesOf({ body, keys, counts }: Row): number {
  return body.length + keys.length + counts.length;
}

async function insertChunks(
  query: Query,
  { realm, session_id, firstId }: { readonly realm: string; readonly session_id: string; readonly firstId: number },
  rows: readonly Row[],
): Promise<void> {
  const column = (of: (row: Row) => string | number | boolean) => rows.map(of);
  await query`
    insert into rkat.memory_chunks (realm, session_id, is_discarded, id, seq, length, keys, counts, body, by_words)
    select ${realm}, ${session_id}, false, ${firstId}::bigint + place - 1, seq, length, keys::bigint[],
      counts::integer[], body, by_words
    from unnest(${column(({ seq }) => seq)}::bigint[], ${column(({ length }) => length)}::integer[],
      ${column(({ keys }) => keys)}::text[], ${column(({ counts }) => counts)}::text[],
      ${column(({ body }) => body)}::text[], ${column(({ byWords }) => byWords)}::boolean[])
      with ordinality as added (seq, length, keys, counts, body, by_words, place)`;
}

async function markDiscarded(
  query: Query,
  { realm, session_id, from }: { readonly realm: string; readonly session_id: string; readonly from: number },
  ranges: MemoryBatch["discarded"],
): Promise<void> {
  const firsts = ranges.map(({ from_seq }) => from_seq);
  const lasts = ranges.map(({ to_seq }) => to_seq);
  await query`
    update rkat.memory_chunks as chunk set is_discarded = not is_discarded
    where realm = ${realm} and session_id = ${session_id} and id >= ${from} and is_discarded <> exists (
      select 1 from unnest(${firsts}::bigint[], ${lasts}::bigint[]) as ranges (first, last)
      where chunk.seq between first and last)`;
}

async function dropSession(query: Query, realm: string, sessionId: string): Promise<void> {
  const { lastBatch, lastId } = await hold(query, realm);
  const there = await sessionOf(query, realm, sessionId);
  if (there?.is_dropped === true) return;
  if (there !== undefined) await letGo(query, realm, sessionId);
  await Promise.all([
    query`
      insert into rkat.memory_batches
        (realm, number, id, happened, mark, cursor, discarded, first_id, chunks, bytes)
      values (${realm}, ${lastBatch + 1}, ${sessionId}, 'dropped', ${randomUUID()}, 0, '[]', ${lastId + 1}, 0, 0)`,
    query`
      insert into rkat.memory_sessions (realm, id, cursor, version, discarded, is_dropped)
      values (${realm}, ${sessionId}, 0, 0, '[]', true)
      on conflict (realm, id) do update set is_dropped = true, discarded = '[]'`,
    query`update rkat.memory_realms set last_batch = ${lastBatch + 1} where realm = ${realm}`,
    query`
      update rkat.sessions set memory_seq = ${Number.MAX_SAFE_INTEGER}
      where realm = ${realm} and id = ${sessionId}`,
  ]);
}

/** Deletes the chunks of a session, which counts as not indexed from now on. */
async function resetSession(query: Query, realm: string, sessionId: string): Promise<void> {
  const { lastBatch, lastId } = await hold(query, realm);
  const there = await sessionOf(query, realm, sessionId);
  if (there === undefined || there.is_dropped) return;
  await letGo(query, realm, sessionId);
  await query`
    insert into rkat.memory_batches
      (realm, number, id, happened, mark, cursor, discarded, first_id, chunks, bytes)
    values (${realm}, ${lastBatch + 1}, ${sessionId}, 'begun anew', ${randomUUID()}, 0, '[]', ${lastId + 1}, 0, 0)`;
  await query`delete from rkat.memory_sessions where realm = ${realm} and id = ${sessionId}`;
  await query`update rkat.memory_realms set last_batch = ${lastBatch + 1} where realm = ${realm}`;
  await query`update rkat.sessions set memory_seq = 0 where realm = ${realm} and id = ${sessionId}`;
}

/**
 * Deletes the chunks of a session with their terms and vectors. Writers of terms and vectors lock the same rows, so that
 * none of them leaves something of a deleted chunk.
 */
async function letGo(query: Query, realm: string, sessionId: string): Promise<void> {
  const own = sql`realm = ${realm} and session_id = ${sessionId}`;
  await query`select 1 from rkat.memory_index where realm = ${realm} for no key update`;
  await query`select 1 from rkat.memory_embedders where realm = ${realm} order by embedder for no key update`;
  await query`
    update rkat.memory_index as index set chunks = index.chunks - gone.chunks, terms = index.terms - gone.terms
    from (select count(*) as chunks, coalesce(sum(length), 0) as terms from rkat.memory_chunks
      where ${own} and id <= (select indexed_id from rkat.memory_index where realm = ${realm})) as gone
    where index.realm = ${realm}`;
  await query`
    delete from rkat.memory_terms as term using rkat.memory_chunks as chunk, unnest(chunk.keys) as held (key)
    where chunk.realm = ${realm} and chunk.session_id = ${sessionId}
      and term.realm = ${realm} and term.key = held.key and term.id = chunk.id`;
  await query`
    with gone as (
      delete from rkat.memory_vectors where realm = ${realm}
        and id in (select id from rkat.memory_chunks where ${own})
      returning embedder
    )
    update rkat.memory_embedders as known set vectors = known.vectors - less.vectors
    from (select embedder, count(*) as vectors from gone group by embedder) as less
    where known.realm = ${realm} and known.embedder = less.embedder`;
  await query`
    with gone as (delete from rkat.memory_chunks where ${own}
      returning length(body) + length(keys::text) + length(counts::text) as bytes)
    update rkat.memory_realms set chunks = chunks - (select count(*) from gone),
      bytes = bytes - (select coalesce(sum(gone.bytes), 0) from gone) where realm = ${realm}`;
}

/** Sessions that were added under a lower version count as not indexed. */
async function renewOutdated(query: Query, realm: string, version: number): Promise<void> {
  await hold(query, realm);
  const [row] = await query`select version from rkat.memory_realms where realm = ${realm} and version < ${version}`;
  if (row === undefined) return;
  await query`
    update rkat.sessions as session set memory_seq = 0 from rkat.memory_sessions as known
    where session.realm = ${realm} and known.realm = ${realm} and known.id = session.id
      and known.version < ${version} and not known.is_dropped`;
  await query`update rkat.memory_realms set version = ${version} where realm = ${realm}`;
}

const SLICE_VECTORS_MAX = 2_000;

/** Stores vectors as 8-bit numbers, which is the precision of comparisons; an existing vector of a chunk stays. */
export async function putVectors(log: MemoryLog, embedderId: string, vectors: readonly NewVector[]): Promise<void> {
  const dimensions = vectors[0]?.vector.length;
  if (dimensions === undefined) return;
  const other = vectors.find(({ vector }) => vector.length !== dimensions);
  if (other !== undefined) throw refusal(embedderId, dimensions, other.vector.length);
  for (let from = 0; from < vectors.length; from += SLICE_VECTORS_MAX) {
    const slice = vectors.slice(from, from + SLICE_VECTORS_MAX);
    const rows = {
      ids: slice.map(({ id }) => id),
      data: slice.map(({ vector }) => toBytes(vector).toString("hex")),
      sums: slice.map(({ passage }) => (passage === undefined ? 0 : sumOfPassage(passage))),
    };
    await log.connection.transaction((query) => putSlice(query, { realm: log.realm, embedderId, dimensions }, rows));
  }
}

/** Vectors of texts that any process has stored before. */
export async function knownVectors(
  { connection, realm }: MemoryLog,
  embedderId: string,
  passages: readonly string[],
): Promise<ReadonlyMap<string, Float32Array>> {
  const bySum = new Map(passages.map((passage) => [sumOfPassage(passage), passage]));
  const rows = await connection.query<{ sum: number; data: Buffer }>`
    select distinct on (sum) sum, data from rkat.memory_vectors
    where realm = ${realm} and embedder = ${embedderId} and sum = any(${[...bySum.keys()]}::bigint[])
    order by sum, id`;
  return new Map(rows.map(({ sum, data }) => [bySum.get(sum) ?? "", Float32Array.from(numbersOf(data))]));
}

function refusal(embedderId: string, expected: number, found: number): RuntimeError {
  const message = `embedder ${embedderId} has vectors of ${expected} dimensions, and was given one of ${found}`;
  return new RuntimeError("SESSION_STORE_ERROR", message);
}

function toBytes(vector: Float32Array): Buffer {
  const numbers = new Int8Array(vector.length);
  quantise(vector, numbers);
  return Buffer.from(numbers.buffer);
}

/** A vector as it is stored: 8-bit numbers. */
export function numbersOf(data: Buffer): Int8Array {
  return new Int8Array(data.buffer, data.byteOffset, data.length);
}

async function putSlice(
  query: Query,
  {
    realm,
    embedderId,
    dimensions,
  }: { readonly realm: string; readonly embedderId: string; readonly dimensions: number },
  {
    ids,
    data,
    sums,
  }: { readonly ids: readonly number[]; readonly data: readonly string[]; readonly sums: readonly number[] },
): Promise<void> {
  // This row lock serialises storing vectors and deleting chunks.
  await query`
    insert into rkat.memory_embedders (realm, embedder, dimensions) values (${realm}, ${embedderId}, ${dimensions})
    on conflict do nothing`;
  const [known] = await query`
    select dimensions, last_put from rkat.memory_embedders
    where realm = ${realm} and embedder = ${embedderId} for no key update`;
  if (Number(known?.dimensions) !== dimensions) throw refusal(embedderId, Number(known?.dimensions), dimensions);
  const put = Number(known?.last_put) + 1;
  await query`
    with added as (
      insert into rkat.memory_vectors (realm, embedder, id, put, data, sum)
      select ${realm}, ${embedderId}, chunk.id, ${put}, decode(given.data, 'hex'), nullif(given.sum, 0)
      from unnest(${ids}::bigint[], ${data}::text[], ${sums}::bigint[]) as given (id, data, sum)
      join rkat.memory_chunks as chunk on chunk.realm = ${realm} and chunk.id = given.id
      on conflict do nothing
      returning 1
    )
    update rkat.memory_embedders set last_put = ${put}, vectors = vectors + (select count(*) from added)
    where realm = ${realm} and embedder = ${embedderId} and exists (select 1 from added)`;
}
