import type { Chunk, LexicalMatches, MemoryBatch, MemoryStore, NewChunk, Scope } from "@rkat/core/ports/memory";

export const EMBEDDER = "embedder/one";
export const EVERYTHING: Scope = { discardedOnly: false };

/** A chunk whose terms are its words. */
export function chunkOf(text: string, seq: number, session_id: string): NewChunk {
  const terms = new Map<string, number>();
  for (const word of text.split(" ")) terms.set(word, (terms.get(word) ?? 0) + 1);
  return { session_id, turn: seq, seq, part: 0, role: "user", kind: "text", created_at_ms: 1_000 + seq, text, terms };
}

/** A session's texts said at seqs from `from` on, as one batch. */
export function batchOf(session_id: string, from: number, texts: readonly string[]): MemoryBatch {
  const chunks = texts.map((text, index) => chunkOf(text, from + index, session_id));
  return { session_id, cursor: from + texts.length - 1, chunks, discarded: [] };
}

/** A direction in eight dimensions: the larger `turn` is, the further it is from the first axis. */
export function turned(turn: number): Float32Array {
  return Float32Array.of(Math.cos(turn), Math.sin(turn), 0, 0, 0, 0, 0, 0);
}

export const textsOf = (chunks: readonly Chunk[]): readonly string[] => chunks.map(({ text }) => text);

/** All chunks of a scope that hold any of the terms, however many, ranked. */
export function matchAll(store: MemoryStore, terms: readonly string[], scope = EVERYTHING): Promise<LexicalMatches> {
  const weights = new Map(terms.map((term) => [term, 1]));
  return store.match({ weights, max: 1_000_000, equalsMax: 1_000_000 }, scope);
}

/** Texts of the chunks that hold a term, the oldest first. */
export async function found(store: MemoryStore, term: string, scope: Scope = EVERYTHING): Promise<readonly string[]> {
  const { best } = await matchAll(store, [term], scope);
  return textsOf(await store.read(best.map(({ id }) => id).sort((a, b) => a - b)));
}

/** What each of some texts, which are a whole scope, is worth by the terms it holds: BM25 as the books write it. */
export function worthOfEach(texts: readonly string[], terms: readonly string[]): readonly number[] {
  const [k1, b] = [0.9, 0.4];
  const words = texts.map((text) => text.split(" "));
  const mean = words.flat().length / texts.length;
  return words.map((own) =>
    terms.reduce((sum, term) => {
      const holders = words.filter((others) => others.includes(term)).length;
      const often = own.filter((word) => word === term).length;
      const idf = Math.log((texts.length - holders + 0.5) / (holders + 0.5) + 1);
      return sum + (idf * often * (k1 + 1)) / (often + k1 * (1 - b + (b * own.length) / mean));
    }, 0),
  );
}

export async function near(
  store: MemoryStore,
  vector: Float32Array,
  scope: Scope,
  max = 10,
): Promise<readonly string[]> {
  const neighbours = await store.nearest(EMBEDDER, vector, { scope, max });
  return textsOf(await store.read(neighbours.map(({ id }) => id)));
}

/** Gives every chunk that lacks one a vector: as far turned as its seq says. */
export async function embedAll(store: MemoryStore, embedderId = EMBEDDER): Promise<void> {
  const missing = await store.vectors.missing(embedderId, 100_000);
  await store.vectors.put(
    embedderId,
    missing.map(({ id, seq }) => ({ id, vector: turned(seq / 10) })),
  );
}
