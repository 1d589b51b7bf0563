import { beforeAll, vi } from "vitest";
import { describeMemoryStore, type OpenMemoryStore } from "../contract/memory-store.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { sharedMemories, type Way } from "../support/shared-memory.ts";

// Hundreds of commits to a disk that all tests share.
vi.setConfig({ testTimeout: 120_000 });

withPostgres("memory in PostgreSQL", () => {
  let url = "";
  beforeAll(async () => {
    url = await databaseFor("memory");
  });
  const newMemory = sharedMemories(() => url);
  const placeOf = (way: Way) => (): OpenMemoryStore => {
    const { machine } = newMemory();
    return () => machine({ way, name: "copy" });
  };

  describeMemoryStore("[F11] in PostgreSQL, searched in a copy", placeOf("local"));
  describeMemoryStore("[F11] in PostgreSQL, searched in the database", placeOf("database"));
});
