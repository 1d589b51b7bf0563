import { isLost } from "./client.ts";
import type { Connection, Query, Work } from "./connection.ts";
import { MEMORY_TABLES } from "./memory-schema.ts";
import { raw } from "./sql.ts";

/** Does work in one transaction, whole or not at all. */
export async function inTransaction<T>(query: Query, work: Work<T>, mode = ""): Promise<T> {
  await query(raw(`begin ${mode}`));
  let result: T;
  try {
    result = await work(query);
  } catch (error) {
    if (!isLost(error)) await query(raw("rollback"));
    throw error;
  }
  await query(raw("commit"));
  return result;
}

const TABLES = ["entries", "sessions", "blobs", "checkpoints", ...MEMORY_TABLES] as const;
/** A large table takes longer than a statement may. */
const VACUUM_MS_MAX = 3_600_000;

/** Leaves nothing in the tables of rows that were changed or deleted; who does not own them is not let, and told so by the database. */
export async function vacuum(connection: Pick<Connection, "run">): Promise<void> {
  await connection.run(async (query) => {
    await query(raw(`set statement_timeout = ${VACUUM_MS_MAX}`));
    try {
      for (const table of TABLES) await query(raw(`vacuum rkat.${table}`), VACUUM_MS_MAX);
    } finally {
      await query(raw("reset statement_timeout"));
    }
  });
}
