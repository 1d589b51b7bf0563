import type { Code, FunctionSource, Local } from "./assembler.ts";
import * as wasm from "./assembler.ts";
import * as simd from "./vectors.ts";

const { get, set, i32 } = wasm;

/** Rows and columns multiplied at once: their sixteen sums and the loaded values fit the registers of arm64. */
export const TILE = 4;
/** After the bytes of four columns come four scales, four zeros, four sums and four biases. */
export const COLUMN_FACTS_BYTES = 64;
/** Of a row of bytes: its scale, its zero, its sum, and a gap. */
export const ROW_FACTS_BYTES = 16;
const LANES = 16;
const BYTE_STEPS = 255;
const BYTE_MIN = -128;
/** A row without a range keeps a divisible scale. */
const RANGE_MIN = 1e-20;

/** How sixteen signed bytes are multiplied with sixteen below 128, and summed in fours. */
export type Products = "relaxed" | "plain";

/**
 * `(rows, facts, weights, out, count, columns)`: rows of bytes times a matrix, as floats. `count` is rounded up to
 * whole tiles, which must have room. Both sides have a nonzero zero point, whose contribution is subtracted.
 */
export function productSource(name: string, width: number, products: Products): FunctionSource {
  const names = {
    parameters: ["rows", "facts", "weights", "out", "count", "columns"],
    i32: ["row", "rowEnd", "fact", "target", "targetEnd", "stride", "at", "column", "columnEnd"],
    v128: ["bytes"],
  } as const;
  return wasm.defineLoop(name, names, (local, vectors) => {
    const { rows, facts, weights, out, count, columns, row, rowEnd, fact, target, targetEnd } = local;
    const { stride, at, column, columnEnd, bytes } = local;
    const four = vectors(TILE);
    const sums = Array.from({ length: TILE }, () => vectors(TILE));
    const step: Code = [
      ...four.flatMap((loaded, index) => set(loaded, simd.v128Load(get(column), index * LANES))),
      ...sums.flatMap((ofRow, index) => [
        ...set(bytes, simd.v128Load(get(at), index * width)),
        ...four.flatMap((loaded, lane) => addProducts(products, { bytes, loaded, sum: ofRow[lane] ?? bytes })),
      ]),
      ...set(at, wasm.i32Add(get(at), i32(LANES))),
      ...set(column, wasm.i32Add(get(column), i32(LANES * TILE))),
    ];
    const finishRow = (ofRow: readonly Local[], index: number): Code => {
      const rowFact = (place: number): Code => simd.v128Load32Splat(get(fact), index * ROW_FACTS_BYTES + place * 4);
      // After the loop `column` points at the facts of the four columns.
      const columnFact = (place: number): Code => simd.v128Load(get(column), place * LANES);
      const whole = simd.i32x4Sub(
        simd.i32x4Sub(totalsOf(ofRow, simd.i32x4Add), simd.i32x4Mul(columnFact(1), rowFact(2))),
        simd.i32x4Mul(columnFact(2), rowFact(1)),
      );
      const scaled = simd.f32x4Mul(simd.f32x4ConvertI32x4S(whole), simd.f32x4Mul(columnFact(0), rowFact(0)));
      return [
        ...simd.v128Store(get(target), simd.f32x4Add(scaled, columnFact(3))),
        ...set(target, wasm.i32Add(get(target), get(stride))),
      ];
    };
    const tile: Code = [
      ...sums.flat().flatMap((sum) => set(sum, simd.v128Zero)),
      ...set(at, get(row)),
      ...set(column, get(weights)),
      ...wasm.repeatWhile(step, wasm.i32LessU(get(column), get(columnEnd))),
      ...sums.flatMap(finishRow),
      ...set(row, wasm.i32Add(get(row), i32(width * TILE))),
      ...set(fact, wasm.i32Add(get(fact), i32(ROW_FACTS_BYTES * TILE))),
    ];
    const fourColumns: Code = [
      ...set(row, get(rows)),
      ...set(fact, get(facts)),
      ...set(target, get(out)),
      ...set(columnEnd, wasm.i32Add(get(weights), i32(width * TILE))),
      ...wasm.repeatWhile(tile, wasm.i32LessU(get(row), get(rowEnd))),
      ...set(weights, wasm.i32Add(get(columnEnd), i32(COLUMN_FACTS_BYTES))),
      ...set(out, wasm.i32Add(get(out), i32(LANES))),
    ];
    return [
      ...set(stride, wasm.i32Shl(get(columns), i32(2))),
      ...set(rowEnd, wasm.i32Add(get(rows), wasm.i32Mul(get(count), i32(width)))),
      ...set(targetEnd, wasm.i32Add(get(out), get(stride))),
      ...wasm.repeatWhile(fourColumns, wasm.i32LessU(get(out), get(targetEnd))),
    ];
  });
}

