import type { MemoryStore } from "@rkat/core/ports/memory";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import type { Connection } from "./connection.ts";
import { createDatabaseMemory } from "./memory-database.ts";
import { createLocalMemory } from "./memory-local.ts";
import { createMemoryLog, type MemoryLog } from "./memory-log.ts";

export interface PostgresMemoryOptions {
  readonly connection: Connection;
  readonly realm: string;
  /** Where a copy of the memory may lie, of this realm alone; it may be deleted. */
  readonly folder: string;
  /** Counts up with what chunks are made by: a session taken in under a lower one is taken in again from its log. */
  readonly version: number;
  /** Where it is searched: in a copy on this machine, or in the database. */
  readonly way: "auto" | "local" | "database";
  readonly warn?: (sentence: string) => void;
}

/** What a realm remembers, shared by all machines that use its database; closing it leaves the database open. */
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

/** Reading more chunks than these before the first search takes longer than somebody would wait. */
const CHUNKS_READ_MAX = 200_000;
/** So few are brought into the table of the database meanwhile. */
const CHUNKS_INDEXED_MAX = 10_000;

/** Whether this machine has no copy yet of a large memory which the database can search at once. */
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
