import { instantiate } from "../wasm/assembler.ts";
import {
  COLUMN_FACTS_BYTES,
  PRODUCTS,
  type Products,
  packColumns,
  productSource,
  ROW_FACTS_BYTES,
  TILE,
  toBytesSource,
  toShortsSource,
} from "../wasm/byte-products.ts";
import { addNormSource, geluSource, softmaxSource } from "../wasm/float-rows.ts";

/** The dimensions of gte-small, a BERT of twelve layers. */
export const GTE_SMALL = { layers: 12, width: 384, heads: 12, inner: 1_536, pieces: 30_522, places: 512 };
const { layers, width, heads, inner, pieces: piecesMax, places } = GTE_SMALL;
const headWidth = width / heads;
const FLOAT_BYTES = 4;
const SHORT_BYTES = 2;
const ALIGNMENT = 16;
/** Rows that go through a layer together, so that intermediate results stay in a core's cache. */
const BLOCK_ROWS = 32;

function matrixBytes(rows: number, columns: number): number {
  return (columns / TILE) * (rows * TILE + COLUMN_FACTS_BYTES);
}

/** Offsets in the weights file, which `assets/make/gte-small.ts` writes. */
export const WEIGHTS = layOut((place) => {
  const matrix = (rows: number, columns: number): number => place(matrixBytes(rows, columns));
  const table = (rows: number) => ({ rows: place(rows * width), scales: place(rows * FLOAT_BYTES) });
  /** Factors, then offsets. */
  const norm = (): number => place(2 * width * FLOAT_BYTES);
  return {
    layers: Array.from({ length: layers }, () => ({
      asked: matrix(width, 3 * width),
      taken: matrix(width, width),
      takenNorm: norm(),
      widened: matrix(width, inner),
      narrowed: matrix(inner, width),
      norm: norm(),
    })),
    norm: norm(),
    words: table(piecesMax),
    places: table(places),
  };
}, 0);

/** Working memory after the weights. */
const WORK = layOut((place) => {
  const floats = (rows: number, columns: number): number => place(rows * columns * FLOAT_BYTES);
  const shorts = (rows: number, columns: number): number => place(rows * columns * SHORT_BYTES);
  return {
    rows: floats(places, width),
    asked: floats(places, 3 * width),
    taken: floats(places, width),
    added: floats(places, width),
    widened: floats(BLOCK_ROWS, inner),
    bytes: place(BLOCK_ROWS * inner),
    facts: place(BLOCK_ROWS * ROW_FACTS_BYTES),
    scores: floats(BLOCK_ROWS, places),
    shares: shorts(BLOCK_ROWS, places),
    /** Of a head: queries, keys and values, then keys and values as matrices. */
    head: shorts(3 * places, headWidth),
    keys: shorts(places, headWidth),
    values: shorts(places, headWidth),
    scales: floats(1, 4),
  };
}, WEIGHTS.end);

interface Loops {
  toBytes(from: number, to: number, facts: number, count: number): void;
  innerToBytes(from: number, to: number, facts: number, count: number): void;
  product: Product;
  innerProduct: Product;
  scoresOf: Product;
  valuesOf: Product;
  toShorts(from: number, to: number, scale: number, bytes: number): void;
  softmax(scores: number, shares: number, facts: number, scale: number, rows: number, count: number): void;
  addNorm(rows: number, added: number, weights: number, count: number): void;
  gelu(from: number, bytes: number): void;
}

/** As `productSource` names its parameters. */
type Product = (...given: readonly number[]) => void;

/** The sum of the model's outputs for at most 512 word pieces. */
export type SumOfPieces = (pieces: readonly number[]) => Float32Array<ArrayBuffer>;

/** Runs what it is given in a way that lets the engine join neighbouring vectors to wider ones. */
export type Widen = (work: () => SumOfPieces) => SumOfPieces;

/** A text that shows whether wider vectors give the same; any number is a piece. */
const SAMPLE = Array.from({ length: 11 }, (_, index) => index * 2_500);

