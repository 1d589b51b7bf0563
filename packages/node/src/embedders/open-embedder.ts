import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import type { Embedder } from "@rkat/core/ports/memory";
import { packageFile } from "@rkat/core/ports/package-file";
import { createLocalEmbedder, type LocalEmbedder } from "./local.ts";
import { type Asset, createTokenizer, readAsset, readVocabulary, type Tokenize, toUnitLength } from "./word-pieces.ts";

/** The local embedder, or the static one if it cannot be loaded; `warn` receives the reason. */
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
    // Word vectors are a package file, too.
    if (packageFile("@rkat/node", "assets") === undefined) throw thrown;
    warn(`${messageOf(thrown)}; word vectors are used instead, which find paraphrases less well`);
    return createStaticEmbedder();
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

export async function openNamedEmbedder(
  name: "local" | "static" | "hashing" | "remote",
  parts: { warn: (sentence: string) => void; openRemote: () => Promise<Embedder>; signal: AbortSignal },
): Promise<Embedder> {
  switch (name) {
    case "local":
      return openDefaultEmbedder(parts.warn, parts.signal);
    case "static":
      return createStaticEmbedder();
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
 * Adds how well a built-in embedder understands a text. Summed word vectors know no more than words. A model has learnt
 * whole words or long pieces of its languages: single letters and unknown pieces mean that it hardly knows the text.
 */
export function withGrasp(embedder: Embedder): Embedder {
  if (ADDED_UP.test(embedder.id)) return { ...embedder, grasp: async () => 0 };
  let reading: ReturnType<typeof readPieces> | undefined;
  return {
    ...embedder,
    grasp: async (text) => {
      reading ??= readPieces();
      return shareRead((await reading)(text));
    },
  };
}

const ADDED_UP = /^gte-small-static-|^hashing/;
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

const DIMENSIONS = 256;
const PIECES_MAX = 512;
const SUMMED_PER_SLICE = 32;

const TABLE: Asset = {
  name: "gte-small-static.bin",
  sha256: "cfff81daa9286bc0ea8c1c7abd95ddb68134dfc95b39b61b7ba7860200653263",
};

interface Table {
  readonly tokenize: Tokenize;
  readonly scales: Float32Array;
  readonly rows: Int8Array;
}

/** Sums a vector per word piece: a tenth of a millisecond per text, independent of word order. */
export function createStaticEmbedder(asset: Asset = TABLE): Embedder {
  let loading: Promise<Table> | undefined;
  return {
    id: `gte-small-static-${asset.sha256.slice(0, 8)}`,
    dimensions: DIMENSIONS,
    async embed(texts, _kind, signal) {
      loading ??= loadTable(asset);
      const table = await loading;
      const vectors: Float32Array[] = [];
      for (const [index, text] of texts.entries()) {
        if (index % SUMMED_PER_SLICE === 0) await pause();
        if (signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "embedding was cancelled");
        vectors.push(summed(table, text));
      }
      return vectors;
    },
    async close() {
      loading = undefined;
    },
  };
}

function pause(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

async function loadTable(asset: Asset): Promise<Table> {
  const [vocabulary, bytes] = await Promise.all([readVocabulary(), readAsset(asset)]);
  return {
    tokenize: createTokenizer(vocabulary),
    scales: new Float32Array(bytes.buffer, 0, vocabulary.length),
    rows: new Int8Array(bytes.buffer, vocabulary.length * Float32Array.BYTES_PER_ELEMENT),
  };
}

function summed(table: Table, text: string): Float32Array {
  const vector = new Float32Array(DIMENSIONS);
  for (const piece of table.tokenize(text, PIECES_MAX)) {
    const scale = table.scales[piece] ?? 0;
    const start = piece * DIMENSIONS;
    for (let column = 0; column < DIMENSIONS; column += 1) {
      vector[column] = (vector[column] ?? 0) + scale * (table.rows[start + column] ?? 0);
    }
  }
  return toUnitLength(vector);
}

const BUCKETS = 4096;
/** Hash factor for the bytes of a word. */
const FACTOR = 31;
/** Texts between two pauses; hashing is quicker than summing. */
const HASHED_PER_SLICE = 64;
/** As Rust splits: unlike `\s`, with U+0085 and without U+FEFF. */
const SPACES = /\p{White_Space}+/u;
const UTF8 = new TextEncoder();

/** Counts words in 4096 buckets, as the first version of this memory did: a baseline without meaning. */
export function createHashingEmbedder(): Embedder {
  return {
    id: "hashing-4096",
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
