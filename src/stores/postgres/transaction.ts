import type { Sql, TransactionSql } from "postgres";
import { isLost } from "./connection.ts";

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
