import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MemoryStore } from "@rkat/core/ports/memory";
import { createPostgresMemory } from "@rkat/postgres/memory";
import { openDatabase } from "@rkat/postgres/open";
import { afterAll, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { EVERYTHING, matchAll } from "../support/memory-chunks.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { startPostgres } from "../support/postgres-server.ts";
import { testSeed } from "../support/seed.ts";
import { runMemoryCycles } from "./memory-cycles.ts";
import { batchAfter, memorySessions } from "./memory-expected.ts";
import { createRandom } from "./random.ts";

const CYCLES = byEffort({ usual: 6, full: 60 });
const ADDERS = 2;
const STOPS = byEffort({ usual: 4, full: 20 });
const REALM = "crash";

withPostgres("a memory that processes share", () => {
  const root = mkdtempSync(join(tmpdir(), "rkat-shared-memory-crash-"));
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  /** Closes its connections with it. */
  const openShared = async (url: string, way: "local" | "database", folder: string): Promise<MemoryStore> => {
    const database = await openDatabase({ url, realm: REALM, poolMax: 3 });
    const { connection } = database;
    const store = await createPostgresMemory({ connection, realm: REALM, folder, version: 1, way });
    return { ...store, close: () => store.close().then(database.close) };
  };

  for (const way of ["local", "database"] as const) {
    it(`[F11] [D1] is whole after ${CYCLES} times ${ADDERS} processes were killed in it (${way})`, async () => {
      const url = await databaseFor("memory_crash");
      const folder = join(mkdtempSync(join(root, "lane-")), way);
      const seed = testSeed();
      const place = { reported: [folder, url, REALM], adders: ADDERS, open: () => openShared(url, way, folder) };
      const { acknowledged, lost, broken } = await runMemoryCycles(place, CYCLES, createRandom(seed));
      expect({ seed, lost, broken }).toEqual({ seed, lost: 0, broken: 0 });
      expect(acknowledged).toBeGreaterThan(CYCLES);
    }, 300_000);
  }

  it(`[F11] [D1] goes on after the database was stopped ${STOPS} times, with all that was taken in, once`, async () => {
    const server = await startPostgres();
    try {
      const url = await server.createDatabase("stops");
      const ways = ["local", "database"] as const;
      const stores = await Promise.all(ways.map((way) => openShared(url, way, join(root, `stops-${way}`))));
      const reported = new Map<string, number>();
      let isDone = false;
      const adding = stores.map(async (store) => {
        while (!isDone) {
          for (const sessionId of memorySessions) {
            const batch = batchAfter(sessionId, await store.cursor(sessionId));
            await store.add(batch);
            reported.set(sessionId, Math.max(batch.cursor, reported.get(sessionId) ?? 0));
            await store.match({ weights: new Map([["end", 1]]), max: 9, equalsMax: 9 }, EVERYTHING);
          }
        }
      });
      for (let stop = 0; stop < STOPS; stop += 1) {
        const before = [...reported.values()].reduce((sum, cursor) => sum + cursor, 0);
        const grown = (): boolean => [...reported.values()].reduce((sum, cursor) => sum + cursor, 0) > before + 20;
        await expect.poll(grown, { timeout: 60_000 }).toBe(true);
        await server.stopNow();
        await server.restart();
      }
      isDone = true;
      await Promise.all(adding);
      for (const store of stores) {
        for (const sessionId of memorySessions) {
          const cursor = await store.cursor(sessionId);
          expect(cursor).toBeGreaterThanOrEqual(reported.get(sessionId) ?? 0);
          const { chunks, best } = await matchAll(store, [sessionId], { ...EVERYTHING, sessionId });
          expect([chunks, best.length]).toEqual([cursor, cursor]);
        }
        const all = await matchAll(store, ["end"]);
        expect(all.best.length).toBe(all.chunks);
        await store.close();
      }
    } finally {
      await server.close();
    }
  }, 300_000);
});
