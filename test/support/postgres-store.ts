import type { Store } from "@rkat/core/ports/store";
import { foldRow } from "@rkat/core/state/session-row";
import { openDatabase, type PostgresOptions } from "@rkat/postgres/open";

/** The sessions of a database, without the rest of the runtime; closing them closes the database. */
export async function openPostgresStore(options: PostgresOptions): Promise<Store> {
  const database = await openDatabase(options);
  const store = database.store("session", foldRow);
  return {
    ...store,
    close: async () => {
      await store.close();
      await database.close();
    },
  };
}
