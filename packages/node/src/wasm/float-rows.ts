import type { Code, FunctionSource, Local } from "./assembler.ts";
import * as wasm from "./assembler.ts";
import { acrossLanes, totalsOf } from "./byte-products.ts";
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

/** `(from, bytes)`: GELU in place. */
export function geluSource(name: string): FunctionSource {
  const names = { parameters: ["at", "bytes"], i32: ["end"], v128: ["x", "size", "t", "power"] } as const;
  return wasm.defineLoop(name, names, (local, vectors) => {
    const { at, bytes, end, x, size, t, power } = local;
    const [scratch = x] = vectors(1);
    const curve = [...ERROR_CURVE].reduceRight<Code>(
      (sum, factor) => f32x4Mul(sum.length === 0 ? f32x4(factor) : f32x4Add(sum, f32x4(factor)), get(t)),
      [],
    );
    return [
      ...set(end, wasm.i32Add(get(at), get(bytes))),
      ...wasm.repeatWhile(
        [
          ...set(x, v128Load(get(at))),
          ...set(size, simd.f32x4Abs(get(x))),
          ...set(
            t,
            simd.f32x4Div(f32x4(1), f32x4Add(f32x4(1), f32x4Mul(get(size), f32x4(ERROR_SLOPE * Math.SQRT1_2)))),
          ),
          ...set(power, f32x4Mul(f32x4Mul(get(size), get(size)), f32x4(-0.5))),
          ...exponential(power, scratch),
          // Half of 1 minus the error function, on either side of zero.
          ...set(power, f32x4Mul(f32x4Mul(f32x4(0.5), curve), get(power))),
          ...v128Store(get(at), f32x4Sub(simd.f32x4Max(get(x), simd.v128Zero), f32x4Mul(get(size), get(power)))),
          ...set(at, wasm.i32Add(get(at), i32(16))),
        ],
        wasm.i32LessU(get(at), get(end)),
      ),
    ];
  });
}

// Abramowitz and Stegun 7.1.26: the error function, within 1.5e-7.
const ERROR_SLOPE = 0.3275911;
const ERROR_CURVE = [0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429];

// e^x as 2^n · e^r with r within ±ln 2 / 2, as a power series (Cephes, expf).
const EXPONENT_MIN = -87;
const LN2_HIGH = 0.693359375;
const LN2_LOW = -2.1219444e-4;
const EXPONENT_CURVE = [1, 1, 0.5, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3];
const EXPONENT_BIAS = 127;
const MANTISSA_BITS = 23;

/** Replaces x ≤ 0 by e^x. */
function exponential(x: Local, whole: Local): Code {
  const curve = [...EXPONENT_CURVE].reduceRight<Code>(
    (sum, factor) => (sum.length === 0 ? f32x4(factor) : f32x4Add(f32x4Mul(sum, get(x)), f32x4(factor))),
    [],
  );
  const powerOfTwo = simd.i32x4ShiftLeft(
    simd.i32x4Add(simd.i32x4TruncSatF32x4S(get(whole)), simd.i32x4(EXPONENT_BIAS)),
    i32(MANTISSA_BITS),
  );
  return [
    ...set(x, simd.f32x4Max(get(x), f32x4(EXPONENT_MIN))),
    ...set(whole, simd.f32x4Nearest(f32x4Mul(get(x), f32x4(Math.LOG2E)))),
    ...set(x, f32x4Sub(f32x4Sub(get(x), f32x4Mul(get(whole), f32x4(LN2_HIGH))), f32x4Mul(get(whole), f32x4(LN2_LOW)))),
    ...set(x, f32x4Mul(curve, powerOfTwo)),
  ];
}

export interface Heads {
  readonly count: number;
  readonly size: number;
  readonly rowsMax: number;
}

/**
 * `(asked, out, scores, count)`: attention. The queries of each head are contiguous in `asked`, followed by all keys,
 * then all values: a head is read repeatedly, so it should be close. `scores` has room for one number per row, in
 * multiples of four.
 */
