import { foldRow } from "../../src/core/session-row.ts";
import type { Store } from "../../src/ports/store.ts";
import { openStore } from "../../src/stores/embedded/open.ts";

/** The store alone, without the rest of the runtime: a process that is to be killed should not take long to start. */
export function openFolder(folder: string, warn: (sentence: string) => void): Store {
  return openStore({ folder, foldRow, warn, host: { pid: process.pid, isRunning: () => true } });
}
