import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Agents } from "@rkat/core/agents/agents";
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { testSeed } from "../support/seed.ts";
import { openRuntimeOf } from "./open-life.ts";

const KILLS = byEffort({ usual: 30, full: 100 });
const MEMORIES = byEffort({ usual: 900, full: 1_500 });
const TIMEOUT_MS = 300_000;
const PROCESS = join(import.meta.dirname, "living-process.ts");
const root = mkdtempSync(join(tmpdir(), "rkat-agent-kill-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe("kill -9 of a process in which an agent lives", () => {
  it(
    `[E3] [E7] [E8] at ${KILLS} moments changes nothing in what its life comes to`,
    async () => {
      const seed = testSeed();
      const random = createRandom(seed);
      const folder = join(root, "state");
      let acknowledged = 0;
      for (let kill = 0; kill < KILLS; kill += 1) {
        // Some die right after they have begun; the later ones may find nothing left to add, and are killed all the same.
        const lived = await live(folder, Math.floor((random() * 2 * MEMORIES) / KILLS));
        expect({ seed, kill, isLost: lived.had < acknowledged }).toEqual({ seed, kill, isLost: false });
        acknowledged = Math.max(acknowledged, lived.added);
      }
      const last = await live(folder, Number.POSITIVE_INFINITY);
      expect(last.isDone).toBe(true);

      const whole = openRuntimeOf();
      for (let count = 1; count <= MEMORIES; count += 1) {
        await whole.operations.remember({ agent: "ada", content: `Memory ${count}.` }, {});
      }
      await settled(whole);
      const killed = openRuntimeOf(folder);
      expect({ seed, ...(await lifeOf(killed)) }).toEqual({ seed, ...(await lifeOf(whole)) });
      const { compactions } = await killed.operations.readAgentStatus({ agent: "ada" }, {});
      await killed.close();
      await whole.close();
      expect(faultsIn(join(folder, ".rkat", "agents", "ada"), compactions)).toEqual([]);
    },
    TIMEOUT_MS,
  );
});

/** Starts a process and kills it after so many memories, or lets it end. */
async function live(folder: string, memories: number): Promise<{ had: number; added: number; isDone: boolean }> {
  const child = spawn(process.execPath, [PROCESS, folder, String(MEMORIES)], { stdio: ["ignore", "pipe", "inherit"] });
  const lived = { had: 0, added: 0, isDone: false };
  const gone = new Promise((resolve) => child.on("close", resolve));
  let left = memories;
  for await (const line of createInterface({ input: child.stdout })) {
    const [what, number] = line.split(" ");
    if (what === "has") lived.had = Number(number);
    if (what === "added") lived.added = Number(number);
    if (what === "done") lived.isDone = true;
    if (what === "added") left -= 1;
    if (left <= 0) child.kill("SIGKILL");
  }
  await gone;
  return lived;
}

async function settled({ operations }: Agents): Promise<void> {
  for (;;) {
    const { compaction_due, compaction_running } = await operations.readAgentStatus({ agent: "ada" }, {});
    if (!compaction_due && !compaction_running) return;
    await new Promise(setImmediate);
  }
}

/** Everything about the life that does not depend on when it was lived. */
async function lifeOf({ operations }: Agents) {
  const { last_compaction_at: _, ...status } = await operations.readAgentStatus({ agent: "ada" }, {});
  const { immediate, prompt } = await operations.readAgentContext({ agent: "ada", immediate: MEMORIES }, {});
  const { summaries } = await operations.readAgentHistory({ agent: "ada", limit: 200 }, {});
  // Where in the log a compaction stands follows from how many memories came while it was made.
  const history = summaries.map(({ seq: _seq, created_at: _at, ...summary }) => summary);
  return { status, history, memories: immediate.map(({ seq, content }) => `${seq} ${content}`), prompt };
}

/** What is missing among the files. */
function faultsIn(folder: string, compactions: number): readonly string[] {
  const faults: string[] = [];
  const memories = readdirSync(join(folder, "memories"));
  if (memories.length !== MEMORIES) faults.push(`${memories.length} files of ${MEMORIES} memories`);
  for (const name of memories) {
    const text = readFileSync(join(folder, "memories", name), "utf8");
    if (!text.endsWith(`Memory ${Number(name.replace(".md", ""))}.`)) faults.push(`${name} says ${text}`);
  }
  const copies = readdirSync(join(folder, "summaries")).filter((name) => name.startsWith("recent-"));
  if (copies.length !== compactions) faults.push(`${copies.length} copies of ${compactions} summaries`);
  return faults;
}
