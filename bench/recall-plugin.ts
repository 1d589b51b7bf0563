// A retriever for scorers that take one: our own chunks, store, embedder and recall, nothing else.

import type { MemoryStore } from "@rkat/core/ports/memory";
import { passageFor, splitText, toChunk } from "@rkat/core/recall/chunk";
import { createRecall, type Recall } from "@rkat/core/recall/recall";
import { createMemoryStoreInMemory } from "@rkat/core/stores/recall-in-memory";
import { createLocalEmbedder } from "@rkat/node/embedders/local";
import { rememberTexts, withGrasp } from "@rkat/node/embedders/open-embedder";

interface Doc {
  readonly id: string;
  readonly text: string;
  readonly session?: string;
  readonly role?: string;
  readonly time?: string;
}

interface Handle {
  readonly store: MemoryStore;
  readonly recall: Recall;
  readonly ids: Map<number, string>;
  readonly seqs: Map<string, number>;
}

const { signal } = new AbortController();
/** Scorers that index the same texts for every question give them to the model once. */
const TEXTS_MAX = 65_536;
const embedder = withGrasp(rememberTexts(createLocalEmbedder(), TEXTS_MAX));
const now = (): number => Date.UTC(2026, 0, 1);

async function index(docs: readonly Doc[]): Promise<Handle> {
  const store = createMemoryStoreInMemory();
  return add({ store, recall: createRecall({ store, embedder, now }), ids: new Map(), seqs: new Map() }, docs);
}

async function add(handle: Handle, docs: readonly Doc[]): Promise<Handle> {
  const { store, ids, seqs } = handle;
  for (const [session, said] of Map.groupBy(docs, (doc) => doc.session ?? "one")) {
    let seq = seqs.get(session) ?? 0;
    for (const { id, text, role, time } of said) {
      seq += 1;
      const chunks = splitText(text).map((part, at) =>
        toChunk({
          session_id: session,
          turn: seq,
          seq,
          part: at,
          role: role === "assistant" ? "assistant" : "user",
          kind: "text",
          created_at_ms: Number.isNaN(Date.parse(time ?? "")) ? now() : Date.parse(time ?? ""),
          text: part,
        }),
      );
      await store.add({ session_id: session, cursor: seq, chunks, discarded: [] });
      for (const _ of chunks) ids.set(ids.size + 1, id);
    }
    seqs.set(session, seq);
  }
  await embedMissing(store);
  return handle;
}

async function embedMissing(store: MemoryStore): Promise<void> {
  for (;;) {
    const chunks = await store.vectors.missing(embedder.id, 64);
    if (chunks.length === 0) return;
    const earlier = await store.read(chunks.map(({ before }) => before));
    const byId = new Map(earlier.map((chunk) => [chunk.id, chunk]));
    const passages = chunks.map((chunk) => passageFor(chunk, byId.get(chunk.before)));
    const vectors = await embedder.embed(passages, "passage", signal);
    await store.vectors.put(
      embedder.id,
      chunks.map(({ id }, at) => ({ id, vector: vectors[at] ?? new Float32Array(embedder.dimensions) })),
    );
  }
}

async function search({ recall, ids }: Handle, query: string, k: number): Promise<readonly string[]> {
  const { hits } = await recall(query, { scope: { discardedOnly: false }, limit: k, signal });
  return hits.map(({ chunk }) => ids.get(chunk.id) ?? "");
}

export default { name: "rkat", index, search, add };
