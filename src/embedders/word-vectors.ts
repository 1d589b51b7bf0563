import { RuntimeError } from "../contract/error.ts";
import type { Embedder } from "../ports/embedder.ts";
import { type Asset, createTokenizer, readAsset, readVocabulary, type Tokenize, toUnitLength } from "./word-pieces.ts";

const DIMENSIONS = 256;
const PIECES_MAX = 512;
const SUMMED_PER_SLICE = 32;

const TABLE: Asset = {
  name: "gte-small-static.bin",
  sha256: "cfff81daa9286bc0ea8c1c7abd95ddb68134dfc95b39b61b7ba7860200653263",
};

interface Table {
  readonly tokenize: Tokenize;
  /** Scale per piece. */
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

/** ASCII only. */
function lowered(byte: number): number {
  return byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte;
}
