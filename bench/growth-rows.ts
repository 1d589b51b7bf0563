import type { Target } from "./measured.ts";
import { formatSize } from "./memory-store-sizes.ts";

/** One thing that was measured at several sizes. */
export interface GrowthRow {
  readonly what: string;
  readonly unit: "CPU ms" | "ms" | "bytes" | "count";
  readonly at: readonly { readonly size: number; readonly value: number }[];
  /** With ten times as much the value may become ten to the power of this times as large; undefined: only told. */
  readonly slopeMax?: number;
  /** No value may be larger. */
  readonly max?: number;
}

type Wanted = Partial<Pick<GrowthRow, "unit" | "slopeMax" | "max">> & { readonly what: string };

/** Measures the same at every size, and makes a row of each thing. */
export async function rowsOf<V extends Record<string, number>>(
  sizes: readonly number[],
  measure: (size: number) => Promise<V>,
  wanted: { readonly [K in keyof V]: Wanted },
): Promise<readonly GrowthRow[]> {
  const readings: { readonly size: number; readonly values: V }[] = [];
  for (const size of sizes) readings.push({ size, values: await measure(size) });
  return Object.entries(wanted).map(([key, row]) => ({
    unit: "CPU ms",
    ...row,
    at: readings.map(({ size, values }) => ({ size, value: values[key] ?? Number.NaN })),
  }));
}

/** The same at every size, as far as a shared machine can tell. */
export const FLAT = 0.25;
/** In proportion. */
export const LINEAR = 1.15;

/** Below this a value is the clock's noise, and its slope says nothing. */
const NOISE_MS = 0.05;

/** Of the line through the values, both on logarithmic scales. */
export function slopeOf({ at, unit }: GrowthRow): number {
  const least = unit === "CPU ms" || unit === "ms" ? NOISE_MS : 1;
  const points = at.map(({ size, value }) => ({ x: Math.log(size), y: Math.log(Math.max(value, least)) }));
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  const x = mean(points.map((point) => point.x));
  const y = mean(points.map((point) => point.y));
  const spread = points.reduce((sum, point) => sum + (point.x - x) ** 2, 0);
  return points.reduce((sum, point) => sum + (point.x - x) * (point.y - y), 0) / spread;
}

/** Rows measured at the same sizes are one table. */
export function tableOf(name: string, rows: readonly GrowthRow[]): readonly (readonly string[])[] {
  const sizes = rows[0]?.at.map(({ size }) => formatSize(size)) ?? [];
  return [
    [name, "unit", ...sizes, "slope", "wanted"],
    ...rows.map((row) => [
      row.what,
      row.unit,
      ...row.at.map(({ value }) => (value < 100 ? value.toFixed(2) : value.toFixed(0))),
      row.at.length < 2 ? "" : slopeOf(row).toFixed(2),
      [
        ...(row.slopeMax === undefined ? [] : [`slope ≤ ${row.slopeMax}`]),
        ...(row.max === undefined ? [] : [`≤ ${row.max}`]),
      ].join(", "),
    ]),
  ];
}

export function targetsOf(rows: readonly GrowthRow[]): readonly Target[] {
  return rows.flatMap((row) => [
    ...(row.slopeMax === undefined || row.at.length < 2
      ? []
      : [{ what: `slope: ${row.what}`, value: slopeOf(row), max: row.slopeMax }]),
    ...(row.max === undefined
      ? []
      : [{ what: row.what, value: Math.max(...row.at.map(({ value }) => value)), max: row.max }]),
  ]);
}
