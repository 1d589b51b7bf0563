import type { Chunk, LexicalMatches, MemoryStore, Neighbour, Scope, TermQuery, Wanted } from "@rkat/core/ports/memory";
import { meanOf, similarityFromMean } from "@rkat/core/stores/recall-rank-postings";
import { LENGTH_SHARE, SATURATION } from "@rkat/core/text/terms";
import { keyOf } from "@rkat/node/recall-index/posting-page";
import { fromRow, knownVectors, type MemoryLog, numbersOf, putVectors } from "./memory-log.ts";
import { raw, type Sql, sql } from "./sql.ts";
import type { Query, Work } from "./transaction.ts";

/**
 * A shared memory that is searched in the database: nothing is stored on this machine, and only results are read.
 * pgvector compares vectors if the database has it; otherwise those of a small scope are read and compared here.
 */
export function createDatabaseMemory(log: MemoryLog, warn: (sentence: string) => void): MemoryStore {
  const { connection, realm } = log;
  const compare = createComparison(log, warn);
  /** Below this id, every chunk has a vector of the embedder, or was deleted. */
  const doneTo = new Map<string, number>();
  const read: MemoryStore["read"] = (ids, scope) => readChunks(connection.query, realm, { ids, scope });
  return {
    cursor: log.cursor,
    behind: log.behind,
    add: async (batch) => {
      await log.add(batch);
      await indexPending(log);
    },
    drop: log.drop,
    reset: log.reset,
    purge: log.purge,
    read,
    match: async (terms, scope) => {
      const isIndexed = scope.sessionId === undefined && scope.among === undefined;
      // Chunks that another process has added may be missing from the table; they are indexed first.
      if (isIndexed) await indexPending(log);
      return bounded(log, (query) => rank(query, { realm, isIndexed, scope }, terms));
    },
    nearest: compare,
    vectors: {
      missing: async (embedderId, max, wanted) => {
        const from = doneTo.get(embedderId) ?? 0;
        const asked = { realm, embedderId, from, max, ...wanted };
        const { ids, lastId } = await bounded(log, (query) => missingIds(query, asked));
        if (wanted === undefined) doneTo.set(embedderId, (ids[0] ?? lastId + 1) - 1);
        return read(ids);
      },
      known: (embedderId, passages) => knownVectors(log, embedderId, passages),
      put: (embedderId, vectors) => putVectors(log, embedderId, vectors),
    },
    status: async (embedderId) => {
      const [row] = await connection.query<Record<"entries" | "vectors" | "bytes" | "byWordsAlone", number>>`
        select known.chunks as entries, coalesce(shelf.vectors, 0) as vectors,
          known.bytes + coalesce(shelf.vectors * shelf.dimensions, 0) as bytes,
          (select count(*) from rkat.memory_chunks as chunk where chunk.realm = ${realm} and chunk.by_words
            and not exists (select 1 from rkat.memory_vectors as vector
              where vector.realm = ${realm} and vector.embedder = ${embedderId} and vector.id = chunk.id)) as "byWordsAlone"
        from rkat.memory_realms as known
        left join rkat.memory_embedders as shelf on shelf.realm = known.realm and shelf.embedder = ${embedderId}
        where known.realm = ${realm}`;
      const { entries = 0, vectors = 0, bytes = 0, byWordsAlone = 0 } = row ?? {};
      return { entries, pending: entries - vectors - byWordsAlone, byWordsAlone, bytes, index: "exact" };
    },
    close: async () => {},
  };
}

/** Runs a search that reads many rows, with a time limit. */
function bounded<T>({ connection }: MemoryLog, work: Work<T>): Promise<T> {
  return connection.transaction(async (query) => {
    const [, result] = await Promise.all([query`set local statement_timeout = '10s'`, work(query)]);
    return result;
  }, "read only");
}

