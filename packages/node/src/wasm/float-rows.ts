import type { Code, FunctionSource, Local } from "./assembler.ts";
import * as wasm from "./assembler.ts";
import { acrossLanes, nearestInteger, ROUNDING, ROW_FACTS_BYTES } from "./byte-products.ts";
import * as simd from "./vectors.ts";

const { get, set, i32 } = wasm;
const { f32x4, f32x4Add, f32x4Sub, f32x4Mul, v128Load, v128Store } = simd;

/** `(rows, added, weights, count)`: adds two rows, normalizes to mean 0 and variance 1, then scales and shifts. */
export function addNormSource(name: string, width: number): FunctionSource {
  const names = {
    parameters: ["rows", "added", "weights", "count"],
    i32: ["at", "end", "other", "weight"],
    v128: ["mean", "spread", "loaded"],
  } as const;
  return wasm.defineLoop(name, names, (local) => {
    const { rows, added, weights, count, at, end, other, weight, mean, spread, loaded } = local;
    const overRow = (body: Code): Code => [
      ...set(at, get(rows)),
      ...wasm.repeatWhile([...body, ...set(at, wasm.i32Add(get(at), i32(16)))], wasm.i32LessU(get(at), get(end))),
    ];
    const sumUp: Code = [
      ...set(loaded, f32x4Add(v128Load(get(at)), v128Load(get(other)))),
      ...v128Store(get(at), get(loaded)),
      ...set(mean, f32x4Add(get(mean), get(loaded))),
      ...set(other, wasm.i32Add(get(other), i32(16))),
    ];
    const spreadOut: Code = [
      ...set(loaded, f32x4Sub(v128Load(get(at)), get(mean))),
      ...set(spread, f32x4Add(get(spread), f32x4Mul(get(loaded), get(loaded)))),
    ];
    const scaled = f32x4Mul(f32x4Mul(f32x4Sub(v128Load(get(at)), get(mean)), get(spread)), v128Load(get(weight)));
    const write: Code = [
      ...v128Store(get(at), f32x4Add(scaled, v128Load(get(weight), width * 4))),
      ...set(weight, wasm.i32Add(get(weight), i32(16))),
    ];
    return [
      ...set(other, get(added)),
      ...wasm.loopWhile(get(count), [
        ...set(end, wasm.i32Add(get(rows), i32(width * 4))),
        ...set(mean, simd.v128Zero),
        ...overRow(sumUp),
        ...acrossLanes(mean, f32x4Add),
        ...set(mean, f32x4Mul(get(mean), f32x4(1 / width))),
        ...set(spread, simd.v128Zero),
        ...overRow(spreadOut),
        ...acrossLanes(spread, f32x4Add),
        ...set(spread, f32x4Add(f32x4Mul(get(spread), f32x4(1 / width)), f32x4(VARIANCE_MIN))),
        ...set(spread, simd.f32x4Div(f32x4(1), simd.f32x4Sqrt(get(spread)))),
        ...set(weight, get(weights)),
        ...overRow(write),
        ...set(rows, get(end)),
        ...set(count, wasm.i32Sub(get(count), i32(1))),
      ]),
    ];
  });
}

/** As the model was trained. */
const VARIANCE_MIN = 1e-12;

