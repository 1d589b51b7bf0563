import { describe, expect, it } from "vitest";
import { createRandom } from "../../../../test/crash/random.ts";
import { instantiate } from "./assembler.ts";
import { ROW_FACTS_BYTES, SHORT_MAX } from "./byte-products.ts";
import { addNormSource, geluSource, softmaxSource } from "./float-rows.ts";

const WIDTH = 16;
const ROW = { scores: 24, rows: 3 };
const AT = { rows: 0, added: 4_096, weights: 8_192, shares: 12_288, facts: 16_384, scale: 20_480 };

interface Loops {
  addNorm(rows: number, added: number, weights: number, count: number): void;
  gelu(from: number, bytes: number): void;
  softmax(scores: number, shares: number, facts: number, scale: number, rows: number, count: number): void;
}

const made = instantiate<Loops>(
  [
    addNormSource("addNorm", WIDTH),
    geluSource("gelu"),
    softmaxSource("softmax", { scoreBytes: ROW.scores * 4, shareBytes: ROW.scores * 2 }),
  ],
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

  it("[D5] go through the curve within a ten-thousandth, from −30 to 30 and far outside", () => {
    const given = Float32Array.from([...Array.from({ length: 598 }, (_, i) => (i - 299) / 10), 1e20, -1e20]);
    const floats = new Float32Array(buffer, AT.rows, given.length);
    floats.set(given);
    loops.gelu(AT.rows, given.length * 4);
    for (const [index, x] of given.entries()) {
      if (Math.abs(x) <= 30) expect(Math.abs((floats[index] ?? 0) - x * shareBelow(x))).toBeLessThan(1e-4);
    }
    expect([...floats.slice(-2)]).toEqual([Math.fround(1e20), -0]);
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

describe("softmax", () => {
  it.each([1, 2, 7, 8, 9, 16, 21])(
    "[D5] shares by %d scores of a row as the formula says, and by no others",
    (count) => {
      // Every place is filled: what lies behind the last score must not be seen.
      const scores = noise(AT.rows, ROW.rows * ROW.scores, count, 16);
      const given = Array.from({ length: ROW.rows }, (_, row) => [...scores.slice(row * ROW.scores).slice(0, count)]);
      new Float32Array(buffer, AT.scale, 1)[0] = 1;
      loops.softmax(AT.rows, AT.shares, AT.facts, AT.scale, ROW.rows, count);
      for (const [row, own] of given.entries()) {
        const powers = own.map(Math.exp);
        const whole = powers.reduce((total, x) => total + x, 0);
        const [fact = 0] = new Float32Array(buffer, AT.facts + row * ROW_FACTS_BYTES, 1);
        const shares = [...new Int16Array(buffer, AT.shares + row * ROW.scores * 2, Math.ceil(count / 8) * 8)];
        for (const [index, share] of shares.entries()) {
          expect(Math.abs(share * fact - (powers[index] ?? 0) / whole)).toBeLessThan(5e-5);
        }
        expect(shares.reduce((total, x) => total + x, 0) * fact).toBeCloseTo(1, 6);
      }
    },
  );

  it("[D5] keeps the sum of 512 equal shares within what 32 bits hold", () => {
    const wide = instantiate<Loops>([softmaxSource("softmax", { scoreBytes: 2_048, shareBytes: 1_024 })], 65_536);
    if (wide === undefined) throw new Error("this engine has no SIMD");
    new Float32Array(wide.buffer, 0, 512).fill(7);
    wide.functions.softmax(0, 4_096, 8_192, 8_208, 1, 512);
    const total = new Int16Array(wide.buffer, 4_096, 512).reduce((sum, x) => sum + x, 0);
    expect(total * SHORT_MAX).toBeLessThan(2 ** 31);
    expect(total).toBeGreaterThan(2 ** 17);
  });
});
