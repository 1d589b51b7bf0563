import type { Finder } from "../scan.ts";
import type { Tally } from "../scan-tally.ts";
import type { Connection } from "./connection.ts";
import { raw, sql } from "./sql.ts";
import type { Query } from "./transaction.ts";

/** A page is so large, unless a single row is larger. */
const PAGE_BYTES = 4 * 1_024 * 1_024;
const PAGE_ROWS = { first: 16, max: 500 };
const PIECE_BYTES = 256 * 1_024;

/** A table with rows of realms: what of it can hold a text, and what its rows are told apart by within a realm. */
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

/** Looks at every text and all bytes of a realm in every table of the schema, but for tables that are left out by name. */
export async function scanTables(looking: Looking, except: readonly string[]): Promise<void> {
  for (const table of await tablesOf(looking.connection.query)) {
    if (!except.includes(table.name)) await scanTable(table, looking);
  }
}

/** Tables are asked for and not listed here: one that is added later is looked at as well. */
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
    // A realm has one row where nothing else tells rows apart.
    if (page.length < rows || table.keys.length === 0) return;
    rows = Math.max(1, Math.min(PAGE_ROWS.max, Math.floor((rows * PAGE_BYTES) / pageBytes)));
  }
}

/** In pieces: others have their turn between them. */
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
