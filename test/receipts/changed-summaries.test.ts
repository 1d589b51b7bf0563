import { describe, expect, it } from "vitest";
import { listedOf, readSummaries } from "./changed-summaries.ts";

const NOT_KEPT_SHARE_MAX = 0.01;

describe("a receipt of a summary", () => {
  it.each(["tuned", "held-out"] as const)(
    "[J5] that changes one specific does not count it as kept (%s)",
    async (set) => {
      const summaries = readSummaries(set);
      const kept: string[] = [];
      const silent: string[] = [];
      for (const one of summaries) {
        const listed = await listedOf(one);
        if (listed.kept.length > 0) kept.push(`${one.own} | ${one.summary}`);
        const named = [...listed.missing, ...listed.invented, ...listed.unverified];
        if (named.length === 0) silent.push(`${one.own} | ${one.summary}`);
      }
      expect(summaries.length).toBe(60);
      expect({ kept, silent }).toEqual({ kept: [], silent: [] });
    },
  );

  it.each(["tuned", "held-out"] as const)(
    "[R2] that says something else of a specific does not count it as kept (%s)",
    async (set) => {
      const summaries = readSummaries(`meaning-${set}`);
      const listed = await Promise.all(summaries.map(async (one) => ({ ...one, ...(await listedOf(one)) })));
      expect(summaries.length).toBe(set === "tuned" ? 102 : 50);
      expect(listed.filter(({ kept, missing }) => kept.length + missing.length === 0)).toEqual([]);
      expect(listed.filter(({ kept }) => kept.length > 0)).toEqual([]);
    },
  );

  it.each(["tuned", "held-out"] as const)(
    "[R2] that says the same of a specific counts it as kept (%s)",
    async (set) => {
      const listed = await Promise.all(readSummaries(`kept-${set}`).map(listedOf));
      const missing = listed.flatMap((one) => one.missing);
      const checks = missing.length + listed.flatMap(({ kept }) => kept).length;
      expect(checks).toBeGreaterThan(50);
      expect(missing.length / checks, missing.join("\n")).toBeLessThanOrEqual(NOT_KEPT_SHARE_MAX);
    },
  );

  it("[J5] that says the same in other words misses and invents nothing", async () => {
    const summaries = readSummaries("fair");
    const listed = await Promise.all(summaries.map(listedOf));
    expect(summaries.length).toBe(12);
    expect(listed.flatMap(({ missing, invented }) => [...missing, ...invented])).toEqual([]);
  });
});
