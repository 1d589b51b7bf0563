import type { Embedder, MemoryStore, NewChunk } from "@rkat/core/ports/memory";
import { toChunk } from "@rkat/core/recall/chunk";
import { createRecall } from "@rkat/core/recall/recall";
import { describe, expect, it } from "vitest";
import { MEMORY_STORES } from "./memory-stores.ts";

const CROWD = 100_000;
const NOW = Date.UTC(2026, 10, 15, 12);
const TIMEOUT_MS = 120_000;

const GREEN = "The build is green.";
const RED = "The build is red since the merge.";

/** What is said of red things points one way, everything else another. */
const embedder: Embedder = {
  id: "colours",
  dimensions: 2,
  embed: async (texts) =>
    texts.map((text) => (text.includes("red") ? Float32Array.of(0.8, 0.6) : Float32Array.of(1, 0))),
  close: async () => {},
};

/** One session that said the same again and again, and one that said something else. */
async function fill(store: MemoryStore): Promise<void> {
  const source = { turn: 1, part: 0, role: "user", kind: "text", created_at_ms: NOW } as const;
  const said = (session_id: string, seq: number, text: string): NewChunk =>
    toChunk({ ...source, session_id, seq, text });
  const crowd = Array.from({ length: CROWD }, (_, index) => said("ci", index + 1, GREEN));
  await store.add({ session_id: "ci", cursor: CROWD, chunks: crowd, discarded: [] });
  await store.add({ session_id: "dev", cursor: 1, chunks: [said("dev", 1, RED)], discarded: [] });
}

async function embedAll(store: MemoryStore, { signal }: AbortController): Promise<void> {
  const chunks = await store.vectors.missing(embedder.id, CROWD + 1);
  const vectors = await embedder.embed(
    chunks.map(({ text }) => text),
    "passage",
    signal,
  );
  await store.vectors.put(
    embedder.id,
    chunks.map(({ id }, at) => ({ id, vector: vectors[at] ?? new Float32Array(2) })),
  );
}

describe.each(MEMORY_STORES)(`a memory %s of ${CROWD} identical messages`, (_, open) => {
  it(
    "[D5] [H5] answers with one of them and with what else there is, and reads a few hundred chunks for it",
    async () => {
      const store = open();
      await fill(store);
      let read = 0;
      const counting: MemoryStore = {
        ...store,
        read: (ids) => {
          read += ids.length;
          return store.read(ids);
        },
      };
      const ask = async (by: Embedder | undefined) => {
        const recall = createRecall({ store: counting, embedder: by, now: () => NOW });
        const { signal } = new AbortController();
        return recall("is the build green", { scope: { discardedOnly: false }, limit: 20, signal });
      };
      const byWords = await ask(undefined);
      expect(byWords.hits.map(({ chunk }) => chunk.text)).toEqual([GREEN, RED]);
      await embedAll(store, new AbortController());
      const byBoth = await ask(embedder);
      expect(byBoth.mode).toBe("hybrid");
      expect(byBoth.hits.map(({ chunk }) => chunk.text)).toEqual([GREEN, RED]);
      expect(read).toBeLessThan(500);
      await store.close();
    },
    TIMEOUT_MS,
  );
});
