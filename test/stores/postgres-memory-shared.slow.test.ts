import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { MemoryStore } from "@rkat/core/ports/memory";
import { createMemoryStoreInMemory } from "@rkat/core/stores/recall-in-memory";
import { raw } from "@rkat/postgres/sql";
import { beforeAll, expect, it } from "vitest";
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
} from "../support/memory-chunks.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { fc } from "../support/property.ts";
import { sharedMemories } from "../support/shared-memory.ts";

const [A, B] = [idOf(1), idOf(2)];
const WAYS = ["local", "database"] as const;

withPostgres("a memory that machines share", () => {
  let url = "";
  beforeAll(async () => {
    url = await databaseFor("shared_memory");
  });
  const newMemory = sharedMemories(() => url);

  it("[F11] [D4] finds on every machine what any of them has added, and nothing that any has dropped", async () => {
    const memory = newMemory();
    const machines = [
      await memory.machine({ way: "local", name: "one" }),
      await memory.machine({ way: "local", name: "one" }),
      await memory.machine({ way: "local" }),
      await memory.machine({ way: "database" }),
    ];
    for (let round = 0; round < 12; round += 1) {
      const [writer, embedder] = [machines[round % 4], machines[(round + 1) % 4]];
      await writer?.add(batchOf(A, 1 + round, [`w ${round}`]));
      await writer?.add(batchOf(idOf(10 + round), 1, [`w other ${round}`]));
      if (embedder !== undefined) await embedAll(embedder);
      for (const reader of machines) {
        expect(await found(reader, "w")).toHaveLength(2 * round + 2);
        expect(await reader.nearest(EMBEDDER, turned(0), { scope: EVERYTHING, max: 99 })).toHaveLength(2 * round + 2);
        expect(await reader.status(EMBEDDER)).toMatchObject({ entries: 2 * round + 2, pending: 0 });
      }
    }
    await machines[2]?.drop(A);
    for (const reader of [...machines, await memory.machine({ way: "local" })]) {
      expect(await found(reader, "w")).toHaveLength(12);
      expect(await reader.nearest(EMBEDDER, turned(0), { scope: EVERYTHING, max: 99 })).toHaveLength(12);
      expect(await reader.cursor(A)).toBe(Number.MAX_SAFE_INTEGER);
    }
  });

  it("[F11] [D5] ranks in a copy and in the database as a store in the process does, after any changes", async () => {
    const step = fc.record({
      session: fc.nat(3),
      by: fc.nat(2),
      words: fc.array(fc.array(fc.nat(6), { minLength: 1, maxLength: 8 }), { maxLength: 4 }),
      discardedTo: fc.nat(12),
      next: fc.constantFrom("nothing", "nothing", "search", "embed", "drop"),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
        const memory = newMemory();
        const shared = [
          await memory.machine({ way: "local" }),
          await memory.machine({ way: "local" }),
          await memory.machine({ way: "database" }),
        ];
        const plain = createMemoryStoreInMemory();
        for (const { session, by, words, discardedTo, next } of steps) {
          const writer = shared[by] ?? plain;
          const id = idOf(session + 1);
          const texts = words.map((numbers) => numbers.map((number) => `w${number}`).join(" "));
          const from = 1 + (await plain.cursor(id));
          const batch = { ...batchOf(id, from, texts), discarded: [{ from_seq: 1, to_seq: discardedTo }] };
          for (const store of [writer, plain]) {
            if (texts.length > 0) await store.add(batch);
            if (next === "drop") await store.drop(id);
          }
          if (next === "embed") for (const store of [writer, plain]) await embedAll(store);
          if (next === "search") await found(writer, "w1");
        }
        for (const scope of [EVERYTHING, { discardedOnly: true }, { sessionId: idOf(1), discardedOnly: false }]) {
          const wanted = await matchAll(plain, ["w1", "w2", "w5"], scope);
          const neighbours = await plain.nearest(EMBEDDER, turned(0.3), { scope, max: 50 });
          for (const store of shared) {
            const ranked = await matchAll(store, ["w1", "w2", "w5"], scope);
            expect([ranked.chunks, ranked.holders]).toEqual([wanted.chunks, wanted.holders]);
            expect(ranked.best.map(({ id }) => id)).toEqual(wanted.best.map(({ id }) => id));
            for (const [at, { value }] of wanted.best.entries()) expect(ranked.best[at]?.value).toBeCloseTo(value, 4);
            const near = await store.nearest(EMBEDDER, turned(0.3), { scope, max: 50 });
            expect(near.map(({ id }) => id).sort()).toEqual(neighbours.map(({ id }) => id).sort());
          }
        }
        await Promise.all(shared.map((store) => store.close()));
      }),
      { numRuns: 12 },
    );
  }, 60_000);

  for (const way of WAYS) {
    it(`[F11] [D8] holds once what machines take in of one log at the same time (${way})`, async () => {
      const memory = newMemory();
      const machines = await Promise.all([1, 2, 3].map(() => memory.machine({ way })));
      const words = Array.from({ length: 24 }, (_, index) => `w ${index}`);
      // Each takes the log in by steps of its own, and all of them at once.
      await Promise.all(
        machines.map(async (store, index) => {
          for (let from = await store.cursor(A); from < words.length; from = await store.cursor(A)) {
            await store.add(batchOf(A, from + 1, words.slice(from, from + 1 + index)));
          }
        }),
      );
      for (const store of machines) expect(await found(store, "w")).toEqual(words);
    });

    it(`[F11] [D8] lets nothing come back of what is dropped while others add to it and embed it (${way})`, async () => {
      const memory = newMemory();
      const [adder, embedder, dropper] = await Promise.all([1, 2, 3].map(() => memory.machine({ way })));
      if (adder === undefined || embedder === undefined || dropper === undefined) return;
      for (let round = 0; round < 8; round += 1) {
        const id = idOf(100 + round);
        const add = async (): Promise<void> => {
          for (let seq = 1; seq <= 6; seq += 1) await adder.add(batchOf(id, seq, [`w gone ${round}`]));
        };
        await adder.add(batchOf(idOf(50), 1 + round, ["w kept"]));
        await Promise.all([add(), embedAll(embedder), dropper.drop(id), embedAll(adder)]);
      }
      for (const store of [adder, embedder, dropper]) {
        await embedAll(store);
        expect(await found(store, "w")).toEqual(Array.from({ length: 8 }, () => "w kept"));
        expect(await near(store, turned(0), EVERYTHING, 99)).toHaveLength(8);
        expect(await store.status(EMBEDDER)).toMatchObject({ entries: 8, pending: 0 });
      }
    });

    it(`[F11] [H5] takes texts and terms of any characters and length (${way})`, async () => {
      const store = await newMemory().machine({ way });
      const half = "\ud83d";
      const terms = [
        "\0",
        half,
        "{}",
        'a"b\\c',
        "','); drop table rkat.memory_chunks; --",
        "x".repeat(100_000),
        "",
        "ÿ\u0001",
      ];
      const chunks = terms.map((term, index) => ({
        ...chunkOf("", index + 1, A),
        text: `${term} \0 ${half} "\\{},`,
        kind: 'te"xt',
        terms: new Map([[term, index + 1]]),
      }));
      await store.add({ session_id: A, cursor: terms.length, chunks, discarded: [] });
      for (const [index, term] of terms.entries()) {
        expect(await found(store, term)).toEqual([chunks[index]?.text]);
        expect(await found(store, term, { sessionId: A, discardedOnly: false })).toEqual([chunks[index]?.text]);
      }
      const name = `it's "odd" {\\},`;
      await store.add({ ...batchOf(name, 1, ["odd one"]), discarded: [{ from_seq: 1, to_seq: 1 }] });
      expect(await found(store, "odd", { among: new Set([name]), discardedOnly: true })).toEqual(["odd one"]);
      const weights = new Map(Array.from({ length: 5_000 }, (_, index) => [`none ${index}`, 1]));
      const none = await store.match({ weights, max: 100, equalsMax: 24 }, EVERYTHING);
      expect([none.best, none.holders.size]).toEqual([[], 5_000]);
    });

    it(`[F11] [H5] takes a batch of twenty thousand chunks, whole (${way})`, async () => {
      const memory = newMemory();
      const store = await memory.machine({ way });
      const texts = Array.from({ length: 20_000 }, (_, index) => `w n${index} ${"filler ".repeat(index % 20)}`.trim());
      await store.add(batchOf(A, 1, texts));
      const other = await memory.machine({ way });
      const { chunks, holders, best } = await other.match(
        { weights: new Map([["w", 1]]), max: 100, equalsMax: 24 },
        EVERYTHING,
      );
      expect([chunks, holders.get("w"), best.length]).toEqual([20_000, 20_000, 100]);
      expect(await found(other, "n19999")).toEqual([texts[19_999]]);
    }, 60_000);

    it(`[F11] [D5] keeps the first vector of a chunk, and refuses one of another length (${way})`, async () => {
      const memory = newMemory();
      const [one, two] = [await memory.machine({ way }), await memory.machine({ way })];
      await one.add(batchOf(A, 1, ["a", "b"]));
      const [first, second] = await one.vectors.missing(EMBEDDER, 9);
      const put = (store: MemoryStore, id: number | undefined, turn: number) =>
        store.vectors.put(EMBEDDER, [{ id: id ?? 0, vector: turned(turn) }]);
      await Promise.all([put(one, first?.id, 0), put(two, second?.id, 1)]);
      await Promise.all([put(two, first?.id, 1), put(one, second?.id, 0), put(two, 4_294_967_295, 0)]);
      for (const store of [one, two, await memory.machine({ way })]) {
        expect(await near(store, turned(0), EVERYTHING)).toEqual(["a", "b"]);
        expect(await store.vectors.missing(EMBEDDER, 9)).toEqual([]);
      }
      await expect(one.vectors.put(EMBEDDER, [{ id: first?.id ?? 0, vector: Float32Array.of(1, 2) }])).rejects.toThrow(
        "embedder embedder/one has vectors of 8 dimensions, and was given one of 2",
      );
      expect(await one.nearest(EMBEDDER, Float32Array.of(1, 2), { scope: EVERYTHING, max: 9 })).toEqual([]);
    });

    it(`[D8] [F4] [F11] takes in again what an older reading of the logs took in (${way})`, async () => {
      const memory = newMemory();
      const old = await memory.machine({ way });
      await old.add({ ...batchOf(A, 1, ["w said", "w echo"]), discarded: [{ from_seq: 1, to_seq: 2 }] });
      await old.add(batchOf(B, 1, ["w other"]));
      await old.drop(B);
      await embedAll(old);
      const store = await memory.machine({ way, version: 2 });
      expect([await store.cursor(A), await store.cursor(B)]).toEqual([0, Number.MAX_SAFE_INTEGER]);
      await store.add({ ...batchOf(A, 1, ["w said"]), cursor: 2, discarded: [{ from_seq: 1, to_seq: 2 }] });
      await store.add(batchOf(B, 1, ["w other"]));
      await embedAll(store);
      for (const reader of [store, old, await memory.machine({ way, version: 2 })]) {
        for (const scope of [EVERYTHING, { discardedOnly: true }, { sessionId: A, discardedOnly: false }]) {
          expect(await found(reader, "w", scope)).toEqual(["w said"]);
          expect(await reader.nearest(EMBEDDER, turned(0), { scope, max: 9 })).toHaveLength(1);
        }
        expect(await reader.status(EMBEDDER)).toMatchObject({ entries: 1, pending: 0 });
      }
      await store.add(batchOf(A, 3, ["w more"]));
      expect(await found(old, "w")).toEqual(["w said", "w more"]);
    });

    it(`[F11] tells which logs are behind by what their rows say (${way})`, async () => {
      const memory = newMemory();
      const { connection, realm } = await memory.database();
      for (const id of [A, B, idOf(3)]) {
        await connection.query`
          insert into rkat.sessions (realm, id, kind, last_seq) values (${realm}, ${id}, 'session', 2)`;
      }
      const store = await memory.machine({ way });
      expect([...((await store.behind?.()) ?? [])].sort()).toEqual([A, B, idOf(3)].sort());
      await store.add(batchOf(A, 1, ["w one", "w two"]));
      await store.add(batchOf(B, 1, ["w one"]));
      await store.drop(idOf(3));
      expect(await store.behind?.()).toEqual([B]);
      const newer = await memory.machine({ way, version: 2 });
      expect([...((await newer.behind?.()) ?? [])].sort()).toEqual([A, B].sort());
      await newer.add(batchOf(A, 1, ["w one", "w two"]));
      expect(await newer.behind?.()).toEqual([B]);
      await store.add(batchOf(B, 2, ["w two"]));
      expect(await newer.behind?.()).toEqual([B]);
      await newer.add(batchOf(B, 1, ["w one", "w two"]));
      expect(await newer.behind?.()).toEqual([]);
    });
  }

  it("[F11] a copy of a memory that was replaced, or that is damaged, is made anew", async () => {
    const memory = newMemory();
    const warnings: string[] = [];
    const { connection, realm } = await memory.database();
    const store = await memory.machine({ way: "local", name: "copy", warn: (sentence) => warnings.push(sentence) });
    await store.add(batchOf(A, 1, ["w before"]));
    await embedAll(store);
    expect(await found(store, "w")).toEqual(["w before"]);
    // As from a backup that ends before the batch: what follows has the same number.
    for (const table of ["realms", "batches", "chunks", "sessions", "embedders", "vectors"]) {
      await connection.query`delete from ${raw(`rkat.memory_${table}`)} where realm = ${realm}`;
    }
    await store.add(batchOf(B, 1, ["w after", "w and more"]));
    await embedAll(store);
    expect(await found(store, "w")).toEqual(["w after", "w and more"]);
    expect(await near(store, turned(0), EVERYTHING)).toHaveLength(2);
    await store.close();
    writeFileSync(join(memory.folderOf("copy"), "memory.db"), Buffer.alloc(20_000, 7));
    const again = await memory.machine({ way: "local", name: "copy", warn: (sentence) => warnings.push(sentence) });
    expect(await found(again, "w")).toEqual(["w after", "w and more"]);
    expect(await near(again, turned(0), EVERYTHING)).toHaveLength(2);
    expect(warnings.length).toBeGreaterThan(0);
  });

  it("[F11] searches by itself in a copy, as long as there is little to read for it", async () => {
    const memory = newMemory();
    const store = await memory.machine({ way: "auto", name: "copy" });
    await store.add(batchOf(A, 1, ["w one"]));
    expect(textsOf(await store.vectors.missing(EMBEDDER, 9))).toEqual(["w one"]);
    expect(await found(store, "w")).toEqual(["w one"]);
  });

  it("[F11] [H4] every table of the memory shows a tenant its own realm alone", async () => {
    const { connection } = await newMemory().database();
    const open = await connection.query`
      select relname from pg_class where relnamespace = 'rkat'::regnamespace and relkind = 'r'
        and relname like 'memory%' and not relrowsecurity`;
    expect(open).toEqual([]);
  });
});
