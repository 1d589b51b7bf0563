import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, DatabaseError, Pool, type PoolClient, type QueryResultRow } from "pg";
import { messageOf, RuntimeError, STORE_AWAY } from "../../contract/error.ts";
import { type ClientOptions, codeOf, createClients, isLost, isOutrun, LostDatabase } from "./client.ts";
import { type Sql, toParameter } from "./sql.ts";
import { inTransaction } from "./transaction.ts";

export interface ConnectionOptions extends ClientOptions {
  /** Connections at most. */
  readonly poolMax: number;
  /** How long a database that cannot be reached is waited for. */
  readonly patienceMs: number;
}

/** Runs a statement; rejects with the database's own error, or with one for which `isLost` holds. */
export type Query = <R extends QueryResultRow = Readonly<Record<string, unknown>>>(
  statement: Sql,
  answerMs?: number,
) => Promise<readonly R[]>;

/** Statements that run one after the other on one connection; those given at once are sent without waiting for answers. */
export type Work<T> = (query: Query) => Promise<T>;

/** A database that may be unreachable for a while. */
export interface Connection {
  /** One statement that may be repeated, as in `run`. */
  query: Query;
  /** Work that may be repeated: when the connection is lost it runs again, for as long as the patience lasts. */
  run<T>(work: Work<T>): Promise<T>;
  /** Work that is not repeated: when it fails and `isLost` holds for the error, it may have been done or not. */
  runOnce<T>(work: Work<T>): Promise<T>;
  /** Work in one transaction, which may be repeated. */
  transaction<T>(work: Work<T>, mode?: "read only"): Promise<T>;
  /** Calls `heard` with every notification of a channel, on a connection of its own, until the returned function is called. */
  listen(channel: string, heard: (payload: string) => void): () => Promise<void>;
  close(): Promise<void>;
}

const AGAIN_MS_MIN = 50;
const AGAIN_MS_MAX = 1_000;
/** How long a call waits while all connections are in use. */
const FREE_MS_MAX = 25_000;
const CLOSE_MS_MAX = 5_000;
const LIFETIME_SECS = 3_600;

export function createConnection({ poolMax, patienceMs, ...options }: ConnectionOptions): Connection {
  const { isPooled } = options;
  const clients = createClients(options);
  const pool = new Pool({
    max: poolMax,
    Client: clients.Client,
    verify: (client, done) => void clients.verify(client).then(() => done(), done),
    connectionTimeoutMillis: FREE_MS_MAX,
    idleTimeoutMillis: 0,
    maxLifetimeSeconds: LIFETIME_SECS,
  });
  pool.on("error", () => {});
  const uses = new Map<PoolClient, "idle" | "in use">();
  pool.on("acquire", (client) => void uses.set(client, "in use"));
  pool.on("release", (_, client) => void uses.set(client, "idle"));
  pool.on("remove", (client) => void uses.delete(client));
  const cut = (which: readonly string[]): void => {
    for (const [client, use] of uses) if (which.includes(use)) client.connection.stream.destroy();
  };
  let isClosed = false;

  const runOnce = async <T>(work: Work<T>): Promise<T> => {
    const client = await clients.connect(() => pool.connect());
    let isOver = false;
    let failure: unknown;
    const query: Query = async (statement, answerMs) => {
      // Another call may have the connection by now, and a transaction open on it.
      if (isOver) throw new Error("a statement was given after the end of the work it belongs to");
      return runStatement(client, statement, { isPooled, answerMs });
    };
    try {
      return await work(query);
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      isOver = true;
      const isBroken = isLost(failure);
      client.release(isBroken);
      // Those that nobody uses now lead to where this one was lost: each of them would be waited for in vain.
      if (isBroken) cut(["idle"]);
    }
  };
  const run = async <T>(work: Work<T>): Promise<T> => {
    const untilMs = performance.now() + patienceMs;
    for (let pauseMs = AGAIN_MS_MIN; ; pauseMs = Math.min(AGAIN_MS_MAX, pauseMs * 2)) {
      try {
        return await runOnce(work);
      } catch (error) {
        if (!isLost(error) && !isOutrun(error)) throw error;
        if (isClosed || performance.now() + pauseMs > untilMs) throw away(error);
      }
      await sleep(pauseMs);
    }
  };
  return {
    query: (statement) => run((query) => query(statement)),
    run,
    runOnce,
    transaction: (work, mode) => run((query) => inTransaction(query, work, mode)),
    listen: (channel, heard) => {
      const over = new AbortController();
      let client: Client | undefined;
      const open = async (): Promise<Client> => {
        client = new clients.Client();
        await client.connect();
        await clients.verify(client);
        return client;
      };
      const listenOnce = async (): Promise<void> => {
        const listener = await clients.connect(open);
        listener.on("notification", ({ payload = "" }) => heard(payload));
        await listener.query(`listen ${channel}`);
        await once(listener, "end");
      };
      const listening = (async () => {
        while (!over.signal.aborted) {
          await listenOnce().catch(() => client?.end());
          await sleep(AGAIN_MS_MIN, undefined, { signal: over.signal }).catch(() => {});
        }
      })();
      return async () => {
        over.abort();
        client?.connection.stream.destroy();
        await listening;
      };
    },
    close: async () => {
      isClosed = true;
      const ended = [...uses.keys()].map((client) => new Promise((resolve) => client.once("end", resolve)));
      await Promise.race([Promise.all([pool.end(), ...ended]), sleep(CLOSE_MS_MAX, undefined, { ref: false })]);
      cut(["idle", "in use"]);
    },
  };
}

/** Names of prepared statements by their text, of which there are as many as are written in this folder. */
const names = new Map<string, string>();

async function runStatement<R extends QueryResultRow>(
  client: Client,
  { text, values }: Sql,
  { isPooled, answerMs }: { readonly isPooled: boolean; readonly answerMs: number | undefined },
): Promise<readonly R[]> {
  // Behind a pooler the next statement may reach another session of the database, which has nothing prepared.
  const isPrepared = !isPooled && values.length > 0;
  if (isPrepared && !names.has(text)) names.set(text, `s${names.size}`);
  const given = {
    text,
    values: values.map(toParameter),
    name: isPrepared ? names.get(text) : undefined,
    ...(answerMs !== undefined && { query_timeout: answerMs }),
  };
  try {
    const { rows } = await client.query<R>(given);
    return rows;
  } catch (error) {
    // What the database itself has not said is about the connection.
    throw error instanceof DatabaseError ? error : new LostDatabase(messageOf(error), { cause: error });
  }
}

/**
 * Looks at the database when asked to: one look at a time, and one more for all requests made meanwhile. Anyone may notify a
 * realm's channel, and a look for each notification would keep its server busy. A look that fails is left to the next request.
 */
export function createLook(work: () => Promise<void>): { request(): void; settled(): Promise<void> } {
  let looking: Promise<void> = Promise.resolve();
  let isWaiting = false;
  return {
    request: () => {
      if (isWaiting) return;
      isWaiting = true;
      looking = looking
        .then(() => {
          isWaiting = false;
          return work();
        })
        .catch(() => {});
    },
    settled: () => looking,
  };
}

function away(cause: unknown): RuntimeError {
  // Clients of a server are told as well: what a socket says names the address, and its code does not.
  const reason = /^[A-Z_]+$/.test(codeOf(cause)) ? codeOf(cause) : messageOf(cause);
  const message = `the database cannot be reached: ${reason}`;
  return new RuntimeError("SESSION_STORE_ERROR", message, { cause, details: { reason: { reason_type: STORE_AWAY } } });
}