export function attentionSource(name: string, heads: Heads): FunctionSource {
  const rowBytes = heads.size * 4;
  const headBytes = heads.rowsMax * rowBytes;
  const outBytes = heads.count * rowBytes;
  const parts = heads.size / 4;
  const names = {
    parameters: ["queries", "out", "scores", "count"],
    i32: ["outEnd", "query", "queryEnd", "other", "score", "scoreEnd", "target"],
    v128: ["most", "total", "x", "whole", "share"],
  } as const;
  return wasm.defineLoop(name, names, (local, vectors) => {
    const { queries, out, scores, count, outEnd, query, queryEnd, other, score, scoreEnd, target } = local;
    const { most, total, x, whole, share } = local;
    const asked = vectors(parts);
    const four = vectors(4);
    const keysAt = headBytes * heads.count;
    const valuesAt = keysAt * 2;
    const keyPart = (row: number, part: number): Code => v128Load(get(other), row * rowBytes + part * 16);
    /** Four keys at once, so that their lanes are summed together. */
    const compareFour: Code = [
      ...four.flatMap((sum, row) =>
        asked.flatMap((part, index) => {
          const product = f32x4Mul(get(part), keyPart(row, index));
          return set(sum, index === 0 ? product : f32x4Add(get(sum), product));
        }),
      ),
      ...set(x, f32x4Mul(totalsOf(four, f32x4Add), f32x4(1 / Math.sqrt(heads.size)))),
      ...v128Store(get(score), get(x)),
      ...set(other, wasm.i32Add(get(other), i32(rowBytes * 4))),
      ...set(score, wasm.i32Add(get(score), i32(16))),
    ];
    /** The last four may go beyond the text: those count as nothing. */
    const hideRest: Code = [
      ...set(score, get(scoreEnd)),
      ...wasm.loopWhile(wasm.i32And(get(score), i32(15)), [
        ...wasm.i32Store(get(score), i32(LEAST_FLOAT)),
        ...set(score, wasm.i32Add(get(score), i32(4))),
      ]),
    ];
    const overScores = (body: Code): Code => [
      ...set(score, get(scores)),
      ...wasm.repeatWhile(
        [...body, ...set(score, wasm.i32Add(get(score), i32(16)))],
        wasm.i32LessU(get(score), get(scoreEnd)),
      ),
    ];
    const values = vectors(parts);
    const takeValue: Code = [
      ...set(share, simd.v128Load32Splat(get(score))),
      ...values.flatMap((sum, part) =>
        set(sum, f32x4Add(get(sum), f32x4Mul(get(share), v128Load(get(other), part * 16)))),
      ),
      ...set(other, wasm.i32Add(get(other), i32(rowBytes))),
      ...set(score, wasm.i32Add(get(score), i32(4))),
    ];
    const oneQuery: Code = [
      ...asked.flatMap((part, index) => set(part, v128Load(get(query), index * 16))),
      ...set(other, wasm.i32Add(get(queries), i32(keysAt))),
      ...set(score, get(scores)),
      ...wasm.repeatWhile(compareFour, wasm.i32LessU(get(score), get(scoreEnd))),
      ...hideRest,
      ...set(most, f32x4(-3e38)),
      ...overScores(set(most, simd.f32x4Max(get(most), v128Load(get(score))))),
      ...acrossLanes(most, simd.f32x4Max),
      ...set(total, simd.v128Zero),
      ...overScores([
        ...set(x, f32x4Sub(v128Load(get(score)), get(most))),
        ...exponential(x, whole),
        ...v128Store(get(score), get(x)),
        ...set(total, f32x4Add(get(total), get(x))),
      ]),
      ...acrossLanes(total, f32x4Add),
      ...set(total, simd.f32x4Div(f32x4(1), get(total))),
      ...values.flatMap((sum) => set(sum, simd.v128Zero)),
      ...set(other, wasm.i32Add(get(queries), i32(valuesAt))),
      ...set(score, get(scores)),
      ...wasm.repeatWhile(takeValue, wasm.i32LessU(get(score), get(scoreEnd))),
      ...values.flatMap((sum, part) => v128Store(get(target), f32x4Mul(get(sum), get(total)), part * 16)),
      ...set(target, wasm.i32Add(get(target), i32(outBytes))),
      ...set(query, wasm.i32Add(get(query), i32(rowBytes))),
    ];
    return [
      ...set(scoreEnd, wasm.i32Add(get(scores), wasm.i32Shl(get(count), i32(2)))),
      ...set(outEnd, wasm.i32Add(get(out), i32(outBytes))),
      ...wasm.repeatWhile(
        [
          ...set(query, get(queries)),
          ...set(queryEnd, wasm.i32Add(get(queries), wasm.i32Mul(get(count), i32(rowBytes)))),
          ...set(target, get(out)),
          ...wasm.repeatWhile(oneQuery, wasm.i32LessU(get(query), get(queryEnd))),
          ...set(queries, wasm.i32Add(get(queries), i32(headBytes))),
          ...set(out, wasm.i32Add(get(out), i32(rowBytes))),
        ],
        wasm.i32LessU(get(out), get(outEnd)),
      ),
    ];
  });
}

/** The bits of the float −3e38: below every score, so that its exponential is zero. */
const LEAST_FLOAT = new Int32Array(new Float32Array([-3e38]).buffer)[0] ?? 0;