/** The condition for rows named `chunk` in a scope. */
function within(realm: string, { sessionId, among, discardedOnly, upToSeq }: Scope): Sql {
  const isNobody = sessionId !== undefined && among?.has(sessionId) === false;
  const sessions = isNobody ? [] : sessionId === undefined ? among : [sessionId];
  const isCut = sessionId !== undefined && upToSeq !== undefined && Number.isFinite(upToSeq);
  return sql`chunk.realm = ${realm}
    ${sessions === undefined ? sql`` : sql`and chunk.session_id = any(${[...sessions]}::text[])`}
    ${isCut ? sql`and chunk.seq <= ${Math.floor(upToSeq)}` : sql``}
    ${discardedOnly ? sql`and chunk.is_discarded` : sql``}`;
}

async function readChunks(
  query: Query,
  realm: string,
  { ids, scope }: { readonly ids: readonly number[]; readonly scope: Scope | undefined },
): Promise<readonly Chunk[]> {
  const rows = await query<Pick<Chunk, "id" | "session_id" | "seq" | "before" | "after"> & { readonly body: string }>`
    select chunk.id, chunk.session_id, chunk.seq, chunk.body,
      coalesce((select max(id) from rkat.memory_chunks as other where other.realm = ${realm}
        and other.session_id = chunk.session_id and other.id < chunk.id), 0) as before,
      coalesce((select min(id) from rkat.memory_chunks as other where other.realm = ${realm}
        and other.session_id = chunk.session_id and other.id > chunk.id), 0) as after
    from unnest(${ids}::bigint[]) with ordinality as asked (id, place)
    join rkat.memory_chunks as chunk on chunk.realm = ${realm} and chunk.id = asked.id
    ${scope === undefined ? sql`` : sql`where ${within(realm, scope)}`}
    order by asked.place`;
  return rows.map((row) => ({ id: row.id, ...fromRow(row), before: row.before, after: row.after }));
}

interface Place {
  readonly realm: string;
  /** Whether the inverted table is used; for some sessions their chunks are read instead. */
  readonly isIndexed: boolean;
  readonly scope: Scope;
}

/**
 * The best chunks with any of the terms by BM25, in one statement. Values are rounded to single precision, so that the
 * order of summation does not matter and chunks of equal text are equal.
 */
async function rank(query: Query, place: Place, { weights, max, equalsMax }: TermQuery): Promise<LexicalMatches> {
  const byKey = new Map([...weights].map(([term, weight]) => [keyOf(term), weight]));
  const keys = [...byKey.keys()];
  const rows = await query<{ what: "scope" | "holders" | "best"; id: number; value: number }>`
    with asked as (
      select * from unnest(${keys}::bigint[], ${[...byKey.values()]}::float8[]) as asked (key, weight)
    ), scope as materialized (
      ${totals(place)}
    ), hits as materialized (
      ${hits(place, keys)}
    ), holders as materialized (
      select key, count(*) as holders from hits group by key
    ), worths as (
      select key, coalesce(nullif(terms / greatest(chunks, 1), 0), 1) as length_mean,
        weight * ln(1 + greatest(chunks - holders, 0) / (holders + 0.5) + 0.5 / (holders + 0.5))
          * ${SATURATION + 1}::float8 as worth
      from asked join holders using (key) cross join scope
    ), ranked as materialized (
      select id, sum(worth * count / (count + ${SATURATION}::float8
        * (1 + ${LENGTH_SHARE}::float8 * (length / length_mean - 1))))::real as value
      from hits join worths using (key) group by id
    ), levels as (
      select value from ranked where value > 0 group by value order by value desc limit ${max}
    ), placed as (
      select id, value, row_number() over (partition by value order by id desc) as place
      from ranked where value >= (select min(value) from levels)
    ), best as (
      select id, value from placed where place <= ${equalsMax} order by value desc, id desc limit ${max}
    )
    select 'scope' as what, chunks::bigint as id, 0::float8 as value from scope
    union all select 'holders', key, holders from holders
    union all select 'best', id, value from best`;
  const holders = new Map(rows.flatMap(({ what, id, value }) => (what === "holders" ? [[id, value]] : [])));
  return {
    best: rows
      .flatMap(({ what, id, value }) => (what === "best" ? [{ id, value }] : []))
      .sort((a, b) => b.value - a.value || b.id - a.id),
    chunks: rows.find(({ what }) => what === "scope")?.id ?? 0,
    holders: new Map([...weights.keys()].map((term) => [term, holders.get(keyOf(term)) ?? 0])),
  };
}

