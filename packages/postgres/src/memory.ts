import type { MemoryStore } from "@rkat/core/ports/memory";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import type { Connection } from "./connection.ts";
import { createDatabaseMemory } from "./memory-database.ts";
import { createLocalMemory } from "./memory-local.ts";
import { createMemoryLog, type MemoryLog } from "./memory-log.ts";

export interface PostgresMemoryOptions {
  readonly connection: Connection;
  readonly realm: string;
  /** The folder for a local copy of this realm's memory; it may be deleted. */
  readonly folder: string;
  /** The version of the chunking: a session that was added under a lower version is added again from its log. */
  readonly version: number;
  readonly way: "auto" | "local" | "database";
  readonly warn?: (sentence: string) => void;
}

/** The memory of a realm, shared by all machines that use its database; closing it leaves the database open. */
export async function createPostgresMemory(options: PostgresMemoryOptions): Promise<MemoryStore> {
  const { folder, way, warn = () => {} } = options;
  const log = createMemoryLog(options);
  if (way === "database") return createDatabaseMemory(log, warn);
  const copy = openMemoryStore({ folder, warn });
  if (way === "local") return createLocalMemory(log, copy);
  const { number } = await copy.following.position("");
  if (!(await isBetterThere(log, number))) return createLocalMemory(log, copy);
  await copy.close();
  return createDatabaseMemory(log, warn);
}

/** Copying more chunks than this would delay the first search too long. */
const CHUNKS_READ_MAX = 200_000;
/** So few are indexed in the database meanwhile. */
const CHUNKS_INDEXED_MAX = 10_000;

/** Whether this machine has no copy yet of a large memory that the database can search right away. */
async function isBetterThere({ connection, realm }: MemoryLog, followed: number): Promise<boolean> {
  const [row] = await connection.query<Record<"last_id" | "indexed_id" | "copied_id", number>>`
    select known.last_id, coalesce(done.indexed_id, 0) as indexed_id,
      coalesce((select first_id + chunks - 1 from rkat.memory_batches
        where realm = ${realm} and number = ${followed}), 0) as copied_id
    from rkat.memory_realms as known left join rkat.memory_index as done on done.realm = known.realm
    where known.realm = ${realm}`;
  if (row === undefined) return false;
  return row.last_id - row.copied_id > CHUNKS_READ_MAX && row.last_id - row.indexed_id <= CHUNKS_INDEXED_MAX;
}
