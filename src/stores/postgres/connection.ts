import { setTimeout as sleep } from "node:timers/promises";
import type { Options, Sql } from "postgres";
import postgres from "postgres";
import { messageOf, RuntimeError, STORE_AWAY } from "../../contract/error.ts";
import { withWholeRows } from "./whole-rows.ts";

export interface ConnectionOptions {
  readonly url: string;
  /** Connections at most. */
  readonly poolMax: number;
  /** Behind a pooler that gives a connection away after each transaction: nothing may be left on one. */
  readonly isPooled: boolean;
  /** How long a database that is away is waited for. */
  readonly patienceMs: number;
}

/** The way to a database that may be away for a while. */
export interface Connection {
  /** Does what may be done twice: when the database is lost on the way it is done again, for as long as patience lasts. */
  ask<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** Does something once; `isLost` tells of what it throws that nobody knows whether it was done. */
  askOnce<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** A connection of its own, for listening. */
  alone(): Sql;
  close(): Promise<void>;
}

/** What is listed or scanned is given up after this; a database that has not even said so a while later is lost. */
const STATEMENT_MS_MAX = 20_000;
const ANSWER_MS_MAX = 25_000;
const CONNECT_SECS_MAX = 10;
const RECONNECT_SECS = 0.05;
const AGAIN_MS_MIN = 50;
const AGAIN_MS_MAX = 1_000;

export function createConnection({ url, poolMax, isPooled, patienceMs }: ConnectionOptions): Connection {
  const options: Options<{ bigint: typeof COUNTS }> = {
    connect_timeout: CONNECT_SECS_MAX,
    prepare: !isPooled,
    fetch_types: false,
    // Whoever asks again waits; a driver that waits besides, and longer each time, misses that the database is back.
    backoff: () => RECONNECT_SECS,
    onnotice: () => {},
    types: { bigint: COUNTS },
    // A pooler does not know what to do with settings of one client.
    connection: isPooled ? {} : { application_name: "rkat", statement_timeout: STATEMENT_MS_MAX },
  };
  const open = (max: number): Sql => withWholeRows(postgres(url, { ...options, max }));
  let pool = open(poolMax);
  let isClosed = false;
  const underWay = new Set<Promise<unknown>>();

  /**
   * Whoever asks next gets new connections. One that was lost with words still to be sent never sends anything again, and
   * what was left of a transaction on it would be said on the next: the driver knows of neither.
   */
  const renew = (lost: Sql, patienceSecs: number): void => {
    if (pool === lost && !isClosed) pool = open(poolMax);
    void lost.end({ timeout: patienceSecs });
  };
  const askOnce = async <T>(work: (sql: Sql) => Promise<T>): Promise<T> => {
    const sql = pool;
    const timer = new AbortController();
    const silence = sleep(ANSWER_MS_MAX, undefined, { signal: timer.signal }).then(
      () => {
        // Its connections wait for answers that do not come.
        renew(sql, 0);
        throw new LostDatabase(`no answer in ${ANSWER_MS_MAX / 1_000} s`);
      },
      () => new Promise<never>(() => {}),
    );
    const asked = work(sql);
    underWay.add(asked);
    try {
      return await Promise.race([asked, silence]);
    } catch (error) {
      if (isLost(error)) renew(sql, CLOSE_MS_MAX / 1_000);
      throw error;
    } finally {
      timer.abort();
      underWay.delete(asked);
    }
  };
  return {
    ask: async (work) => {
      const untilMs = performance.now() + patienceMs;
      for (let pauseMs = AGAIN_MS_MIN; ; pauseMs = Math.min(AGAIN_MS_MAX, pauseMs * 2)) {
        try {
          return await askOnce(work);
        } catch (error) {
          if (!isLost(error) && !isOutrun(error)) throw error;
          if (isClosed || performance.now() + pauseMs > untilMs) throw away(error);
        }
        await sleep(pauseMs);
      }
    },
    askOnce,
    alone: () => open(1),
    close: async () => {
      isClosed = true;
      // Awaited here: the driver goes on waiting for answers of connections that were lost.
      await Promise.race([Promise.allSettled(underWay), sleep(CLOSE_MS_MAX, undefined, { ref: false })]);
      await pool.end({ timeout: 0 });
    },
  };
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

const CLOSE_MS_MAX = 5_000;

/** Seqs and times: as large as numbers are exact, and no larger. */
const COUNTS = { to: 20, from: [20], parse: Number, serialize: String };

/** Values as one parameter, written as an array's text: the driver would ask the database for the types of arrays first. */
export function arrayText(values: Iterable<string | number | boolean>): string {
  const written: string[] = [];
  for (const value of values) {
    written.push(typeof value === "string" ? quoted(value) : String(value));
  }
  return `{${written.join(",")}}`;
}

/** As arrays of the database quote. JSON quotes the same but for control characters, twenty times as fast: most is JSON. */
function quoted(text: string): string {
  const isAlike = !CONTROL.test(text) && text.isWellFormed();
  return isAlike ? JSON.stringify(text) : `"${text.replace(/["\\]/g, "\\$&")}"`;
}

const CONTROL = /\p{Cc}/u;

/** The connection ended before the answer came. */
class LostDatabase extends Error {}

const LOST = new Set([
  "CONNECTION_CLOSED",
  "CONNECTION_DESTROYED",
  "CONNECTION_ENDED",
  "CONNECT_TIMEOUT",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EPIPE",
  "ETIMEDOUT",
  "EAI_AGAIN",
  // It is shutting down, has crashed, is starting, let an idle connection go, or has no connection left.
  "57P01",
  "57P02",
  "57P03",
  "57P05",
  "53300",
  // It may only read since another has taken its place: nothing was done, and a new connection finds that other.
  "25006",
]);

/** Whether the database was lost: what was asked may have been done or not. */
export function isLost(error: unknown): boolean {
  return error instanceof LostDatabase || LOST.has(codeOf(error)) || codeOf(error).startsWith("08");
}

/** Whether the database gave one transaction up for another: nothing was done, and it may be asked again. */
export function isOutrun(error: unknown): boolean {
  return codeOf(error) === "40001" || codeOf(error) === "40P01";
}

function away(cause: unknown): RuntimeError {
  // Clients of a server are told as well: what a socket says names the address, and its code does not.
  const reason = /^[A-Z_]+$/.test(codeOf(cause)) ? codeOf(cause) : messageOf(cause);
  const message = `the database cannot be reached: ${reason}`;
  return new RuntimeError("SESSION_STORE_ERROR", message, { cause, details: { reason: { reason_type: STORE_AWAY } } });
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** Where the database is, without its password. */
export function placeOf(url: string): string {
  try {
    const { hostname, port, pathname } = new URL(url);
    return `${hostname || "localhost"}:${port || "5432"}${pathname}`;
  } catch {
    return "the address given";
  }
}
