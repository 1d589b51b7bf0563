import { createHash } from "node:crypto";
import { join } from "node:path";
import type { AgentHome } from "@rkat/core/agents/agent-operations";
import type { Config } from "@rkat/core/config/config-schema";
import { RuntimeError } from "@rkat/core/contract/error";
import type { MemoryStore } from "@rkat/core/ports/memory";
import { loadOptional } from "@rkat/core/ports/package-file";
import type { TokenStore } from "@rkat/core/ports/store";
import { CHUNKS_VERSION } from "@rkat/core/recall/chunk";
import { foldSchedule, type ScheduleHome } from "@rkat/core/schedules/schedule-row";
import type { Database, DatabaseReport } from "./open.ts";

export interface RealmInDatabase {
  readonly url: string;
  readonly realm: string;
}

/** Opens a realm of a database by its configuration; throws SESSION_STORE_ERROR, without the password, if it cannot. */
export async function openRealm(
  { url, realm }: RealmInDatabase,
  {
    store,
    warn,
    folder,
  }: {
    readonly store: Config["store"];
    readonly warn: (sentence: string) => void;
    readonly folder?: string | undefined;
  },
): Promise<Database> {
  const { openDatabase } = await withDriver(() => import("./open.ts"));
  return openDatabase({
    url,
    realm,
    warn,
    folder,
    poolMax: store.pool,
    isPooled: store.pooled,
    leaseMs: store.lease_ms,
    ...(store.group_commit ? {} : { batchMax: 1 }),
  });
}

/** The tokens of a realm of a database, over a separate connection. */
export async function openDatabaseTokens(realm: RealmInDatabase, store: Config["store"]): Promise<TokenStore> {
  const database = await openRealm(realm, { store: { ...store, pool: 1 }, warn: () => {} });
  return (await import("./open.ts")).openTokens(database);
}

/** Inspects a database without changing it; throws SESSION_STORE_ERROR if it cannot be reached. */
export async function inspectDatabase({ url, realm }: RealmInDatabase): Promise<DatabaseReport> {
  const { inspect } = await withDriver(() => import("./open.ts"));
  return inspect(url, realm);
}

/** The local folder of a database; two databases, or a database and a folder store, must not share one. */
export function folderBeside(stateFolder: string, { url, realm }: RealmInDatabase): string {
  const { hostname, port, pathname } = new URL(url);
  const place = JSON.stringify([hostname, port || "5432", pathname, realm]);
  return join(stateFolder, `database-${createHash("sha256").update(place).digest("hex").slice(0, HASH_DIGITS)}`);
}

const HASH_DIGITS = 10;

/** The agents of a realm; `folder` has their files, written by this process or an earlier one. */
export function agentsInDatabase(
  database: Database,
  {
    folder,
    hasFiles,
    warn,
  }: { readonly folder: string | undefined; readonly hasFiles: boolean; readonly warn: (sentence: string) => void },
): AgentHome {
  return {
    isThere: () => true,
    open: async () => {
      const { foldAgent } = await import("@rkat/core/agent-memory/tiers");
      const store = database.store("agent", foldAgent);
      if (folder === undefined) return { store, vault: undefined };
      const { createVault } = await import("@rkat/node/projections/vault");
      const vault = createVault({ folder, warn });
      return { store, vault: hasFiles ? vault : undefined, eraseFiles: vault.erase };
    },
  };
}

export function schedulesInDatabase(database: Database): ScheduleHome {
  return { isThere: () => true, open: async () => database.store("schedule", foldSchedule) };
}

/** The memory of a realm; without a folder for a local copy it is searched in the database. */
export async function openSharedMemory(
  { connection, realm }: Database,
  {
    index,
    folder,
    warn,
  }: {
    readonly index: Config["memory"]["index"];
    readonly folder: string | undefined;
    readonly warn: (sentence: string) => void;
  },
): Promise<MemoryStore> {
  if (folder === undefined && index === "local") {
    throw new RuntimeError(
      "INVALID_PARAMS",
      'memory.index is "local", and there is no folder for it; give stateFolder',
    );
  }
  const { createPostgresMemory } = await import("./memory.ts");
  return createPostgresMemory({
    connection,
    realm,
    folder: join(folder ?? "", "memory"),
    version: CHUNKS_VERSION,
    way: folder === undefined ? "database" : index === "exact" ? "auto" : index,
    warn,
  });
}

function withDriver<T>(load: () => Promise<T>): Promise<T> {
  return loadOptional(
    "SESSION_STORE_ERROR",
    "the driver of PostgreSQL is not installed; run npm install pg, or install rkat again",
    load,
  );
}