/** The number of chunks of a scope and the sum of their lengths. */
function totals({ realm, isIndexed, scope }: Place): Sql {
  if (isIndexed && !scope.discardedOnly) {
    return sql`select coalesce(sum(chunks), 0)::float8 as chunks, coalesce(sum(terms), 0)::float8 as terms
      from rkat.memory_index where realm = ${realm}`;
  }
  return sql`select count(*)::float8 as chunks, coalesce(sum(length), 0)::float8 as terms
    from rkat.memory_chunks as chunk where ${within(realm, scope)} ${isIndexed ? indexed(realm) : sql``}`;
}

/** Excludes chunks that another process has added meanwhile and that are not indexed yet. */
function indexed(realm: string): Sql {
  return sql`and chunk.id <= (select indexed_id from rkat.memory_index where realm = ${realm})`;
}

function hits({ realm, isIndexed, scope }: Place, keys: readonly number[]): Sql {
  if (!isIndexed) {
    return sql`select held.key, chunk.id, held.count, chunk.length
      from rkat.memory_chunks as chunk, unnest(chunk.keys, chunk.counts) as held (key, count)
      where ${within(realm, scope)} and held.key = any(${keys}::bigint[])`;
  }
  return sql`select term.key, term.id, term.count, term.length from rkat.memory_terms as term
    ${scope.discardedOnly ? sql`join rkat.memory_chunks as chunk on ${within(realm, scope)} and chunk.id = term.id` : sql``}
    where term.realm = ${realm} and term.key = any(${keys}::bigint[])`;
}

interface Missing extends Wanted {
  readonly realm: string;
  readonly embedderId: string;
  readonly from: number;
  readonly max: number;
}

async function missingIds(query: Query, { realm, embedderId, from, max, scope, inUse, ids, byWords }: Missing) {
  // Chunks that need no vector are not tracked.
  const after = byWords ? 0 : from;
  const rows = await query<{ id: number | null; last_id: number }>`
    select missing.id, known.last_id from rkat.memory_realms as known left join lateral (
      select chunk.id from rkat.memory_chunks as chunk
      where ${scope === undefined ? sql`chunk.realm = ${realm}` : within(realm, scope)} and chunk.id > ${after}
        ${ids === undefined ? sql`` : sql`and chunk.id = any(${ids}::bigint[])`}
        ${byWords ? sql`` : sql`and not chunk.by_words`}
        ${inUse === undefined ? sql`` : sql`and (chunk.is_discarded or chunk.session_id <> all(${[...inUse]}::text[]))`}
        and not exists (
        select 1 from rkat.memory_vectors as vector
        where vector.realm = ${realm} and vector.embedder = ${embedderId} and vector.id = chunk.id)
      order by chunk.id limit ${max}
    ) as missing on true where known.realm = ${realm} order by missing.id`;
  const found = new Set(rows.flatMap(({ id }) => (id === null ? [] : [id])));
  return {
    ids: ids === undefined ? [...found] : ids.filter((id) => found.has(id)),
    lastId: rows[0]?.last_id ?? from,
  };
}

/** More vectors than this are not compared; the search is by words alone then. */
const COMPARED_MAX = 20_000;
const PAGE_VECTORS_MAX = 2_000;

