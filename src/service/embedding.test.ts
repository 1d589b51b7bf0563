import { describe, expect, it } from "vitest";
import { batchOf } from "../../test/support/memory-chunks.ts";
import { createVirtualClock } from "../../test/support/virtual-clock.ts";
import type { Embedder } from "../ports/embedder.ts";
import { createMemoryStoreInMemory } from "../stores/recall/in-memory.ts";
import { createEmbedding } from "./embedding.ts";

const TEXTS = Array.from({ length: 100 }, (_, index) => `text ${index}`);

/** An embedder whose batches end when they are let go. */
function createGatedEmbedder() {
  const gates: PromiseWithResolvers<void>[] = [];
  const embedder: Embedder = {
    id: "gated",
    dimensions: 2,
    embed: async (texts) => {
      const gate = Promise.withResolvers<void>();
      gates.push(gate);
      await gate.promise;
      return texts.map(() => Float32Array.of(1, 0));
    },
    close: async () => {},
  };
  return { embedder, gates };
}

describe("embedding", () => {
  it("[D5] lets a search wait no longer than it said, whoever set the embedder to work", async () => {
    const store = createMemoryStoreInMemory();
    await store.add(batchOf("s1", 1, TEXTS));
    const { embedder, gates } = createGatedEmbedder();
    const clock = createVirtualClock(0);
    const embedding = createEmbedding(store, async () => embedder, clock);
    embedding.wake();
    await clock.sleep(2_001, new AbortController().signal);
    expect(gates).toHaveLength(1);
    await embedding.drain(3_000);
    expect(clock.now()).toBe(5_001);
    for (const gate of gates) gate.resolve();
    await embedding.close();
  });

  it("[D5] tells of an embedder that gives too few vectors, and leaves the chunks for later", async () => {
    const store = createMemoryStoreInMemory();
    await store.add(batchOf("s1", 1, TEXTS));
    const embedder: Embedder = { id: "lazy", dimensions: 2, embed: async () => [], close: async () => {} };
    const embedding = createEmbedding(store, async () => embedder, createVirtualClock(0));
    await embedding.drain(3_000);
    expect(embedding.problem()).toBe("the embedder lazy gave 0 vectors for 16 texts");
    expect(await store.status("lazy")).toMatchObject({ pending: TEXTS.length });
    await embedding.close();
  });

  it("[D5] goes on behind a search that waited long enough", async () => {
    const store = createMemoryStoreInMemory();
    await store.add(batchOf("s1", 1, TEXTS));
    const { embedder, gates } = createGatedEmbedder();
    const embedding = createEmbedding(store, async () => embedder, createVirtualClock(0));
    await embedding.drain(3_000);
    for (let at = 0; (await store.status("gated")).pending > 0; at += 1) {
      gates[at]?.resolve();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(gates.length).toBe(Math.ceil(TEXTS.length / 16));
    await embedding.close();
  });
});