/** The model in our own WebAssembly; vectors are equal on every engine, machine and kind of products. */
export function openGteSmall(weights: Uint8Array, products: Products = "relaxed", widen?: Widen): SumOfPieces {
  if (weights.length !== WEIGHTS.end) throw new Error(`${weights.length} bytes are not the weights of gte-small`);
  const made = instantiate<Loops>(loopsFor(products), WORK.end);
  if (made === undefined) throw new Error("this engine has no relaxed SIMD");
  const { functions: loops, memory, buffer } = made;
  new Uint8Array(buffer).set(weights);
  for (const { asked, taken, widened, narrowed } of WEIGHTS.layers) {
    const pack = (at: number, rows: number, columns: number): void =>
      packColumns(new Uint32Array(buffer, at, matrixBytes(rows, columns) / 4), rows, products);
    pack(asked, width, 3 * width);
    pack(taken, width, width);
    pack(widened, width, inner);
    pack(narrowed, inner, width);
  }
  const narrow = sumOfPieces({ loops, buffer, products });
  if (products !== "pairs" || widen === undefined) return narrow;
  const wanted = narrow(SAMPLE);
  return widen(() => {
    // The same memory: both kinds read weights that are packed alike.
    const wider = instantiate<Loops>(loopsFor("widePairs"), WORK.end, memory);
    return wider === undefined
      ? narrow
      : agreeing(wanted, sumOfPieces({ loops: wider.functions, buffer, products: "widePairs" }), narrow);
  });
}

/** The wider loops, unless they give something else for the sample. */
export function agreeing(wanted: Float32Array, wide: SumOfPieces, narrow: SumOfPieces): SumOfPieces {
  return wide(SAMPLE).every((x, index) => x === wanted[index]) ? wide : narrow;
}

function sumOfPieces(engine: Engine): SumOfPieces {
  const { loops, buffer } = engine;
  return (pieces) => {
    lookUp(buffer, pieces);
    loops.addNorm(WORK.rows, WORK.added, WEIGHTS.norm, pieces.length);
    for (const layer of WEIGHTS.layers) throughLayer(engine, layer, pieces.length);
    return sumOfRows(new Float32Array(buffer, WORK.rows, pieces.length * width));
  };
}

function loopsFor(products: Products) {
  const bytesOf = (name: string, rowBytes: number) => productSource(name, { products, values: "bytes", rowBytes });
  const shortsOf = (name: string, columns: number) =>
    productSource(name, { products, values: "shorts", rowBytes: columns * SHORT_BYTES });
  return [
    toBytesSource("toBytes", width),
    toBytesSource("innerToBytes", inner),
    bytesOf("product", width),
    bytesOf("innerProduct", inner),
    shortsOf("scoresOf", headWidth),
    shortsOf("valuesOf", places),
    toShortsSource("toShorts"),
    softmaxSource("softmax", { scoreBytes: places * FLOAT_BYTES, shareBytes: places * SHORT_BYTES }),
    addNormSource("addNorm", width),
    geluSource("gelu"),
  ];
}

/** Token embeddings plus position embeddings. */
function lookUp(buffer: ArrayBuffer, pieces: readonly number[]): void {
  const write = (table: { rows: number; scales: number }, numbers: readonly number[], to: number): void => {
    const scales = new Float32Array(buffer, table.scales);
    const rows = new Int8Array(buffer, table.rows);
    const out = new Float32Array(buffer, to, numbers.length * width);
    for (const [index, number] of numbers.entries()) {
      const scale = scales[number] ?? 0;
      for (let column = 0; column < width; column += 1) {
        out[index * width + column] = scale * (rows[number * width + column] ?? 0);
      }
    }
  };
  write(WEIGHTS.words, pieces, WORK.rows);
  write(
    WEIGHTS.places,
    pieces.map((_, place) => place),
    WORK.added,
  );
}

type Layer = (typeof WEIGHTS.layers)[number];
interface Engine {
  readonly loops: Loops;
  readonly buffer: ArrayBuffer;
  readonly products: Products;
}

function inBlocks(count: number, work: (first: number, block: number) => void): void {
  for (let first = 0; first < count; first += BLOCK_ROWS) work(first, Math.min(BLOCK_ROWS, count - first));
}

