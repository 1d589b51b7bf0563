import type { Neighbour } from "@rkat/core/ports/memory";
import type { MemoryLog } from "./memory-log.ts";
import { raw, type Sql } from "./sql.ts";
import type { Query } from "./transaction.ts";

/** Vectors brought over in one statement. */
const PAGE_VECTORS_MAX = 500;

interface Asked {
  readonly embedderId: string;
  readonly vector: Float32Array;
  readonly max: number;
}

/** Compares vectors in the database, where its extension `pgvector` is there. */
export interface VectorExtension {
  isThere(): Promise<boolean>;
  /** Brings vectors that were put since, by whomever, to where the extension can compare them. */
  bringUp(embedderId: string): Promise<void>;
  nearest(query: Query, asked: Asked, within: Sql): Promise<readonly Neighbour[]>;
}

/**
 * Its type is not in the schema, which must do without it: the table is made when it is first there. Every vector is looked
 * at, since an index of the extension is of one length and finds few in a scope; the database does it without sending any.
 */
export function createVectorExtension({ connection, realm }: MemoryLog): VectorExtension {
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
      for (let count = PAGE_VECTORS_MAX; count === PAGE_VECTORS_MAX; ) {
        const added = await connection.query`
          insert into rkat.memory_pgvectors (realm, embedder, id, vector)
          select realm, embedder, id, (
            select '[' || string_agg(((get_byte(data, place) + 128) % 256 - 128)::text, ',' order by place) || ']'
            from generate_series(0, length(data) - 1) as place)::vector
          from rkat.memory_vectors as kept
          where realm = ${realm} and embedder = ${embedderId} and not exists (
            select 1 from rkat.memory_pgvectors as there
            where there.realm = kept.realm and there.embedder = kept.embedder and there.id = kept.id)
          limit ${PAGE_VECTORS_MAX}
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

/** What is taken away of the vectors is taken away here. */
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
