import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { testSeed } from "../support/seed.ts";
import { rememberAndDie } from "./lives.ts";
import { chunksTwiceIn, embeddedAgainIn, faultsOf } from "./memory-faults.ts";
import { openRuntimeOf } from "./planted-facts.ts";

const KILLS = byEffort({ usual: 30, full: 100 });
const LANES = 2;
/** After so many lives what they left is looked at, and new sessions are begun. */
const LIVES_PER_ERA = 10;
/** So many passages are kept in one commit: those under way when the kill came may be embedded again. */
const BATCH = 16;
/** A process of this test asks two searches at a time; each has a batch made, and so has the work behind them. */
const MAKERS = 3;
const TIMEOUT_MS = 600_000;
const root = mkdtempSync(join(tmpdir(), "rkat-memory-kill-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe("kill -9 of a process that remembers", () => {
  it(
    `[D1] [D8] at ${KILLS} moments leaves every compaction findable, nothing twice, and no vector to be made again`,
    async () => {
      const seed = testSeed();
      const lanes = await Promise.all(Array.from({ length: LANES }, (_, lane) => runLane(lane, seed + lane)));
      for (const { faults, twice, again, afterTheLast } of lanes) {
        const tooOften = again.filter(({ count }) => count > MAKERS * BATCH);
        expect({ seed, faults, twice, tooOften }).toEqual({ seed, faults: [], twice: [], tooOften: [] });
        expect({ seed, afterTheLast }).toEqual({ seed, afterTheLast: 0 });
      }
      // Otherwise the kills have hit nothing that matters.
      const sum = (of: (lane: Lane) => number): number => lanes.reduce((all, lane) => all + of(lane), 0);
      expect(sum(({ compactions }) => compactions)).toBeGreaterThan(KILLS / 2);
      expect(sum(({ again }) => again.length)).toBeGreaterThan(KILLS / 20);
      expect(sum(({ foundBehind }) => foundBehind)).toBeGreaterThan(KILLS / 10);
    },
    TIMEOUT_MS,
  );
});

interface Lane {
  /** Compactions that were acknowledged. */
  readonly compactions: number;
  /** What was not found as it should be. */
  readonly faults: readonly string[];
  readonly twice: readonly string[];
  readonly again: ReturnType<typeof embeddedAgainIn>["again"];
  /** Passages embedded by a process that had nothing new to embed. */
  readonly afterTheLast: number;
  /** Lives that began with texts which the one before had not taken in. */
  readonly foundBehind: number;
}

/** Lets one life after the other be killed in the same folder, and looks at what they leave. */
async function runLane(lane: number, seed: number): Promise<Lane> {
  const folder = join(root, String(lane));
  mkdirSync(folder);
  const random = createRandom(seed);
  const lines: string[] = [];
  const faults: string[] = [];
  for (let life = 1; life <= KILLS / LANES; life += 1) {
    const era = String(Math.ceil(life / LIVES_PER_ERA));
    lines.push(...(await rememberAndDie({ folder, life, era, compiled: join(root, "compiled") }, random)));
    if (life % LIVES_PER_ERA === 0) faults.push(...(await faultsIn(folder, { life, labels: { era } })));
  }
  const acknowledged = lines.flatMap((line) => /^compacted (.+)/.exec(line)?.[1] ?? []);
  faults.push(...(await faultsIn(folder, { life: KILLS, labels: {}, acknowledged })));
  const { total } = embeddedAgainIn(folder);
  faults.push(...(await faultsIn(folder, { life: KILLS + 1, labels: { era: "1" } })));
  const { again, total: totalAfter } = embeddedAgainIn(folder);
  return {
    compactions: acknowledged.length,
    faults,
    twice: await chunksTwiceIn(folder),
    again,
    afterTheLast: totalAfter - total,
    foundBehind: lines.filter((line) => /^found [1-9]\d* behind/.test(line)).length,
  };
}

/** What a process does not find that is not killed and embeds all that the others left. */
async function faultsIn(
  folder: string,
  { life, ...asked }: { life: number } & Parameters<typeof faultsOf>[1],
): Promise<readonly string[]> {
  const runtime = await openRuntimeOf({ folder, life: `after ${life}` });
  try {
    const faults = await faultsOf(runtime, asked);
    while ((await runtime.dispatch("readMemoryStatus", {})).pending > 0) await runtime.searchMemory("rain");
    return faults;
  } finally {
    await runtime.close();
  }
}
