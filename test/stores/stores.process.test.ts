import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import type { Store } from "@rkat/core/ports/store";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { foldRow } from "@rkat/core/state/session-row";
import { openStore } from "@rkat/node/log/open";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { describeStore, type OpenStore, STORE_CHECKS } from "../contract/store.ts";
import { answered, closed, created, idOf, said } from "../support/entries.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { openPostgresStore } from "../support/postgres-store.ts";
import { sealIn } from "../support/seals.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-stores-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A store in memory is its own place: it is there again as long as the process is. */
function memoryPlace(): OpenStore {
  const store = createInMemoryStore();
  return async () => store;
}

function diskPlace(): OpenStore {
  const folder = mkdtempSync(join(root, "store-"));
  return () => openEmbeddedStore(folder);
}

/** Every few appends fill a segment, and every second one is a checkpoint. */
function smallPlace(): OpenStore {
  const folder = mkdtempSync(join(root, "small-"));
  const sizes = { segmentBytes: 1_024, checkpointBytes: 512 };
  return async () => openStore({ folder, foldRow, sizes, host: { pid: process.pid, isRunning: () => true } });
}

/** The same two, sealed. */
function sealedPlace(): OpenStore {
  const folder = mkdtempSync(join(root, "sealed-"));
  return () => openEmbeddedStore(folder, { seal: sealIn(folder) });
}

function smallSealedPlace(): OpenStore {
  const folder = mkdtempSync(join(root, "small-sealed-"));
  const sizes = { segmentBytes: 1_024, checkpointBytes: 512 };
  const host = { pid: process.pid, isRunning: () => true };
  return async () => openStore({ folder, foldRow, sizes, host, seal: sealIn(folder) });
}

/** Each place is a realm of one database: they know nothing of each other. */
let database: Promise<string> | undefined;
function postgresPlace(): OpenStore {
  const realm = randomUUID();
  return async () => {
    database ??= databaseFor("stores");
    return openPostgresStore({ url: await database, realm });
  };
}

describeStore("in memory", memoryPlace);
describeStore("embedded", diskPlace);
describeStore("embedded, in small segments", smallPlace);
describeStore("[K2] embedded, sealed", sealedPlace);
describeStore("[K2] embedded, sealed, in small segments", smallSealedPlace);
withPostgres("in a database", () => describeStore("postgres", postgresPlace));

describe("two stores on one folder", () => {
  describeTwoStores(diskPlace);
});
describe("two stores on one folder, in small segments", () => {
  describeTwoStores(smallPlace);
});
describe("two stores on one folder, sealed", () => {
  describeTwoStores(smallSealedPlace);
});
withPostgres("two stores on one database", () => describeTwoStores(postgresPlace));

