import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { instantiate } from "./assembler.ts";
import {
  COLUMN_FACTS_BYTES,
  type Products,
  productSource,
  ROW_FACTS_BYTES,
  TILE,
  toBytesSource,
} from "./byte-products.ts";

const WIDTH = 32;
const ROWS_MAX = 8;
const COLUMNS = 8;
const GROUP_BYTES = WIDTH * TILE + COLUMN_FACTS_BYTES;
const AT = { floats: 0, bytes: 1_024, facts: 2_048, weights: 4_096, out: 8_192 };
const MEMORY_BYTES = 65_536;

interface Loops {
  toBytes(from: number, to: number, facts: number, count: number): void;
  product(rows: number, facts: number, weights: number, out: number, count: number, columns: number): void;
}

function openLoops(products: Products) {
  const sources = [toBytesSource("toBytes", WIDTH), productSource("product", WIDTH, products)];
  const made = instantiate<Loops>(sources, MEMORY_BYTES);
  if (made === undefined) throw new Error(`this engine cannot run ${products} products`);
  return made;
}

const engines = { relaxed: openLoops("relaxed"), plain: openLoops("plain") };

interface Column {
  readonly bytes: readonly number[];
  readonly scale: number;
  readonly zero: number;
  readonly bias: number;
}

interface Row {
  readonly bytes: readonly number[];
  readonly scale: number;
  readonly zero: number;
}

const float = fc.float({ min: -1_000, max: 1_000, noNaN: true });
const scale = fc.float({ min: Math.fround(1e-6), max: 10, noNaN: true });
/** The ends of the range come up far more often than chance would have them. */
const within = (min: number, max: number) =>
  fc.array(fc.oneof(fc.constantFrom(min, max), fc.integer({ min, max })), { minLength: WIDTH, maxLength: WIDTH });
const column: fc.Arbitrary<Column> = fc.record({
  bytes: within(0, 127),
  scale,
  zero: fc.integer({ min: 0, max: 127 }),
  bias: float,
});
const row: fc.Arbitrary<Row> = fc.record({
  bytes: within(-128, 127),
  scale,
  zero: fc.integer({ min: -128, max: 127 }),
});
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

function multiply({ functions, buffer }: (typeof engines)["plain"], rows: readonly Row[], columns: readonly Column[]) {
  const view = new DataView(buffer);
  for (const [index, { bytes, scale: size, zero }] of rows.entries()) {
    new Int8Array(buffer, AT.bytes + index * WIDTH).set(bytes);
    view.setFloat32(AT.facts + index * ROW_FACTS_BYTES, size, true);
    view.setInt32(AT.facts + index * ROW_FACTS_BYTES + 4, zero, true);
    view.setInt32(AT.facts + index * ROW_FACTS_BYTES + 8, sum(bytes), true);
  }
  for (const [index, { bytes, scale: size, zero, bias }] of columns.entries()) {
    const group = AT.weights + Math.floor(index / TILE) * GROUP_BYTES;
    const lane = index % TILE;
    for (const [place, byte] of bytes.entries()) {
      view.setUint8(group + Math.floor(place / 16) * 16 * TILE + lane * 16 + (place % 16), byte);
    }
    const facts = group + WIDTH * TILE + lane * 4;
    view.setFloat32(facts, size, true);
    view.setInt32(facts + 16, zero, true);
    view.setInt32(facts + 32, sum(bytes.map((byte) => byte - zero)), true);
    view.setFloat32(facts + 48, bias, true);
  }
  functions.product(AT.bytes, AT.facts, AT.weights, AT.out, rows.length, COLUMNS);
  return [...new Float32Array(buffer, AT.out, rows.length * COLUMNS)];
}

/** The same in plain loops: whole numbers, then the float operations in their order. */
function expected(rows: readonly Row[], columns: readonly Column[]): readonly number[] {
  return rows.flatMap((left) =>
    columns.map((right) => {
      const whole = sum(left.bytes.map((byte, place) => (byte - left.zero) * ((right.bytes[place] ?? 0) - right.zero)));
      const scaled = Math.fround(Math.fround(whole) * Math.fround(right.scale * left.scale));
      return Math.fround(scaled + right.bias);
    }),
  );
}

describe("products of bytes", () => {
  it.each(["relaxed", "plain"] as const)(
    "[D5] are exactly those of plain loops, %s, with the ends of both ranges",
    (kind) => {
      const rows = fc.array(row, { minLength: 1, maxLength: ROWS_MAX });
      const columns = fc.array(column, { minLength: COLUMNS, maxLength: COLUMNS });
      fc.assert(
        fc.property(rows, columns, (left, right) => {
          expect(multiply(engines[kind], left, right)).toEqual(expected(left, right));
        }),
      );
    },
  );
});

describe("floats as bytes", () => {
  const values = fc.array(fc.oneof(float, fc.constantFrom(0, -0, 1e-30, 1e30, -1e30)), {
    minLength: WIDTH,
    maxLength: WIDTH,
  });

  it("[D5] are within a step of what they were, and zero stays zero", () => {
    const { functions, buffer } = engines.plain;
    fc.assert(
      fc.property(values, (given) => {
        const floats = new Float32Array(buffer, AT.floats, WIDTH);
        floats.set(given);
        functions.toBytes(AT.floats, AT.bytes, AT.facts, 1);
        const bytes = [...new Int8Array(buffer, AT.bytes, WIDTH)];
        const size = new Float32Array(buffer, AT.facts, 1)[0] ?? 0;
        const [zero = 0, total = 0] = new Int32Array(buffer, AT.facts + 4, 2);
        expect(total).toBe(sum(bytes));
        for (const [place, byte] of bytes.entries()) {
          const x = floats[place] ?? 0;
          // A hair for the rounding of the scale; the ends may lose half a step to the rounding of the zero.
          expect(Math.abs((byte - zero) * size - x)).toBeLessThanOrEqual(size * 1.001);
          if (x === 0) expect(byte).toBe(zero);
        }
      }),
    );
  });

  it("[D5] of a row depend on that row alone", () => {
    const { functions, buffer } = engines.plain;
    const floats = new Float32Array(buffer, AT.floats, WIDTH * 2);
    floats.set(Array.from({ length: WIDTH }, (_, place) => Math.sin(place)));
    floats.fill(0, WIDTH);
    functions.toBytes(AT.floats, AT.bytes, AT.facts, 2);
    const beside = [...new Int8Array(buffer, AT.bytes, WIDTH)];
    floats.fill(1e6, WIDTH);
    functions.toBytes(AT.floats, AT.bytes, AT.facts, 2);
    expect([...new Int8Array(buffer, AT.bytes, WIDTH)]).toEqual(beside);
  });
});
