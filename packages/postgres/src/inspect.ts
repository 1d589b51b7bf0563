import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import { placeOf } from "./client.ts";
import { type Connection, createConnection } from "./connection.ts";

/** How a database is, and what one realm has in it. */
export interface DatabaseReport {
  /** Where it is, without its password. */
  readonly place: string;
  /** The server's version. */
  readonly server: string;
  /** Of the schema; undefined where nobody has made one yet. */
  readonly schema: number | undefined;
  /** A question and its answer, the fastest of a few. */
  readonly latencyMs: number;
  readonly sessions: number;
  readonly agents: number;
  /** Processes that said of late that they live, and what they hold. */
  readonly processes: number;
  readonly held: number;
}

const PINGS = 5;
const PATIENCE_MS = 2_000;

/** Asks a database how it is; nothing is made or changed. */
export async function inspect(url: string, realm: string): Promise<DatabaseReport> {
  // Without prepared statements and settings of its own it may ask any database, also behind a pooler.
  const connection = createConnection({ url, poolMax: 1, isPooled: true, patienceMs: PATIENCE_MS });
  try {
    return { place: placeOf(url), ...(await look(connection, realm)) };
  } catch (cause) {
    const message = `cannot ask the database ${placeOf(url)}: ${messageOf(cause)}`;
    throw new RuntimeError("SESSION_STORE_ERROR", message, { cause });
  } finally {
    await connection.close();
  }
}

async function look(connection: Connection, realm: string): Promise<Omit<DatabaseReport, "place">> {
  const [about] = await connection.query<{ server: string; has_schema: boolean }>`
    select current_setting('server_version') as server, to_regclass('rkat.version') is not null as has_schema`;
  const { server, has_schema } = about ?? { server: "unknown", has_schema: false };
  const latencyMs = await fastest(connection);
  if (!has_schema) return { server, latencyMs, schema: undefined, sessions: 0, agents: 0, processes: 0, held: 0 };
  const [counts] = await connection.query<Record<"schema" | "sessions" | "agents" | "processes" | "held", number>>`
    with living as (select owner from rkat.processes where realm = ${realm} and until > clock_timestamp())
    select
      (select number from rkat.version) as schema,
      (select count(*)::int from rkat.sessions
        where realm = ${realm} and kind = 'session' and folded is not null) as sessions,
      (select count(*)::int from rkat.sessions
        where realm = ${realm} and kind = 'agent' and folded is not null) as agents,
      (select count(*)::int from living) as processes,
      (select count(*)::int from rkat.sessions where realm = ${realm} and owner in (select owner from living)) as held`;
  return { server, latencyMs, ...(counts ?? { schema: 0, sessions: 0, agents: 0, processes: 0, held: 0 }) };
}

async function fastest(connection: Connection): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let ping = 0; ping < PINGS; ping += 1) {
    const began = performance.now();
    await connection.query`select 1`;
    least = Math.min(least, performance.now() - began);
  }
  return least;
}
