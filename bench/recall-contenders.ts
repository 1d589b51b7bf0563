import { passageFor, toChunk } from "../src/memory/chunk.ts";
import { bestByTerms } from "../src/memory/rank.ts";
import { createRecall, type Recall } from "../src/memory/recall.ts";
import { splitText, tokensIn } from "../src/memory/split.ts";
import type { Embedder } from "../src/ports/embedder.ts";
import type { Chunk, MemoryStore } from "../src/ports/memory.ts";
import { createMemoryStoreInMemory } from "../src/stores/recall/in-memory.ts";
import { queryTerms } from "../src/text/terms.ts";
import type { Step } from "./recall-data.ts";

/** What one way of finding answers. */
export interface Answer {
  /** Keys of what was found, best first. */
  readonly keys: readonly string[];
  /** Keys of all that a model reads of the answer within each budget of tokens. */
  readonly shown: readonly ReadonlySet<string>[];
}

/** A memory that several ways of finding share. */
export interface Arena {
  hear(session: NonNullable<Step["session"]>): Promise<void>;
  /** By the name of the way. */
  ask(query: string): Promise<ReadonlyMap<string, Answer>>;
}

/** Tokens of text that a model is given of an answer. */
export const BUDGETS = [500, 1_000, 2_000];

const FOUND_MAX = 50;
/** As many hits as the tool tells that does not say. */
const HITS = 5;
const SCOPE = { discardedOnly: false };
const { signal } = new AbortController();

export function createArena(embedder: Embedder | undefined): Arena {
  const store = createMemoryStoreInMemory();
  const keys = new Map<number, string>();
  const hashed = createHashedWords();
  const now = (): number => Date.UTC(2026, 0, 1);
  const byWords = createRecall({ store, embedder: undefined, now });
  const hybrid = createRecall({ store, embedder, now });
  const options = { scope: SCOPE, limit: FOUND_MAX, signal };
  const seqs = new Map<string, number>();
  let lastId = 0;

  const hear: Arena["hear"] = async ({ id, said }) => {
    const heard = seqs.get(id) ?? 0;
    const parts = said.flatMap(({ key, text, atMs, role = "user" }, index) =>
      splitText(text).map((part, at) => ({ key, text: part, atMs, role, seq: heard + index + 1, at })),
    );
    const chunks = parts.map(({ text, atMs, role, seq, at }) =>
      toChunk({
        session_id: id,
        turn: seq,
        seq,
        part: at,
        role,
        kind: "text",
        created_at_ms: atMs,
        text,
      }),
    );
    await store.add({ session_id: id, cursor: heard + said.length, chunks, discarded: [] });
    seqs.set(id, heard + said.length);
    for (const { key } of parts) keys.set(++lastId, key);
    for (const { key, text } of said) hashed.add(key, text);
    if (embedder !== undefined) await embedMissing(store, embedder);
  };

  const ask: Arena["ask"] = async (query) => {
    const toKeys = (ids: readonly number[]): readonly string[] => [...new Set(ids.map((id) => keys.get(id) ?? ""))];
    const answerOf = async (ids: readonly number[]): Promise<Answer> => {
      const chunks = await store.read(ids);
      return { keys: toKeys(ids), shown: BUDGETS.map((budget) => new Set(toKeys(withinTokens(chunks, budget)))) };
    };
    const withAround = async (recall: Recall, ids: readonly number[]): Promise<Answer> => {
      const shown = BUDGETS.map(async (tokensMax) => {
        const { hits } = await recall(query, { ...options, limit: HITS, tokensMax });
        const rows = hits.map(({ chunk }) => chunk);
        return new Set(toKeys(withinTokens([...rows, ...hits.flatMap(({ around }) => around)], tokensMax)));
      });
      return { keys: toKeys(ids), shown: await Promise.all(shown) };
    };
    const weights = queryTerms(query);
    const ranked = await store.match(bestByTerms(weights), SCOPE);
    const lexical = await byWords(query, options);
    const byWordsIds = lexical.hits.map(({ chunk }) => chunk.id);
    const found = new Map([
      ["hashed words", { keys: hashed.find(query), shown: BUDGETS.map(() => new Set<string>()) }],
      ["BM25", await answerOf(ranked.best.slice(0, FOUND_MAX).map(({ id }) => id))],
      ["recall, words only", await withAround(byWords, byWordsIds)],
    ]);
    if (embedder === undefined) return found;
    const [vector = new Float32Array()] = await embedder.embed([query], "query", signal);
    const nearest = await store.nearest(embedder.id, vector, { scope: SCOPE, max: FOUND_MAX });
    const ids = (await hybrid(query, options)).hits.map(({ chunk }) => chunk.id);
    found.set("vectors only", await answerOf(nearest.map(({ id }) => id)));
    found.set("recall, plain top-k", await answerOf(ids));
    found.set("recall", await withAround(hybrid, ids));
    return found;
  };
  return { hear, ask };
}

/** Ids of the first chunks whose texts fit. */
function withinTokens(chunks: readonly Chunk[], tokensMax: number): readonly number[] {
  let left = tokensMax;
  const ids: number[] = [];
  for (const { id, text } of chunks) {
    left -= tokensIn(text);
    if (left < 0) break;
    ids.push(id);
  }
  return ids;
}

const EMBEDDED_AT_ONCE = 256;

async function embedMissing(store: MemoryStore, embedder: Embedder): Promise<void> {
  for (;;) {
    const chunks = await store.vectors.missing(embedder.id, EMBEDDED_AT_ONCE);
    if (chunks.length === 0) return;
    for (const chunk of chunks) {
      const [before] = await store.read([chunk.before]);
      const [vector = new Float32Array()] = await embedder.embed([passageFor(chunk, before)], "passage", signal);
      await store.vectors.put(embedder.id, [{ id: chunk.id, vector }]);
    }
  }
}

const BUCKETS = 4_096;

/** What a search costs that knows nothing of language: words hashed into buckets, compared by their angle. */
function createHashedWords() {
  const rows: { readonly key: string; readonly vector: ReadonlyMap<number, number> }[] = [];
  return {
    add: (key: string, text: string) => rows.push({ key, vector: hashWords(text) }),
    find: (query: string): readonly string[] => {
      const asked = hashWords(query);
      const alike = ({ vector }: (typeof rows)[number]): number =>
        [...asked].reduce((sum, [bucket, share]) => sum + share * (vector.get(bucket) ?? 0), 0);
      return rows
        .map((row) => ({ key: row.key, value: alike(row) }))
        .sort((a, b) => b.value - a.value)
        .slice(0, FOUND_MAX)
        .map(({ key }) => key);
    },
  };
}

function hashWords(text: string): ReadonlyMap<number, number> {
  const counts = new Map<number, number>();
  for (const word of text.toLowerCase().split(/\s+/).filter(Boolean)) {
    const bucket = Buffer.from(word).reduce((hash, byte) => (hash * 31 + byte) % BUCKETS, 0);
    counts.set(bucket, (counts.get(bucket) ?? 0) + 1);
  }
  const length = Math.hypot(...counts.values()) || 1;
  return new Map([...counts].map(([bucket, count]) => [bucket, count / length]));
}
