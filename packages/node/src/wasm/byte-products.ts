import type { Code, FunctionSource, Local } from "./assembler.ts";
import * as wasm from "./assembler.ts";
import * as simd from "./vectors.ts";

const { get, set, i32 } = wasm;

/** Columns beside each other in the file of the weights. */
export const TILE = 4;
/** After the bytes of four columns come four scales, four zeros, four sums and four biases. */
export const COLUMN_FACTS_BYTES = 64;
/** Of a row of integers: its scale, and of a row of bytes its zero and its sum. */
export const ROW_FACTS_BYTES = 16;
const LANES = 16;
const WORD_BYTES = 4;
const BYTE_STEPS = 255;
const BYTE_MIN = -128;
/** A row without a range keeps a divisible scale. */
const RANGE_MIN = 1e-20;
/** Products of 32 of these fit into 32 bits. */
export const SHORT_MAX = 8_191;

/**
 * How sixteen signed bytes are multiplied with sixteen below 128 and summed in fours, by the engine's instructions. A
 * tile of so many rows and vectors of columns fits the registers: 32 of arm64, 16 of x64, 16 of twice the width.
 */
export const PRODUCTS = {
  relaxed: { rows: 2, vectors: 8 },
  pairs: { rows: 2, vectors: 4 },
  widePairs: { rows: 4, vectors: 4 },
} as const;
export type Products = keyof typeof PRODUCTS;

interface ProductShape {
  readonly products: Products;
  readonly values: "bytes" | "shorts";
  /** From the start of a row to the next. */
  readonly rowBytes: number;
}

/**
 * `(rows, facts, weights, out, count, bytes, columns, stride)`: rows of integers times a matrix, as floats. Of a row
 * `bytes` are multiplied, a multiple of eight; `count` is rounded up to whole tiles, which must have room. The matrix
 * is packed by `packColumns`. Bytes have a nonzero zero point on both sides, whose contribution is subtracted.
 */
export function productSource(name: string, { products, values, rowBytes }: ProductShape): FunctionSource {
  const shape = PRODUCTS[products];
  const groupBytes = shape.vectors * LANES;
  const names = {
    parameters: ["rows", "facts", "weights", "out", "count", "bytes", "columns", "stride"],
    i32: ["row", "rowEnd", "fact", "target", "outEnd", "at", "column", "columnEnd"],
    v128: ["word", "ones", "scale", "zero", "total"],
  } as const;
  return wasm.defineLoop(name, names, (local, vectors) => {
    const { rows, facts, weights, out, count, bytes, columns, stride, row, rowEnd, fact, target, outEnd } = local;
    const { at, column, columnEnd, word, ones, scale, zero, total } = local;
    const loaded = vectors(shape.vectors);
    const sums = Array.from({ length: shape.rows }, () => vectors(shape.vectors));
    const oneWord = (number: number): Code => [
      ...loaded.flatMap((part, lane) => set(part, simd.v128Load(get(column), number * groupBytes + lane * LANES))),
      ...sums.flatMap((ofRow, index) => [
        ...set(word, simd.v128Load32Splat(get(at), index * rowBytes + number * WORD_BYTES)),
        ...ofRow.flatMap((sum, lane) => {
          const parts = { word: get(word), loaded: get(loaded[lane] ?? word), sum: get(sum), ones: get(ones) };
          return set(sum, values === "bytes" ? sumOfBytes(products, parts) : sumOfShorts(parts));
        }),
      ]),
    ];
    const twoWords: Code = [
      ...oneWord(0),
      ...oneWord(1),
      ...set(at, wasm.i32Add(get(at), i32(2 * WORD_BYTES))),
      ...set(column, wasm.i32Add(get(column), i32(2 * groupBytes))),
    ];
    // After the loop `column` points at the facts of the columns.
    const columnFact = (place: number, lane: number): Code =>
      simd.v128Load(get(column), place * groupBytes + lane * LANES);
    const fromBytes = (sum: Local, lane: number): Code => {
      const whole = simd.i32x4Sub(
        simd.i32x4Sub(get(sum), simd.i32x4Mul(columnFact(1, lane), get(total))),
        simd.i32x4Mul(columnFact(2, lane), get(zero)),
      );
      const scaled = simd.f32x4Mul(simd.f32x4ConvertI32x4S(whole), simd.f32x4Mul(columnFact(0, lane), get(scale)));
      return simd.f32x4Add(scaled, columnFact(3, lane));
    };
    const fromShorts = (sum: Local): Code => simd.f32x4Mul(simd.f32x4ConvertI32x4S(get(sum)), get(scale));
    const finishRow = (ofRow: readonly Local[], index: number): Code => [
      ...[scale, zero, total].flatMap((into, place) =>
        set(into, simd.v128Load32Splat(get(fact), index * ROW_FACTS_BYTES + place * WORD_BYTES)),
      ),
      // All of a row before it is stored: an engine joins neighbours only where nothing is read between their stores.
      ...ofRow.flatMap((sum, lane) => set(sum, values === "bytes" ? fromBytes(sum, lane) : fromShorts(sum))),
      ...ofRow.flatMap((sum, lane) => simd.v128Store(get(target), get(sum), lane * LANES)),
      ...set(target, wasm.i32Add(get(target), get(stride))),
    ];
    const tile: Code = [
      ...sums.flat().flatMap((sum) => set(sum, simd.v128Zero)),
      ...set(at, get(row)),
      ...set(column, get(weights)),
      ...wasm.repeatWhile(twoWords, wasm.i32LessU(get(column), get(columnEnd))),
      ...sums.flatMap(finishRow),
      ...set(row, wasm.i32Add(get(row), i32(rowBytes * shape.rows))),
      ...set(fact, wasm.i32Add(get(fact), i32(ROW_FACTS_BYTES * shape.rows))),
    ];
    const group: Code = [
      ...set(row, get(rows)),
      ...set(fact, get(facts)),
      ...set(target, get(out)),
      ...set(columnEnd, wasm.i32Add(get(weights), wasm.i32Mul(get(bytes), i32(groupBytes / WORD_BYTES)))),
      ...wasm.repeatWhile(tile, wasm.i32LessU(get(row), get(rowEnd))),
      ...set(weights, wasm.i32Add(get(columnEnd), i32(values === "bytes" ? 4 * groupBytes : 0))),
      ...set(out, wasm.i32Add(get(out), i32(groupBytes))),
    ];
    return [
      ...set(ones, simd.i16x8(1)),
      ...set(rowEnd, wasm.i32Add(get(rows), wasm.i32Mul(get(count), i32(rowBytes)))),
      ...set(outEnd, wasm.i32Add(get(out), wasm.i32Shl(get(columns), i32(2)))),
      ...wasm.repeatWhile(group, wasm.i32LessU(get(out), get(outEnd))),
    ];
  });
}