function describeTwoStores(place: () => OpenStore): void {
  it("[F9] [F5] see what the other appends, and hand a session back and forth", async () => {
    const open = place();
    const [one, two] = [await open(), await open()];
    const id = idOf(7);
    const bodies = [created];
    for (let round = 0; round < 20; round += 1) {
      for (const store of [one, two]) {
        const end = (await store.sessions.get(id))?.last_seq ?? 0;
        const body = end === 0 ? created : said(`round ${round}, ${"x".repeat(100)}`);
        if (end !== 0) bodies.push(body);
        await store.log.append(id, end, toNewEntries([body]));
        const own = idOf(store === one ? 8 : 9);
        await store.log.append(own, (await store.sessions.get(own))?.last_seq ?? 0, toNewEntries([answered("own")]));
      }
    }
    for (const store of [one, two]) {
      expect((await store.log.read(id, 1, 100)).map(({ body }) => body)).toEqual(bodies);
      expect((await store.sessions.page({ max: 10 })).map((row) => row.last_seq).sort()).toEqual([20, 20, 40]);
    }
    await one.close();
    expect(await two.log.read(idOf(8), 1, 100)).toHaveLength(20);
    await two.close();
    const again = await open();
    expect((await again.log.read(id, 1, 100)).map(({ body }) => body)).toEqual(bodies);
    await again.close();
  });

  it("[F9] hold a session one at a time, and an interrupt crosses over", async () => {
    const open = place();
    const [one, two] = [await open(), await open()];
    const hold = await one.locks.hold(idOf(7));
    await expect(two.locks.hold(idOf(7))).rejects.toMatchObject({ code: "SESSION_BUSY" });
    expect(await two.locks.isHeld(idOf(7))).toBe(true);
    await two.locks.interrupt(idOf(7));
    await new Promise<void>((resolve) => hold.interrupted.addEventListener("abort", () => resolve()));
    await hold.release();
    await (await two.locks.hold(idOf(7))).release();
    await Promise.all([one.close(), two.close()]);
  });

  it("[P1] know which session was left with its turn unfinished, and find its row among the open ones", async () => {
    const open = place();
    const [one, two] = [await open(), await open()];
    for (const at of [7, 8]) await one.log.append(idOf(at), 0, toNewEntries([created, said("Hello.")]));
    await one.log.append(idOf(8), 2, toNewEntries([closed]));
    const hold = await one.locks.hold(idOf(7));
    expect(await two.locks.isAbandoned?.(idOf(7))).toBe(false);
    await hold.abandon?.();
    expect(await two.locks.isAbandoned?.(idOf(7))).toBe(true);
    expect(await two.locks.isHeld(idOf(7))).toBe(false);
    for (const store of [one, two]) {
      const rows = await store.sessions.page({ archived: false, open: true, max: 9 });
      expect(rows.map(({ session_id }) => session_id)).toEqual([idOf(7)]);
    }
    await (await two.locks.hold(idOf(7))).release();
    expect(await one.locks.isAbandoned?.(idOf(7))).toBe(false);
    await Promise.all([one.close(), two.close()]);
  });
}

describe("a wrong store", () => {
  const wrong: Record<string, (store: Store) => Store> = {
    "appends anywhere": (store) => ({
      ...store,
      log: {
        ...store.log,
        append: async (id, _after, entries) =>
          store.log.append(id, (await store.sessions.get(id))?.last_seq ?? 0, entries),
      },
    }),
    "loses the last entry": (store) => ({
      ...store,
      log: { ...store.log, read: async (id, from, max) => (await store.log.read(id, from, max)).slice(0, -1) },
    }),
    "forgets where to begin": (store) => ({
      ...store,
      log: { ...store.log, read: (id, _from, max) => store.log.read(id, 1, max) },
    }),
    "lets everyone hold": (store) => ({
      ...store,
      locks: {
        ...store.locks,
        hold: async () => ({ interrupted: new AbortController().signal, release: async () => {} }),
      },
    }),
    "has rows that lag": (store) => ({
      ...store,
      sessions: { ...store.sessions, get: async () => undefined },
    }),
    "leaves out the last row of a page": (store) => ({
      ...store,
      sessions: { ...store.sessions, page: async (query) => (await store.sessions.page(query)).slice(0, -1) },
    }),
    "begins every page anew": (store) => ({
      ...store,
      sessions: { ...store.sessions, page: ({ after: _, ...query }) => store.sessions.page(query) },
    }),
    "mixes up blobs": (store) => ({
      ...store,
      blobs: { ...store.blobs, get: async () => ({ mediaType: "text/plain", data: new Uint8Array() }) },
    }),
  };
  for (const [fault, spoil] of Object.entries(wrong)) {
    it(`that ${fault} fails the suite`, async () => {
      const results = await Promise.allSettled(
        STORE_CHECKS.map(({ holds }) => {
          const open = memoryPlace();
          return holds(async () => spoil(await open()));
        }),
      );
      expect(results.some((result) => result.status === "rejected")).toBe(true);
    });
  }
});
