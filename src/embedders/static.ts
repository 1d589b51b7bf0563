import { RuntimeError } from "../contract/error.ts";
import type { Embedder } from "../ports/embedder.ts";
import { type Asset, readAsset, readVocabulary } from "./asset.ts";
import { toUnitLength } from "./unit-length.ts";
import { createTokenizer, type Tokenize } from "./word-pieces.ts";

const DIMENSIONS = 256;
const PIECES_MAX = 512;
/** Texts between two looks at the signal and at the event loop. */
const TEXTS_PER_SLICE = 32;

const TABLE: Asset = {
  name: "gte-small-static.bin",
  sha256: "cfff81daa9286bc0ea8c1c7abd95ddb68134dfc95b39b61b7ba7860200653263",
};

interface Table {
  readonly tokenize: Tokenize;
  /** What a byte of a row is worth, by piece. */
  readonly scales: Float32Array;
  readonly rows: Int8Array;
}

/** Adds up a vector for each word piece: no native code, a tenth of a millisecond a text, blind to the order of words. */
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
        if (index % TEXTS_PER_SLICE === 0) await new Promise((resolve) => setImmediate(resolve));
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
