import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as afterMs } from "node:timers/promises";
import { createForgettingFiles } from "@rkat/node/log/forgetting-files";
import { openRuntime, verifyStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it, vi } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { configWith } from "../support/runtime.ts";
import { testSeed } from "../support/seed.ts";
import { lookFor } from "./look.ts";

const KILLS = byEffort({ usual: 2, full: 40 });
const TIMEOUT_MS = byEffort({ usual: 120_000, full: 1_200_000 });
const root = mkdtempSync(join(tmpdir(), "rkat-prune-kill-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const SECRETS = ["heron-of-kiln-weir", "otter-of-mill-race", "kite-of-long-barn", "wren-of-low-gate"];
const KEPT = "crane-of-far-moor";
const memory = { embedder: "hashing" } as const;
const SHORT = configWith({ memory, retention: { labels: { "keep=short": 1 } } });
const open = (stateFolder: string, config = configWith({ memory })) =>
  openRuntime({ stateFolder, config, model: "offline", toolPreset: "none", env: {}, isShortLived: true });

describe("kill -9 of a process that prunes", () => {
  it(`[K2] at ${KILLS} moments leaves its sessions all there or, once the realm is opened again, all gone`, {
    timeout: TIMEOUT_MS,
  }, async () => {
    const seed = testSeed();
    const random = createRandom(seed);
    const ends = { untouched: 0, finished: 0, resumed: 0 };
    // How long one takes that nobody kills.
    const wholeMs = await pruneAndDie(await newFolder(), Number.POSITIVE_INFINITY);
    for (let life = 0; life < KILLS; life += 1) {
      const folder = await newFolder();
      await pruneAndDie(folder, random() * wholeMs);
      const left = await createForgettingFiles({ folder, warn: () => {} }).unfinished();
      // Opening goes on with it, whatever is configured, and closing waits for that.
      await (await open(folder)).close();
      const there = new Set(lookFor(folder, SECRETS).map(({ text }) => text)).size;
      if (left.length > 0) ends.resumed += 1;
      else ends[there === 0 ? "finished" : "untouched"] += 1;
      const wanted = left.length === 0 && there > 0 ? SECRETS.length : 0;
      expect({ seed, life, begun: left.length, there }).toEqual({ seed, life, begun: left.length, there: wanted });
      expect({ seed, life, ...(await pruneTheRest(folder)) }).toEqual({
        ...{ seed, life, went: wanted, unfinished: 0, wrong: 0, receipts: 1, left: [], kept: 1, problems: [] },
      });
    }
    // Otherwise the kills have hit nothing that matters; two of them may well have.
    if (KILLS > 10) expect({ seed, isHit: ends.resumed > 0 }).toEqual({ seed, isHit: true });
  });
});

/** A realm with sessions that are due at once, and one that is not. */
async function newFolder(): Promise<string> {
  const folder = mkdtempSync(join(root, "realm-"));
  const runtime = await open(folder);
  for (const secret of SECRETS) {
    await runtime.dispatch("createSession", { prompt: `Keep this: ${secret}.`, labels: { keep: "short" } });
  }
  await runtime.dispatch("createSession", { prompt: `Keep this: ${KEPT}.` });
  await runtime.searchHistory("what was kept");
  await runtime.close();
  const madeAt = Date.now();
  await vi.waitUntil(() => Date.now() > madeAt + 2);
  return folder;
}

/** Ends a process so long after it began to prune, or lets it; resolves with how long it pruned. */
async function pruneAndDie(folder: string, killMs: number): Promise<number> {
  const script = join(import.meta.dirname, "pruning-process.ts");
  const child = spawn(process.execPath, [script, folder], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "close");
  let [beganMs, prunedMs] = [0, 0];
  for await (const chunk of child.stdout) {
    const reported = String(chunk);
    if (reported.includes("pruning")) {
      beganMs = performance.now();
      if (killMs !== Number.POSITIVE_INFINITY) void afterMs(killMs).then(() => child.kill("SIGKILL"));
    }
    if (reported.includes("pruned")) prunedMs = performance.now();
  }
  await ended;
  return prunedMs - beganMs;
}

async function pruneTheRest(folder: string) {
  const runtime = await open(folder, SHORT);
  const { sessions } = await runtime.dispatch("prune", {});
  const { forgettings, unfinished } = await runtime.dispatch("listForgettings", {});
  await runtime.close();
  return {
    went: sessions.length,
    unfinished,
    wrong: forgettings.filter(({ valid }) => !valid).length,
    receipts: new Set(forgettings.map(({ receipt }) => JSON.parse(receipt).forgetting_id)).size,
    left: lookFor(folder, SECRETS),
    kept: new Set(lookFor(folder, [KEPT]).map(({ text }) => text)).size,
    problems: (await verifyStore(folder)).problems,
  };
}
