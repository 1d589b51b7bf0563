import { RuntimeError } from "@rkat/core/contract/error";
import type { NewVector } from "@rkat/core/ports/memory";
import { quantise, sumOfPassage } from "@rkat/node/recall-index/vector-files";
import type { MemoryLog } from "./memory-log.ts";
import type { Query } from "./transaction.ts";

/** Vectors of one statement. */
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
