import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { testSeed } from "../support/seed.ts";
import { type CycleCounts, runCrashCycles } from "./cycles.ts";
import { createRandom } from "./random.ts";

const CYCLES = byEffort({ quick: 10, usual: 60, full: 200 });
const DATABASE_CYCLES = byEffort({ quick: 3, usual: 10, full: 200 });
const LANES = 2;
const root = mkdtempSync(join(tmpdir(), "rkat-crash-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Several places at once, each with its share of the cycles. */
async function expectNothingLost(newPlace: () => Promise<string>, cycles: number): Promise<void> {
  const seed = testSeed();
  const options = { cycles: cycles / LANES, random: createRandom(seed), compiled: join(root, "compiled") };
  const lanes: readonly CycleCounts[] = await Promise.all(
    Array.from({ length: LANES }, async () => runCrashCycles(await newPlace(), options)),
  );
  for (const { acknowledged, lost, broken } of lanes) {
    expect({ seed, lost, broken }).toEqual({ seed, lost: 0, broken: 0 });
    expect(acknowledged).toBeGreaterThan(cycles);
  }
}

describe("kill -9", () => {
  it(`[F7] at ${CYCLES} random moments loses nothing that was acknowledged, and every session opens`, async () => {
    await expectNothingLost(async () => mkdtempSync(join(root, "lane-")), CYCLES);
  }, 300_000);
});

withPostgres("kill -9 of processes that write to a database", () => {
  it(`[F11] [F7] at ${DATABASE_CYCLES} random moments loses nothing that was acknowledged, and doubles nothing`, async () => {
    await expectNothingLost(() => databaseFor("crash"), DATABASE_CYCLES);
  }, 300_000);
});
