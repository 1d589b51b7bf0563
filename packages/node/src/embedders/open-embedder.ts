import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import type { Embedder } from "@rkat/core/ports/memory";
import { packageFile } from "@rkat/core/ports/package-file";
import { createLocalEmbedder, type LocalEmbedder } from "./local.ts";
import { createTokenizer, readVocabulary, toUnitLength } from "./word-pieces.ts";

/** The local embedder. `warn` is told why it cannot be loaded: memory is searched by words alone then. */
export async function openDefaultEmbedder(
  warn: (sentence: string) => void,
  signal: AbortSignal,
  local: LocalEmbedder = createLocalEmbedder(),
): Promise<Embedder> {
  const stop = (): void => void local.close();
  signal.addEventListener("abort", stop, { once: true });
  try {
    signal.throwIfAborted();
    await local.load();
    return rememberTexts(local);
  } catch (thrown) {
    await local.close();
    if (signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "loading the local embedder was cancelled");
    // Without the package a bundle has said so.
    if (packageFile("@rkat/node", "assets") !== undefined)
      warn(`${messageOf(thrown)}; memory is searched by words alone, which finds paraphrases less well`);
    throw thrown;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

export async function openNamedEmbedder(
  name: "local" | "hashing" | "remote",
  parts: { warn: (sentence: string) => void; openRemote: () => Promise<Embedder>; signal: AbortSignal },
): Promise<Embedder> {
  switch (name) {
    case "local":
      return openDefaultEmbedder(parts.warn, parts.signal);
    case "hashing":
      return createHashingEmbedder();
    case "remote":
      return rememberTexts(await parts.openRemote());
  }
}

/** Some six megabytes of vectors. */
const KNOWN_MAX = 4_096;

/** Caches the vectors of the most recent texts. */
export function rememberTexts(embedder: Embedder, max = KNOWN_MAX): Embedder {
  const known = new Map<string, Float32Array>();
  const remember = (key: string, vector: Float32Array): void => {
    known.delete(key);
    known.set(key, vector);
    const oldest = known.keys().next();
    if (known.size > max && !oldest.done) known.delete(oldest.value);
  };
  return {
    ...embedder,
    async embed(texts, kind, signal) {
      const found = new Map<string, Float32Array>();
      for (const text of texts) {
        const vector = known.get(kind + text);
        if (vector !== undefined) found.set(text, vector);
      }
      const unknown = [...new Set(texts)].filter((text) => !found.has(text));
      const made = unknown.length === 0 ? [] : await embedder.embed(unknown, kind, signal);
      for (const [at, vector] of made.entries()) found.set(unknown[at] ?? "", vector);
      for (const [text, vector] of found) remember(kind + text, vector);
      return texts.flatMap((text) => found.get(text)?.slice() ?? []);
    },
    close: () => embedder.close(),
  };
}

/**
 * Adds how well a built-in embedder understands a text. Counted words know no more than words. A model has learnt
 * whole words or long pieces of its languages: single letters and unknown pieces mean that it hardly knows the text.
 */
export function withGrasp(embedder: Embedder): Embedder {
  if (embedder.id === HASHING) return { ...embedder, grasp: async () => 0 };
  let reading: ReturnType<typeof readPieces> | undefined;
  return {
    ...embedder,
    grasp: async (text) => {
      reading ??= readPieces();
      return shareRead((await reading)(text));
    },
  };
}

/** The beginning of a query shows its language. */
const QUERY_PIECES_MAX = 64;

async function readPieces(): Promise<(text: string) => readonly string[]> {
  const vocabulary = await readVocabulary();
  const tokenize = createTokenizer(vocabulary);
  return (text) => tokenize(text, QUERY_PIECES_MAX).map((number) => vocabulary[number] ?? UNKNOWN);
}

const UNKNOWN = "[UNK]";

/** The share of letter pieces with more than one letter; 1 if there are none. */
function shareRead(pieces: readonly string[]): number {
  const said = pieces.filter((piece) => piece === UNKNOWN || /\p{L}/u.test(piece));
  const read = said.filter((piece) => piece !== UNKNOWN && /\p{L}{2}/u.test(piece));
  return said.length === 0 ? 1 : read.length / said.length;
}

const HASHING = "hashing-4096";
const BUCKETS = 4096;
/** Hash factor for the bytes of a word. */
const FACTOR = 31;
/** Texts between two pauses. */
const HASHED_PER_SLICE = 64;
/** As Rust splits: unlike `\s`, with U+0085 and without U+FEFF. */
const SPACES = /\p{White_Space}+/u;
const UTF8 = new TextEncoder();

/** Counts words in 4096 buckets, as the first version of this memory did: a baseline without meaning. */
export function createHashingEmbedder(): Embedder {
  return {
    id: HASHING,
    dimensions: BUCKETS,
    async embed(texts, _kind, signal) {
      const vectors: Float32Array[] = [];
      for (const [index, text] of texts.entries()) {
        if (index % HASHED_PER_SLICE === 0) await pause();
        if (signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "embedding was cancelled");
        vectors.push(counted(text));
      }
      return vectors;
    },
    async close() {},
  };
}

function pause(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function counted(text: string): Float32Array {
  const vector = new Float32Array(BUCKETS);
  for (const word of text.split(SPACES)) {
    if (word === "") continue;
    const bucket = bucketOf(word);
    vector[bucket] = (vector[bucket] ?? 0) + 1;
  }
  return toUnitLength(vector);
}

function bucketOf(word: string): number {
  return UTF8.encode(word).reduce((hash, byte) => (hash * FACTOR + lowered(byte)) % BUCKETS, 0);
}

function lowered(byte: number): number {
  return byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte;
}
