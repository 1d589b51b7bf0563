import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { type LongRun, measureLongRuns } from "../bench/recall-long-run.ts";

const ROUNDS = 3;
const TURNS = 150;
/** A turn with nothing on sends the whole history, so the ratio falls with the length of a run: 3.3 at 600 turns. */
const RATIO_MAX = 10;
const TIMEOUT_MS = 600_000;

const allMs = (run?: LongRun): number => (run?.cpuMs ?? Number.NaN) + (run?.modelMs ?? Number.NaN);

it(
  "[L4] a turn with everything on, vectors included, costs at most ten with nothing on over 150 turns",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "rkat-long-run-"));
    const ratios: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const holders = ["nothing on", "defaults"] as const;
      const [nothing, everything] = await measureLongRuns(folder, { turns: TURNS, output: "log", holders });
      expect(everything?.embedded).toBeGreaterThan(TURNS);
      ratios.push(allMs(everything) / allMs(nothing));
    }
    rmSync(folder, { recursive: true, force: true });
    expect(ratios.sort((a, b) => a - b)[1], String(ratios)).toBeLessThan(RATIO_MAX);
  },
  TIMEOUT_MS,
);
