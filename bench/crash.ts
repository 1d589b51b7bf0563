// Kills a process that appends, again and again, and counts what is missing afterwards.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCrashCycles } from "../test/crash/cycles.ts";
import { createRandom } from "../test/crash/random.ts";
import { publish } from "./report.ts";

const CYCLES = Number(process.env.RKAT_CRASH_CYCLES ?? 2_000);
/** A folder is left behind after this many cycles: the last cycle of one reads everything in it again. */
const CYCLES_PER_FOLDER = 100;

const seed = Number(process.env.RKAT_SEED ?? Date.now() % 1_000_000);
const root = mkdtempSync(join(tmpdir(), "rkat-bench-crash-"));
const options = { cycles: CYCLES_PER_FOLDER, random: createRandom(seed), compiled: join(root, "compiled") };
const total = { cycles: 0, acknowledged: 0, lost: 0, broken: 0, repaired: 0 };
try {
  while (total.cycles < CYCLES) {
    const counts = await runCrashCycles(mkdtempSync(join(root, "state-")), options);
    total.cycles += counts.cycles;
    total.acknowledged += counts.acknowledged;
    total.lost += counts.lost;
    total.broken += counts.broken;
    total.repaired += counts.repaired;
    if (process.stdout.isTTY) process.stdout.write(`\r${total.cycles} of ${CYCLES} cycles`);
  }
} finally {
  rmSync(root, { recursive: true, force: true });
}
await publish({
  name: "crash",
  tables: [
    [
      ["kill -9, seed", "cycles", "acknowledged appends", "events lost", "sessions broken", "torn ends mended"],
      [seed, total.cycles, total.acknowledged, total.lost, total.broken, total.repaired].map(String),
    ],
  ],
  targets: [
    { what: "acknowledged events lost", value: total.lost, max: 0 },
    { what: "sessions that do not open, or not whole", value: total.broken, max: 0 },
  ],
  measured: { seed, ...total },
});
