import { median } from "./report.ts";

/** What some work took: by the clock on the wall, which counts others' work, and in CPU time of all threads of this process. */
export interface Time {
  readonly wallMs: number;
  readonly cpuMs: number;
}

export async function timeOf(work: () => Promise<unknown>): Promise<Time> {
  const startedMs = performance.now();
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return { wallMs: performance.now() - startedMs, cpuMs: (user + system) / 1_000 };
}

export function medianTime(times: readonly Time[]): Time {
  return { wallMs: median(times.map(({ wallMs }) => wallMs)), cpuMs: median(times.map(({ cpuMs }) => cpuMs)) };
}

export interface Spread {
  readonly p50: number;
  readonly p99: number;
}

export function spreadOf(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  return { p50: median(sorted), p99: sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN };
}

export function formatSpread({ p50, p99 }: Spread): string {
  const digits = p50 < 10 ? 2 : 1;
  return `${p50.toFixed(digits)} / ${p99.toFixed(digits)}`;
}
