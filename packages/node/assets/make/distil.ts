// Makes the table of the static embedder: every word piece once through gte-small, reduced to its 256 principal axes.
//   node assets/make/distil.ts package/dist/Xenova/gte-small/onnx/model.onnx assets/vocab.txt assets/gte-small-static.bin
// The float model, as gte-small.ts takes it. Rounding differs between machines; the table was made on linux arm64.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { InferenceSession, Tensor } from "onnxruntime-node";
import { principalAxes } from "./principal-axes.ts";

const DIMENSIONS = 256;
const MODEL_DIMENSIONS = 384;
const BYTE_MAX = 127;
const BATCH = 128;
const START = 101n;
const END = 102n;
/** Numbers below are unused; from there single characters, then pieces in the order of how often they occur. */
const FIRST_CHARACTER = 999;
const FIRST_WORD = 1996;
/** How common a single letter or digit is taken to be, as the rank of a word. */
const CHARACTER_RANK = 200;
/** The constant of smooth inverse frequency (Arora 2017): pieces more common than this count less. */
const COMMON_SHARE = 1e-3;

const [modelPath = "", vocabularyPath = "", to = ""] = process.argv.slice(2);
const vocabulary = readFileSync(vocabularyPath, "utf8").trimEnd().split("\n");
const rows = centred(await throughModel(await InferenceSession.create(modelPath), vocabulary.length));
const axes = principalAxes(rows.slice(FIRST_CHARACTER), DIMENSIONS);
const weights = commonnessWeights();
const table = packed(
  rows.map((row, piece) => Float64Array.from(axes, (axis) => dot(axis, row) * (weights[piece] ?? 0))),
);
writeFileSync(to, table);
console.log(`${createHash("sha256").update(table).digest("hex")}  ${to}  ${table.length} bytes`);

/** The mean of what the model says of `[CLS] piece [SEP]`, for every piece. */
async function throughModel(session: InferenceSession, pieces: number): Promise<readonly Float32Array[]> {
  const made: Float32Array[] = [];
  for (let first = 0; first < pieces; first += BATCH) {
    const count = Math.min(BATCH, pieces - first);
    const ids = Array.from({ length: count }, (_, index) => [START, BigInt(first + index), END]).flat();
    const tensor = (values: bigint[]) => new Tensor("int64", BigInt64Array.from(values), [count, 3]);
    const { last_hidden_state: states } = await session.run({
      input_ids: tensor(ids),
      attention_mask: tensor(ids.map(() => 1n)),
      token_type_ids: tensor(ids.map(() => 0n)),
    });
    // The model's output is of floats: its graph says so.
    const data = states?.data as Float32Array;
    for (let row = 0; row < count; row += 1) {
      const at = (place: number, column: number) => data[(row * 3 + place) * MODEL_DIMENSIONS + column] ?? 0;
      made.push(
        Float32Array.from(
          { length: MODEL_DIMENSIONS },
          (_, column) => (at(0, column) + at(1, column) + at(2, column)) / 3,
        ),
      );
    }
  }
  return made;
}

function centred(raw: readonly Float32Array[]): readonly Float32Array[] {
  const used = raw.slice(FIRST_CHARACTER);
  const mean = Float64Array.from({ length: MODEL_DIMENSIONS }, (_, column) => {
    return used.reduce((sum, row) => sum + (row[column] ?? 0), 0) / used.length;
  });
  return raw.map((row) => row.map((x, column) => x - (mean[column] ?? 0)));
}

/** By Zipf's law, from the order of the vocabulary: no corpus is counted. Punctuation is as common as the first word. */
function commonnessWeights(): readonly number[] {
  const shares = vocabulary.slice(FIRST_WORD).reduce((sum, _, index) => sum + 1 / (index + 1), 0);
  return vocabulary.map((piece, number) => {
    const characterRank = number < FIRST_CHARACTER || /^[\p{P}\p{S}]/u.test(piece) ? 1 : CHARACTER_RANK;
    const rank = number < FIRST_WORD ? characterRank : number - FIRST_WORD + 1;
    return COMMON_SHARE / (COMMON_SHARE + 1 / rank / shares);
  });
}

/** First the scale of each row as a float, then the rows as bytes. */
function packed(vectors: readonly Float64Array[]): Uint8Array {
  const scales = Float32Array.from(
    vectors,
    (row) => row.reduce((most, x) => Math.max(most, Math.abs(x)), 0) / BYTE_MAX,
  );
  const bytes = vectors.flatMap((row, piece) => Array.from(row, (x) => Math.round(x / (scales[piece] || 1))));
  return Buffer.concat([Buffer.from(scales.buffer), Buffer.from(Int8Array.from(bytes).buffer)]);
}

function dot(a: Float64Array, b: Float32Array): number {
  return a.reduce((sum, x, index) => sum + x * (b[index] ?? 0), 0);
}
