import { beforeAll, vi } from "vitest";
import { describeMemoryStore } from "../contract/memory-store.ts";
import type { OpenMemoryStore } from "../contract/memory-store-check.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { connect } from "../support/postgres-server.ts";
import { sharedMemories, type Way } from "../support/shared-memory.ts";

// Hundreds of commits to a disk that all tests share.
vi.setConfig({ testTimeout: 120_000 });

/** What is used of the extension, which this server has not: its type, as it is written, and the distance by angle. */
const LIKE_PGVECTOR = [
  `create domain vector as text check (value ~ '^\\[.*\\]$')`,
  `create function distance_by_angle(a text, b text) returns float8 language sql immutable as $$
    select 1 - coalesce(sum(x * y) / nullif(sqrt(sum(x * x)) * sqrt(sum(y * y)), 0), 0) from unnest(
      string_to_array(trim(a, '[]'), ',')::float8[], string_to_array(trim(b, '[]'), ',')::float8[]) as both_of (x, y) $$`,
  `create operator <=> (leftarg = text, rightarg = text, function = distance_by_angle)`,
];

withPostgres("memory in PostgreSQL", () => {
  let url = "";
  beforeAll(async () => {
    url = await databaseFor("memory");
  });
  const newMemory = sharedMemories(() => url);
  let urlWithVectors = "";
  beforeAll(async () => {
    urlWithVectors = await databaseFor("memory_vectors");
    const client = await connect(urlWithVectors);
    for (const statement of LIKE_PGVECTOR) await client.query(statement);
    await client.end();
  });
  const newMemoryWithVectors = sharedMemories(() => urlWithVectors);
  const placeOf =
    (way: Way, make = newMemory) =>
    (): OpenMemoryStore => {
      const { machine } = make();
      return () => machine({ way, name: "copy" });
    };

  describeMemoryStore("[F11] in PostgreSQL, searched in a copy", placeOf("local"));
  describeMemoryStore("[F11] in PostgreSQL, searched in the database", placeOf("database"));
  describeMemoryStore(
    "[F11] in PostgreSQL, searched in the database, with a stand-in for pgvector",
    placeOf("database", newMemoryWithVectors),
  );
});
