import { z } from "zod";

const UNIT_MS: ReadonlyMap<string, number> = new Map([
  ["ms", 1],
  ["s", 1_000],
  ["sec", 1_000],
  ["secs", 1_000],
  ["m", 60_000],
  ["min", 60_000],
  ["mins", 60_000],
  ["h", 3_600_000],
  ["hr", 3_600_000],
  ["d", 86_400_000],
]);

/** Milliseconds of a written duration such as "30s", "5m" or "1h 30m"; undefined when it is not one. */
export function parseDuration(text: string): number | undefined {
  const compact = text.trim().toLowerCase().replace(/\s+/g, "");
  if (!/^(\d+(\.\d+)?[a-z]+)+$/.test(compact)) return undefined;
  let totalMs = 0;
  for (const [, amount, unit] of compact.matchAll(/(?<![\d.])(\d+(?:\.\d+)?)([a-z]+)/g)) {
    const unitMs = UNIT_MS.get(unit ?? "");
    if (unitMs === undefined) return undefined;
    totalMs += Number(amount) * unitMs;
  }
  const ms = Math.round(totalMs);
  return Number.isSafeInteger(ms) ? ms : undefined;
}

/** A duration of whole milliseconds as it is written, in the largest unit that says it exactly. */
export function spellDuration(ms: number): string {
  const unit = ["d", "h", "m", "s"].find((name) => ms % (UNIT_MS.get(name) ?? 1) === 0) ?? "ms";
  return `${ms / (UNIT_MS.get(unit) ?? 1)}${unit}`;
}

const HumanDuration = z.string().transform((text, issue) => {
  const ms = parseDuration(text);
  if (ms !== undefined) return ms;
  issue.addIssue({ code: "custom", message: `"${text}" is not a duration; write it like 30s, 5m or 1h30m` });
  return z.NEVER;
});

const SplitDuration = z
  .object({
    secs: z.number().int().nonnegative().describe("whole seconds"),
    nanos: z.number().int().nonnegative().default(0).describe("nanoseconds besides"),
  })
  .transform(({ secs, nanos }) => secs * 1_000 + Math.round(nanos / 1_000_000));

/** A duration as a string ("30s") or as `{secs, nanos}`, in milliseconds. */
export const Duration = z.union([HumanDuration, SplitDuration], {
  error: "expected a duration like 30s, 5m or 1h30m, or {secs, nanos}",
});