function addProducts(products: Products, on: { bytes: Local; loaded: Local; sum: Local }): Code {
  const [bytes, loaded, sum] = [get(on.bytes), get(on.loaded), get(on.sum)];
  if (products === "relaxed") return set(on.sum, simd.i32x4RelaxedDotI8x16I7x16AddS(bytes, loaded, sum));
  // Two products of 8 and 7 bits fit into 16.
  const pairs = simd.i16x8Add(simd.i16x8MulLowI8x16S(bytes, loaded), simd.i16x8MulHighI8x16S(bytes, loaded));
  return set(on.sum, simd.i32x4Add(sum, simd.i32x4AddPairsOfI16x8S(pairs)));
}

/** Reduces four vectors of four numbers to their four totals. */
export function totalsOf(vectors: readonly Local[], add: (a: Code, b: Code) => Code): Code {
  const [first = [], second = [], third = [], fourth = []] = vectors.map(get);
  // Even and odd lanes come from the stack, so a sum of pairs goes through a free vector.
  const [pairs = { number: 0 }, others = { number: 0 }] = vectors;
  const pairsOf = (a: Code, b: Code): Code => add(simd.evenLanes(a, b), simd.oddLanes(a, b));
  return [
    ...set(pairs, pairsOf(first, second)),
    ...set(others, pairsOf(third, fourth)),
    ...pairsOf(get(pairs), get(others)),
  ];
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
    const whole = (offset: number): Code => {
      const steps = simd.f32x4Nearest(simd.f32x4Mul(simd.v128Load(get(at), offset), get(inverse)));
      return simd.i32x4TruncSatF32x4S(simd.f32x4Add(steps, get(zero)));
    };
    const sixteen = simd.i8x16NarrowI16x8S(
      simd.i16x8NarrowI32x4S(whole(0), whole(16)),
      simd.i16x8NarrowI32x4S(whole(32), whole(48)),
    );
    const findRange: Code = [
      ...set(loaded, simd.v128Load(get(at))),
      ...set(least, simd.f32x4Min(get(least), get(loaded))),
      ...set(most, simd.f32x4Max(get(most), get(loaded))),
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
    const leastStep = simd.f32x4Nearest(simd.f32x4Mul(get(least), get(inverse)));
    return wasm.loopWhile(get(count), [
      ...set(least, simd.v128Zero),
      ...set(most, simd.v128Zero),
      ...set(sum, simd.v128Zero),
      ...set(at, get(from)),
      ...set(end, wasm.i32Add(get(from), i32(width * 4))),
      ...wasm.repeatWhile(findRange, isInRow),
      ...acrossLanes(least, simd.f32x4Min),
      ...acrossLanes(most, simd.f32x4Max),
      ...set(range, simd.f32x4Max(simd.f32x4Sub(get(most), get(least)), simd.f32x4(RANGE_MIN))),
      ...set(inverse, simd.f32x4Div(simd.f32x4(BYTE_STEPS), get(range))),
      ...set(zero, simd.f32x4Sub(simd.f32x4(BYTE_MIN), leastStep)),
      ...set(at, get(from)),
      ...wasm.repeatWhile(writeBytes, isInRow),
      ...acrossLanes(sum, simd.i32x4Add),
      ...simd.v128Store32(get(facts), simd.f32x4Div(get(range), simd.f32x4(BYTE_STEPS))),
      ...simd.v128Store32(get(facts), simd.i32x4TruncSatF32x4S(get(zero)), 4),
      ...simd.v128Store32(get(facts), get(sum), 8),
      ...set(facts, wasm.i32Add(get(facts), i32(ROW_FACTS_BYTES))),
      ...set(from, get(end)),
      ...set(count, wasm.i32Sub(get(count), i32(1))),
    ]);
  });
}

/** Reduces the four lanes of a vector to one number in each lane. */
export function acrossLanes(vector: Local, join: (a: Code, b: Code) => Code): Code {
  return [
    ...set(vector, join(get(vector), simd.swapHalves(get(vector)))),
    ...set(vector, join(get(vector), simd.swapNeighbours(get(vector)))),
  ];
}
