import { hash } from "node:crypto";
import { RuntimeError } from "@rkat/core/contract/error";
import type { Forgettings, SignedReceipt } from "@rkat/core/ports/store";
import { makeKey, signReceipt } from "@rkat/core/stores/receipts";
import { createFinder, type Finder } from "@rkat/core/stores/scan";
import { createTally, type Tally } from "@rkat/core/stores/scan-tally";
import type { Connection } from "./connection.ts";
import { raw, sql } from "./sql.ts";
import type { Query } from "./transaction.ts";

const JOBS = "forgetting_jobs";

/** Jobs, receipts and the key of each realm; texts are stored as JSON, since a text of PostgreSQL cannot hold every character. */
export const FORGETTING_SCHEMA: readonly string[] = [
  `create table rkat.${JOBS} (
    realm text collate "C" not null,
    id text collate "C" not null,
    number bigint not null,
    job text not null,
    primary key (realm, id)
  )`,
  `create table rkat.forgetting_receipts (
    realm text collate "C" not null,
    sum text collate "C" not null,
    number bigint not null,
    receipt text not null,
    signature text not null,
    public_key text not null,
    primary key (realm, sum)
  )`,
  `create table rkat.forgetting_keys (realm text collate "C" primary key, key text not null)`,
];

export const FORGETTING_TABLES = [JOBS, "forgetting_receipts", "forgetting_keys"] as const;

/** Erasures of a realm in a database; the local `folder` of the process is scanned, too. */
export function createForgettings(
  connection: Connection,
  { realm, folder }: { readonly realm: string; readonly folder: string | undefined },
): Forgettings {
  return {
    begin: async (id, job) => {
      await connection.query`
        insert into rkat.forgetting_jobs (realm, id, number, job)
        select ${realm}, ${JSON.stringify(id)}, coalesce(max(number), 0) + 1, ${JSON.stringify(job)}
          from rkat.forgetting_jobs where realm = ${realm}
        on conflict (realm, id) do update set job = excluded.job`;
    },
    unfinished: async () => {
      const rows = await connection.query<{ id: string; job: string }>`
        select id, job from rkat.forgetting_jobs where realm = ${realm} order by number, id`;
      return rows.map(({ id, job }) => ({ id: JSON.parse(id), job: JSON.parse(job) }));
    },
    end: async (id) => {
      await connection.query`delete from rkat.forgetting_jobs where realm = ${realm} and id = ${JSON.stringify(id)}`;
      // Otherwise the row stays in the table's file until the next vacuum; a user who does not own the table gets a warning only.
      await connection.query`vacuum full rkat.forgetting_jobs`;
    },
    scan: async (texts, onProgress) => {
      const tally = createTally(onProgress);
      // The job of an erasure contains the erased text, and is deleted at its end.
      await scanTables({ connection, realm, finder: createFinder(texts), tally }, [JOBS]);
      const found = tally.end();
      if (folder === undefined) return found;
      const { scanFolder } = await import("@rkat/node/log/scan-folder");
      const beside = await scanFolder({ folder, texts }, ({ places, bytes }) =>
        onProgress?.({ places: found.places + places, bytes: found.bytes + bytes }),
      );
      return {
        places: found.places + beside.places,
        bytes: found.bytes + beside.bytes,
        matches: [...found.matches, ...beside.matches],
        more: found.more + beside.more,
      };
    },
    keep: (receipt) =>
      connection.transaction(async (query) => {
        await query`
          insert into rkat.forgetting_keys (realm, key) values (${realm}, ${makeKey()}) on conflict do nothing`;
        // The row lock serialises the counting of receipts.
        const [row] = await query<{ key: string }>`
          select key from rkat.forgetting_keys where realm = ${realm} for update`;
        const signed = signWith(row?.key ?? "", receipt, realm);
        await query`
          insert into rkat.forgetting_receipts (realm, sum, number, receipt, signature, public_key)
          select ${realm}, ${hash("sha256", receipt)}, coalesce(max(number), 0) + 1,
              ${JSON.stringify(receipt)}, ${signed.signature}, ${signed.public_key}
            from rkat.forgetting_receipts where realm = ${realm}
          on conflict do nothing`;
        return signed;
      }),
    receipts: async () => {
      const rows = await connection.query<SignedReceipt>`
        select receipt, signature, public_key from rkat.forgetting_receipts where realm = ${realm} order by number`;
      return rows.map(({ receipt, signature, public_key }) => ({
        receipt: JSON.parse(receipt),
        signature,
        public_key,
      }));
    },
  };
}

function signWith(key: string, receipt: string, realm: string): SignedReceipt {
  try {
    return signReceipt(receipt, key);
  } catch (cause) {
    const message = `the row of realm ${realm} in rkat.forgetting_keys holds no key to sign with; put it back, or delete it`;
    throw new RuntimeError("SESSION_STORE_ERROR", message, { cause });
  }
}

