import { createEmbedding } from "@rkat/core/memory/embedding";
import type { Embedder, MemoryStore } from "@rkat/core/ports/memory";
import { toChunk } from "@rkat/core/recall/chunk";
import { createRecall } from "@rkat/core/recall/recall";
import { describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { batchOf } from "../support/memory-chunks.ts";
import { createVirtualClock } from "../support/virtual-clock.ts";
import { MEMORY_STORES } from "./memory-stores.ts";

const NOW = Date.UTC(2026, 10, 15, 12);
const { signal } = new AbortController();

const TALK = [
  ["garden", "Which colour did we pick for the fence?"],
  ["trip", "When does the ferry leave?"],
  ["garden", "Teal, as on the boat."],
  ["trip", "At a quarter past nine."],
  ["garden", "And the gate?"],
  ["trip", "From which pier?"],
] as const;

/** Sessions that were taken in turn by turn, as they talked at the same time. */
async function addInterleaved(store: MemoryStore): Promise<void> {
  for (const [index, [session_id, text]] of TALK.entries()) {
    const seq = index + 1;
    const source = { session_id, turn: seq, seq, part: 0, role: "user", kind: "text", created_at_ms: NOW } as const;
    await store.add({ session_id, cursor: seq, chunks: [toChunk({ ...source, text })], discarded: [] });
  }
}

describe.each(MEMORY_STORES)("a memory %s of sessions that talked at the same time", (_, open) => {
  it("[D5] finds an answer beside the question it does not repeat", async () => {
    const store = open();
    await addInterleaved(store);
    const recall = createRecall({ store, embedder: undefined, now: () => NOW });
    const options = { scope: { discardedOnly: false }, limit: 2, signal };
    const { hits } = await recall("colour of the fence", options);
    expect(hits.map(({ chunk }) => chunk.text)).toEqual([TALK[2][1], TALK[0][1]]);
    await store.close();
  });

  it("[D5] knows what stands beside each text in its session, whoever spoke in between", async () => {
    const store = open();
    const random = createRandom(7);
    const said = new Map<string, string[]>();
    const batches = Array.from({ length: 1_500 }, (_, at) => {
      const session_id = `s${Math.floor(random() * 5)}`;
      const texts = said.get(session_id) ?? [];
      const added = Array.from({ length: Math.floor(random() * 4) }, (_, part) => `${session_id} ${at} ${part}`);
      said.set(session_id, [...texts, ...added]);
      return { ...batchOf(session_id, texts.length + 1, added), cursor: texts.length + added.length };
    });
    await Promise.all(batches.map((batch) => store.add(batch)));
    const chunks = await store.vectors.missing("nobody", Number.MAX_SAFE_INTEGER);
    const textOf = new Map(chunks.map(({ id, text }) => [id, text]));
    const beside = chunks.map(({ text, before, after }) => [text, textOf.get(before), textOf.get(after)]);
    const expected = [...said.values()].flatMap((texts) =>
      texts.map((text, at) => [text, texts[at - 1], texts[at + 1]]),
    );
    expect(beside.sort()).toEqual(expected.sort());
    await store.close();
  });

  it("[D5] embeds a short text after what its own session said before it", async () => {
    const store = open();
    await addInterleaved(store);
    const passages: string[] = [];
    const embedder: Embedder = {
      id: "listening",
      dimensions: 2,
      embed: async (texts) => {
        passages.push(...texts);
        return texts.map(() => Float32Array.of(1, 0));
      },
      close: async () => {},
    };
    const embedding = createEmbedding(store, async () => embedder, createVirtualClock());
    while ((await store.status("listening")).pending > 0)
      await embedding.fill([], { scope: { discardedOnly: false }, msMax: 1_000 });
    expect(passages).toEqual([
      TALK[0][1],
      TALK[1][1],
      `${TALK[0][1]}\n${TALK[2][1]}`,
      `${TALK[1][1]}\n${TALK[3][1]}`,
      `${TALK[2][1]}\n${TALK[4][1]}`,
      `${TALK[3][1]}\n${TALK[5][1]}`,
    ]);
    await embedding.close();
    await store.close();
  });
});
