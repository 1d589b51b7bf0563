import { spawn } from "node:child_process";
import { hash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { CheckpointStore } from "@rkat/core/ports/store";
import { createCheckpoints } from "@rkat/core/sessions/checkpoints";
import { foldSession } from "@rkat/core/state/whole-state";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { testSeed } from "../support/seed.ts";
import { below } from "./chances.ts";

const KILLS = byEffort({ usual: 8, full: 60 });
const KILLS_MAX = 10 * KILLS;
/** Otherwise the kills have hit nothing that matters. */
const RESUMED_MIN = KILLS / 4;
const TIMEOUT_MS = 300_000;
const root = mkdtempSync(join(tmpdir(), "rkat-checkpoint-kill-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe("kill -9 of a process that keeps checkpoints", () => {
  it(
    `[F4][F7] at ${KILLS} moments leaves one by which the session is what its log says, or none`,
    async () => {
      const seed = testSeed();
      const random = createRandom(seed);
      const folder = join(root, "state");
      let sessionId: string | undefined;
      let resumed = 0;
      // One that lacks a compaction, or another change of what is shown, says nothing: there are as many kills as it takes.
      for (let kill = 0; kill < KILLS || (resumed < RESUMED_MIN && kill < KILLS_MAX); kill += 1) {
        const begun = await liveAndDie(
          [folder, ...(sessionId === undefined ? [] : [sessionId])],
          1 + below(random, 30),
        );
        sessionId ??= begun;
        const store = await openEmbeddedStore(folder);
        const entries = await store.log.read(sessionId, 1, Number.MAX_SAFE_INTEGER);
        const {
          transcript: _t,
          rewrites: _r,
          compactions: _c,
          holes: _h,
          readOnlyTools: _o,
          ...whole
        } = foldSession(sessionId, entries);
        const state = await createCheckpoints({
          log: store.log,
          store: store.checkpoints as CheckpointStore, // An embedded store has them.
          hash: (text) => hash("sha256", text),
          yieldToEventLoop: () => undefined,
        }).resume(sessionId);
        await store.close();
        if (state === undefined) continue;
        resumed += 1;
        expect({ seed, kill, state }).toEqual({ seed, kill, state: whole });
      }
      expect(resumed).toBeGreaterThanOrEqual(RESUMED_MIN);
    },
    TIMEOUT_MS,
  );
});

const PROCESS = join(import.meta.dirname, "compacting-process.ts");

/** Runs a process that compacts all the time, kills it once it has said so many lines, and tells whose session it was. */
async function liveAndDie(args: readonly string[], linesMax: number): Promise<string> {
  // Compiled once for all kills: most of their time would otherwise be the start of a process.
  const env = { ...process.env, NODE_COMPILE_CACHE: join(root, "compiled") };
  const child = spawn(process.execPath, [PROCESS, ...args], { stdio: ["ignore", "pipe", "inherit"], env });
  const ended = new Promise((resolve) => child.on("close", resolve));
  let sessionId = "";
  let lines = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith("session ")) sessionId = line.slice("session ".length);
    lines += 1;
    if (lines >= linesMax) child.kill("SIGKILL");
  }
  await ended;
  return sessionId;
}
