import { parseArgs } from "node:util";

const ALL = "10k,100k,1m";
/** A million entries take minutes: whoever runs all benches, or only sees whether they run, is spared them. */
const SHORT = "1k,10k";
const UNITS: Readonly<Record<string, number>> = { "": 1, k: 1_000, m: 1_000_000 };

/** Numbers of entries to measure at, ascending: `--sizes 10k,100k,1m`. */
export function sizesAsked(): readonly number[] {
  // The other options are the bench's own.
  const { values } = parseArgs({ options: { sizes: { type: "string" } }, strict: false });
  const isShort = process.env.npm_lifecycle_event === "bench" || process.argv.includes("--no-assert");
  const asked = typeof values.sizes === "string" ? values.sizes : isShort ? SHORT : ALL;
  return asked
    .split(",")
    .map((size) => toSize("--sizes", size))
    .sort((a, b) => a - b);
}

export function toSize(option: string, text: string): number {
  const [, digits, unit = ""] = /^(\d+)([km]?)$/i.exec(text.trim()) ?? [];
  if (digits === undefined) throw new Error(`${option}: ${text} is no size; write 10k,100k,1m`);
  return Number(digits) * (UNITS[unit.toLowerCase()] ?? 1);
}

export function formatSize(size: number): string {
  if (size >= 1_000_000) return `${size / 1_000_000}M`;
  return size >= 1_000 ? `${size / 1_000}k` : String(size);
}
