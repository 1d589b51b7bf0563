import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as afterMs } from "node:timers/promises";
import { afterAll, describe, expect, it, vi } from "vitest";
import { openRuntime, verifyStore } from "../../src/runtime-on-disk.ts";
import { createForgettingFiles } from "../../src/stores/embedded/forgetting-files.ts";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { configWith } from "../support/runtime.ts";
import { lookFor } from "./look.ts";

const KILLS = byEffort({ usual: 2, full: 40 });
const TIMEOUT_MS = byEffort({ usual: 120_000, full: 1_200_000 });
const SESSIONS = 6;
const stateFolder = mkdtempSync(join(tmpdir(), "rkat-prune-kill-"));
afterAll(() => rmSync(stateFolder, { recursive: true, force: true }));

const memory = { embedder: "hashing" } as const;
/** What is kept for ever here: only the process that is killed prunes. */
const open = (config = configWith({ memory })) =>
  openRuntime({ stateFolder, config, model: "offline", toolPreset: "none", env: {}, isBrief: true });

describe("kill -9 of a process that prunes", () => {
  it(`[K2] at ${KILLS} moments leaves its sessions all there or, once the realm is opened again, all gone`, {
    timeout: TIMEOUT_MS,
  }, async () => {
    const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
    const random = createRandom(seed);
    const gone: string[] = [];
    let begun = 0;
    // How long one takes that nobody kills.
    const wholeMs = await pruneAndDie((await saySecrets("whole")).length, Number.POSITIVE_INFINITY);
    for (let life = 0; life < KILLS; life += 1) {
      const secrets = await saySecrets(`life-${life}`);
      await pruneAndDie(secrets.length, random() * wholeMs);
      const left = await createForgettingFiles({ folder: stateFolder, warn: () => {} }).unfinished();
      begun += left.length;
      // Opening goes on with it, and closing waits for that.
      await (await open()).close();
      const there = new Set(lookFor(stateFolder, secrets).map(({ text }) => text));
      expect({ seed, life, isWhole: [0, SESSIONS].includes(there.size) }).toEqual({ seed, life, isWhole: true });
      if (left.length > 0) expect({ seed, life, there: there.size }).toEqual({ seed, life, there: 0 });
      if (there.size === 0) gone.push(...secrets);
    }
    const runtime = await open(configWith({ memory, retention: { labels: { "keep=short": 1 } } }));
    await runtime.dispatch("prune", { limit: 1_000 });
    const { forgettings, unfinished } = await runtime.dispatch("listForgettings", {});
    expect({ seed, unfinished, wrong: forgettings.filter(({ valid }) => !valid) }).toEqual({
      ...{ seed, unfinished: 0, wrong: [] },
    });
    expect((await runtime.dispatch("prune", { dry_run: true })).sessions).toEqual([]);
    await runtime.close();
    expect({ seed, left: lookFor(stateFolder, ["secret-of"]) }).toEqual({ seed, left: [] });
    expect(new Set(lookFor(stateFolder, KEPT).map(({ text }) => text)).size).toBe(KEPT.length);
    expect(await verifyStore(stateFolder)).toMatchObject({ problems: [] });
    // Otherwise the kills have hit nothing that matters; two of them may well have.
    if (KILLS > 10) expect({ seed, isHit: begun > 0 && gone.length > 0 }).toEqual({ seed, isHit: true });
  });
});

const KEPT: string[] = [];

/** Sessions that are due at once, and one that is not. */
async function saySecrets(name: string): Promise<readonly string[]> {
  const runtime = await open();
  const secrets = Array.from({ length: SESSIONS }, (_, number) => `secret-of-${name}-${number}-heron`);
  for (const secret of secrets) {
    await runtime.dispatch("createSession", { prompt: `Keep this: ${secret}.`, labels: { keep: "short" } });
  }
  KEPT.push(`otter-of-${name}`);
  await runtime.dispatch("createSession", { prompt: `Keep this: otter-of-${name}.` });
  await runtime.searchHistory("what was kept");
  await runtime.close();
  const madeAt = Date.now();
  await vi.waitUntil(() => Date.now() > madeAt + 2);
  return secrets;
}

/** Ends a process so long after it began to prune, or lets it; resolves with how long it pruned. */
async function pruneAndDie(sessions: number, killMs: number): Promise<number> {
  expect(sessions).toBe(SESSIONS);
  const script = join(import.meta.dirname, "pruning-process.ts");
  const child = spawn(process.execPath, [script, stateFolder], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "close");
  let [beganMs, prunedMs] = [0, 0];
  for await (const chunk of child.stdout) {
    const told = String(chunk);
    if (told.includes("pruning")) {
      beganMs = performance.now();
      if (killMs !== Number.POSITIVE_INFINITY) void afterMs(killMs).then(() => child.kill("SIGKILL"));
    }
    if (told.includes("pruned")) prunedMs = performance.now();
  }
  await ended;
  return prunedMs - beganMs;
}
