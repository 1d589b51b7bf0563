import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import { Client, TypeOverrides, types } from "pg";

/** The database ends a statement that takes longer; without an answer by then, the connection counts as lost. */
const STATEMENT_MS_MAX = 20_000;
const ANSWER_MS_MAX = 25_000;
const CONNECT_MS_MAX = 10_000;

interface Clients {
  readonly Client: new () => Client;
  /** Refuses a new connection to a read-only server, if the address asks for a writable one. */
  verify(client: Client, done: (error?: Error) => void): Promise<void>;
  connect<T>(open: () => Promise<T>): Promise<T>;
}

/** Creates connections to the database of an address: tries its hosts in turn, with TLS by its `sslmode`. */
export function createClients(url: string, isPooled: boolean): Clients {
  // The error of `new URL` would show the whole address, with its password.
  if (!URL.canParse(url)) throw new RuntimeError("SESSION_STORE_ERROR", "the address of the database cannot be read");
  const address = new URL(url);
  const hosts = address.hostname.split(",");
  const mode = address.searchParams.get("sslmode") ?? "disable";
  const isToBeWritten = /^(?:primary|read-write)$/.test(address.searchParams.get("target_session_attrs") ?? "");
  // The driver interprets `sslmode` differently: `require` checks certificates, and `prefer` fails without TLS.
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
        // A pooler cannot apply the settings of one client.
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
      done(isWritten ? undefined : new LostDatabase("the server is read-only"));
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

/** Seqs and times are parsed as numbers; larger ones would not be exact. */
const COUNTS = new TypeOverrides();
COUNTS.setTypeParser(types.builtins.INT8, Number);

/** The connection ended before the answer came. */
export class LostDatabase extends Error {}

/** Messages of the driver, without a code, for connections that timed out, ended, or are closed. */
const UNCODED = /^(?:timeout|Connection terminated|Cannot use a pool)/;

const LOST = new Set([
  ...["ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "ENETUNREACH", "EPIPE", "ETIMEDOUT", "EAI_AGAIN"],
  // It is shutting down, has crashed, is starting, dropped an idle connection, or has no free connection.
  ...["57P01", "57P02", "57P03", "57P05", "53300"],
  // It became read-only in a failover: nothing was done, and a new connection finds the new primary.
  "25006",
]);

/** Whether the connection was lost: the statement may or may not have run. */
export function isLost(error: unknown): boolean {
  return error instanceof LostDatabase || LOST.has(codeOf(error)) || codeOf(error).startsWith("08");
}

/** Whether the database aborted the transaction in favour of another: nothing was done, and it may be retried. */
export function isOutrun(error: unknown): boolean {
  return codeOf(error) === "40001" || codeOf(error) === "40P01";
}

export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** The address of the database without its password. */
export function placeOf(url: string): string {
  if (!URL.canParse(url)) return "the address given";
  const { hostname, port, pathname } = new URL(url);
  return `${hostname || "localhost"}:${port || "5432"}${pathname}`;
}
