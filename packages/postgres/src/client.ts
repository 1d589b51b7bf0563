import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import { Client, TypeOverrides, types } from "pg";

/** A statement that takes longer is ended by the database; one without an answer by then has lost its connection. */
const STATEMENT_MS_MAX = 20_000;
const ANSWER_MS_MAX = 25_000;
const CONNECT_MS_MAX = 10_000;

interface Clients {
  readonly Client: new () => Client;
  /** Refuses a new connection to a server that cannot be written to, where the address says so. */
  verify(client: Client, done: (error?: Error) => void): Promise<void>;
  connect<T>(open: () => Promise<T>): Promise<T>;
}

/** How connections to the database of an address are made: its hosts in turn, with TLS as its `sslmode` says. */
export function createClients(url: string, isPooled: boolean): Clients {
  // The error of `new URL` would show the whole address, with its password.
  if (!URL.canParse(url)) throw new RuntimeError("SESSION_STORE_ERROR", "the address of the database cannot be read");
  const address = new URL(url);
  const hosts = address.hostname.split(",");
  const mode = address.searchParams.get("sslmode") ?? "disable";
  const isToBeWritten = /^(?:primary|read-write)$/.test(address.searchParams.get("target_session_attrs") ?? "");
  // The driver reads it in its own way: there `require` checks certificates, and `prefer` fails without TLS.
  address.searchParams.delete("sslmode");
  let hasTls = mode !== "disable";
  let opened = 0;
  class DatabaseClient extends Client {
    constructor() {
      address.hostname = hosts[opened % hosts.length] ?? "";
      opened += 1;
      super({
        connectionString: address.href,
        ssl: hasTls && { rejectUnauthorized: mode !== "prefer" && mode !== "require" },
        pipeline: true,
        keepAlive: true,
        connectionTimeoutMillis: CONNECT_MS_MAX,
        query_timeout: ANSWER_MS_MAX,
        types: COUNTS,
        // A pooler does not know what to do with settings of one client.
        ...(isPooled ? {} : { application_name: "rkat", statement_timeout: STATEMENT_MS_MAX }),
      });
      // Statements on a lost connection reject; its error event, without a listener, would end the process.
      this.on("error", () => {});
    }
  }
  return {
    Client: DatabaseClient,
    verify: async (client, done) => {
      const isWritten = !isToBeWritten || (await isWritable(client));
      done(isWritten ? undefined : new LostDatabase("the server can only be read"));
    },
    connect: async (open) => {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await open();
        } catch (error) {
          const reason = messageOf(error);
          if (mode === "prefer" && hasTls && reason === "The server does not support SSL connections") hasTls = false;
          else if (attempt >= hosts.length) throw UNCODED.test(reason) ? new LostDatabase(reason) : error;
        }
      }
    },
  };
}

async function isWritable(client: Client): Promise<boolean> {
  const answer = await client.query("show transaction_read_only").catch(() => undefined);
  return answer?.rows[0]?.transaction_read_only === "off";
}

/** Seqs and times: as large as numbers are exact, and no larger. */
const COUNTS = new TypeOverrides();
COUNTS.setTypeParser(types.builtins.INT8, Number);

/** The connection ended before the answer came. */
export class LostDatabase extends Error {}

/** What the driver says, without a code, of connections that could not be made in time, were ended, or are closed. */
const UNCODED = /^(?:timeout|Connection terminated|Cannot use a pool)/;

const LOST = new Set([
  ...["ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "ENETUNREACH", "EPIPE", "ETIMEDOUT", "EAI_AGAIN"],
  // It is shutting down, has crashed, is starting, let an idle connection go, or has no connection left.
  ...["57P01", "57P02", "57P03", "57P05", "53300"],
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

export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** Where the database is, without its password. */
export function placeOf(url: string): string {
  if (!URL.canParse(url)) return "the address given";
  const { hostname, port, pathname } = new URL(url);
  return `${hostname || "localhost"}:${port || "5432"}${pathname}`;
}
