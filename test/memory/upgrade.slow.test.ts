import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { testSeed } from "../support/seed.ts";
import { runAndKill } from "./lives.ts";
import { chunksTwiceIn, embeddedAgainIn, faultsOf } from "./memory-faults.ts";
import { factWith, openRuntimeOf, wordFor } from "./planted-facts.ts";

const SESSIONS = 20;
const TURNS = 12;
const KILLS = 10;
/** Passages of one commit; a search has a batch made while the work behind it makes another. */
const LOST_MAX = 2 * 16;

const folder = mkdtempSync(join(tmpdir(), "rkat-upgrade-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Weights = "old" | "new";

type Used = Awaited<ReturnType<typeof openRuntimeOf>>;

async function withRuntime<T>(weights: Weights, use: (runtime: Used) => Promise<T>): Promise<T> {
  const runtime = await openRuntimeOf({ folder, life: weights, weights });
  try {
    return await use(runtime);
  } finally {
    await runtime.close();
  }
}

/** Every session says a fact a turn. */
async function fill(runtime: Used): Promise<void> {
  for (let session = 0; session < SESSIONS; session += 1) {
    const { id } = await runtime.createSession(factWith(wordFor(session, 0, 0)));
    for (let turn = 1; turn < TURNS; turn += 1) await runtime.session(id).turn(factWith(wordFor(session, turn, 0)));
  }
}

async function embedAll(runtime: Used): Promise<void> {
  while ((await runtime.dispatch("readMemoryStatus", {})).pending > 0) await runtime.searchMemory("rain");
}

describe("other weights", () => {
  it("[D5] take the place of the old ones while a memory is searched and killed ten times", async () => {
    const seed = testSeed();
    const random = createRandom(seed);
    await withRuntime("old", fill);
    await withRuntime("old", embedAll);
    const words = Array.from({ length: SESSIONS }, (_, session) => wordFor(session, 0, 0));
    writeFileSync(join(folder, "words.txt"), words.join("\n"));
    const { passages } = embeddedAgainIn(folder);
    renameSync(join(folder, "embeddings.txt"), join(folder, "embeddings-old.txt"));

    const told: string[] = [];
    for (let life = 1; life <= KILLS; life += 1) {
      const script = join(import.meta.dirname, "upgrading-process.ts");
      const moments = [
        { what: "searched", countMax: 6 },
        { what: "embedding", countMax: 6 },
      ];
      const args = [folder, String(life)];
      told.push(...(await runAndKill({ script, args, moments, compiled: join(folder, "compiled") }, random)));
    }
    expect({ seed, wrong: told.filter((line) => line.startsWith("wrong")) }).toEqual({ seed, wrong: [] });
    const killedAt = embeddedAgainIn(folder).total;
    expect(killedAt).toBeGreaterThan(0);
    expect(killedAt).toBeLessThan(passages);

    await withRuntime("new", embedAll);
    const faults = await withRuntime("new", (runtime) => faultsOf(runtime, { labels: {} }));
    expect({ seed, faults, twice: await chunksTwiceIn(folder) }).toEqual({ seed, faults: [], twice: [] });
    const { again, total, passages: embedded } = embeddedAgainIn(folder);
    expect({ seed, tooOften: again.filter(({ count }) => count > LOST_MAX) }).toEqual({ seed, tooOften: [] });
    expect(embedded).toBe(passages);

    await withRuntime("new", embedAll);
    expect(embeddedAgainIn(folder).total).toBe(total);
  }, 120_000);
});
