import { describe, expect, it } from "vitest";
import { batchOf, EMBEDDER, EVERYTHING } from "../support/memory-chunks.ts";
import { MEMORY_STORES } from "./memory-stores.ts";

const DIMENSIONS = 16;

/** Texts that have most of their direction in common, each with a little of its own. */
function vectorOf(own: number, share = 0.2): Float32Array {
  const vector = new Float32Array(DIMENSIONS).fill(1);
  vector[own % DIMENSIONS] = 1 + share * DIMENSIONS;
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
}

describe.each(MEMORY_STORES)("a memory %s", (_, open) => {
  const filled = async (count: number) => {
    const store = open();
    const texts = Array.from({ length: count }, (_, at) => `text ${at}`);
    await store.add(batchOf("s1", 1, texts));
    const chunks = await store.vectors.missing(EMBEDDER, count);
    const vectors = chunks.map(({ id }, at) => ({ id, vector: vectorOf(at) }));
    await store.vectors.put(EMBEDDER, vectors);
    return store;
  };

  it("[D5] tells how near vectors are as seen from the middle of the scope, where all look alike from afar", async () => {
    const store = await filled(640);
    const found = await store.nearest(EMBEDDER, vectorOf(3), { scope: EVERYTHING, max: 640 });
    const own = found.filter(({ similarity }) => similarity > 0.99);
    const others = found.filter(({ similarity }) => similarity <= 0.99);
    expect(own).toHaveLength(640 / DIMENSIONS);
    expect(Math.min(...others.map(({ similarity }) => similarity))).toBeGreaterThan(0.5);
    expect(Math.min(...own.map(({ fromMean = 0 }) => fromMean))).toBeGreaterThan(0.98);
    expect(Math.max(...others.map(({ fromMean = 1 }) => fromMean))).toBeLessThan(0.1);
    await store.close();
  });

  it("[D5] takes no middle of a few vectors", async () => {
    const store = await filled(20);
    const found = await store.nearest(EMBEDDER, vectorOf(3), { scope: EVERYTHING, max: 20 });
    expect(found.filter(({ fromMean }) => fromMean !== undefined)).toEqual([]);
    await store.close();
  });
});