type Parts = Readonly<Record<"word" | "loaded" | "sum" | "ones", Code>>;

function sumOfBytes(products: Products, { word, loaded, sum, ones }: Parts): Code {
  if (products === "relaxed") return simd.i32x4RelaxedDotI8x16I7x16AddS(word, loaded, sum);
  // Two products of 8 and 7 bits fit into 16.
  return sumOfShorts({ word: simd.i16x8RelaxedDotI8x16I7x16S(word, loaded), loaded: ones, sum, ones });
}

function sumOfShorts({ word, loaded, sum }: Parts): Code {
  return simd.i32x4Add(sum, simd.i32x4DotI16x8S(word, loaded));
}

/** Rearranges a matrix of the file in place: four rows of each column of a group in turn, then what belongs to the group. */
export function packColumns(matrix: Uint32Array, rows: number, products: Products): void {
  const group = PRODUCTS[products].vectors * 4;
  const given = matrix.slice();
  const words = rows / WORD_BYTES;
  const fileWords = rows + COLUMN_FACTS_BYTES / WORD_BYTES;
  for (let column = 0, columns = (matrix.length / fileWords) * TILE; column < columns; column += 1) {
    const from = Math.floor(column / TILE) * fileWords;
    const lane = column % group;
    const to = (column - lane) * (words + 4) + lane;
    for (let word = 0; word < words; word += 1) {
      matrix[to + word * group] = given[from + (word & ~3) * TILE + (column % TILE) * 4 + (word & 3)] ?? 0;
    }
    for (let fact = 0; fact < 4; fact += 1) {
      matrix[to + (words + fact) * group] = given[from + rows + fact * TILE + (column % TILE)] ?? 0;
    }
  }
}