/** `(from, bytes)`: GELU in place, within 0.0001: a fraction of the steps of bytes that it is rounded to. */
export function geluSource(name: string): FunctionSource {
  return wasm.defineLoop(name, { parameters: ["at", "bytes"], i32: ["end"], v128: [] }, (local, vectors) => {
    const { at, bytes, end } = local;
    // Two neighbours go the same way, so that an engine may join them.
    const pair = vectors(2).map((x, index) => ({ x, offset: index * 16 }));
    const [clipped = [], square = []] = [vectors(2), vectors(2)];
    const each = (body: (x: Local, own: { clipped: Local; square: Local; offset: number }) => Code): Code =>
      pair.flatMap(({ x, offset }, index) =>
        body(x, { clipped: clipped[index] ?? x, square: square[index] ?? x, offset }),
      );
    return [
      ...set(end, wasm.i32Add(get(at), get(bytes))),
      ...wasm.repeatWhile(
        [
          ...each((x, { offset }) => set(x, v128Load(get(at), offset))),
          ...each((x, own) =>
            set(own.clipped, simd.f32x4PseudoMin(simd.f32x4PseudoMax(get(x), f32x4(-SHARE_END)), f32x4(SHARE_END))),
          ),
          ...each((_, own) => set(own.square, f32x4Mul(get(own.clipped), get(own.clipped)))),
          ...each((x, own) => {
            const share = f32x4Add(f32x4Mul(get(own.clipped), polynomial(SHARE_CURVE, own.square)), f32x4(0.5));
            return set(x, f32x4Mul(get(x), simd.f32x4PseudoMin(simd.f32x4PseudoMax(share, simd.v128Zero), f32x4(1))));
          }),
          ...each((x, { offset }) => v128Store(get(at), get(x), offset)),
          ...set(at, wasm.i32Add(get(at), i32(32))),
        ],
        wasm.i32LessU(get(at), get(end)),
      ),
    ];
  });
}

// The share of a normal distribution below x is 0.5 + x · curve(x²) up to the end, and 0 or 1 beyond.
const SHARE_END = 4.2;
const SHARE_CURVE = [
  3.984658729e-1, -6.552820202e-2, 9.298229395e-3, -9.506575362e-4, 6.689070075e-5, -3.037931934e-6, 7.941340682e-8,
  -9.017533901e-10,
];

function polynomial(factors: readonly number[], x: Local): Code {
  return [...factors].reduceRight<Code>(
    (sum, factor) => (sum.length === 0 ? f32x4(factor) : f32x4Add(f32x4Mul(sum, get(x)), f32x4(factor))),
    [],
  );
}

// e^x as 2^n · e^r with r within ±ln 2 / 2, as a polynomial within 3e-6 of it.
const EXPONENT_MIN = -87;
const LN2_HIGH = 0.693359375;
const LN2_LOW = -2.1219444e-4;
const EXPONENT_CURVE = [1, 9.999667087e-1, 5.000302592e-1, 1.678771025e-1, 4.151351875e-2];
const EXPONENT_BIAS = 127;
const MANTISSA_BITS = 23;

/** Replaces x ≤ 0 by e^x. */
function exponential(x: Local, whole: Local): Code {
  // The integer is in the lowest bits, and the shift leaves nothing else.
  const powerOfTwo = simd.i32x4ShiftLeft(simd.i32x4Add(get(whole), simd.i32x4(EXPONENT_BIAS)), i32(MANTISSA_BITS));
  const times = (factor: number): Code => f32x4Mul(f32x4Sub(get(whole), f32x4(ROUNDING)), f32x4(factor));
  return [
    ...set(x, simd.f32x4PseudoMax(get(x), f32x4(EXPONENT_MIN))),
    ...set(whole, f32x4Add(f32x4Mul(get(x), f32x4(Math.LOG2E)), f32x4(ROUNDING))),
    ...set(x, f32x4Sub(f32x4Sub(get(x), times(LN2_HIGH)), times(LN2_LOW))),
    ...set(x, f32x4Mul(polynomial(EXPONENT_CURVE, x), powerOfTwo)),
  ];
}

/** Of the shares of a row: so large that its products with `SHORT_MAX` fit into 32 bits, the rounding of 512 too. */
const SHARES_MAX = 2 ** 18 - 1 - 512;
const SHARE_MAX = 2 ** 15 - 1;

interface ScoreRows {
  readonly scoreBytes: number;
  readonly shareBytes: number;
}

/**
 * `(scores, shares, facts, scale, rows, count)`: softmax of rows of scores, as 16-bit integers with one scale per row,
 * multiplied by the given one. The last eight shares may go beyond the text: those are zero.
 */