/** Reads the vectors of a scope page by page and keeps the nearest. */
function createComparison(log: MemoryLog, warn: (sentence: string) => void): MemoryStore["nearest"] {
  const { realm } = log;
  const extension = createVectorExtension(log);
  let isWarned = false;
  const isComparable = async (embedderId: string, vector: Float32Array): Promise<boolean> => {
    const [row] = await log.connection
      .query`select dimensions from rkat.memory_embedders where realm = ${realm} and embedder = ${embedderId}`;
    return row?.dimensions === vector.length;
  };
  const pageOf = (embedderId: string, scope: Scope, after: number) =>
    bounded(
      log,
      (query) => query<{ id: number; data: Buffer }>`
        select vector.id, vector.data from rkat.memory_vectors as vector
        join rkat.memory_chunks as chunk on chunk.realm = vector.realm and chunk.id = vector.id
        where vector.realm = ${realm} and vector.embedder = ${embedderId} and vector.id > ${after}
          and ${within(realm, scope)}
        order by vector.id limit ${PAGE_VECTORS_MAX}`,
    );
  const isTooLarge = async (embedderId: string, scope: Scope): Promise<boolean> => {
    const [row] = await bounded(
      log,
      (query) => query`
        select count(*) as found from (
          select 1 from rkat.memory_vectors as vector
          join rkat.memory_chunks as chunk on chunk.realm = vector.realm and chunk.id = vector.id
          where vector.realm = ${realm} and vector.embedder = ${embedderId} and ${within(realm, scope)}
          limit ${COMPARED_MAX + 1}) as looked`,
    );
    return Number(row?.found ?? 0) > COMPARED_MAX;
  };
  return async (embedderId, vector, { scope, max }) => {
    if (max <= 0 || !(await isComparable(embedderId, vector))) return [];
    if (await extension.isThere()) {
      await extension.bringUp(embedderId);
      return bounded(log, (query) => extension.nearest(query, { embedderId, vector, max }, within(realm, scope)));
    }
    if (await isTooLarge(embedderId, scope)) {
      if (!isWarned) warn(TOO_LARGE);
      isWarned = true;
      return [];
    }
    const asked = normalised(vector);
    const all: (Neighbour & { readonly numbers: Int8Array })[] = [];
    for (let after = 0; ; ) {
      const rows = await pageOf(embedderId, scope, after);
      for (const { id, data } of rows) {
        const numbers = numbersOf(data);
        all.push({ id, similarity: cosine(asked, numbers), numbers });
      }
      if (rows.length < PAGE_VECTORS_MAX) break;
      after = rows.at(-1)?.id ?? after;
    }
    const mean = meanOf(all.map(({ numbers }) => numbers));
    const seen = mean && similarityFromMean(asked, mean);
    return all
      .sort((a, b) => b.similarity - a.similarity || a.id - b.id)
      .slice(0, max)
      .map(({ id, similarity, numbers }) => ({ id, similarity, ...(seen && { fromMean: seen(numbers) }) }));
  };
}

const TOO_LARGE =
  `more than ${COMPARED_MAX} vectors are not compared in the database: searches of the whole project are by words alone; ` +
  'install pgvector in the database, or set [memory] index = "local", to search by meaning, too';

function normalised(vector: Float32Array): Float32Array {
  const length = Math.hypot(...vector);
  return length === 0 ? vector : vector.map((value) => value / length);
}

function cosine(asked: Float32Array, numbers: Int8Array): number {
  let [dot, squares] = [0, 0];
  for (let index = 0; index < numbers.length; index += 1) {
    const number = numbers[index] ?? 0;
    dot += (asked[index] ?? 0) * number;
    squares += number * number;
  }
  return squares === 0 ? 0 : dot / Math.sqrt(squares);
}

/** Chunks whose terms are written in one transaction. */
const PAGE_CHUNKS_MAX = 1_000;

/** Adds the terms of new chunks, of any process, to the inverted table. */
async function indexPending({ connection, realm }: MemoryLog): Promise<void> {
  for (;;) {
    const [row] = await connection.query`
      select known.last_id, coalesce(done.indexed_id, 0) as indexed_id from rkat.memory_realms as known
      left join rkat.memory_index as done on done.realm = known.realm where known.realm = ${realm}`;
    if (row === undefined || Number(row.indexed_id) >= Number(row.last_id)) return;
    await connection.transaction((query) => indexPage(query, realm));
  }
}

