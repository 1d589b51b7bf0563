import { randomUUID } from "node:crypto";
import { Token } from "@rkat/core/contract/caller";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import type {
  CheckpointStore,
  ConfigStore,
  FoldRow,
  KeptLayer,
  LogRow,
  Store,
  TokenStore,
} from "@rkat/core/ports/store";
import { createBlobs } from "./blobs.ts";
import { codeOf, isLost, placeOf } from "./client.ts";
import { type Connection, createConnection, createLook } from "./connection.ts";
import { createForgettings } from "./forgettings.ts";
import { createSessionLocks } from "./leases.ts";
import { createLog } from "./log.ts";
import { createRows } from "./rows.ts";
import { migrate } from "./schema.ts";
import { type Channel, createChannel } from "./signals.ts";
import { inTransaction, vacuum } from "./transaction.ts";

export interface PostgresOptions {
  readonly url: string;
  /** The owner of the rows: a database may hold several separate realms. */
  readonly realm: string;
  readonly warn?: (sentence: string) => void;
  readonly now?: () => number;
  readonly folder?: string | undefined;
  readonly poolMax?: number;
  /** Behind a pooler that reassigns connections after each transaction. */
  readonly isPooled?: boolean;
  /** How long a process may be silent before others can take its sessions. */
  readonly leaseMs?: number;
  /** Appends of so many sessions share a statement; 1 if rows of sessions are on different machines. */
  readonly batchMax?: number;
}

/** A realm in a database, with one pool of connections. */
export interface Database {
  readonly connection: Connection;
  readonly realm: string;
  /** The logs of one kind; closing it leaves the database open. */
  store<B, R extends LogRow>(kind: "session" | "agent" | "schedule", foldRow: FoldRow<B, R>): Store<B, R>;
  config(): Promise<ConfigStore>;
  close(): Promise<void>;
}

const POOL_MAX = 8;
const LEASE_MS = 10_000;
const BATCH_MAX = 256;

/** The advice for errors of a database, by their code. */
const ADVICE: Readonly<Record<string, string>> = {
  "28P01": "check the user and the password of its address, or PGPASSWORD",
  "28000": "let this user in by pg_hba.conf, or name another",
  "3D000": "create it, or name another",
  "42501": "let its owner start rkat once, which makes the schema, and grant this user what docs/deployment.md lists",
};

function adviceFor(error: unknown): string {
  const advice = ADVICE[codeOf(error)];
  return advice === undefined ? "" : `; ${advice}`;
}

/** Opens a database and migrates its schema; throws SESSION_STORE_ERROR, without the password, if it cannot. */
export async function openDatabase(options: PostgresOptions): Promise<Database> {
  const { url, realm, warn = () => {}, now = Date.now, isPooled = false, leaseMs = LEASE_MS } = options;
  const connection = createConnection({ url, poolMax: options.poolMax ?? POOL_MAX, isPooled, retryMs: leaseMs });
  try {
    await connection.runOnce(migrate);
  } catch (error) {
    await connection.close();
    if (error instanceof RuntimeError) throw error;
    const message = `cannot open the database ${placeOf(url)}: ${messageOf(error)}${adviceFor(error)}`;
    throw new RuntimeError("SESSION_STORE_ERROR", message, { cause: error });
  }
  const channel = createChannel({ connection, realm, isPooled, warn });
  const closing: (() => void)[] = [];
  return {
    connection,
    realm,
    store: (kind, foldRow) => {
      const owner = randomUUID();
      const rows = createRows<ReturnType<typeof foldRow>>(connection, realm, kind);
      const { close, isOurs, interrupted, noted, ...locks } = createSessionLocks({
        connection,
        realm,
        kind,
        owner,
        leaseMs,
        onInterrupt: (sessionId) => channel.notify(`interrupt ${sessionId}`),
        onNote: (sessionId, note) => channel.notify(`note ${sessionId} ${note}`),
      });
      const unsubscribe = channel.listen((word, what, note) => {
        if (word === "interrupt") interrupted(what);
        if (word === "note") noted(what, note);
      });
      const parts = { connection, realm, kind, owner, foldRow, rows, now, isHeld: isOurs };
      return {
        log: createLog({ ...parts, batchMax: options.batchMax ?? BATCH_MAX }),
        sessions: { get: rows.get, page: rows.page },
        locks,
        blobs: createBlobs(connection, realm),
        checkpoints: createCheckpoints(connection, realm),
        purge: async (sessionIds) => {
          const { deleteSessionFiles } = await import("@rkat/node/log/forgetting-files");
          if (options.folder !== undefined) deleteSessionFiles(options.folder, sessionIds);
          await vacuum(connection.run);
        },
        forgettings: createForgettings(connection, { realm, folder: options.folder }),
        signals: { emit: channel.emit, subscribe: channel.subscribe, close: async () => {} },
        close: async () => {
          unsubscribe();
          await close();
        },
      };
    },
    config: async () => {
      const configuration = await openConfiguration(connection, {
        realm,
        channel,
        name: `the configuration of realm ${realm} in ${placeOf(url)}`,
      });
      closing.push(configuration.close);
      return configuration;
    },
    close: async () => {
      for (const close of closing) close();
      await channel.close();
      await connection.close();
    },
  };
}

