import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf, RuntimeError, STORE_AWAY } from "@rkat/core/contract/error";
import { type Client, DatabaseError, Pool, type PoolClient, type QueryResultRow } from "pg";
import { codeOf, createClients, isLost, isOutrun, LostDatabase } from "./client.ts";
import { sql, toStatement } from "./sql.ts";
import { inTransaction, type Query, type Work } from "./transaction.ts";

export interface ConnectionOptions {
  readonly url: string;
  /** Behind a pooler that gives a connection away after each transaction: nothing may be left on one. */
  readonly isPooled: boolean;
  /** Connections at most. */
  readonly poolMax: number;
  /** How long a database that cannot be reached is waited for. */
  readonly patienceMs: number;
}

/** A database that may be unreachable for a while. */
export interface Connection {
  /** One statement, done as by `run`. */
  readonly query: Query;
  /** Does what may be done twice: when the connection is lost it is done again, for as long as the patience lasts. */
  run<T>(work: Work<T>, answerMs?: number): Promise<T>;
  /** Does something once; where `isLost` holds for its error, it may have been done or not. */
  runOnce<T>(work: Work<T>): Promise<T>;
  /** The work of one transaction, done as by `run`. */
  transaction<T>(work: Work<T>, mode?: "read only"): Promise<T>;
  /** Calls `listener` with each notification of a channel, until the function that is returned is called. */
  listen(channel: string, listener: (payload: string) => void): () => Promise<void>;
  close(): Promise<void>;
}

const AGAIN_MS_MIN = 50;
const AGAIN_MS_MAX = 1_000;
/** How long work waits for a connection while all of them are in use. */
const IN_USE_MS_MAX = 25_000;
const CLOSE_MS_MAX = 5_000;
const LIFETIME_SECS = 3_600;

export function createConnection({ url, isPooled, poolMax, patienceMs }: ConnectionOptions): Connection {
  const { Client: DatabaseClient, connect, verify } = createClients(url, isPooled);
  const pool = new Pool({
    Client: DatabaseClient,
    verify,
    max: poolMax,
    connectionTimeoutMillis: IN_USE_MS_MAX,
    idleTimeoutMillis: 0,
    maxLifetimeSeconds: LIFETIME_SECS,
  });
  pool.on("error", () => {});
  const isIdle = new Map<PoolClient, boolean>();
  pool.on("acquire", (client) => void isIdle.set(client, false));
  pool.on("release", (_, client) => void isIdle.set(client, true));
  pool.on("remove", (client) => void isIdle.delete(client));
  let isClosed = false;

  const runOnce = async <T>(work: Work<T>, answerMs?: number): Promise<T> => {
    const client = await connect(() => pool.connect());
    let isOver = false;
    const query: Query = (strings, ...values) => {
      // Another call may have the connection by now, and a transaction open on it.
      if (isOver) throw new Error("a statement came after the end of the work that it belongs to");
      return answer(client, { ...toStatement(sql(strings, ...values)), answerMs, isPrepared: !isPooled });
    };
    const end = (isBroken: boolean): void => {
      isOver = true;
      client.release(isBroken);
      // Those that are idle lead to where this one was lost, and each would be waited for in vain.
      if (isBroken) for (const [other, isUnused] of isIdle) if (isUnused) other.connection.stream.destroy();
    };
    try {
      const result = await work(query);
      end(false);
      return result;
    } catch (error) {
      end(isLost(error));
      throw error;
    }
  };
  const run = async <T>(work: Work<T>, answerMs?: number): Promise<T> => {
    const untilMs = performance.now() + patienceMs;
    for (let pauseMs = AGAIN_MS_MIN; ; pauseMs = Math.min(AGAIN_MS_MAX, pauseMs * 2)) {
      try {
        return await runOnce(work, answerMs);
      } catch (error) {
        if (!isLost(error) && !isOutrun(error)) throw error;
        if (isClosed || performance.now() + pauseMs > untilMs) throw away(error);
      }
      await sleep(pauseMs);
    }
  };
  return {
    query: (...statement) => run((query) => query(...statement)),
    run,
    runOnce,
    transaction: (work, mode) => run((query) => inTransaction(query, work, mode)),
    listen: (channel, listener) => {
      const over = new AbortController();
      let client: Client | undefined;
      const listening = (async () => {
        while (!over.signal.aborted) {
          client = new DatabaseClient();
          client.on("notification", ({ payload = "" }) => listener(payload));
          await listenOn(client, channel).catch(() => client?.end());
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
      if (isClosed) return;
      isClosed = true;
      const ended = [...isIdle.keys()].map((client) => new Promise((resolve) => client.once("end", resolve)));
      await Promise.race([Promise.all([pool.end(), ...ended]), sleep(CLOSE_MS_MAX, undefined, { ref: false })]);
      for (const client of isIdle.keys()) client.connection.stream.destroy();
    },
  };
}

async function listenOn(client: Client, channel: string): Promise<void> {
  await client.connect();
  await client.query(`listen ${channel}`);
  await once(client, "end");
}

/** Names of prepared statements, by their text. */
const names = new Map<string, string>();

interface Statement extends ReturnType<typeof toStatement> {
  readonly answerMs: number | undefined;
  readonly isPrepared: boolean;
}

async function answer<R extends object>(
  client: Client,
  { text, values, answerMs, isPrepared }: Statement,
): Promise<readonly R[]> {
  const name = isPrepared && values.length > 0 ? (names.get(text) ?? `s${names.size}`) : undefined;
  if (name !== undefined) names.set(text, name);
  const limit = answerMs === undefined ? {} : { query_timeout: answerMs };
  try {
    return (await client.query<R & QueryResultRow>({ text, values, name, ...limit })).rows;
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
