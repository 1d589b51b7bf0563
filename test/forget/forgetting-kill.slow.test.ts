import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { verifyReceipt } from "@rkat/core/stores/receipts";
import { createForgettingFiles } from "@rkat/node/log/forgetting-files";
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { testSeed } from "../support/seed.ts";
import { lookFor } from "./look.ts";

const KILLS = byEffort({ usual: 6, full: 300 });
const WORDS_MAX = 40;
const folder = mkdtempSync(join(tmpdir(), "rkat-forgetting-kill-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("kill -9 of a process that forgets", () => {
  it(`[D9] at ${KILLS} moments loses no job and no receipt, and leaves nothing of what has ended`, async () => {
    const seed = testSeed();
    const random = createRandom(seed);
    const said = {
      begun: new Set<string>(),
      ending: new Set<string>(),
      ended: new Set<string>(),
      kept: new Set<string>(),
    };
    for (let life = 0; life < KILLS; life += 1) {
      for (const word of await liveAndDie(life, 1 + Math.floor(random() * WORDS_MAX))) {
        const [what = "", id = ""] = word.split(" ");
        if (what in said) said[what as keyof typeof said].add(id);
      }
      const torn: string[] = [];
      const kept = createForgettingFiles({ folder, warn: (sentence) => torn.push(sentence) });
      const there = new Set((await kept.unfinished()).map(({ id }) => id));
      const receipts = await kept.receipts();
      const lost = [...said.begun].filter((id) => !said.ending.has(id) && !there.has(id));
      const back = [...said.ended].filter((id) => there.has(id));
      const unsigned = receipts.filter((receipt) => !verifyReceipt(receipt));
      const ids = new Set(receipts.map(({ receipt }) => JSON.parse(receipt).id));
      const missing = [...said.kept].filter((id) => !ids.has(id));
      expect({ seed, lost, back, unsigned, missing }).toEqual({ seed, lost: [], back: [], unsigned: [], missing: [] });
    }
    const kept = createForgettingFiles({ folder, warn: () => {} });
    for (const { id } of await kept.unfinished()) await kept.end(id);
    expect({ seed, left: lookFor(folder, ["Ottilie Heron"]) }).toEqual({ seed, left: [] });
    // Otherwise the kills have hit nothing that matters.
    expect(said.begun.size).toBeGreaterThan(KILLS / 2);
  });
});

/** What a process told before it was killed, at a word that nobody knows before. */
async function liveAndDie(life: number, words: number): Promise<readonly string[]> {
  const script = join(import.meta.dirname, "forgetting-process.ts");
  const child = spawn(process.execPath, [script, folder, String(life)], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "close");
  let reported = "";
  for await (const chunk of child.stdout) {
    reported += String(chunk);
    if (reported.split("\n").length > words) child.kill("SIGKILL");
  }
  await ended;
  // The last line may have been cut off.
  return reported.split("\n").slice(0, -1);
}
