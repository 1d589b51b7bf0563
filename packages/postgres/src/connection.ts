import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf, RuntimeError, STORE_AWAY } from "@rkat/core/contract/error";
import { type Client, DatabaseError, Pool, type PoolClient, type QueryResultRow } from "pg";
import { codeOf, createClients, isLost, isOutrun, LostDatabase } from "./client.ts";
import { sql, toStatement } from "./sql.ts";
import { inTransaction, type Query, type Work } from "./transaction.ts";

export interface ConnectionOptions {
  readonly url: string;
  /** Behind a pooler that reassigns connections after each transaction: no state may stay on one. */
  readonly isPooled: boolean;
  readonly poolMax: number;
  /** How long to wait for an unreachable database. */
  readonly retryMs: number;
}

/** A database that may be unreachable for a while. */
export interface Connection {
  readonly query: Query;
  /** Runs idempotent work, and runs it again when the connection is lost, until `retryMs` has passed. */
  run<T>(work: Work<T>, answerMs?: number): Promise<T>;
  /** Runs work once; if `isLost` holds for its error, the work may or may not have been done. */
  runOnce<T>(work: Work<T>): Promise<T>;
  /** Runs one transaction as `run` does. */
  transaction<T>(work: Work<T>, mode?: "read only"): Promise<T>;
  /** Calls `listener` with each notification of a channel until the returned function is called. */
  listen(channel: string, listener: (payload: string) => void): () => Promise<void>;
  close(): Promise<void>;
}

const AGAIN_MS_MIN = 50;
const AGAIN_MS_MAX = 1_000;
/** How long work waits for a free connection. */
const IN_USE_MS_MAX = 25_000;
const CLOSE_MS_MAX = 5_000;
const LIFETIME_SECS = 3_600;

export function createConnection({ url, isPooled, poolMax, retryMs }: ConnectionOptions): Connection {
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
      // Another call may use the connection by now, with an open transaction.
      if (isOver) throw new Error("a statement was sent after its work had ended");
      return answer(client, { ...toStatement(sql(strings, ...values)), answerMs, isPrepared: !isPooled });
    };
    const end = (isBroken: boolean): void => {
      isOver = true;
      client.release(isBroken);
      // Idle connections lead to the same lost server, and each would time out in turn.
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
    const untilMs = performance.now() + retryMs;
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

/** Names of prepared statements by their text. */
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
    // An error that is not from the database is an error of the connection.
    throw error instanceof DatabaseError ? error : new LostDatabase(messageOf(error), { cause: error });
  }
}

/**
 * Polls the database on request: one poll at a time, and one more for all requests made meanwhile. Anyone may notify a
 * realm's channel, and a poll per notification would overload the server. The next request retries a failed poll.
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
  // Clients see this message: the message of a socket error names the address, its code does not.
  const reason = /^[A-Z_]+$/.test(codeOf(cause)) ? codeOf(cause) : messageOf(cause);
  const message = `the database cannot be reached: ${reason}`;
  return new RuntimeError("SESSION_STORE_ERROR", message, { cause, details: { reason: { reason_type: STORE_AWAY } } });
}
