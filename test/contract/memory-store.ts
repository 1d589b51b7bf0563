import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { MemoryStore } from "../../src/ports/memory.ts";
import { idOf } from "../support/entries.ts";
import {
  batchOf,
  chunkOf,
  EMBEDDER,
  EVERYTHING,
  embedAll,
  found,
  near,
  textsOf,
  turned,
} from "../support/memory-chunks.ts";

/** Opens a memory in one place; what it returns the second time, after the first was closed, is that place restarted. */
export type OpenMemoryStore = () => Promise<MemoryStore>;

interface Check {
  readonly promise: string;
  holds(open: OpenMemoryStore): Promise<void>;
}

const A = idOf(1);
const B = idOf(2);

/** Runs work on an open store and closes it. */
async function using<T>(open: OpenMemoryStore, work: (store: MemoryStore) => Promise<T>): Promise<T> {
  const store = await open();
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** Every run of the property has sessions and words of its own. */
let run = 0;

/** What every memory store promises. */
export const MEMORY_STORE_CHECKS: readonly Check[] = [
  {
    promise: "[D8] is empty at first, and says so to every question",
    holds: (open) =>
      using(open, async (store) => {
        expect(await store.cursor(A)).toBe(0);
        expect(await store.read([1, 2])).toEqual([]);
        const matches = await store.match(["word"], EVERYTHING);
        expect([matches.chunks, matches.termsTotal, matches.postings]).toEqual([
          0,
          0,
          [{ term: "word", ids: new Uint32Array(), counts: new Uint32Array() }],
        ]);
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
    promise: "[D4] finds terms in the scope asked for: postings ascending, with counts, lengths and totals",
    holds: (open) =>
      using(open, async (store) => {
        await store.add(batchOf(A, 1, ["red fox", "blue fox fox fox", "green"]));
        await store.add(batchOf(B, 1, ["fox trot"]));
        await store.add(batchOf(A, 4, ["fox fox"]));
        const all = await store.match(["fox", "blue", "fox", "none"], EVERYTHING);
        expect(all.postings.map(({ term }) => term)).toEqual(["fox", "blue", "none"]);
        const [fox, blue] = all.postings;
        expect([...(fox?.ids ?? [])]).toEqual([...(fox?.ids ?? [])].sort((a, b) => a - b));
        expect([...(fox?.counts ?? [])]).toEqual([1, 3, 1, 2]);
        expect([...(fox?.ids ?? [])].map((id) => all.lengthOf(id))).toEqual([2, 4, 2, 2]);
        expect([...(blue?.ids ?? [])]).toEqual([fox?.ids[1]]);
        expect([all.chunks, all.termsTotal]).toEqual([5, 11]);
        const one = await store.match(["fox"], { sessionId: A, discardedOnly: false });
        expect([...(one.postings[0]?.counts ?? [])]).toEqual([1, 3, 2]);
        expect([one.chunks, one.termsTotal]).toEqual([4, 9]);
        const early = await store.match(["fox"], { sessionId: A, discardedOnly: false, upToSeq: 2 });
        expect([...(early.postings[0]?.counts ?? [])]).toEqual([1, 3]);
        expect([early.chunks, early.termsTotal]).toEqual([2, 6]);
        const nobody = await store.match(["fox"], { sessionId: idOf(99), discardedOnly: false });
        expect([nobody.chunks, nobody.termsTotal, nobody.postings[0]?.ids.length]).toEqual([0, 0, 0]);
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
        const matches = await store.match(["w"], { ...own, upToSeq: 4 });
        expect([matches.chunks, matches.termsTotal]).toEqual([2, 4]);
        const project = await store.match(["w"], discarded);
        expect([project.chunks, project.termsTotal]).toEqual([4, 8]);
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
        const { chunks, termsTotal } = await store.match(["w"], EVERYTHING);
        expect([chunks, termsTotal]).toEqual([1, 2]);
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
          const { postings, chunks } = await store.match(["w"], EVERYTHING);
          expect([(postings[0]?.ids.length ?? 0) % 3, chunks]).toEqual([0, postings[0]?.ids.length]);
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
        expect((await store.match(["w"], EVERYTHING)).chunks).toBe(600);
      });
    },
  },
  {
    promise: "[D8] finds what a plain list finds, after any batches, drops, vectors and restarts",
    holds: (open) => fc.assert(likeAPlainList(open), { numRuns: 25 }),
  },
];

const step = fc.record({
  session: fc.nat(3),
  words: fc.array(fc.array(fc.nat(5), { minLength: 1, maxLength: 6 }), { maxLength: 4 }),
  discardedTo: fc.nat(30),
  next: fc.constantFrom("nothing", "nothing", "restart", "embed", "drop"),
});

function likeAPlainList(open: OpenMemoryStore) {
  return fc.asyncProperty(fc.array(step, { maxLength: 14 }), async (steps) => {
    run += 1;
    const list = new Map<string, { readonly texts: { seq: number; text: string }[]; discardedTo: number }>();
    const dropped = new Set<string>();
    let store = await open();
    for (const { session, words, discardedTo, next } of steps) {
      const id = idOf(run * 8 + session + 10_000);
      const kept = list.get(id) ?? { texts: [], discardedTo };
      const seq = 1 + (await store.cursor(id));
      const texts = words.map((numbers) => numbers.map((number) => `r${run}w${number}`).join(" "));
      if (!dropped.has(id) && texts.length > 0) {
        await store.add({ ...batchOf(id, seq, texts), discarded: [{ from_seq: 1, to_seq: discardedTo }] });
        kept.texts.push(...texts.map((text, index) => ({ seq: seq + index, text })));
        list.set(id, { ...kept, discardedTo });
      }
      if (next === "embed") await embedAll(store);
      if (next === "drop") {
        await store.drop(id);
        list.delete(id);
        dropped.add(id);
      }
      if (next !== "restart") continue;
      await store.close();
      store = await open();
    }
    for (const [sessionId, { texts, discardedTo }] of list) {
      for (let number = 0; number <= 5; number += 1) {
        const word = `r${run}w${number}`;
        const holding = texts.filter(({ text }) => text.split(" ").includes(word));
        expect(await found(store, word, { sessionId, discardedOnly: false })).toEqual(holding.map(({ text }) => text));
        const left = holding.filter(({ seq }) => seq <= discardedTo).map(({ text }) => text);
        expect(await found(store, word, { sessionId, discardedOnly: true })).toEqual(left);
      }
    }
    await store.close();
  });
}

/** Runs the checks; `place` makes a new, empty place for each. */
export function describeMemoryStore(name: string, place: () => OpenMemoryStore): void {
  describe(`memory store: ${name}`, () => {
    for (const { promise, holds } of MEMORY_STORE_CHECKS) it(promise, () => holds(place()));
  });
}
