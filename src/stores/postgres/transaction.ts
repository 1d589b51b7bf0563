import type { Sql, TransactionSql } from "postgres";
import { type Connection, isLost } from "./connection.ts";
import { MEMORY_TABLES } from "./memory-schema.ts";

/**
 * Does work in one transaction, whole or not at all. Work that fails because its connection is gone never ends here: the
 * driver rejects the transaction by itself then, and if it were told of the failure it would say `rollback` where nobody
 * listens any more, which ends the process.
 */
export function inTransaction<T>(sql: Sql, work: (held: TransactionSql) => Promise<T>, mode = ""): Promise<T> {
  const began = sql.begin(mode, (held) =>
    work(held).catch((error: unknown) => {
      if (!isLost(error)) throw error;
      return new Promise<never>(() => {});
    }),
  );
  // What the work resolves to is no list of queries, which is all that the driver's type allows for besides.
  return began as Promise<T>;
}

const TABLES = ["entries", "sessions", "blobs", "checkpoints", ...MEMORY_TABLES] as const;

/** Leaves nothing in the tables of rows that were changed or deleted; who does not own them is not let, and told so by the database. */
export async function vacuum(connection: Pick<Connection, "ask">): Promise<void> {
  await connection.ask(async (sql) => {
    const held = await sql.reserve();
    try {
      // A large table takes longer than a statement may.
      await held`set statement_timeout = 0`;
      for (const table of TABLES) await held.unsafe(`vacuum rkat.${table}`);
    } finally {
      await held`reset statement_timeout`;
      held.release();
    }
  });
}
