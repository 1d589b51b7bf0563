import type { Store } from "@rkat/core/ports/store";
import { foldRow } from "@rkat/core/state/session-row";
import { openStore } from "@rkat/node/log/open";

/**
 * The store of a folder, or of a database by its URL, alone, without the rest of the runtime: a process that is to be
 * killed should not take long to start.
 */
export async function openPlace(place: string, warn: (sentence: string) => void): Promise<Store> {
  if (place.startsWith("postgres://")) {
    const { openPostgresStore } = await import("../support/postgres-store.ts");
    return openPostgresStore({ url: place, realm: "crash", warn });
  }
  return openStore({ folder: place, foldRow, warn, host: { pid: process.pid, isRunning: () => true } });
}
