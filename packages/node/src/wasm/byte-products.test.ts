import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { instantiate } from "./assembler.ts";
import {
  COLUMN_FACTS_BYTES,
  PRODUCTS,
  type Products,
  packColumns,
  productSource,
  ROW_FACTS_BYTES,
  SHORT_MAX,
  TILE,
  toBytesSource,
  toShortsSource,
} from "./byte-products.ts";

const WIDTH = 32;
const ROWS_MAX = 8;
const COLUMNS = 32;
const GROUP_BYTES = WIDTH * TILE + COLUMN_FACTS_BYTES;
const AT = { floats: 0, bytes: 1_024, facts: 2_048, weights: 4_096, out: 16_384 };
const MEMORY_BYTES = 65_536;

interface Loops {
  toBytes(from: number, to: number, facts: number, count: number): void;
  product(...given: readonly number[]): void;
  shortProduct(...given: readonly number[]): void;
  toShorts(from: number, to: number, scale: number, bytes: number): void;
}

function openLoops(products: Products) {
  const sources = [
    toBytesSource("toBytes", WIDTH),
    toShortsSource("toShorts"),
    productSource("product", { products, values: "bytes", rowBytes: WIDTH }),
    productSource("shortProduct", { products, values: "shorts", rowBytes: WIDTH }),
  ];
  const made = instantiate<Loops>(sources, MEMORY_BYTES);
  if (made === undefined) throw new Error(`this engine cannot run ${products} products`);
  return made;
}

const kinds = ["relaxed", "pairs", "widePairs"] as const;
const engines = {
  relaxed: openLoops("relaxed"),
  pairs: openLoops("pairs"),
  widePairs: openLoops("widePairs"),
};

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

function multiply(kind: Products, rows: readonly Row[], columns: readonly Column[]) {
  const { functions, buffer } = engines[kind];
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
  packColumns(new Uint32Array(buffer, AT.weights, ((COLUMNS / TILE) * GROUP_BYTES) / 4), WIDTH, kind);
  functions.product(AT.bytes, AT.facts, AT.weights, AT.out, rows.length, WIDTH, COLUMNS, COLUMNS * 4);
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
  it.each(kinds)("[D5] are exactly those of plain loops, %s, with the ends of both ranges", (kind) => {
    const rows = fc.array(row, { minLength: 1, maxLength: ROWS_MAX });
    const columns = fc.array(column, { minLength: COLUMNS, maxLength: COLUMNS });
    fc.assert(
      fc.property(rows, columns, (left, right) => {
        expect(multiply(kind, left, right)).toEqual(expected(left, right));
      }),
    );
  });
});

describe("products of 16-bit integers", () => {
  it.each(kinds)("[D5] are exactly those of plain loops, %s, at the ends of the range too", (kind) => {
    const { functions, buffer } = engines[kind];
    const group = PRODUCTS[kind].vectors * 4;
    const inner = WIDTH / 2;
    const short = fc.oneof(fc.constantFrom(-SHORT_MAX, SHORT_MAX), fc.integer({ min: -SHORT_MAX, max: SHORT_MAX }));
    const shorts = (count: number) => fc.array(short, { minLength: count, maxLength: count });
    fc.assert(
      fc.property(shorts(4 * inner), shorts(COLUMNS * inner), scale, (rows, columns, size) => {
        new Int16Array(buffer, AT.bytes, rows.length).set(rows);
        for (let row = 0; row < 4; row += 1) new Float32Array(buffer, AT.facts + row * ROW_FACTS_BYTES, 1)[0] = size;
        const packed = new Int16Array(buffer, AT.weights, columns.length);
        for (const [index, x] of columns.entries()) {
          const [column, place] = [Math.floor(index / inner), index % inner];
          const lane = column % group;
          packed[(column - lane) * inner + ((place >> 1) * group + lane) * 2 + (place & 1)] = x;
        }
        functions.shortProduct(AT.bytes, AT.facts, AT.weights, AT.out, 4, WIDTH, COLUMNS, COLUMNS * 4);
        const wanted = Array.from({ length: 4 * COLUMNS }, (_, index) => {
          const [row, column] = [Math.floor(index / COLUMNS), index % COLUMNS];
          const products = columns
            .slice(column * inner, (column + 1) * inner)
            .map((x, place) => x * (rows[row * inner + place] ?? 0));
          return Math.fround(Math.fround(sum(products)) * size);
        });
        // A sum of zero times a scale is 0 in both, whatever its sign.
        expect([...new Float32Array(buffer, AT.out, wanted.length)].map((x) => x + 0)).toEqual(
          wanted.map((x) => x + 0),
        );
      }),
    );
  });

  it("[D5] have the nearest of the range of all, and the largest is the end of it", () => {
    const { functions, buffer } = engines.pairs;
    const given = Array.from({ length: WIDTH }, (_, place) => Math.sin(place) * 3);
    new Float32Array(buffer, AT.floats, WIDTH).set(given);
    functions.toShorts(AT.floats, AT.bytes, AT.facts, WIDTH * 4);
    const [size = 0] = new Float32Array(buffer, AT.facts, 1);
    const shorts = [...new Int16Array(buffer, AT.bytes, WIDTH)];
    expect(Math.max(...shorts.map(Math.abs))).toBe(SHORT_MAX);
    for (const [place, x] of given.entries())
      expect(Math.abs((shorts[place] ?? 0) * size - x)).toBeLessThan(size * 0.51);
  });
});

describe("floats as bytes", () => {
  const values = fc.array(fc.oneof(float, fc.constantFrom(0, -0, 1e-30, 1e30, -1e30)), {
    minLength: WIDTH,
    maxLength: WIDTH,
  });

  it("[D5] are within a step of what they were, and zero stays zero", () => {
    const { functions, buffer } = engines.pairs;
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
    const { functions, buffer } = engines.pairs;
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
