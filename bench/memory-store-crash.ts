// Kills a process that adds to its memory, again and again, and counts what is missing afterwards.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { folderPlace, runMemoryCycles } from "../test/crash/memory-cycles.ts";
import { createRandom } from "../test/crash/random.ts";
import { publish } from "./report.ts";

const CYCLES = Number(process.env.RKAT_CRASH_CYCLES ?? 1_000);
/** A folder is left behind after this many cycles: each of them reads everything in it again. */
const CYCLES_PER_FOLDER = 50;

const seed = Number(process.env.RKAT_SEED ?? Date.now() % 1_000_000);
const random = createRandom(seed);
const root = mkdtempSync(join(tmpdir(), "rkat-bench-memory-crash-"));
const total = { cycles: 0, acknowledged: 0, lost: 0, broken: 0, missing: 0 };
try {
  while (total.cycles < CYCLES) {
    const cycles = Math.min(CYCLES_PER_FOLDER, CYCLES - total.cycles);
    const counts = await runMemoryCycles(folderPlace(mkdtempSync(join(root, "state-"))), cycles, random);
    total.cycles += counts.cycles;
    total.acknowledged += counts.acknowledged;
    total.lost += counts.lost;
    total.broken += counts.broken;
    total.missing += counts.missing;
    if (process.stdout.isTTY) process.stdout.write(`\r${total.cycles} of ${CYCLES} cycles`);
  }
} finally {
  rmSync(root, { recursive: true, force: true });
}
await publish({
  name: "memory-store-crash",
  tables: [
    [
      ["kill -9, seed", "cycles", "acknowledged batches", "lost", "sessions broken", "vectors to be made again"],
      [seed, total.cycles, total.acknowledged, total.lost, total.broken, total.missing].map(String),
    ],
  ],
  targets: [
    { what: "acknowledged batches lost", value: total.lost, max: 0 },
    { what: "sessions that are not whole", value: total.broken, max: 0 },
  ],
  measured: { seed, ...total },
});
