import { randomUUID } from "node:crypto";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import type { ConfigStore } from "@rkat/core/ports/config-store";
import type { CheckpointStore, FoldRow, LogRow, Store } from "@rkat/core/ports/store";
import { createBlobs } from "./blobs.ts";
import { codeOf, placeOf } from "./client.ts";
import { openConfiguration } from "./config.ts";
import { type Connection, createConnection } from "./connection.ts";
import { createForgettings } from "./forgettings.ts";
import { createSessionLocks } from "./leases.ts";
import { createLog } from "./log.ts";
import { createRows } from "./rows.ts";
import { migrate } from "./schema.ts";
import { createChannel } from "./signals.ts";
import { vacuum } from "./transaction.ts";

export interface PostgresOptions {
  readonly url: string;
  /** Whose rows these are: a database may hold several realms, which know nothing of each other. */
  readonly realm: string;
  readonly warn?: (sentence: string) => void;
  readonly now?: () => number;
  /** What this process keeps beside the database. */
  readonly folder?: string | undefined;
  /** Connections of this process at most. */
  readonly poolMax?: number;
  /** Behind a pooler that gives a connection away after each transaction. */
  readonly isPooled?: boolean;
  /** How long a process may be silent before what it holds can be taken. */
  readonly leaseMs?: number;
  /** Appends of so many sessions go in one statement; 1 where rows of sessions lie on different machines. */
  readonly batchMax?: number;
}

/** A database that keeps a realm, with one pool of connections for all of it. */
export interface Database {
  readonly connection: Connection;
  readonly realm: string;
  /** The logs of one kind; closing it leaves the database open. */
  store<B, R extends LogRow>(kind: "session" | "agent", foldRow: FoldRow<B, R>): Store<B, R>;
  config(): Promise<ConfigStore>;
  close(): Promise<void>;
}

const POOL_MAX = 8;
const LEASE_MS = 10_000;
const BATCH_MAX = 256;

/** What to do about what a database says of itself, by its code. */
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

/** Opens a database and brings its schema up to date; throws SESSION_STORE_ERROR, without the password, where it cannot. */
export async function openDatabase(options: PostgresOptions): Promise<Database> {
  const { url, realm, warn = () => {}, now = Date.now, isPooled = false, leaseMs = LEASE_MS } = options;
  const connection = createConnection({ url, poolMax: options.poolMax ?? POOL_MAX, isPooled, patienceMs: leaseMs });
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
      const { close, isOurs, interrupted, ...locks } = createSessionLocks({
        connection,
        realm,
        kind,
        owner,
        leaseMs,
        onInterrupt: (sessionId) => channel.say(`interrupt ${sessionId}`),
      });
      const unsubscribe = channel.listen((word, what) => {
        if (word === "interrupt") interrupted(what);
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

/** Checkpoints as rows, one a session. */
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
