import { describe, expect, it } from "vitest";
import { batchOf, EVERYTHING, textsOf } from "../../../../test/support/memory-chunks.ts";
import { createVirtualClock } from "../../../../test/support/virtual-clock.ts";
import type { Embedder, MemoryStore } from "../ports/memory.ts";
import { createMemoryStoreInMemory } from "../stores/recall-in-memory.ts";
import { createEmbedding } from "./embedding.ts";

const TEXTS = Array.from({ length: 100 }, (_, index) => `a text that is long enough, of number ${index}`);
const SEARCH = { scope: EVERYTHING, msMax: 300 };
const MINUTE_MS = 60_000;

/** An embedder whose calls end when they are let go. */
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

/** An embedder that tells what it was given. */
function createRecordingEmbedder() {
  const received: string[] = [];
  const embedder: Embedder = {
    id: "hearing",
    dimensions: 2,
    embed: async (texts) => {
      received.push(...texts);
      return texts.map(() => Float32Array.of(1, 0));
    },
    close: async () => {},
  };
  return { embedder, received };
}

/** Some embedder, a store with what two sessions said, and time. */
async function given(embedder: Embedder, store: MemoryStore = createMemoryStoreInMemory()) {
  const clock = createVirtualClock(0);
  const embedding = createEmbedding(store, async () => embedder, clock);
  const { signal } = new AbortController();
  return { store, clock, embedding, pass: (ms: number) => clock.sleep(ms, signal) };
}

