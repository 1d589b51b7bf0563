import { foldRow } from "../../src/core/session-row.ts";
import type { Store } from "../../src/ports/store.ts";
import { openDatabase, type PostgresOptions } from "../../src/stores/postgres/open.ts";

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
