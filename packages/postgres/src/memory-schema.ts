/** Tables of the memory; a realm sees only its own rows. */
export const MEMORY_TABLES = [
  "memory_realms",
  "memory_sessions",
  "memory_batches",
  "memory_chunks",
  "memory_embedders",
  "memory_vectors",
  "memory_index",
  "memory_terms",
] as const;

/**
 * The memory of a realm. Ids of chunks and numbers of batches are counted in the realm's row, whose lock serialises
 * adding: a rollback returns its numbers, so there are no gaps, and a reader who has seen a number has seen all below it.
 * Texts are stored as JSON: a text of PostgreSQL cannot hold every character.
 */
export const MEMORY_SCHEMA: readonly string[] = [
  `create table rkat.memory_realms (
    realm text collate "C" primary key,
    last_batch bigint not null default 0,
    last_id bigint not null default 0,
    chunks bigint not null default 0,
    bytes bigint not null default 0,
    version integer not null default 0
  ) with (fillfactor = 50)`,
  `create table rkat.memory_sessions (
    realm text collate "C" not null,
    id text collate "C" not null,
    cursor bigint not null,
    version integer not null,
    discarded text not null,
    is_dropped boolean not null,
    primary key (realm, id)
  )`,
  // The changes in their order, which local copies of the memory follow.
  `create table rkat.memory_batches (
    realm text collate "C" not null,
    number bigint not null,
    id text collate "C" not null,
    happened text not null,
    mark text not null,
    cursor bigint not null,
    discarded text not null,
    first_id bigint not null,
    chunks integer not null,
    bytes bigint not null,
    primary key (realm, number)
  )`,
  `create table rkat.memory_chunks (
    realm text collate "C" not null,
    id bigint not null,
    session_id text collate "C" not null,
    seq bigint not null,
    length integer not null,
    is_discarded boolean not null,
    keys bigint[] not null,
    counts integer[] not null,
    body text not null,
    primary key (realm, id)
  )`,
  `create index memory_chunks_by_session on rkat.memory_chunks (realm, session_id, id)`,
  `create index memory_chunks_discarded on rkat.memory_chunks (realm, id) include (length) where is_discarded`,
  `create table rkat.memory_embedders (
    realm text collate "C" not null,
    embedder text collate "C" not null,
    dimensions integer not null,
    last_put bigint not null default 0,
    vectors bigint not null default 0,
    primary key (realm, embedder)
  ) with (fillfactor = 50)`,
  `create table rkat.memory_vectors (
    realm text collate "C" not null,
    embedder text collate "C" not null,
    id bigint not null,
    put bigint not null,
    data bytea not null,
    primary key (realm, embedder, id)
  )`,
  `create index memory_vectors_by_put on rkat.memory_vectors (realm, embedder, put, id)`,
  // The progress of the inverted table, which is filled only if a process searches in the database.
  `create table rkat.memory_index (
    realm text collate "C" primary key,
    indexed_id bigint not null default 0,
    chunks bigint not null default 0,
    terms bigint not null default 0
  ) with (fillfactor = 50)`,
  // The index of the key has all columns of a ranking: a common term has a row for every second chunk.
  `create table rkat.memory_terms (
    realm text collate "C" not null,
    key bigint not null,
    id bigint not null,
    count integer not null,
    length integer not null,
    primary key (realm, key, id) include (count, length)
  )`,
];

/** Chunks that are found by their words alone need no vector, and no text is embedded twice. */
export const MEMORY_BY_WORDS: readonly string[] = [
  `alter table rkat.memory_chunks add column by_words boolean not null default false`,
  // The hash of the embedded text.
  `alter table rkat.memory_vectors add column sum bigint`,
  `create index memory_vectors_by_sum on rkat.memory_vectors (realm, embedder, sum) where sum is not null`,
];
