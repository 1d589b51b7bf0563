import { closeSync, ftruncateSync, mkdtempSync, openSync, readdirSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MemoryStore } from "@rkat/core/ports/memory";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { idOf } from "../support/entries.ts";
import { batchOf, EMBEDDER, EVERYTHING, embedAll, found, turned } from "../support/memory-chunks.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-memory-disk-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const A = idOf(1);
const DIMENSIONS = 128;

function newFolder(): string {
  return join(mkdtempSync(join(root, "state-")), "memory");
}

/** Vectors around a few middles, as those of texts about a few things are. */
function clusteredVectors(count: number, seed: number): readonly Float32Array[] {
  const random = createRandom(seed);
  const middles = Array.from({ length: 40 }, () => Float32Array.from({ length: DIMENSIONS }, () => random() - 0.5));
  return Array.from({ length: count }, () => {
    const middle = middles[Math.floor(random() * middles.length)] ?? new Float32Array(DIMENSIONS);
    return middle.map((value) => value + (random() - 0.5) * 0.6);
  });
}

/** A memory of one session, with a vector for each of its chunks. */
async function fill(store: MemoryStore, vectors: readonly Float32Array[]): Promise<void> {
  for (let from = 0; from < vectors.length; from += 1_000) {
    const texts = vectors.slice(from, from + 1_000).map((_, index) => `w t${from + index}`);
    await store.add(batchOf(A, 1 + from, texts));
  }
  const chunks = await store.vectors.missing(EMBEDDER, vectors.length);
  await store.vectors.put(
    EMBEDDER,
    chunks.map(({ id, seq }) => ({ id, vector: vectors[seq - 1] ?? new Float32Array(DIMENSIONS) })),
  );
}

function cosines(vector: Float32Array, others: readonly Float32Array[]): readonly number[] {
  const dot = (a: Float32Array, b: Float32Array): number => a.reduce((sum, x, index) => sum + x * (b[index] ?? 0), 0);
  return others.map((other) => dot(vector, other) / Math.sqrt(dot(vector, vector) * dot(other, other)));
}

