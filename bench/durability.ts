import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { createDriver, type Killed, runKiller } from "./durability/killer.ts";

/** Kills a process in each of many turns: `npx node bench/durability.ts [TURNS]`. */
const turns = Number(process.argv[2] ?? 57);
const folder = mkdtempSync(join(tmpdir(), "rkat-durability-"));
try {
  const store = await openEmbeddedStore(folder);
  report("folder, 3 processes", await runKiller(createDriver(folder, 1_000, store), { turns, others: 2 }));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function report(name: string, killed: readonly Killed[]): void {
  const sum = (of: (one: Killed) => number): number => killed.reduce((total, one) => total + of(one), 0);
  const waits = killed
    .flatMap(({ continuedMs }) => (continuedMs === undefined ? [] : [continuedMs]))
    .sort((a, b) => a - b);
  const at = (share: number): string =>
    `${((waits[Math.floor((waits.length - 1) * share)] ?? 0) / 1_000).toFixed(2)} s`;
  console.log(`durability: ${name}, ${killed.length} turns, one kill -9 in each`);
  console.log(`  ended without a person   ${sum(({ isCompleted }) => Number(isCompleted))} of ${killed.length}`);
  console.log(`  changed hands            ${waits.length}`);
  console.log(`  model answers paid twice ${sum(({ paidTwice }) => paidTwice)}`);
  console.log(`  effects done twice       ${sum(({ effectsTwice }) => effectsTwice)}`);
  console.log(`  effects lost             ${sum(({ effectsLost }) => effectsLost)}`);
  console.log(`  continued after          ${at(0.5)} median, ${at(0.95)} 95th percentile`);
}
