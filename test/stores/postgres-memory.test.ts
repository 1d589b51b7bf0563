import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { createPostgresMemory } from "../../src/stores/postgres/memory.ts";
import { type Database, openDatabase } from "../../src/stores/postgres/open.ts";
import { describeMemoryStore, type OpenMemoryStore } from "../contract/memory-store.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";

withPostgres("memory in PostgreSQL", () => {
  const root = mkdtempSync(join(tmpdir(), "rkat-shared-memory-"));
  let url = "";
  const open: Database[] = [];
  beforeAll(async () => {
    url = await databaseFor("memory");
  });
  afterAll(async () => {
    await Promise.all(open.map((database) => database.close()));
    rmSync(root, { recursive: true, force: true });
  });

  let places = 0;
  /** A realm of its own; what is opened again has the copy that was there. */
  const placeOf = (way: "local" | "database") => (): OpenMemoryStore => {
    places += 1;
    const realm = `realm-${places}`;
    const folder = join(root, realm);
    let database: Promise<Database> | undefined;
    return async () => {
      database ??= openDatabase({ url, realm, poolMax: 4 }).then((opened) => {
        open.push(opened);
        return opened;
      });
      const { connection } = await database;
      return createPostgresMemory({ connection, realm, folder, version: 1, way });
    };
  };

  describeMemoryStore("[F11] in PostgreSQL, searched in a copy", placeOf("local"));
  describeMemoryStore("[F11] in PostgreSQL, searched in the database", placeOf("database"));
});