function throughLayer(engine: Engine, layer: Layer, count: number): void {
  const { loops } = engine;
  const { rows, asked, taken, added, widened, bytes, facts } = WORK;
  const rowBytes = width * FLOAT_BYTES;
  const headWeightBytes = matrixBytes(width, headWidth);
  inBlocks(count, (first, block) => {
    loops.toBytes(rows + first * rowBytes, bytes, facts, block);
    // Head by head, each to its own place.
    for (let head = 0; head < heads * 3; head += 1) {
      const out = asked + (head * places + first) * headWidth * FLOAT_BYTES;
      const weights = layer.asked + head * headWeightBytes;
      loops.product(bytes, facts, weights, out, block, width, headWidth, headWidth * FLOAT_BYTES);
    }
  });
  for (let head = 0; head < heads; head += 1) attend(engine, head, count);
  inBlocks(count, (first, block) => {
    const own = rows + first * rowBytes;
    loops.toBytes(taken + first * rowBytes, bytes, facts, block);
    loops.product(bytes, facts, layer.taken, added, block, width, width, rowBytes);
    loops.addNorm(own, added, layer.takenNorm, block);
    loops.toBytes(own, bytes, facts, block);
    loops.product(bytes, facts, layer.widened, widened, block, width, inner, inner * FLOAT_BYTES);
    loops.gelu(widened, block * inner * FLOAT_BYTES);
    loops.innerToBytes(widened, bytes, facts, block);
    loops.innerProduct(bytes, facts, layer.narrowed, added, block, inner, width, rowBytes);
    loops.addNorm(own, added, layer.norm, block);
  });
}

/** Attention of one head, by integers of 16 bits. */
function attend({ loops, buffer, products }: Engine, head: number, count: number): void {
  const { asked, taken, facts, scores, shares, head: queries, keys, values, scales } = WORK;
  const partBytes = places * headWidth * SHORT_BYTES;
  for (let part = 0; part < 3; part += 1) {
    const from = asked + (part * heads + head) * places * headWidth * FLOAT_BYTES;
    loops.toShorts(from, queries + part * partBytes, scales + part * FLOAT_BYTES, count * headWidth * FLOAT_BYTES);
  }
  const group = PRODUCTS[products].vectors * 4;
  const padded = Math.ceil(count / 8) * 8;
  packKeys(buffer, group, count);
  packValues(buffer, group, padded);
  const [queryScale = 0, keyScale = 0] = new Float32Array(buffer, scales, 2);
  const scoreScale = (queryScale * keyScale) / Math.sqrt(headWidth);
  const rowFacts = new Float32Array(buffer, facts, (BLOCK_ROWS * ROW_FACTS_BYTES) / FLOAT_BYTES);
  const rowBytes = headWidth * SHORT_BYTES;
  inBlocks(count, (first, block) => {
    rowFacts.fill(scoreScale);
    loops.scoresOf(queries + first * rowBytes, facts, keys, scores, block, rowBytes, count, places * FLOAT_BYTES);
    loops.softmax(scores, shares, facts, scales + 2 * FLOAT_BYTES, block, count);
    const out = taken + (first * width + head * headWidth) * FLOAT_BYTES;
    loops.valuesOf(shares, facts, values, out, block, padded * SHORT_BYTES, headWidth, width * FLOAT_BYTES);
  });
}

/** Keys as the columns of a matrix: two numbers of each in turn. */
function packKeys(buffer: ArrayBuffer, group: number, count: number): void {
  const words = headWidth / 2;
  const from = new Uint32Array(buffer, WORK.head + places * headWidth * SHORT_BYTES, count * words);
  const to = new Uint32Array(buffer, WORK.keys, places * words);
  for (let key = 0; key < count; key += 1) {
    const start = (key - (key % group)) * words + (key % group);
    for (let word = 0; word < words; word += 1) to[start + word * group] = from[key * words + word] ?? 0;
  }
}

/** Values as the rows of a matrix: each number of two rows in turn. */
function packValues(buffer: ArrayBuffer, group: number, count: number): void {
  const from = new Int16Array(buffer, WORK.head + 2 * places * headWidth * SHORT_BYTES, count * headWidth);
  const to = new Int16Array(buffer, WORK.values, count * headWidth);
  for (let row = 0; row < count; row += 1) {
    const start = (row >> 1) * group * 2 + (row & 1);
    for (let column = 0; column < headWidth; column += 1) {
      const lane = column % group;
      to[start + (column - lane) * count + lane * 2] = from[row * headWidth + column] ?? 0;
    }
  }
}

function sumOfRows(rows: Float32Array): Float32Array<ArrayBuffer> {
  const sum = new Float32Array(width);
  for (const [index, x] of rows.entries()) sum[index % width] = (sum[index % width] ?? 0) + x;
  return sum;
}

/** Allocates consecutive places with SIMD alignment. */
function layOut<Places>(
  arrange: (place: (bytes: number) => number) => Places,
  start: number,
): Places & { readonly end: number } {
  let end = start;
  const places = arrange((bytes) => {
    const at = end;
    end += Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
    return at;
  });
  return { ...places, end };
}