describe("embedding", () => {
  it("[D5] lets a search wait no longer than it said, whoever set the embedder to work", async () => {
    const { embedder, gates } = createGatedEmbedder();
    const { store, clock, embedding, pass } = await given(embedder);
    await store.add(batchOf("s1", 1, TEXTS));
    embedding.wake();
    await pass(2_001);
    expect(gates).toHaveLength(1);
    await embedding.fill([], SEARCH);
    expect(clock.now()).toBe(2_301);
    for (const gate of gates) gate.resolve();
    await embedding.close();
  });

  it("[D5] tells of an embedder that gives too few vectors, and leaves the chunks for later", async () => {
    const embedder: Embedder = { id: "lazy", dimensions: 2, embed: async () => [], close: async () => {} };
    const { store, embedding } = await given(embedder);
    await store.add(batchOf("s1", 1, TEXTS));
    await embedding.fill([], SEARCH);
    expect(embedding.problem()).toBe("the embedder lazy gave 0 vectors for 4 texts");
    expect(await store.status("lazy")).toMatchObject({ pending: TEXTS.length });
    await embedding.close();
  });

  it("[D5] goes on behind a search that waited long enough", async () => {
    const { embedder, gates } = createGatedEmbedder();
    const { store, embedding } = await given(embedder);
    await store.add(batchOf("s1", 1, TEXTS));
    await embedding.fill([], SEARCH);
    for (let at = 0; (await store.status("gated")).pending > 0; ) {
      if (gates[at] !== undefined) gates[at++]?.resolve();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(gates.length).toBe(TEXTS.length / 4);
    await embedding.close();
  });

  it("[D5] gives what words found its vectors before the rest of what is searched", async () => {
    const { embedder, received } = createRecordingEmbedder();
    const { store, embedding } = await given(embedder);
    await store.add(batchOf("s1", 1, TEXTS));
    const ids = (await store.vectors.missing("hearing", 100)).map(({ id }) => id);
    await embedding.fill([ids[70] ?? 0, ids[30] ?? 0], SEARCH);
    expect(received.slice(0, 3)).toEqual([TEXTS[70], TEXTS[30], TEXTS[0]]);
    await embedding.close();
  });

  it("[D5] makes no vector of what a context in use shows, until it has left it or its session rests", async () => {
    const { embedder, received } = createRecordingEmbedder();
    const { store, embedding, pass } = await given(embedder);
    const [first = "", second = "", third = "", fourth = ""] = TEXTS;
    await store.add({ ...batchOf("used", 1, [first, second]), discarded: [{ from_seq: 1, to_seq: 1 }] });
    await store.add(batchOf("other", 1, [third]));
    embedding.use("used")();
    embedding.wake();
    await pass(MINUTE_MS);
    expect(received).toEqual([first, third]);
    await store.add({ ...batchOf("used", 3, [fourth]), discarded: [{ from_seq: 1, to_seq: 2 }] });
    embedding.wake();
    await pass(MINUTE_MS);
    expect(received).toEqual([first, third, second]);
    expect(await store.status("hearing")).toMatchObject({ pending: 1 });
    await pass(10 * MINUTE_MS);
    expect(received).toEqual([first, third, second, fourth]);
    await embedding.close();
  });

  it("[D5] makes a vector of a text once, in whichever session it is said", async () => {
    const { embedder, received } = createRecordingEmbedder();
    const { store, embedding } = await given(embedder);
    const [same = "", other = ""] = TEXTS;
    await store.add(batchOf("s1", 1, [same, same]));
    await embedding.fill([], SEARCH);
    await embedding.close();
    const later = await given(embedder, store);
    await store.add(batchOf("s2", 1, [other, same]));
    await later.embedding.fill([], SEARCH);
    expect(received).toEqual([same, other]);
    expect(await store.status("hearing")).toMatchObject({ pending: 0, entries: 4 });
    await later.embedding.close();
  });

  it("[D5] finds what programs say by its words alone, until somebody was told it", async () => {
    const { embedder, received } = createRecordingEmbedder();
    const { store, embedding, pass } = await given(embedder);
    const batch = batchOf("s1", 1, TEXTS.slice(0, 3));
    const chunks = batch.chunks.map((chunk, at) => ({ ...chunk, byWordsAlone: at < 2 }));
    await store.add({ ...batch, chunks });
    const ids = (await store.vectors.missing("hearing", 9, { byWords: true })).map(({ id }) => id);
    await embedding.fill(ids, SEARCH);
    expect(received).toEqual([TEXTS[2]]);
    expect(await store.status("hearing")).toMatchObject({ entries: 3, pending: 0, byWordsAlone: 2 });
    embedding.reported(ids.slice(1));
    await pass(MINUTE_MS);
    expect(received).toEqual([TEXTS[2], TEXTS[1]]);
    expect(textsOf(await store.vectors.missing("hearing", 9, { byWords: true }))).toEqual([TEXTS[0]]);
    await embedding.close();
  });

  it("[D5] waits for turns, and not for ever", async () => {
    const { embedder, received } = createRecordingEmbedder();
    const { store, embedding, pass } = await given(embedder);
    await store.add(batchOf("s1", 1, TEXTS.slice(0, 12)));
    const rest = embedding.use("other");
    embedding.wake();
    await pass(3_000);
    expect(received).toHaveLength(0);
    await pass(2_000);
    expect(received).toHaveLength(4);
    await pass(2_000);
    expect(received).toHaveLength(8);
    rest();
    await pass(400);
    expect(received).toHaveLength(12);
    await embedding.close();
  });

  it("[D5] makes what earlier processes left behind, also while a turn that lasts is all that goes on", async () => {
    const { embedder, received } = createRecordingEmbedder();
    const { store, embedding, pass } = await given(embedder);
    await store.add(batchOf("s1", 1, TEXTS.slice(0, 4)));
    const rest = embedding.use("other");
    await pass(5_000);
    expect(received).toHaveLength(4);
    rest();
    await embedding.close();
  });

  it("[D5] keeps what is made when it ends in the middle of a batch", async () => {
    const { embedder, gates } = createGatedEmbedder();
    const { store, embedding, pass } = await given(embedder);
    await store.add(batchOf("s1", 1, TEXTS.slice(0, 12)));
    embedding.wake();
    await pass(2_001);
    const closed = embedding.close();
    for (const gate of gates) gate.resolve();
    await closed;
    expect(await store.status("gated")).toMatchObject({ entries: 12, pending: 8 });
  });

  it("[D5] goes on for a moment when a short process ends that has searched, and ends at once when it has not", async () => {
    const clock = createVirtualClock(0);
    const slow: Embedder = {
      ...createRecordingEmbedder().embedder,
      embed: async (texts, _, signal) => {
        await clock.sleep(400, signal);
        return texts.map(() => Float32Array.of(1, 0));
      },
    };
    const store = createMemoryStoreInMemory();
    await store.add(batchOf("s1", 1, TEXTS));
    const quiet = createEmbedding(store, async () => slow, clock, { lingerMs: 1_000 });
    quiet.wake();
    await quiet.close();
    expect(clock.now()).toBe(0);
    const searched = createEmbedding(store, async () => slow, clock, { lingerMs: 1_000 });
    await searched.fill([], SEARCH);
    await searched.close();
    expect(clock.now()).toBe(1_300);
    const { pending } = await store.status("hearing");
    expect(TEXTS.length - pending).toBeGreaterThanOrEqual(8);
  });
});
