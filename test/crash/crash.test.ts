import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { runCrashCycles } from "./cycles.ts";
import { createRandom } from "./random.ts";

const CYCLES = byEffort({ usual: 60, full: 200 });
const LANES = 2;
const root = mkdtempSync(join(tmpdir(), "rkat-crash-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe("kill -9", () => {
  it(`[F7] at ${CYCLES} random moments loses nothing that was acknowledged, and every session opens`, async () => {
    const seed = Date.now() % 1_000_000;
    const random = createRandom(seed);
    const lanes = await Promise.all(
      Array.from({ length: LANES }, () => runCrashCycles(mkdtempSync(join(root, "lane-")), CYCLES / LANES, random)),
    );
    for (const { acknowledged, lost, broken } of lanes) {
      expect({ seed, lost, broken }).toEqual({ seed, lost: 0, broken: 0 });
      expect(acknowledged).toBeGreaterThan(CYCLES);
    }
  }, 300_000);
});
