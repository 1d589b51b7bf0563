import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MemoryStore } from "@rkat/core/ports/memory";
import { createMemoryStoreInMemory } from "@rkat/core/stores/recall-in-memory";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import { afterAll, describe, expect, it } from "vitest";
import { describeMemoryStore, MEMORY_STORE_CHECKS } from "../contract/memory-store.ts";
import type { OpenMemoryStore } from "../contract/memory-store-check.ts";
import { sealIn } from "../support/seals.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-memory-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A store in memory is its own place: it is there again as long as the process is. */
function memoryPlace(): OpenMemoryStore {
  const store = createMemoryStoreInMemory();
  return async () => store;
}

function diskPlace(): OpenMemoryStore {
  const folder = mkdtempSync(join(root, "store-"));
  return async () => openMemoryStore({ folder });
}

function sealedPlace(): OpenMemoryStore {
  const folder = mkdtempSync(join(root, "sealed-"));
  return async () => openMemoryStore({ folder, seal: sealIn(folder) });
}

describeMemoryStore("[D7] in memory", memoryPlace);
describeMemoryStore("embedded", diskPlace);
describeMemoryStore("[K2] embedded, sealed", sealedPlace);

describe("a wrong memory store", () => {
  const wrong: Record<string, (store: MemoryStore) => MemoryStore> = {
    "takes a batch in twice": (store) => {
      let batches = 0;
      const next = (): number => {
        batches += 1;
        return batches * 1_000;
      };
      return { ...store, add: (batch) => store.add({ ...batch, cursor: next() }) };
    },
    "sees every session in every scope": (store) => ({
      ...store,
      match: (query, { discardedOnly }) => store.match(query, { discardedOnly }),
    }),
    "hands out all that match": (store) => ({
      ...store,
      match: (query, scope) => store.match({ ...query, max: 1_000_000, equalsMax: 1_000_000 }, scope),
    }),
    "reads what holds none of the terms": (store) => ({ ...store, read: (ids) => store.read(ids) }),
    "forgets what has left the context": (store) => ({
      ...store,
      nearest: (id, vector, { scope, max }) =>
        store.nearest(id, vector, { scope: { ...scope, discardedOnly: false }, max }),
    }),
    "mixes up embedders": (store) => ({
      ...store,
      nearest: (_, vector, options) => store.nearest("embedder/one", vector, options),
    }),
    "lets what was dropped come back": (store) => ({ ...store, drop: async () => {} }),
    "tells of vectors as missing that are there": (store) => ({
      ...store,
      vectors: { ...store.vectors, put: async () => {} },
    }),
    "reads in an order of its own": (store) => ({
      ...store,
      read: (ids, scope) =>
        store.read(
          [...ids].sort((a, b) => a - b),
          scope,
        ),
    }),
  };
  for (const [fault, spoil] of Object.entries(wrong)) {
    it(`that ${fault} fails the suite`, async () => {
      const results = await Promise.allSettled(
        MEMORY_STORE_CHECKS.map(({ holds }) => {
          const open = memoryPlace();
          return holds(async () => spoil(await open()));
        }),
      );
      expect(results.some((result) => result.status === "rejected")).toBe(true);
    });
  }
});