async function indexPage(query: Query, realm: string): Promise<void> {
  await query`insert into rkat.memory_index (realm) values (${realm}) on conflict do nothing`;
  // This row lock serialises writing terms and deleting chunks.
  const [row] = await query`select indexed_id from rkat.memory_index where realm = ${realm} for no key update`;
  const from = Number(row?.indexed_id ?? 0);
  // Read after locking and before the chunks: chunks that are added meanwhile are indexed the next time.
  const [end] = await query`select last_id from rkat.memory_realms where realm = ${realm}`;
  const to = Math.min(from + PAGE_CHUNKS_MAX, Number(end?.last_id ?? 0));
  const page = sql`realm = ${realm} and id > ${from} and id <= ${to}`;
  await query`
    insert into rkat.memory_terms (realm, key, id, count, length)
    select ${realm}, held.key, chunk.id, held.count, chunk.length
    from rkat.memory_chunks as chunk, unnest(chunk.keys, chunk.counts) as held (key, count) where ${page}
    order by held.key`;
  await query`
    update rkat.memory_index as index set chunks = index.chunks + page.chunks, terms = index.terms + page.terms,
      indexed_id = ${to}
    from (select count(*) as chunks, coalesce(sum(length), 0) as terms from rkat.memory_chunks where ${page}) as page
    where index.realm = ${realm}`;
}

/** Vectors copied in one statement. */
const INDEXED_VECTORS_MAX = 500;

interface Asked {
  readonly embedderId: string;
  readonly vector: Float32Array;
  readonly max: number;
}

/** Compares vectors in a database with the extension `pgvector`. */
interface VectorExtension {
  isThere(): Promise<boolean>;
  /** Copies new vectors, of any process, into the table of the extension. */
  bringUp(embedderId: string): Promise<void>;
  nearest(query: Query, asked: Asked, within: Sql): Promise<readonly Neighbour[]>;
}

/**
 * The schema must work without the extension, so its table is created when the extension is first seen. Every vector is
 * compared, since an index of the extension has one length and finds few in a scope; none is sent to this process.
 */
function createVectorExtension({ connection, realm }: MemoryLog): VectorExtension {
  let there: Promise<boolean> | undefined;
  const prepare = async (query: Query): Promise<boolean> => {
    const [type] = await query`select to_regtype('vector') is not null as is_there`;
    if (type?.is_there !== true) return false;
    const [table] = await query`select to_regclass('rkat.memory_pgvectors') is not null as is_there`;
    if (table?.is_there === true) return true;
    for (const statement of TABLE) await query`${raw(statement)}`;
    return true;
  };
  return {
    isThere: () => {
      there ??= connection.run(prepare).catch((error: unknown) => {
        there = undefined;
        throw error;
      });
      return there;
    },
    bringUp: async (embedderId) => {
      for (let count = INDEXED_VECTORS_MAX; count === INDEXED_VECTORS_MAX; ) {
        const added = await connection.query`
          insert into rkat.memory_pgvectors (realm, embedder, id, vector)
          select realm, embedder, id, (
            select '[' || string_agg(((get_byte(data, place) + 128) % 256 - 128)::text, ',' order by place) || ']'
            from generate_series(0, length(data) - 1) as place)::vector
          from rkat.memory_vectors as kept
          where realm = ${realm} and embedder = ${embedderId} and not exists (
            select 1 from rkat.memory_pgvectors as there
            where there.realm = kept.realm and there.embedder = kept.embedder and there.id = kept.id)
          limit ${INDEXED_VECTORS_MAX}
          on conflict do nothing
          returning 1`;
        count = added.length;
      }
    },
    nearest: (query, { embedderId, vector, max }, within) => query<Neighbour>`
      select compared.id, 1 - (compared.vector <=> ${`[${vector.join(",")}]`}::vector) as similarity
      from rkat.memory_pgvectors as compared
      join rkat.memory_chunks as chunk on chunk.realm = compared.realm and chunk.id = compared.id
      where compared.realm = ${realm} and compared.embedder = ${embedderId} and ${within}
      order by similarity desc, compared.id limit ${max}`,
  };
}

/** Deleting a vector deletes its row here. */
const TABLE = [
  `create table if not exists rkat.memory_pgvectors (
    realm text collate "C" not null,
    embedder text collate "C" not null,
    id bigint not null,
    vector vector not null,
    primary key (realm, embedder, id),
    foreign key (realm, embedder, id) references rkat.memory_vectors (realm, embedder, id) on delete cascade
  )`,
  `alter table rkat.memory_pgvectors enable row level security`,
  `drop policy if exists own on rkat.memory_pgvectors`,
  `create policy own on rkat.memory_pgvectors
    using (realm in (select t.realm from rkat.tenants t where t.role = current_user))`,
];
