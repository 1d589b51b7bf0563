import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** What a server's process says of itself. */
export interface Reading {
  readonly name: string;
  readonly pid: number;
  /** How often its loop was looked at. */
  readonly delays: number;
  /** How late the loop was, at each of `DELAY_POINTS`. */
  readonly delayMs: readonly number[];
  readonly rssMax: number;
  readonly heapMax: number;
  readonly rss: number;
  readonly heapUsed: number;
  /** File descriptors that are open. */
  readonly files: number;
  readonly resources: Readonly<Record<string, number>>;
}

/** Percentiles that stand for a whole distribution, denser where it matters. */
export const DELAY_POINTS: readonly number[] = [
  ...Array.from({ length: 19 }, (_, index) => 2.5 + index * 5),
  ...Array.from({ length: 9 }, (_, index) => 95.5 + index * 0.5),
  100,
];

/** What all processes of a server came to, those that were killed and those that took over from them. */
export interface ServerRun {
  readonly name: string;
  readonly processes: number;
  readonly delayMs: { readonly p50: number; readonly p99: number; readonly max: number };
  readonly rssMax: number;
  readonly heapMax: number;
}

export function readReadings(folder: string): readonly Reading[] {
  const files = readdirSync(folder).filter((file) => file.endsWith(".json"));
  return files.map((file) => JSON.parse(readFileSync(join(folder, file), "utf8")));
}

export function livesOf(readings: readonly Reading[]): readonly ServerRun[] {
  const names = [...new Set(readings.map(({ name }) => name))].sort();
  return names.map((name) => {
    const own = readings.filter((reading) => reading.name === name);
    const max = (of: (reading: Reading) => number): number => Math.max(...own.map(of));
    return {
      name,
      processes: own.length,
      delayMs: { ...merged(own), max: max(({ delayMs }) => delayMs.at(-1) ?? 0) },
      rssMax: max(({ rssMax }) => rssMax),
      heapMax: max(({ heapMax }) => heapMax),
    };
  });
}

/** Each point of a process stands for the share of its looks between it and the point before. */
function merged(readings: readonly Reading[]): { readonly p50: number; readonly p99: number } {
  const points = readings.flatMap(({ delays, delayMs }) =>
    delayMs.map((ms, index) => {
      const share = ((DELAY_POINTS[index] ?? 100) - (DELAY_POINTS[index - 1] ?? 0)) / 100;
      return { ms, weight: delays * share };
    }),
  );
  const sorted = points.toSorted((one, other) => one.ms - other.ms);
  const all = sorted.reduce((sum, { weight }) => sum + weight, 0);
  const at = (share: number): number => {
    let below = 0;
    for (const { ms, weight } of sorted) {
      below += weight;
      if (below >= all * share) return ms;
    }
    return 0;
  };
  return { p50: at(0.5), p99: at(0.99) };
}
