import { Client, type ClientConfig, TypeOverrides, types } from "pg";
import { messageOf, RuntimeError } from "../../contract/error.ts";

export interface ClientOptions {
  readonly url: string;
  /** Behind a pooler that gives a connection away after each transaction: nothing may be left on one. */
  readonly isPooled: boolean;
}

/** Makes connections to the database of an address. */
export interface Clients {
  readonly Client: new () => Client;
  /** Rejects where the address asks for a server that can be written to, and this one cannot. */
  verify(client: Client): Promise<void>;
  /** Connects to the first host that can be reached, with TLS as the address asks for. */
  connect<T>(open: () => Promise<T>): Promise<T>;
}

/** A statement that takes longer is given up by the database; one that has no answer a while later has lost its connection. */
const STATEMENT_MS_MAX = 20_000;
const ANSWER_MS_MAX = 25_000;
const CONNECT_MS_MAX = 10_000;
const NO_TLS = "The server does not support SSL connections";

export function createClients({ url, isPooled }: ClientOptions): Clients {
  const address = parse(url);
  const mode = address.searchParams.get("sslmode") ?? "disable";
  const isWritten = /^(?:primary|read-write)$/.test(address.searchParams.get("target_session_attrs") ?? "");
  // The driver's own reading of it differs: there `require` checks certificates, and `prefer` needs TLS.
  address.searchParams.delete("sslmode");
  const hosts = address.hostname.split(",");
  const config: ClientConfig = {
    pipeline: true,
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_MS_MAX,
    query_timeout: ANSWER_MS_MAX,
    types: COUNTS,
    // A pooler does not know what to do with settings of one client.
    ...(isPooled ? {} : { application_name: "rkat", statement_timeout: STATEMENT_MS_MAX }),
  };
  let hasTls = mode !== "disable";
  let attempts = 0;
  class DatabaseClient extends Client {
    constructor() {
      address.hostname = hosts[attempts % hosts.length] ?? "";
      attempts += 1;
      const ssl = hasTls && { rejectUnauthorized: !UNCHECKED.has(mode) };
      super({ ...config, connectionString: address.href, ssl });
      // The statements on a lost connection reject; an event that nobody listens to would end the process.
      this.on("error", () => {});
    }
  }
  return {
    Client: DatabaseClient,
    verify: async (client) => {
      if (!isWritten) return;
      const { rows } = await client.query("show transaction_read_only");
      if (rows[0]?.transaction_read_only === "on") throw new LostDatabase("the server can only be read");
    },
    connect: async (open) => {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await open();
        } catch (error) {
          if (mode === "prefer" && hasTls && messageOf(error) === NO_TLS) hasTls = false;
          else if (attempt >= hosts.length)
            throw /^(?:timeout|Connection terminated|Cannot use a pool)/.test(messageOf(error))
              ? new LostDatabase(messageOf(error))
              : error;
        }
      }
    },
  };
}

/** Modes of TLS that take whatever certificate there is. */
const UNCHECKED: ReadonlySet<string> = new Set(["prefer", "require"]);

/** Seqs and times: as large as numbers are exact, and no larger. */
const COUNTS = new TypeOverrides();
COUNTS.setTypeParser(types.builtins.INT8, Number);

/** The connection ended before the answer came. */
export class LostDatabase extends Error {}

const LOST = new Set([
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

export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** Where the database is, without its password. */
export function placeOf(url: string): string {
  if (!URL.canParse(url)) return "the address given";
  const { hostname, port, pathname } = new URL(url);
  return `${hostname || "localhost"}:${port || "5432"}${pathname}`;
}

function parse(url: string): URL {
  if (URL.canParse(url)) return new URL(url);
  // The error of `new URL` has the whole address, with its password.
  throw new RuntimeError("SESSION_STORE_ERROR", "the address of the database cannot be read");
}
