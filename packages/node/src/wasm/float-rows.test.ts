import { describe, expect, it } from "vitest";
import { createRandom } from "../../../../test/crash/random.ts";
import { instantiate } from "./assembler.ts";
import { addNormSource, attentionSource, geluSource } from "./float-rows.ts";

const WIDTH = 16;
const HEADS = { count: 2, size: 8, rowsMax: 16 };
const AT = { rows: 0, added: 4_096, weights: 8_192, out: 12_288, scores: 16_384 };

interface Loops {
  addNorm(rows: number, added: number, weights: number, count: number): void;
  gelu(from: number, bytes: number): void;
  attention(asked: number, out: number, scores: number, count: number): void;
}

const made = instantiate<Loops>(
  [addNormSource("addNorm", WIDTH), geluSource("gelu"), attentionSource("attention", HEADS)],
  65_536,
);
if (made === undefined) throw new Error("this engine has no SIMD");
const { functions: loops, buffer } = made;

function noise(at: number, count: number, seed: number, size = 4): Float32Array {
  const random = createRandom(seed);
  const floats = new Float32Array(buffer, at, count);
  for (const index of floats.keys()) floats[index] = (random() - 0.5) * size;
  return floats;
}

describe("rows of floats", () => {
  it("[D5] are normalised as the formula says", () => {
    const count = 5;
    const rows = noise(AT.rows, count * WIDTH, 1);
    const added = noise(AT.added, count * WIDTH, 2);
    const weights = noise(AT.weights, 2 * WIDTH, 3);
    const wanted = Array.from({ length: count }, (_, row) => {
      const sums = Array.from(
        { length: WIDTH },
        (__, i) => (rows[row * WIDTH + i] ?? 0) + (added[row * WIDTH + i] ?? 0),
      );
      const mean = sums.reduce((total, x) => total + x, 0) / WIDTH;
      const variance = sums.reduce((total, x) => total + (x - mean) ** 2, 0) / WIDTH;
      return sums.map((x, i) => ((x - mean) / Math.sqrt(variance)) * (weights[i] ?? 0) + (weights[WIDTH + i] ?? 0));
    }).flat();
    loops.addNorm(AT.rows, AT.added, AT.weights, count);
    for (const [index, x] of wanted.entries()) expect(rows[index]).toBeCloseTo(x, 4);
  });

  it("[D5] that are all the same are no reason to divide by zero", () => {
    new Float32Array(buffer, AT.rows, WIDTH).fill(3);
    new Float32Array(buffer, AT.added, WIDTH).fill(0);
    new Float32Array(buffer, AT.weights, 2 * WIDTH).fill(1);
    loops.addNorm(AT.rows, AT.added, AT.weights, 1);
    expect([...new Float32Array(buffer, AT.rows, WIDTH)]).toEqual(new Array(WIDTH).fill(1));
  });

  it("[D5] go through the curve within a millionth, from −30 to 30 and far outside", () => {
    const given = Float32Array.from([...Array.from({ length: 598 }, (_, i) => (i - 299) / 10), 1e20, -1e20]);
    const floats = new Float32Array(buffer, AT.rows, given.length);
    floats.set(given);
    loops.gelu(AT.rows, given.length * 4);
    for (const [index, x] of given.entries()) {
      if (Math.abs(x) <= 30) expect(Math.abs((floats[index] ?? 0) - x * shareBelow(x))).toBeLessThan(2e-6);
    }
    expect([...floats.slice(-2)]).toEqual([Math.fround(1e20), 0]);
  });
});

/** The share of a normal distribution below x, by adding up small steps. */
function shareBelow(x: number): number {
  const steps = 2_000;
  const width = Math.min(8, Math.abs(x)) / steps;
  let area = 0;
  for (let step = 0; step < steps; step += 1) area += Math.exp(-(((step + 0.5) * width) ** 2) / 2) * width;
  return 0.5 + (Math.sign(x) * area) / Math.sqrt(2 * Math.PI);
}

describe("attention", () => {
  it.each([1, 2, 3, 4, 5, 13, 16])(
    "[D5] takes from the values of %d rows as the formula says, and of no others",
    (count) => {
      const { count: heads, size, rowsMax } = HEADS;
      // Every place is filled: what lies behind the last row must not be seen.
      const asked = noise(AT.rows, 3 * heads * rowsMax * size, count, 8);
      const at = (part: number, head: number, row: number, i: number): number =>
        asked[((part * heads + head) * rowsMax + row) * size + i] ?? 0;
      loops.attention(AT.rows, AT.out, AT.scores, count);
      const out = new Float32Array(buffer, AT.out, count * heads * size);
      const rows = Array.from({ length: count }, (_, row) => row);
      for (let head = 0; head < heads; head += 1) {
        for (const row of rows) {
          const numbers = Array.from({ length: size }, (_, i) => i);
          const dot = (other: number): number =>
            numbers.reduce((total, i) => total + at(0, head, row, i) * at(1, head, other, i), 0);
          const powers = rows.map((other) => Math.exp(dot(other) / Math.sqrt(size)));
          const whole = powers.reduce((total, x) => total + x, 0);
          for (const i of numbers) {
            const wanted = rows.reduce(
              (total, other) => total + ((powers[other] ?? 0) / whole) * at(2, head, other, i),
              0,
            );
            expect(out[(row * heads + head) * size + i]).toBeCloseTo(wanted, 4);
          }
        }
      }
    },
  );
});
