import { describe, expect, it } from "vitest";
import { createRandom } from "../../../../test/crash/random.ts";
import { byEffort } from "../../../../test/support/effort.ts";
import { testSeed } from "../../../../test/support/seed.ts";
import { dueBy, isRetentionSet, type Keep, type Retention, retentionRule, shortestKeepMs } from "./retention.ts";

const DAY_MS = 86_400_000;
const NOW_MS = 1_000 * DAY_MS;
const aged = (days: number, labels: Readonly<Record<string, string>> = {}) => ({
  updated_at_ms: NOW_MS - days * DAY_MS,
  labels,
});

describe("how long a session is kept", () => {
  const retention: Retention = {
    sessions: 90 * DAY_MS,
    labels: { "team=core": 30 * DAY_MS, "kind=case": 365 * DAY_MS, "hold=legal": "forever" },
  };

  it("[K2] is what is said of all, unless a label says otherwise: shorter, longer or for ever", () => {
    const rulesOf = (labels: Readonly<Record<string, string>>) => retentionRule(retention, labels)?.rule;
    expect(rulesOf({})).toBe("sessions");
    expect(rulesOf({ team: "corner", "team=core": "" })).toBe("sessions");
    expect(rulesOf({ team: "core" })).toBe("team=core");
    expect(rulesOf({ team: "core", kind: "case" })).toBe("kind=case");
    expect(rulesOf({ team: "core", hold: "legal", kind: "case" })).toBe("hold=legal");
    expect(retentionRule({ labels: retention.labels }, { team: "other" })).toBeUndefined();
    expect(retentionRule({ labels: {} }, JSON.parse('{"__proto__": "x", "constructor": "y"}'))).toBeUndefined();
  });

  it("[K2] ends when its last change is longer ago than that, and not before", () => {
    expect(dueBy(aged(90), retention, NOW_MS)).toBeUndefined();
    expect(dueBy({ ...aged(90), updated_at_ms: NOW_MS - 90 * DAY_MS - 1 }, retention, NOW_MS)).toEqual({
      rule: "sessions",
      keep: 90 * DAY_MS,
    });
    expect(dueBy(aged(31, { team: "core" }), retention, NOW_MS)?.rule).toBe("team=core");
    expect(dueBy(aged(999, { hold: "legal" }), retention, NOW_MS)).toBeUndefined();
    expect(dueBy({ ...aged(999), forgotten_whole: true }, retention, NOW_MS)).toBeUndefined();
    // A clock that went back makes nothing old.
    expect(dueBy(aged(-5), retention, NOW_MS)).toBeUndefined();
  });

  it("[K2] is for ever where nothing is said", () => {
    expect(isRetentionSet({ labels: {} })).toBe(false);
    expect(dueBy(aged(999), { labels: {} }, NOW_MS)).toBeUndefined();
    expect(shortestKeepMs({ labels: {} })).toBe(Number.POSITIVE_INFINITY);
    expect(shortestKeepMs(retention)).toBe(30 * DAY_MS);
  });

  it("[K2] is never shorter than the longest of its rules, and no session is due that is younger than the shortest", () => {
    const seed = testSeed();
    const random = createRandom(seed);
    const below = (n: number): number => Math.floor(random() * n);
    const keepOf = (): Keep => (below(5) === 0 ? "forever" : 1 + below(50));
    for (let round = 0; round < byEffort({ usual: 2_000, full: 200_000 }); round += 1) {
      const labels = Object.fromEntries(
        Array.from({ length: below(5) }, () => [`k${below(3)}=v${below(3)}`, keepOf()]),
      );
      const given: Retention = { labels, ...(below(2) === 0 ? {} : { sessions: keepOf() }) };
      const had = Object.fromEntries(Array.from({ length: below(4) }, () => [`k${below(3)}`, `v${below(3)}`]));
      const age = below(60);
      const row = { updated_at_ms: 1_000 - age, labels: had };
      const matching = Object.entries(had).flatMap(([key, value]) => labels[`${key}=${value}`] ?? []);
      const keeps = matching.length > 0 ? matching : [given.sessions ?? "forever"];
      const isDue = keeps.every((keep) => keep !== "forever" && age > keep);
      expect({ seed, round, isDue: dueBy(row, given, 1_000) !== undefined }).toEqual({ seed, round, isDue });
      if (isDue) expect({ seed, round, isOlder: age > shortestKeepMs(given) }).toEqual({ seed, round, isOlder: true });
    }
  });
});
