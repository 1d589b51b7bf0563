import { RuntimeError } from "@rkat/core/contract/error";
import { codeOf } from "./client.ts";
import { FORGETTING_SCHEMA, FORGETTING_TABLES } from "./forgettings.ts";
import { MEMORY_BY_WORDS, MEMORY_SCHEMA, MEMORY_TABLES } from "./memory-schema.ts";
import { raw } from "./sql.ts";
import { inTransaction, type Query } from "./transaction.ts";

/**
 * What each version of the schema added. A step is never changed once it was released: a database has been through it.
 * Keys begin with the realm and then the session, so that whatever spreads rows over machines keeps a session together.
 */
const STEPS: readonly (readonly string[])[] = [
  [
    `create table rkat.sessions (
      realm text collate "C" not null,
      id text collate "C" not null,
      kind text not null,
      last_seq bigint not null default 0,
      memory_seq bigint not null default 0,
      updated_at_ms bigint not null default 0,
      is_archived boolean not null default false,
      waiting_calls integer not null default 0,
      labels text[] not null default '{}',
      folded text,
      owner text,
      is_interrupted boolean not null default false,
      primary key (realm, id)
    ) with (fillfactor = 80)`,
    `create index sessions_by_update on rkat.sessions (realm, kind, is_archived, updated_at_ms desc, id desc)
      where folded is not null`,
    `create index sessions_by_label on rkat.sessions using gin (labels) where labels <> '{}'`,
    `create index sessions_waiting on rkat.sessions (realm, kind) where waiting_calls > 0`,
    `create index sessions_behind on rkat.sessions (realm) where last_seq > memory_seq`,
    `create index sessions_interrupted on rkat.sessions (realm, owner) where is_interrupted`,
    `create table rkat.entries (
      realm text collate "C" not null,
      id text collate "C" not null,
      seq bigint not null,
      span integer not null,
      at_ms bigint not null,
      body text not null,
      primary key (realm, id, seq)
    )`,
    `create table rkat.processes (
      realm text collate "C" not null,
      owner text collate "C" not null,
      until timestamptz not null,
      primary key (realm, owner)
    )`,
    `create table rkat.blobs (
      realm text collate "C" not null,
      id text collate "C" not null,
      media_type text not null,
      data bytea not null,
      primary key (realm, id)
    )`,
    `create table rkat.configuration (
      realm text primary key,
      generation bigint not null,
      layer text not null
    )`,
    // Who may see which realm: the owner of the tables sees all, another role what is named here for it.
    `create table rkat.tenants (role text not null, realm text collate "C" not null, primary key (role, realm))`,
    `alter table rkat.tenants enable row level security`,
    `create policy own on rkat.tenants using (role = current_user)`,
    ...MEMORY_SCHEMA,
    ...["sessions", "entries", "processes", "blobs", "configuration", ...MEMORY_TABLES].flatMap(guarded),
  ],
  // What saves reading a log again. A crash of the database may empty it: then the logs are read.
  [
    `create unlogged table rkat.checkpoints (
      realm text collate "C" not null,
      id text collate "C" not null,
      kept text not null,
      primary key (realm, id)
    )`,
    ...guarded("checkpoints"),
    ...MEMORY_BY_WORDS,
  ],
  [...FORGETTING_SCHEMA, ...FORGETTING_TABLES.flatMap(guarded)],
  // The servers of a realm let the same callers in.
  [
    // A revoked token leaves an empty row: a realm that ever had one stays closed.
    `create table rkat.tokens (
      realm text collate "C" not null,
      name text collate "C" not null,
      kept text,
      primary key (realm, name)
    )`,
    ...guarded("tokens"),
  ],
  // Turns that have not ended are found without reading the other sessions.
  [
    `alter table rkat.sessions add column has_open_turn boolean not null default false`,
    `update rkat.sessions set has_open_turn = true
      where folded like '%"has_open_turn":true%' and (folded::jsonb->>'has_open_turn')::boolean`,
    `create index sessions_open on rkat.sessions (realm, kind, updated_at_ms desc, id desc) where has_open_turn`,
  ],
];

/** Rows of a realm are there for its tenants alone, whatever a statement asks for. */
function guarded(table: string): readonly string[] {
  return [
    `alter table rkat.${table} enable row level security`,
    `create policy own on rkat.${table}
      using (realm in (select t.realm from rkat.tenants t where t.role = current_user))`,
  ];
}

/** Two processes that begin at once: one makes the schema, the other sees that while it tries to. */
const MADE_MEANWHILE: ReadonlySet<string> = new Set(["23505", "42P06", "42P07"]);
const ATTEMPTS_MAX = 3;

/** Brings the schema to this program's version, in one transaction; throws when it is newer. */
export async function migrate(query: Query): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      if ((await versionOf(query)) !== STEPS.length) await inTransaction(query, step);
      return;
    } catch (error) {
      if (!MADE_MEANWHILE.has(codeOf(error)) || attempt === ATTEMPTS_MAX) throw error;
    }
  }
}

async function versionOf(query: Query): Promise<number> {
  const [found] = await query`select to_regclass('rkat.version') as there`;
  if (found?.there === null) return 0;
  const [row] = await query`select number from rkat.version`;
  return requireKnown(Number(row?.number ?? 0));
}

async function step(query: Query): Promise<void> {
  await query`create schema if not exists rkat`;
  await query`create table if not exists rkat.version (id boolean primary key default true check (id), number integer not null)`;
  await query`insert into rkat.version (number) values (0) on conflict do nothing`;
  // Its lock makes others wait until this is over, and then there is nothing left for them to do.
  const [row] = await query`select number from rkat.version for update`;
  const from = requireKnown(Number(row?.number));
  for (const statement of STEPS.slice(from).flat()) await query`${raw(statement)}`;
  await query`update rkat.version set number = ${STEPS.length}`;
}

function requireKnown(version: number): number {
  if (version <= STEPS.length) return version;
  const message = `the database is of version ${version} and this program knows ${STEPS.length}; update rkat`;
  throw new RuntimeError("SESSION_STORE_ERROR", message);
}