/** Checkpoints as rows, one per session. */
function createCheckpoints(connection: Connection, realm: string): CheckpointStore {
  return {
    get: async (sessionId) => {
      const [found] = await connection.query<{ kept: string }>`
        select kept from rkat.checkpoints where realm = ${realm} and id = ${sessionId}`;
      return found?.kept;
    },
    put: async (sessionId, text) => {
      await connection.query`
        insert into rkat.checkpoints (realm, id, kept) values (${realm}, ${sessionId}, ${text})
        on conflict (realm, id) do update set kept = excluded.kept`;
    },
    remove: async (sessionId) => {
      await connection.query`delete from rkat.checkpoints where realm = ${realm} and id = ${sessionId}`;
    },
  };
}

/** A change whose notification was lost is found after this time. */
const LOOK_MS = 2_000;

interface Configuration extends ConfigStore {
  close(): void;
}

/** A realm's own layer of the configuration as a row; every process caches it and is notified of changes. */
export async function openConfiguration(
  connection: Connection,
  { realm, channel, name }: { readonly realm: string; readonly channel: Channel; readonly name: string },
): Promise<Configuration> {
  const load = async (): Promise<KeptLayer> => {
    const [row] = await connection.query<{ generation: number; layer: string }>`
      select generation, layer from rkat.configuration where realm = ${realm}`;
    return row === undefined ? NOTHING : { generation: row.generation, layer: JSON.parse(row.layer) };
  };
  let kept = await load();
  let seen = kept.generation;
  // The cached layer holds until the database is reachable again.
  const { request } = createLook(async () => {
    const now = await load();
    if (now.generation > kept.generation) kept = now;
  });
  const timer = setInterval(request, LOOK_MS).unref();
  const unsubscribe = channel.listen((kind) => {
    if (kind === "config") request();
  });
  return {
    name,
    read: () => {
      seen = kept.generation;
      return kept;
    },
    hasChanged: () => kept.generation !== seen,
    change: async (make) => {
      const change = connection.runOnce((run) =>
        inTransaction(run, async (query) => {
          // The row to lock must exist before the first change.
          await query`
            insert into rkat.configuration (realm, generation, layer) values (${realm}, 0, '{}') on conflict do nothing`;
          const [row] = await query<{ generation: number; layer: string }>`
            select generation, layer from rkat.configuration where realm = ${realm} for update`;
          const { generation, layer } = row ?? { generation: 0, layer: "{}" };
          const next = { generation: generation + 1, layer: make({ generation, layer: () => JSON.parse(layer) }) };
          await query`
            update rkat.configuration set generation = ${next.generation}, layer = ${JSON.stringify(next.layer)}
            where realm = ${realm}`;
          return next;
        }),
      );
      const changed = await change.catch((cause: unknown) => {
        if (!isLost(cause)) throw cause;
        const message = `the database was lost while ${name} was changed: read it to see whether it was`;
        throw new RuntimeError("SESSION_STORE_ERROR", message, { cause });
      });
      kept = changed;
      seen = changed.generation;
      channel.notify(`config ${changed.generation}`);
      return changed;
    },
    close: () => {
      clearInterval(timer);
      unsubscribe();
    },
  };
}

const NOTHING: KeptLayer = { generation: 0, layer: {} };

/** The state of a database, and the counts of one realm. */
export interface DatabaseReport {
  readonly place: string;
  readonly server: string;
  readonly schema: number | undefined;
  /** The fastest of a few round trips. */
  readonly latencyMs: number;
  readonly sessions: number;
  readonly agents: number;
  /** Processes with a valid lease, and the sessions that they hold. */
  readonly processes: number;
  readonly held: number;
}

const PINGS = 5;
const RETRY_MS = 2_000;

/** Inspects a database without changing it. */
export async function inspect(url: string, realm: string): Promise<DatabaseReport> {
  // Without prepared statements and settings it works with any database, also behind a pooler.
  const connection = createConnection({ url, poolMax: 1, isPooled: true, retryMs: RETRY_MS });
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

const TOKENS_LOOK_MS = 500;

/** The tokens of a realm as rows, shared by all its servers. Closing it closes the database. */
export async function openTokens({ connection, realm, close }: Database): Promise<TokenStore> {
  let state = "";
  let names = 0;
  let tokens: readonly Token[] = [];
  const load = async (): Promise<void> => {
    const rows = await connection.query<{ kept: string | null }>`
      select kept from rkat.tokens where realm = ${realm} order by name`;
    const now = rows.map(({ kept }) => kept ?? "").join("\n");
    names = rows.length;
    if (now === state) return;
    state = now;
    tokens = rows.flatMap(({ kept }) => (kept === null ? [] : (Token.safeParse(JSON.parse(kept)).data ?? [])));
  };
  await load();
  const look = createLook(load);
  const timer = setInterval(look.request, TOKENS_LOOK_MS).unref();
  return {
    isInUse: () => names > 0,
    read: () => tokens,
    state: () => state,
    add: async (token) => {
      const added = await connection.query`
        insert into rkat.tokens as t (realm, name, kept) values (${realm}, ${token.name}, ${JSON.stringify(token)})
        on conflict (realm, name) do update set kept = excluded.kept where t.kept is null or t.kept = excluded.kept
        returning name`;
      await load();
      return added.length > 0;
    },
    remove: async (name) => {
      const removed = await connection.query`
        update rkat.tokens set kept = null where realm = ${realm} and name = ${name} and kept is not null
        returning name`;
      await load();
      return removed.length > 0;
    },
    close: async () => {
      clearInterval(timer);
      await look.settled();
      await close();
    },
  };
}
