import type { MemoryLog } from "./memory-log.ts";
import { sql } from "./sql.ts";
import type { Query } from "./transaction.ts";

/** Chunks whose terms are written in one transaction. */
const PAGE_CHUNKS_MAX = 1_000;

/** Brings the terms of chunks that were added since, by whomever, into the inverted table. */
export async function indexPending({ connection, realm }: MemoryLog): Promise<void> {
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
  // Held by whoever writes terms or takes chunks away, one after the other.
  const [row] = await query`select indexed_id from rkat.memory_index where realm = ${realm} for no key update`;
  const from = Number(row?.indexed_id ?? 0);
  // Read behind the lock, and before the chunks: what is added meanwhile is for the next time.
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
