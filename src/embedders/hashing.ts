import { RuntimeError } from "../contract/error.ts";
import type { Embedder } from "../ports/embedder.ts";
import { toUnitLength } from "./unit-length.ts";

const BUCKETS = 4096;
/** The bytes of a word are folded with this factor. */
const FACTOR = 31;
/** Texts between two looks at the signal. */
const TEXTS_PER_SLICE = 64;
/** As Rust splits: other than `\s`, with U+0085 and without U+FEFF. */
const SPACES = /\p{White_Space}+/u;
const UTF8 = new TextEncoder();

/** Counts words in 4096 buckets, as the first version of this memory did: a baseline, without meaning. */
export function createHashingEmbedder(): Embedder {
  return {
    id: "hashing-4096",
    dimensions: BUCKETS,
    async embed(texts, _kind, signal) {
      const vectors: Float32Array[] = [];
      for (const [index, text] of texts.entries()) {
        if (index % TEXTS_PER_SLICE === 0) await pause();
        if (signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "embedding was cancelled");
        vectors.push(counted(text));
      }
      return vectors;
    },
    async close() {},
  };
}

/** Lets the event loop of a running turn go on. */
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

/** ASCII only, byte by byte. */
function lowered(byte: number): number {
  return byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte;
}
