import type { MemoryStore, Wanted } from "@rkat/core/ports/memory";
import { expect } from "vitest";
import { idOf } from "../support/entries.ts";
import { batchOf, EMBEDDER, EVERYTHING, embedAll, found, near, textsOf, turned } from "../support/memory-chunks.ts";
import { A, B, type Check, using } from "./memory-store-check.ts";

/** What every memory store promises of which chunks get a vector, and of vectors that are made once. */
export const VECTOR_CHECKS: readonly Check[] = [
  {
    promise: "[D5] tells which chunks lack a vector: of a scope, of what left a context in use, of those named",
    holds: async (open) => {
      const texts = async (store: MemoryStore, wanted?: Wanted) =>
        textsOf(await store.vectors.missing(EMBEDDER, 9, wanted));
      await using(open, async (store) => {
        await store.add({ ...batchOf(A, 1, ["a", "b", "c"]), discarded: [{ from_seq: 2, to_seq: 2 }] });
        await store.add(batchOf(B, 1, ["d", "e"]));
        expect(await texts(store, { scope: { sessionId: A, discardedOnly: false } })).toEqual(["a", "b", "c"]);
        expect(await texts(store, { scope: { discardedOnly: true } })).toEqual(["b"]);
        expect(await texts(store, { inUse: new Set([A]) })).toEqual(["b", "d", "e"]);
        expect(await texts(store, { inUse: new Set([A, B, idOf(99)]) })).toEqual(["b"]);
        const [a = 0, , c = 0, , e = 0] = (await store.vectors.missing(EMBEDDER, 9)).map(({ id }) => id);
        expect(await texts(store, { ids: [e, 4_000_000_000, a] })).toEqual(["e", "a"]);
        expect(await texts(store, { ids: [e, a], scope: { sessionId: A, discardedOnly: false } })).toEqual(["a"]);
        await store.vectors.put(EMBEDDER, [{ id: c, vector: turned(0) }]);
        expect(await texts(store, { ids: [c, a] })).toEqual(["a"]);
      });
      await using(open, async (store) => {
        expect(await texts(store, { inUse: new Set([B]) })).toEqual(["a", "b"]);
        await store.add({ ...batchOf(B, 3, ["f"]), discarded: [{ from_seq: 1, to_seq: 1 }] });
        expect(await texts(store, { inUse: new Set([B]) })).toEqual(["a", "b", "d"]);
      });
    },
  },
  {
    promise: "[D5] lacks no vector of what is found by its words alone, and finds it by them",
    holds: async (open) => {
      const batch = batchOf(A, 1, ["w log", "w said", "w table"]);
      const chunks = batch.chunks.map((chunk, at) => ({ ...chunk, byWordsAlone: at !== 1 }));
      await using(open, (store) => store.add({ ...batch, chunks }));
      await using(open, async (store) => {
        // Merged into larger pieces, they are the same.
        for (let seq = 4; seq < 40; seq += 1) await store.add(batchOf(A, seq, [`x ${seq}`]));
        await embedAll(store);
        expect(await store.vectors.missing(EMBEDDER, 99)).toEqual([]);
        expect(await store.status(EMBEDDER)).toMatchObject({ entries: 39, pending: 0, byWordsAlone: 2 });
        expect([...(await found(store, "w"))].sort()).toEqual(["w log", "w said", "w table"]);
        const [log, table] = await store.vectors.missing(EMBEDDER, 9, { byWords: true });
        expect([log?.text, table?.text]).toEqual(["w log", "w table"]);
        await store.vectors.put(EMBEDDER, [{ id: log?.id ?? 0, vector: turned(0.7) }]);
        expect(await near(store, turned(0.7), EVERYTHING, 1)).toEqual(["w log"]);
        expect(await store.status(EMBEDDER)).toMatchObject({ entries: 39, pending: 0, byWordsAlone: 1 });
      });
    },
  },
  {
    promise: "[D5] knows the vector of a text that was embedded before, also after a restart",
    holds: async (open) => {
      await using(open, async (store) => {
        await store.add(batchOf(A, 1, ["a", "b"]));
        const [a, b] = await store.vectors.missing(EMBEDDER, 9);
        await store.vectors.put(EMBEDDER, [
          { id: a?.id ?? 0, vector: turned(0.3), passage: "of a" },
          { id: b?.id ?? 0, vector: turned(0.9) },
        ]);
      });
      await using(open, async (store) => {
        const known = await store.vectors.known?.(EMBEDDER, ["of a", "of b", ""]);
        expect([...(known?.keys() ?? [])]).toEqual(["of a"]);
        expect(await store.vectors.known?.("embedder/two", ["of a"])).toEqual(new Map());
        await store.add(batchOf(B, 1, ["c"]));
        const [c] = await store.vectors.missing(EMBEDDER, 9);
        await store.vectors.put(EMBEDDER, [
          { id: c?.id ?? 0, vector: known?.get("of a") ?? turned(0), passage: "of a" },
        ]);
        const neighbours = await store.nearest(EMBEDDER, turned(0.3), { scope: EVERYTHING, max: 2 });
        expect(textsOf(await store.read(neighbours.map(({ id }) => id)))).toEqual(["a", "c"]);
        for (const { similarity } of neighbours) expect(similarity).toBeCloseTo(1, 2);
        await store.drop(A);
        expect([...((await store.vectors.known?.(EMBEDDER, ["of a"])) ?? new Map()).keys()]).toEqual(["of a"]);
      });
    },
  },
];
