import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { testSeed } from "../support/seed.ts";
import { folderPlace, runMemoryCycles } from "./memory-cycles.ts";
import { createRandom } from "./random.ts";

const CYCLES = byEffort({ usual: 24, full: 60 });
const LANES = 2;
const root = mkdtempSync(join(tmpdir(), "rkat-memory-crash-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe("kill -9 of a process that adds to its memory", () => {
  it(`[D1] at ${CYCLES} random moments leaves every batch whole or absent, and every vector true or missing`, async () => {
    const seed = testSeed();
    const random = createRandom(seed);
    const lanes = await Promise.all(
      Array.from({ length: LANES }, () =>
        runMemoryCycles(folderPlace(mkdtempSync(join(root, "lane-"))), CYCLES / LANES, random),
      ),
    );
    for (const { acknowledged, lost, broken } of lanes) {
      expect({ seed, lost, broken }).toEqual({ seed, lost: 0, broken: 0 });
      expect(acknowledged).toBeGreaterThan(CYCLES);
    }
  }, 300_000);
});