export function softmaxSource(name: string, { scoreBytes, shareBytes }: ScoreRows): FunctionSource {
  const names = {
    parameters: ["scores", "shares", "facts", "scale", "rows", "count"],
    i32: ["at", "end", "to"],
    v128: ["most", "total", "size"],
  } as const;
  return wasm.defineLoop(name, names, (local, vectors) => {
    const { scores, shares, facts, scale, rows, count, at, end, to, most, total, size } = local;
    const overScores = (body: Code): Code => [
      ...set(at, get(scores)),
      ...wasm.repeatWhile([...body, ...set(at, wasm.i32Add(get(at), i32(32)))], wasm.i32LessU(get(at), get(end))),
    ];
    // Two neighbours go the same way, so that an engine may join them.
    const pair = vectors(2).map((x, index) => ({ x, offset: index * 16 }));
    const powers = vectors(2);
    const [first = [], second = []] = pair.map(({ x }) => get(x));
    const each = (body: (x: Local, offset: number, power: Local) => Code): Code =>
      pair.flatMap(({ x, offset }, index) => body(x, offset, powers[index] ?? x));
    const hideRest: Code = [
      ...set(at, wasm.i32Add(get(scores), wasm.i32Shl(get(count), i32(2)))),
      ...set(
        end,
        wasm.i32Add(get(scores), wasm.i32And(wasm.i32Add(wasm.i32Shl(get(count), i32(2)), i32(31)), i32(-32))),
      ),
      ...wasm.loopWhile(wasm.i32LessU(get(at), get(end)), [
        ...wasm.i32Store(get(at), i32(LEAST_FLOAT)),
        ...set(at, wasm.i32Add(get(at), i32(4))),
      ]),
    ];
    return wasm.loopWhile(get(rows), [
      ...hideRest,
      ...set(most, f32x4(-3e38)),
      ...overScores(each((_, offset) => set(most, simd.f32x4PseudoMax(get(most), v128Load(get(at), offset))))),
      ...acrossLanes(most, simd.f32x4PseudoMax),
      ...set(total, simd.v128Zero),
      ...overScores([
        ...each((x, offset) => set(x, f32x4Sub(v128Load(get(at), offset), get(most)))),
        ...each((x, _, power) => exponential(x, power)),
        ...each((x, offset) => v128Store(get(at), get(x), offset)),
        ...each((x) => set(total, f32x4Add(get(total), get(x)))),
      ]),
      ...acrossLanes(total, f32x4Add),
      ...set(size, simd.f32x4PseudoMin(simd.f32x4Div(f32x4(SHARES_MAX), get(total)), f32x4(SHARE_MAX))),
      ...set(total, simd.v128Zero),
      ...set(to, get(shares)),
      ...overScores([
        ...each((x, offset) => set(x, nearestInteger(f32x4Mul(v128Load(get(at), offset), get(size))))),
        ...v128Store(get(to), simd.i16x8NarrowI32x4S(first, second)),
        ...each((x) => set(total, simd.i32x4Add(get(total), get(x)))),
        ...set(to, wasm.i32Add(get(to), i32(16))),
      ]),
      ...acrossLanes(total, simd.i32x4Add),
      ...simd.v128Store32(
        get(facts),
        simd.f32x4Div(simd.v128Load32Splat(get(scale)), simd.f32x4ConvertI32x4S(get(total))),
      ),
      ...set(scores, wasm.i32Add(get(scores), i32(scoreBytes))),
      ...set(shares, wasm.i32Add(get(shares), i32(shareBytes))),
      ...set(facts, wasm.i32Add(get(facts), i32(ROW_FACTS_BYTES))),
      ...set(rows, wasm.i32Sub(get(rows), i32(1))),
    ]);
  });
}

/** The bits of the float −3e38: below every score, so that its exponential is zero. */
const LEAST_FLOAT = new Int32Array(new Float32Array([-3e38]).buffer)[0] ?? 0;
