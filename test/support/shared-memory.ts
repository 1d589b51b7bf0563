import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MemoryStore } from "@rkat/core/ports/memory";
import { createPostgresMemory, type PostgresMemoryOptions } from "@rkat/postgres/memory";
import { type Database, openDatabase } from "@rkat/postgres/open";
import { afterAll } from "vitest";

export type Way = PostgresMemoryOptions["way"];

interface MachineOptions {
  readonly way: Way;
  /** Machines of one name have one folder; without a name, it is nobody else's. */
  readonly name?: string;
  readonly version?: number;
  readonly warn?: (sentence: string) => void;
}

/** Machines that share one memory: each has a pool of connections and, where it is not said otherwise, a folder of its own. */
export interface SharedMemory {
  machine(options: MachineOptions): Promise<MemoryStore>;
  database(): Promise<Database>;
  folderOf(name: string): string;
}

let realms = 0;

/** Realms that nobody else uses, in a database; all that was opened is closed after the tests of the file. */
export function sharedMemories(url: () => string): () => SharedMemory {
  const root = mkdtempSync(join(tmpdir(), "rkat-shared-memory-"));
  const opened: { close(): Promise<void> }[] = [];
  afterAll(async () => {
    for (const one of opened.reverse()) await one.close();
    rmSync(root, { recursive: true, force: true });
  });
  return () => {
    realms += 1;
    const realm = `realm-${process.pid}-${realms}`;
    let machines = 0;
    const folderOf = (name: string): string => join(root, realm, name);
    const database = async (): Promise<Database> => {
      const one = await openDatabase({ url: url(), realm, poolMax: 3 });
      opened.push(one);
      return one;
    };
    return {
      database,
      folderOf,
      machine: async ({ way, name, version = 1, warn }) => {
        machines += 1;
        const folder = folderOf(name ?? `machine-${machines}`);
        const own = await openDatabase({ url: url(), realm, poolMax: 3 });
        const { connection } = own;
        const store = await createPostgresMemory({ connection, realm, folder, version, way, ...(warn && { warn }) });
        let isOpen = true;
        const close = async (): Promise<void> => {
          if (!isOpen) return;
          isOpen = false;
          await store.close();
          await own.close();
        };
        opened.push({ close });
        return { ...store, close };
      },
    };
  };
}