/** The size of a page, unless a single row is larger. */
const PAGE_BYTES = 4 * 1_024 * 1_024;
const PAGE_ROWS = { first: 16, max: 500 };
const PIECE_BYTES = 256 * 1_024;

/** A table with rows of realms: the columns that can hold a text, and those that identify a row within a realm. */
interface ScannedTable {
  readonly name: string;
  readonly columns: readonly { readonly name: string; readonly is_bytes: boolean }[];
  readonly keys: readonly { readonly name: string; readonly type: string }[];
}

interface Looking {
  readonly connection: Connection;
  readonly realm: string;
  readonly finder: Finder;
  readonly tally: Tally;
}

/** Scans every text and all bytes of a realm in every table of the schema, except tables that are excluded by name. */
async function scanTables(looking: Looking, except: readonly string[]): Promise<void> {
  for (const table of await tablesOf(looking.connection.query)) {
    if (!except.includes(table.name)) await scanTable(table, looking);
  }
}

/** Tables are queried, not listed here, so that a table that is added later is scanned, too. */
async function tablesOf(query: Query): Promise<readonly ScannedTable[]> {
  const rows = await query<{ table: string; name: string; type: string; kind: string; key: number | null }>`
    select c.relname as "table", a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
      case when t.typname = 'bytea' then 'bytes'
        when t.typcategory = 'S' or t.typname in ('json', 'jsonb') or e.typcategory = 'S' then 'text' else 'other' end as kind,
      array_position(i.indkey::int2[], a.attnum) as key
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'rkat'
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    join pg_type t on t.oid = a.atttypid
    left join pg_type e on e.oid = t.typelem and t.typcategory = 'A'
    left join pg_index i on i.indrelid = c.oid and i.indisprimary
    where c.relkind in ('r', 'p')
    order by c.relname, a.attnum`;
  const tables = Map.groupBy(rows, ({ table }) => table);
  return [...tables]
    .filter(([, columns]) => columns.some(({ name }) => name === "realm"))
    .map(([name, columns]) => ({
      name,
      columns: columns
        .filter(({ kind }) => kind !== "other")
        .map((column) => ({ name: column.name, is_bytes: column.kind === "bytes" })),
      keys: columns
        .filter((column) => column.key !== null && column.name !== "realm")
        .sort((one, other) => (one.key ?? 0) - (other.key ?? 0)),
    }));
}

async function scanTable(table: ScannedTable, { connection, realm, finder, tally }: Looking): Promise<void> {
  let after: readonly string[] = [];
  for (let rows = PAGE_ROWS.first; ; ) {
    const page: readonly KeptRow[] = await readPage(connection.query, table, { realm, after, rows });
    let pageBytes = 1;
    for (const row of page) {
      const keys = table.keys.map((_, at) => String(row[`k${at}`]));
      for (const [at] of table.columns.entries()) {
        const value = row[`c${at}`] ?? "";
        const bytes = Buffer.isBuffer(value) ? value : Buffer.from(String(value));
        pageBytes += bytes.length;
        await look(bytes, finder);
        tally.bytes(bytes.length);
        tally.also(`rkat.${table.name} ${keys.join(" ")}`.trim(), finder.end());
      }
      tally.place(`rkat.${table.name}`, []);
      after = keys;
    }
    // Without another key column, a realm has one row.
    if (page.length < rows || table.keys.length === 0) return;
    rows = Math.max(1, Math.min(PAGE_ROWS.max, Math.floor((rows * PAGE_BYTES) / pageBytes)));
  }
}

/** In pieces, so that other work runs in between. */
async function look(bytes: Buffer, finder: Finder): Promise<void> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    finder.read(bytes.subarray(at, at + PIECE_BYTES));
    if (bytes.length > PIECE_BYTES) await new Promise(setImmediate);
  }
}

type KeptRow = Readonly<Record<string, string | Buffer | null>>;

function readPage(
  query: Query,
  { name, columns, keys }: ScannedTable,
  { realm, after, rows }: { readonly realm: string; readonly after: readonly string[]; readonly rows: number },
): Promise<readonly KeptRow[]> {
  const quoted = (column: string): string => `"${column.replaceAll('"', '""')}"`;
  const wanted = [
    ...columns.map((column, at) => `${quoted(column.name)}${column.is_bytes ? "" : "::text"} as c${at}`),
    ...keys.map((key, at) => `${quoted(key.name)}::text as k${at}`),
  ].join(", ");
  const order = raw(keys.map((key) => quoted(key.name)).join(", "));
  const values = keys.reduce(
    (all, { type }, at) => sql`${all}${raw(at === 0 ? "" : ", ")}${after[at] ?? ""}::text::${raw(type)}`,
    sql``,
  );
  const beyond = after.length === 0 ? sql`` : sql`and (${order}) > (${values})`;
  return query<KeptRow>`
    select ${raw(wanted)} from ${raw(`rkat.${quoted(name)}`)} where realm = ${realm} ${beyond}
    ${keys.length === 0 ? sql`` : sql`order by ${order}`} limit ${rows}`;
}
