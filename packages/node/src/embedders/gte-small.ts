import { instantiate } from "../wasm/assembler.ts";
import {
  COLUMN_FACTS_BYTES,
  type Products,
  productSource,
  ROW_FACTS_BYTES,
  TILE,
  toBytesSource,
} from "../wasm/byte-products.ts";
import { addNormSource, attentionSource, geluSource } from "../wasm/float-rows.ts";

/** The dimensions of gte-small, a BERT of twelve layers. */
export const GTE_SMALL = { layers: 12, width: 384, heads: 12, inner: 1_536, pieces: 30_522, places: 512 };
const { layers, width, heads, inner, pieces: piecesMax, places } = GTE_SMALL;
const headWidth = width / heads;
const FLOAT_BYTES = 4;
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
  return {
    rows: floats(places, width),
    asked: floats(places, 3 * width),
    taken: floats(places, width),
    added: floats(places, width),
    widened: floats(BLOCK_ROWS, inner),
    bytes: place(BLOCK_ROWS * inner),
    facts: place(BLOCK_ROWS * ROW_FACTS_BYTES),
    scores: floats(1, places),
  };
}, WEIGHTS.end);

interface Loops {
  toBytes(from: number, to: number, facts: number, count: number): void;
  innerToBytes(from: number, to: number, facts: number, count: number): void;
  product(rows: number, facts: number, weights: number, out: number, count: number, columns: number): void;
  innerProduct(rows: number, facts: number, weights: number, out: number, count: number, columns: number): void;
  addNorm(rows: number, added: number, weights: number, count: number): void;
  gelu(from: number, bytes: number): void;
  attention(asked: number, out: number, scores: number, count: number): void;
}

/** The sum of the model's outputs for at most 512 word pieces. */
export type SumOfPieces = (pieces: readonly number[]) => Float32Array<ArrayBuffer>;

/** The model in our own WebAssembly; vectors are equal on every engine, machine and kind of products. */
export function openGteSmall(weights: Uint8Array, products: Products = "relaxed"): SumOfPieces {
  if (weights.length !== WEIGHTS.end) throw new Error(`${weights.length} bytes are not the weights of gte-small`);
  const made = instantiate<Loops>(loopsFor(products), WORK.end);
  if (made === undefined && products === "relaxed") return openGteSmall(weights, "plain");
  if (made === undefined) throw new Error("this engine has no SIMD");
  const { functions: loops, buffer } = made;
  new Uint8Array(buffer).set(weights);
  return (pieces) => {
    lookUp(buffer, pieces);
    loops.addNorm(WORK.rows, WORK.added, WEIGHTS.norm, pieces.length);
    for (const layer of WEIGHTS.layers) throughLayer(loops, layer, pieces.length);
    return sumOfRows(new Float32Array(buffer, WORK.rows, pieces.length * width));
  };
}

function loopsFor(products: Products) {
  return [
    toBytesSource("toBytes", width),
    toBytesSource("innerToBytes", inner),
    productSource("product", width, products),
    productSource("innerProduct", inner, products),
    addNormSource("addNorm", width),
    geluSource("gelu"),
    attentionSource("attention", { count: heads, size: headWidth, rowsMax: places }),
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

function throughLayer(loops: Loops, layer: Layer, count: number): void {
  const { rows, asked, taken, added, widened, bytes, facts, scores } = WORK;
  const rowBytes = width * FLOAT_BYTES;
  const headWeightBytes = matrixBytes(width, headWidth);
  const inBlocks = (work: (first: number, block: number) => void): void => {
    for (let first = 0; first < count; first += BLOCK_ROWS) work(first, Math.min(BLOCK_ROWS, count - first));
  };
  inBlocks((first, block) => {
    loops.toBytes(rows + first * rowBytes, bytes, facts, block);
    // Head by head, each to its own place.
    for (let head = 0; head < heads * 3; head += 1) {
      const out = asked + (head * places + first) * headWidth * FLOAT_BYTES;
      loops.product(bytes, facts, layer.asked + head * headWeightBytes, out, block, headWidth);
    }
  });
  loops.attention(asked, taken, scores, count);
  inBlocks((first, block) => {
    const own = rows + first * rowBytes;
    loops.toBytes(taken + first * rowBytes, bytes, facts, block);
    loops.product(bytes, facts, layer.taken, added, block, width);
    loops.addNorm(own, added, layer.takenNorm, block);
    loops.toBytes(own, bytes, facts, block);
    loops.product(bytes, facts, layer.widened, widened, block, inner);
    loops.gelu(widened, block * inner * FLOAT_BYTES);
    loops.innerToBytes(widened, bytes, facts, block);
    loops.innerProduct(bytes, facts, layer.narrowed, added, block, width);
    loops.addNorm(own, added, layer.norm, block);
  });
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