describe("a memory on disk", () => {
  it("[H2] can be read by its owner only", async () => {
    const folder = newFolder();
    const store = openMemoryStore({ folder });
    await store.add(batchOf(A, 1, ["a", "b"]));
    await embedAll(store);
    await store.close();
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    const files = readdirSync(folder).sort();
    expect(files).toEqual(["memory.db", "memory.db-lock", "vectors-1.bits", "vectors-1.rows", "vectors-1.sums"]);
    for (const file of files) expect(statSync(join(folder, file)).mode & 0o777).toBe(0o600);
  });

  it("[D4] is shared by several who read and write it at once", async () => {
    const folder = newFolder();
    const [one, two] = [openMemoryStore({ folder }), openMemoryStore({ folder })];
    for (let round = 0; round < 30; round += 1) {
      const [writer, reader] = round % 2 === 0 ? [one, two] : [two, one];
      await writer.add(batchOf(A, 1 + round, [`w ${round}`]));
      await embedAll(round % 3 === 0 ? writer : reader);
      expect(await found(reader, "w")).toHaveLength(round + 1);
      expect(await reader.nearest(EMBEDDER, turned(0), { scope: EVERYTHING, max: 99 })).toHaveLength(round + 1);
    }
    await one.drop(A);
    expect(await found(two, "w")).toEqual([]);
    expect(await two.nearest(EMBEDDER, turned(0), { scope: EVERYTHING, max: 99 })).toEqual([]);
    await Promise.all([one.close(), two.close()]);
  });

  it("[D8] [F4] what was taken in by an older reading of the logs is taken in again, and its chunks are gone", async () => {
    const folder = newFolder();
    const B = idOf(2);
    const old = openMemoryStore({ folder });
    await old.add({ ...batchOf(A, 1, ["w said", "w echo"]), discarded: [{ from_seq: 1, to_seq: 2 }] });
    await old.add(batchOf(B, 1, ["w other"]));
    await old.drop(B);
    await embedAll(old);
    const store = openMemoryStore({ folder, version: 2 });
    expect([await store.cursor(A), await store.cursor(B)]).toEqual([0, Number.MAX_SAFE_INTEGER]);
    await store.add({ ...batchOf(A, 1, ["w said"]), cursor: 2, discarded: [{ from_seq: 1, to_seq: 2 }] });
    await store.add(batchOf(B, 1, ["w other"]));
    await embedAll(store);
    for (const reader of [store, old, openMemoryStore({ folder, version: 2 })]) {
      for (const scope of [EVERYTHING, { discardedOnly: true }, { sessionId: A, discardedOnly: false }]) {
        expect(await found(reader, "w", scope)).toEqual(["w said"]);
        expect(await reader.nearest(EMBEDDER, turned(0), { scope, max: 9 })).toHaveLength(1);
      }
      expect(await reader.status(EMBEDDER)).toMatchObject({ entries: 1, pending: 0 });
      expect(await reader.cursor(A)).toBe(2);
    }
    await store.add(batchOf(A, 3, ["w more"]));
    expect(await found(store, "w")).toEqual(["w said", "w more"]);
    await Promise.all([store.close(), old.close()]);
  });

  it("[D6] finds by signatures what a look at every vector finds, in part of the ids too", async () => {
    const folder = newFolder();
    const vectors = clusteredVectors(20_000, 7);
    const store = openMemoryStore({ folder });
    await fill(store, vectors);
    for (const query of clusteredVectors(20, 7).slice(10)) {
      const scope = { sessionId: A, discardedOnly: false, upToSeq: 15_000 };
      const all = cosines(query, vectors.slice(0, 15_000));
      const tenth = [...all].sort((a, b) => b - a)[9] ?? 1;
      const found = await store.nearest(EMBEDDER, query, { scope, max: 10 });
      expect(found.length).toBe(10);
      for (const { id, similarity } of found) {
        expect(similarity).toBeCloseTo(all[id - 1] ?? 0, 2);
        expect(similarity).toBeGreaterThan(tenth - 0.02);
      }
    }
    await store.close();
  }, 60_000);

  const damages: Record<string, (fd: number, size: number) => void> = {
    "bytes changed in the middle": (fd, size) => writeSync(fd, Buffer.alloc(5_000, 0x7e), 0, 5_000, size >> 1),
    "its end cut off": (fd, size) => ftruncateSync(fd, size >> 1),
    "nothing in it": (fd) => ftruncateSync(fd, 0),
  };
  for (const file of ["vectors-1.rows", "vectors-1.bits"]) {
    for (const [damage, hurt] of Object.entries(damages)) {
      it(`[D1] tells of ${file} with ${damage}, and has what it lost made again`, async () => {
        const folder = newFolder();
        const vectors = clusteredVectors(10_000, 3);
        const before = openMemoryStore({ folder });
        await fill(before, vectors);
        await before.close();
        const fd = openSync(join(folder, file), "r+");
        hurt(fd, statSync(join(folder, file)).size);
        closeSync(fd);
        const warnings: string[] = [];
        const store = openMemoryStore({ folder, warn: (sentence) => warnings.push(sentence) });
        const ask = (index: number) =>
          store.nearest(EMBEDDER, vectors[index] ?? new Float32Array(), { scope: EVERYTHING, max: 5 });
        for (let index = 0; index < 10_000; index += 250) await ask(index);
        expect(warnings.length).toBeGreaterThan(0);
        const missing = await store.vectors.missing(EMBEDDER, 10_000);
        // Signatures can be made from the rows again; rows have to be made from the texts.
        if (file.endsWith("rows")) expect(missing.length).toBeGreaterThan(0);
        else expect(missing).toEqual([]);
        await store.vectors.put(
          EMBEDDER,
          missing.map(({ id, seq }) => ({ id, vector: vectors[seq - 1] ?? new Float32Array() })),
        );
        for (let index = 0; index < 10_000; index += 250) {
          expect((await ask(index))[0]).toMatchObject({ id: index + 1, similarity: expect.closeTo(1, 2) });
        }
        await store.close();
      });
    }
  }

  it("[D1] begins anew, and says so, when its tables are damaged", async () => {
    const folder = newFolder();
    const before = openMemoryStore({ folder });
    await before.add(batchOf(A, 1, ["w one"]));
    await embedAll(before);
    await before.close();
    const fd = openSync(join(folder, "memory.db"), "r+");
    writeSync(fd, Buffer.alloc(8_192, 1), 0, 8_192, 0);
    closeSync(fd);
    const warnings: string[] = [];
    const store = openMemoryStore({ folder, warn: (sentence) => warnings.push(sentence) });
    expect(await store.cursor(A)).toBe(0);
    expect(warnings).toHaveLength(1);
    await store.add(batchOf(A, 1, ["w other", "w two"]));
    expect((await store.vectors.missing(EMBEDDER, 9)).length).toBe(2);
    expect(await found(store, "w")).toEqual(["w other", "w two"]);
    await store.close();
  });
});
