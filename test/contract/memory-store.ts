import type { Scope } from "@rkat/core/ports/memory";
import { describe, expect, it } from "vitest";
import { idOf } from "../support/entries.ts";
import {
  batchOf,
  chunkOf,
  EMBEDDER,
  EVERYTHING,
  embedAll,
  found,
  matchAll,
  near,
  textsOf,
  turned,
  worthOfEach,
} from "../support/memory-chunks.ts";
import { fc } from "../support/property.ts";
import { A, B, type Check, type OpenMemoryStore, using } from "./memory-store-check.ts";
import { likeAPlainList } from "./memory-store-property.ts";
import { VECTOR_CHECKS } from "./memory-store-vectors.ts";

/** What every memory store promises. */
export const MEMORY_STORE_CHECKS: readonly Check[] = [
  ...VECTOR_CHECKS,
  {
    promise: "[D8] is empty at first, and says so to every question",
    holds: (open) =>
      using(open, async (store) => {
        expect(await store.cursor(A)).toBe(0);
        expect(await store.read([1, 2])).toEqual([]);
        expect(await matchAll(store, ["word"])).toMatchObject({ best: [], chunks: 0, holders: new Map([["word", 0]]) });
        expect(await store.nearest(EMBEDDER, turned(0), { scope: EVERYTHING, max: 3 })).toEqual([]);
        expect(await store.vectors.missing(EMBEDDER, 10)).toEqual([]);
        expect(await store.status(EMBEDDER)).toMatchObject({ entries: 0, pending: 0 });
        await store.drop(B);
      }),
  },
  {
    promise: "[D1] gives back a chunk with where it came from, in the order asked for",
    holds: (open) =>
      using(open, async (store) => {
        const { terms: _, ...source } = {
          ...chunkOf("née 🦦 \u0000 x", 3, A),
          part: 2,
          role: "tool",
          kind: "tool_result",
        };
        await store.add({
          session_id: A,
          cursor: 4,
          discarded: [],
          chunks: [{ ...source, role: "tool", terms: new Map() }],
        });
        await store.add(batchOf(A, 5, ["second"]));
        const ids = (await store.vectors.missing(EMBEDDER, 10)).map(({ id }) => id);
        const [first = 0, second = 0] = ids;
        expect(first).toBeLessThan(second);
        expect(await store.read([second, 4_000_000_000, first])).toEqual([
          expect.objectContaining({ id: second, text: "second", seq: 5, before: first, after: 0 }),
          { ...source, id: first, before: 0, after: second },
        ]);
      }),
  },
  {
    promise: "[D1] takes in a batch once, however often it comes, and keeps its cursor over a restart",
    holds: async (open) => {
      const first = batchOf(A, 1, ["one word", "two words"]);
      await using(open, async (store) => {
        await store.add(first);
        await store.add(first);
        await store.add({ ...first, cursor: 1 });
        expect(await store.cursor(A)).toBe(2);
        expect(await found(store, "word")).toEqual(["one word"]);
      });
      await using(open, async (store) => {
        expect(await store.cursor(A)).toBe(2);
        await store.add(first);
        await store.add({ ...batchOf(A, 3, []), cursor: 9 });
        expect(await store.cursor(A)).toBe(9);
        expect(await store.status(EMBEDDER)).toMatchObject({ entries: 2, pending: 2 });
        expect(await found(store, "two")).toEqual(["two words"]);
      });
    },
  },
  {
    promise: "[D1] of a batch that cannot be taken in nothing is kept",
    holds: (open) =>
      using(open, async (store) => {
        await store.add(batchOf(A, 1, ["kept"]));
        const broken = {
          ...chunkOf("broken", 3, A),
          get terms(): ReadonlyMap<string, number> {
            throw new Error("no terms");
          },
        };
        const batch = { ...batchOf(A, 2, ["lost"]), cursor: 3 };
        await expect(store.add({ ...batch, chunks: [...batch.chunks, broken] })).rejects.toThrow();
        expect(await store.cursor(A)).toBe(1);
        expect(await found(store, "lost")).toEqual([]);
        expect(await store.status(EMBEDDER)).toMatchObject({ entries: 1 });
        await store.add(batchOf(A, 2, ["lost", "and found"]));
        expect(await found(store, "lost")).toEqual(["lost"]);
      }),
  },
  {
    promise: "[D8] uses no id twice, not after a drop and not after a restart",
    holds: async (open) => {
      const ids: number[] = [];
      for (let round = 1; round <= 3; round += 1) {
        await using(open, async (store) => {
          await store.add(batchOf(idOf(10 + round), 1, ["x y", "z"]));
          const chunks = await store.vectors.missing(EMBEDDER, 10);
          ids.push(...chunks.map(({ id }) => id));
          await store.drop(idOf(10 + round));
        });
      }
      expect(ids).toHaveLength(6);
      expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b));
    },
  },
  {
    promise: "[D4] [D5] ranks what holds terms in the scope asked for, and counts who does",
    holds: (open) =>
      using(open, async (store) => {
        const own = ["red fox", "blue fox fox fox", "green", "fox fox"];
        await store.add(batchOf(A, 1, own.slice(0, 3)));
        await store.add(batchOf(B, 1, ["fox trot"]));
        await store.add(batchOf(A, 4, own.slice(3)));
        const check = async (terms: readonly string[], scope: Scope, texts: readonly string[]) => {
          const { best, chunks, holders } = await matchAll(store, terms, scope);
          const worths = worthOfEach(texts, terms);
          const wanted = texts
            .map((text, index) => ({ text, worth: worths[index] ?? 0, index }))
            .filter(({ worth }) => worth > 0)
            .sort((a, b) => b.worth - a.worth || b.index - a.index);
          expect(textsOf(await store.read(best.map(({ id }) => id)))).toEqual(wanted.map(({ text }) => text));
          for (const [index, { worth }] of wanted.entries()) expect(best[index]?.value).toBeCloseTo(worth, 4);
          expect(chunks).toBe(texts.length);
          const holding = (term: string) => texts.filter((text) => text.split(" ").includes(term)).length;
          expect(holders).toEqual(new Map(terms.map((term) => [term, holding(term)])));
        };
        await check(["fox", "blue", "none"], EVERYTHING, [...own.slice(0, 3), "fox trot", "fox fox"]);
        await check(["fox"], { sessionId: A, discardedOnly: false }, own);
        await check(["fox", "green"], { sessionId: A, discardedOnly: false, upToSeq: 2 }, own.slice(0, 2));
        await check(["fox"], { sessionId: idOf(99), discardedOnly: false }, []);
      }),
  },
  {
    promise: "[D5] [H5] hands out the best alone, and of equals the newest",
    holds: (open) =>
      using(open, async (store) => {
        const texts = [
          "heron heron heron",
          "one heron",
          ...Array.from({ length: 40 }, () => "two heron heron"),
          "none",
        ];
        await store.add(batchOf(A, 1, texts));
        const ids = (await store.vectors.missing(EMBEDDER, 99)).map(({ id }) => id);
        const best = async (max: number, equalsMax: number) => {
          const found = await store.match({ weights: new Map([["heron", 2]]), max, equalsMax }, EVERYTHING);
          expect([found.chunks, found.holders]).toEqual([43, new Map([["heron", 42]])]);
          return found.best.map(({ id }) => ids.indexOf(id));
        };
        expect(await best(100, 3)).toEqual([0, 41, 40, 39, 1]);
        expect(await best(3, 3)).toEqual([0, 41, 40]);
        expect(await best(1, 1)).toEqual([0]);
        expect(await best(100, 100)).toEqual([0, ...Array.from({ length: 40 }, (_, index) => 41 - index), 1]);
      }),
  },
  {
    promise: "[D4] reads of given chunks those alone that are in the scope",
    holds: (open) =>
      using(open, async (store) => {
        await store.add(batchOf(A, 1, ["red fox", "blue", "fox fox"]));
        await store.add(batchOf(B, 1, ["fox trot"]));
        await store.add({ ...batchOf(A, 4, ["red"]), discarded: [{ from_seq: 2, to_seq: 4 }] });
        const ids = (await store.vectors.missing(EMBEDDER, 99)).map(({ id }) => id);
        const within = async (scope: Scope) => textsOf(await store.read([...ids, 4_000_000_000].reverse(), scope));
        expect(await within(EVERYTHING)).toEqual(["red", "fox trot", "fox fox", "blue", "red fox"]);
        expect(await within({ discardedOnly: true })).toEqual(["red", "fox fox", "blue"]);
        expect(await within({ sessionId: A, discardedOnly: false, upToSeq: 2 })).toEqual(["blue", "red fox"]);
        expect(await within({ among: new Set([B]), discardedOnly: false })).toEqual(["fox trot"]);
        await store.drop(B);
        expect(await within(EVERYTHING)).toEqual(["red", "fox fox", "blue", "red fox"]);
        const [one] = await store.read(ids.slice(2, 3), { discardedOnly: true });
        expect(one).toMatchObject({ text: "fox fox", before: ids[1], after: ids[4] });
      }),
  },
  {
    promise: "[D1] [D4] what has left the context is what the newest batch says, in every kind of search",
    holds: async (open) => {
      const discarded = { discardedOnly: true };
      await using(open, async (store) => {
        await store.add(batchOf(A, 1, ["w one", "w two", "w three", "w four"]));
        await store.add(batchOf(B, 1, ["w other"]));
        expect(await found(store, "w", discarded)).toEqual([]);
        await store.add({ ...batchOf(A, 5, ["w five"]), discarded: [{ from_seq: 1, to_seq: 2 }] });
        await embedAll(store);
        expect(await found(store, "w", discarded)).toEqual(["w one", "w two"]);
        expect(await near(store, turned(0.2), discarded)).toEqual(["w two", "w one"]);
      });
      await using(open, async (store) => {
        const ranges = [
          { from_seq: 2, to_seq: 2 },
          { from_seq: 4, to_seq: 5 },
        ];
        await store.add({ ...batchOf(A, 6, ["w six"]), discarded: ranges });
        await store.add({ ...batchOf(B, 2, []), cursor: 7, discarded: [{ from_seq: 1, to_seq: 6 }] });
        await embedAll(store);
        expect([...(await found(store, "w", discarded))].sort()).toEqual(["w five", "w four", "w other", "w two"]);
        const own = { ...discarded, sessionId: A };
        expect(await found(store, "w", own)).toEqual(["w two", "w four", "w five"]);
        expect(await near(store, turned(0.4), own)).toEqual(["w four", "w five", "w two"]);
        expect(await near(store, turned(0.4), { ...own, upToSeq: 4 })).toEqual(["w four", "w two"]);
        expect((await matchAll(store, ["w"], { ...own, upToSeq: 4 })).chunks).toBe(2);
        expect((await matchAll(store, ["w"], discarded)).chunks).toBe(4);
        const [two] = (await matchAll(store, ["two"], discarded)).best;
        expect(two?.value).toBeCloseTo(worthOfEach(["w two", "w four", "w five", "w other"], ["two"])[0] ?? 0, 4);
      });
    },
  },
  {
    promise: "[D1] fills vectors in behind the text, oldest first, and has them again after a restart",
    holds: async (open) => {
      await using(open, async (store) => {
        await store.add(batchOf(A, 1, ["a", "b", "c", "d"]));
        const [first, second] = await store.vectors.missing(EMBEDDER, 2);
        expect([first?.text, second?.text]).toEqual(["a", "b"]);
        const vectors = [{ id: second?.id ?? 0, vector: turned(0.2) }];
        await store.vectors.put(EMBEDDER, [...vectors, { id: 4_000_000_000, vector: turned(0) }]);
        expect(textsOf(await store.vectors.missing(EMBEDDER, 9))).toEqual(["a", "c", "d"]);
        expect(await store.status(EMBEDDER)).toMatchObject({ entries: 4, pending: 3 });
        expect(await near(store, turned(0), EVERYTHING)).toEqual(["b"]);
      });
      await using(open, async (store) => {
        expect(textsOf(await store.vectors.missing(EMBEDDER, 9))).toEqual(["a", "c", "d"]);
        await embedAll(store);
        await store.add(batchOf(A, 5, ["e"]));
        expect(textsOf(await store.vectors.missing(EMBEDDER, 9))).toEqual(["e"]);
        expect(await near(store, turned(0.31), EVERYTHING, 3)).toEqual(["c", "d", "b"]);
        const [nearest] = await store.nearest(EMBEDDER, turned(0.3), { scope: EVERYTHING, max: 1 });
        expect(nearest?.similarity).toBeCloseTo(1, 2);
        const [opposite] = await store.nearest(EMBEDDER, turned(0.1 + Math.PI), { scope: EVERYTHING, max: 9 });
        expect(opposite?.similarity).toBeLessThan(-0.9);
      });
    },
  },
  {
    promise: "[D5] keeps the vectors of two embedders side by side",
    holds: async (open) => {
      const other = "embedder/two";
      await using(open, async (store) => {
        await store.add(batchOf(A, 1, ["a", "b"]));
        await embedAll(store);
        const [a, b] = await store.vectors.missing(other, 9);
        const flat = (...values: readonly number[]) => Float32Array.from(values);
        await store.vectors.put(other, [
          { id: a?.id ?? 0, vector: flat(0, 0, 1) },
          { id: b?.id ?? 0, vector: flat(0, 1, 0) },
        ]);
      });
      await using(open, async (store) => {
        const options = { scope: EVERYTHING, max: 1 };
        const [theirs] = await store.nearest(other, Float32Array.of(0, 1, 0), options);
        const [ours] = await store.nearest(EMBEDDER, turned(0.1), options);
        expect(textsOf(await store.read([theirs?.id ?? 0, ours?.id ?? 0]))).toEqual(["b", "a"]);
        expect(await store.nearest("embedder/three", turned(0), options)).toEqual([]);
        expect(await store.status("embedder/three")).toMatchObject({ entries: 2, pending: 2 });
        expect(await store.status(other)).toMatchObject({ entries: 2, pending: 0 });
      });
    },
  },
  {
    promise: "[D9] takes a session in anew that was reset, and finds nothing of what it said before",
    holds: async (open) => {
      await using(open, async (store) => {
        await store.add(batchOf(A, 1, ["heron secret", "common word"]));
        await store.add(batchOf(B, 1, ["another word"]));
        await embedAll(store);
        await store.reset(A);
        expect(await store.cursor(A)).toBe(0);
        expect(await found(store, "heron")).toEqual([]);
        await store.add(batchOf(A, 1, ["common word", "later word"]));
        await store.purge();
        expect(await found(store, "heron")).toEqual([]);
        expect((await found(store, "word")).toSorted()).toEqual(["another word", "common word", "later word"]);
        expect(await store.status(EMBEDDER)).toMatchObject({ entries: 3, pending: 2 });
        await embedAll(store);
        expect(await store.nearest(EMBEDDER, turned(0), { scope: EVERYTHING, max: 9 })).toHaveLength(3);
      });
      await using(open, async (store) => {
        expect(await store.cursor(A)).toBe(2);
        expect((await found(store, "word")).toSorted()).toEqual(["another word", "common word", "later word"]);
        expect(await matchAll(store, ["heron"])).toMatchObject({ best: [], holders: new Map([["heron", 0]]) });
      });
    },
  },
  {
    promise: "[D8] what was dropped does not come back, by a late batch, a late vector or a restart",
    holds: async (open) => {
      const late = batchOf(A, 3, ["w late"]);
      await using(open, async (store) => {
        await store.add(batchOf(A, 1, ["w one", "w two"]));
        await store.add(batchOf(B, 1, ["w other"]));
        const chunks = await store.vectors.missing(EMBEDDER, 9);
        const adding = store.add(late);
        await Promise.all([store.drop(A), adding]);
        await store.add({ ...late, cursor: 9 });
        await store.vectors.put(
          EMBEDDER,
          chunks.map(({ id }) => ({ id, vector: turned(0) })),
        );
        expect(await store.read(chunks.map(({ id }) => id))).toHaveLength(1);
      });
      await using(open, async (store) => {
        await store.add({ ...late, cursor: 10 });
        expect(await found(store, "w")).toEqual(["w other"]);
        expect(await near(store, turned(0), EVERYTHING)).toEqual(["w other"]);
        expect(await store.vectors.missing(EMBEDDER, 9)).toEqual([]);
        expect(await store.status(EMBEDDER)).toMatchObject({ entries: 1, pending: 0 });
        expect(await store.cursor(A)).toBe(Number.MAX_SAFE_INTEGER);
        const { chunks, best } = await matchAll(store, ["w"]);
        expect(chunks).toBe(1);
        expect(best[0]?.value).toBeCloseTo(worthOfEach(["w other"], ["w"])[0] ?? 0, 4);
      });
    },
  },
  {
    promise: "[D8] can be searched while it is added to: a batch is seen whole or not at all",
    holds: (open) =>
      using(open, async (store) => {
        const batches = Array.from({ length: 40 }, (_, index) => batchOf(idOf(20 + index), 1, ["w x", "w y", "w z"]));
        const adding = Promise.all(batches.map((batch) => store.add(batch)));
        for (let search = 0; search < 40; search += 1) {
          const { best, chunks, holders } = await matchAll(store, ["w"]);
          expect([best.length % 3, chunks, holders.get("w")]).toEqual([0, best.length, best.length]);
          await embedAll(store);
          const neighbours = await store.nearest(EMBEDDER, turned(0), { scope: EVERYTHING, max: 500 });
          expect(new Set(neighbours.map(({ id }) => id)).size).toBe(neighbours.length);
        }
        await adding;
        expect((await found(store, "w")).length).toBe(120);
      }),
  },
  {
    promise: "[H5] takes a text of ten megabytes",
    holds: async (open) => {
      const text = "0123456789abcdé ".repeat(640 * 1_024);
      await using(open, (store) =>
        store.add({ ...batchOf(A, 1, []), cursor: 1, chunks: [{ ...chunkOf("big", 1, A), text }] }),
      );
      await using(open, async (store) => {
        const [chunk] = await store.vectors.missing(EMBEDDER, 1);
        expect(chunk?.text.length).toBe(text.length);
        expect(chunk?.text === text).toBe(true);
      });
    },
  },
  {
    promise: "[D4] keeps many sessions apart",
    holds: async (open) => {
      const sessions = Array.from({ length: 300 }, (_, index) => idOf(1_000 + index));
      await using(open, async (store) => {
        for (const [index, id] of sessions.entries()) await store.add(batchOf(id, 1 + index, [`w s${index}`, "w"]));
        await embedAll(store);
      });
      await using(open, async (store) => {
        for (const [index, sessionId] of sessions.entries()) {
          const scope = { sessionId, discardedOnly: false };
          expect(await found(store, "w", scope)).toEqual([`w s${index}`, "w"]);
          expect(await near(store, turned(0), scope)).toHaveLength(2);
        }
        expect((await matchAll(store, ["w"])).chunks).toBe(600);
      });
    },
  },
  {
    promise: "[D8] finds what a plain list finds, after any batches, drops, vectors and restarts",
    holds: (open) => fc.assert(likeAPlainList(open), { numRuns: 25 }),
  },
];

/** Runs the checks; `place` makes a new, empty place for each. */
export function describeMemoryStore(name: string, place: () => OpenMemoryStore): void {
  describe(`memory store: ${name}`, () => {
    for (const { promise, holds } of MEMORY_STORE_CHECKS) it(promise, () => holds(place()));
  });
}
