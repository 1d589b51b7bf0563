import { describe, expect, it } from "vitest";
import type { Chunk, Embedder } from "../ports/memory.ts";
import { createMemoryStoreInMemory } from "../stores/recall-in-memory.ts";
import { passageFor, toChunk } from "./chunk.ts";
import { createRecall, foldDuplicates } from "./recall.ts";

const { signal } = new AbortController();
const SCOPE = { discardedOnly: false };
const TOPICS = [/sister|Porto|family/, /staging|port|server/, /flight|airport|fly/];

/** Meaning by topic: texts are alike that name things of one topic. */
const topics: Embedder = {
  id: "topics",
  dimensions: TOPICS.length + 1,
  embed: async (texts) => texts.map((text) => Float32Array.from([0.5, ...TOPICS.map((topic) => +topic.test(text))])),
  close: async () => {},
};

/** A store in which a user and an assistant said this by turns. */
async function storeOf(said: readonly string[]) {
  const store = createMemoryStoreInMemory();
  const chunks = said.map((text, at) => {
    const role = at % 2 === 0 ? "user" : "assistant";
    const turn = Math.ceil((at + 1) / 2);
    return toChunk({ session_id: "s1", turn, seq: at + 1, part: 0, role, kind: "text", created_at_ms: 0, text });
  });
  await store.add({ session_id: "s1", cursor: said.length, chunks, discarded: [] });
  for (const chunk of await store.vectors.missing(topics.id, said.length)) {
    const [before] = await store.read([chunk.before]);
    const [vector = new Float32Array()] = await topics.embed([passageFor(chunk, before)], "passage", signal);
    await store.vectors.put(topics.id, [{ id: chunk.id, vector }]);
  }
  return store;
}

async function textsFound(said: readonly string[], query: string): Promise<readonly string[]> {
  const recall = createRecall({ store: await storeOf(said), embedder: topics, now: () => 0 });
  const { hits } = await recall(query, { scope: SCOPE, limit: 5, signal });
  return hits.map(({ chunk }) => chunk.text);
}

describe("what says the same", () => {
  const chunkOf = (id: number, text: string, before = 0): Chunk => {
    const place = { session_id: "s1", turn: 1, seq: id, part: 0, created_at_ms: 0, before, after: 0 };
    return { ...place, id, text, role: "user", kind: "text" };
  };
  const folded = (chunks: readonly Chunk[]) =>
    foldDuplicates(chunks, new Map(chunks.map((chunk) => [chunk.id, chunk]))).map(({ chunk, copies }) => [
      chunk.id,
      copies,
    ]);

  it("[D5] is told once, as the first of it, and counted", () => {
    expect(folded([chunkOf(3, "Ping!"), chunkOf(2, "pong"), chunkOf(1, "ping")])).toEqual([
      [3, 2],
      [2, 1],
    ]);
  });

  it("[D5] is not a short answer to another question", () => {
    const questions = [
      chunkOf(1, "Do you eat fish?"),
      chunkOf(3, "Do you drink wine?"),
      chunkOf(5, "Do you eat fish?"),
    ];
    const answers = [chunkOf(2, "Never.", 1), chunkOf(4, "Never.", 3), chunkOf(6, "never", 5)];
    expect(folded([...questions, ...answers])).toEqual([
      [1, 2],
      [3, 1],
      [2, 2],
      [4, 1],
    ]);
  });
});

describe("a short reply that is given again and again", () => {
  const sister = "My sister lives by the river in Porto.";

  it("[D5] takes no place among hits with the meaning of what it follows, and those that score little keep theirs", async () => {
    const said = [sister, "Noted.", "The staging server moved.", "Noted.", "I never fly early.", "Noted."];
    const found = await textsFound(said, "Who of my family lives abroad?");
    expect(found).toEqual([sister, "I never fly early.", "The staging server moved."]);
  });

  it("[D5] is found where it answers a question, where it is asked for, and where it was given once", async () => {
    const said = ["Where does your sister live?", "In Oslo.", "Where does the server stand?", "In Oslo."];
    expect(await textsFound(said, "family abroad")).toContain("In Oslo.");
    const noted = ["The staging server moved.", "Noted.", "I never fly early.", "Noted."];
    expect(await textsFound(noted, "what was noted")).toContain("Noted.");
    expect(await textsFound(["The staging server moved.", "To rack nine."], "which port")).toContain("To rack nine.");
  });
});