/** `(from, to, facts, count)`: quantizes rows of floats to signed bytes, each row with its own range. */
export function toBytesSource(name: string, width: number): FunctionSource {
  const names = {
    parameters: ["from", "to", "facts", "count"],
    i32: ["at", "end"],
    v128: ["least", "most", "range", "inverse", "zero", "sum", "loaded"],
  } as const;
  return wasm.defineLoop(name, names, (local) => {
    const { from, to, facts, count, at, end, least, most, range, inverse, zero, sum, loaded } = local;
    const whole = (offset: number): Code =>
      simd.i32x4Add(nearestInteger(simd.f32x4Mul(simd.v128Load(get(at), offset), get(inverse))), get(zero));
    const sixteen = simd.i8x16NarrowI16x8S(
      simd.i16x8NarrowI32x4S(whole(0), whole(16)),
      simd.i16x8NarrowI32x4S(whole(32), whole(48)),
    );
    const findRange: Code = [
      ...set(loaded, simd.v128Load(get(at))),
      ...set(least, simd.f32x4PseudoMin(get(least), get(loaded))),
      ...set(most, simd.f32x4PseudoMax(get(most), get(loaded))),
      ...set(at, wasm.i32Add(get(at), i32(16))),
    ];
    const writeBytes: Code = [
      ...set(loaded, sixteen),
      ...simd.v128Store(get(to), get(loaded)),
      ...set(sum, simd.i32x4Add(get(sum), simd.i32x4AddPairsOfI16x8S(simd.i16x8AddPairsOfI8x16S(get(loaded))))),
      ...set(to, wasm.i32Add(get(to), i32(LANES))),
      ...set(at, wasm.i32Add(get(at), i32(64))),
    ];
    const isInRow = wasm.i32LessU(get(at), get(end));
    const leastStep = nearestInteger(simd.f32x4Mul(get(least), get(inverse)));
    return wasm.loopWhile(get(count), [
      ...set(least, simd.v128Zero),
      ...set(most, simd.v128Zero),
      ...set(sum, simd.v128Zero),
      ...set(at, get(from)),
      ...set(end, wasm.i32Add(get(from), i32(width * 4))),
      ...wasm.repeatWhile(findRange, isInRow),
      ...acrossLanes(least, simd.f32x4PseudoMin),
      ...acrossLanes(most, simd.f32x4PseudoMax),
      ...set(range, simd.f32x4PseudoMax(simd.f32x4Sub(get(most), get(least)), simd.f32x4(RANGE_MIN))),
      ...set(inverse, simd.f32x4Div(simd.f32x4(BYTE_STEPS), get(range))),
      ...set(zero, simd.i32x4Sub(simd.i32x4(BYTE_MIN), leastStep)),
      ...set(at, get(from)),
      ...wasm.repeatWhile(writeBytes, isInRow),
      ...acrossLanes(sum, simd.i32x4Add),
      ...simd.v128Store32(get(facts), simd.f32x4Div(get(range), simd.f32x4(BYTE_STEPS))),
      ...simd.v128Store32(get(facts), get(zero), 4),
      ...simd.v128Store32(get(facts), get(sum), 8),
      ...set(facts, wasm.i32Add(get(facts), i32(ROW_FACTS_BYTES))),
      ...set(from, get(end)),
      ...set(count, wasm.i32Sub(get(count), i32(1))),
    ]);
  });
}

/** `(from, to, scale, bytes)`: quantizes floats to signed 16-bit integers, all with one scale, which it writes. */
export function toShortsSource(name: string): FunctionSource {
  const names = {
    parameters: ["from", "to", "scale", "bytes"],
    i32: ["at", "end"],
    v128: ["most", "inverse"],
  } as const;
  return wasm.defineLoop(name, names, (local) => {
    const { from, to, scale, bytes, at, end, most, inverse } = local;
    const whole = (offset: number): Code => nearestInteger(simd.f32x4Mul(simd.v128Load(get(at), offset), get(inverse)));
    const findMost = set(most, simd.f32x4PseudoMax(get(most), simd.f32x4Abs(simd.v128Load(get(at)))));
    const isBefore = wasm.i32LessU(get(at), get(end));
    return [
      ...set(end, wasm.i32Add(get(from), get(bytes))),
      ...set(at, get(from)),
      ...set(most, simd.f32x4(RANGE_MIN)),
      ...wasm.repeatWhile([...findMost, ...set(at, wasm.i32Add(get(at), i32(LANES)))], isBefore),
      ...acrossLanes(most, simd.f32x4PseudoMax),
      ...set(inverse, simd.f32x4Div(simd.f32x4(SHORT_MAX), get(most))),
      ...simd.v128Store32(get(scale), simd.f32x4Div(get(most), simd.f32x4(SHORT_MAX))),
      ...set(at, get(from)),
      ...wasm.repeatWhile(
        [
          ...simd.v128Store(get(to), simd.i16x8NarrowI32x4S(whole(0), whole(LANES))),
          ...set(to, wasm.i32Add(get(to), i32(LANES))),
          ...set(at, wasm.i32Add(get(at), i32(2 * LANES))),
        ],
        isBefore,
      ),
    ];
  });
}

/** A float of this size has no room for a fraction: adding it rounds, and leaves the integer in the lowest bits. */
export const ROUNDING = 1.5 * 2 ** 23;
const ROUNDING_BITS = new Int32Array(new Float32Array([ROUNDING]).buffer)[0] ?? 0;

/** The nearest integers, of floats within ±2^22. */
export function nearestInteger(floats: Code): Code {
  return simd.i32x4Sub(simd.f32x4Add(floats, simd.f32x4(ROUNDING)), simd.i32x4(ROUNDING_BITS));
}

/** Reduces the four lanes of a vector to one number in each lane. */
export function acrossLanes(vector: Local, join: (a: Code, b: Code) => Code): Code {
  return [
    ...set(vector, join(get(vector), simd.swapHalves(get(vector)))),
    ...set(vector, join(get(vector), simd.swapNeighbours(get(vector)))),
  ];
}
