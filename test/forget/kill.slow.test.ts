import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { openRuntime, verifyStore } from "@rkat/node/open-runtime";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { testSeed } from "../support/seed.ts";
import { lookFor } from "./look.ts";
import { createTalkingModel, embedder, lookUp, OFTEN, plantSecrets, secretFor } from "./planted-secrets.ts";

const KILLS = byEffort({ usual: 6, full: 100 });
const TIMEOUT_MS = byEffort({ usual: 300_000, full: 3_000_000 });
const SECRETS = 14;
const root = mkdtempSync(join(tmpdir(), "rkat-forget-kill-"));
const planted = join(root, "planted");
afterAll(() => rmSync(root, { recursive: true, force: true }));

const open = (stateFolder: string) =>
  openRuntime({
    stateFolder,
    model: createTalkingModel(),
    compaction: OFTEN,
    memory: { embedder },
    tools: [lookUp],
    toolPreset: "none",
    env: {},
  });

beforeAll(async () => {
  const runtime = await open(planted);
  await plantSecrets(runtime, { secrets: SECRETS, sessions: 2 });
  await runtime.searchHistory("the code");
  await runtime.close();
}, TIMEOUT_MS);

/** Lets a process forget a text and kill itself at a call; how many calls it made where it was not killed. */
async function forgetAndDie(
  folder: string,
  secret: string,
  dieAt: number,
  moment: "before" | "after",
): Promise<number> {
  const script = join(import.meta.dirname, "forget-and-die-process.ts");
  const words = [script, folder, secret, String(dieAt), moment];
  const env = { ...process.env, NODE_COMPILE_CACHE: join(root, "compiled") };
  try {
    return Number((await promisify(execFile)(process.execPath, words, { env })).stdout);
  } catch (error) {
    expect(error).toMatchObject({ signal: "SIGKILL" });
    return 0;
  }
}

/** Seeds that once failed: the text stayed in files for people, which the process that forgets does not write. */
const FAILED_ONCE = [71_159];

describe("kill -9 of a process that forgets a text", { timeout: TIMEOUT_MS }, () => {
  it.each([
    ["prompt", 0],
    ["caption", 2],
    ["label", 12],
  ])(
    "[D9] one that is not killed, and writes no files for people, leaves no %s in those that are there",
    async (_, number) => {
      const folder = join(root, `finished-${number}`);
      cpSync(planted, folder, { recursive: true });
      await forgetAndDie(folder, secretFor(number), 0, "before");
      expect(lookFor(folder, [secretFor(number)])).toEqual([]);
      const runtime = await open(folder);
      const { forgettings } = await runtime.dispatch("listForgettings", {});
      await runtime.close();
      expect(forgettings.map(({ receipt }) => JSON.parse(receipt).scan.matches)).toEqual([0]);
    },
  );

  it.each([...new Set([...FAILED_ONCE, testSeed()])])(
    `[D9] at ${KILLS} of its calls: it is finished, or as if nothing was asked, once the folder is opened again, seed %i`,
    async (seed) => {
      const random = createRandom(seed);
      const number = 2 * Math.floor((random() * SECRETS) / 2);
      const [secret, other] = [secretFor(number), secretFor(number + 1)];
      const whole = join(root, `whole-${seed}`);
      cpSync(planted, whole, { recursive: true });
      const calls = await forgetAndDie(whole, secret, 0, "before");
      expect(calls).toBeGreaterThan(20);
      const ends = { forgotten: 0, untouched: 0 };
      for (let kill = 0; kill < KILLS; kill += 1) {
        const folder = join(root, `kill-${kill}`);
        cpSync(planted, folder, { recursive: true });
        const dieAt = 1 + Math.floor(random() * calls);
        const moment = random() < 0.5 ? "before" : "after";
        await forgetAndDie(folder, secret, dieAt, moment);
        // Whoever opens it finishes what was begun before it lets go of it again.
        await (await open(folder)).close();
        const runtime = await open(folder);
        const { forgettings, unfinished } = await runtime.dispatch("listForgettings", {});
        const { results } = await runtime.dispatch("searchHistory", { query: other, limit: 20 });
        await runtime.close();
        const left = new Set(lookFor(folder, [secret, other]).map(({ text }) => text));
        const isGone = !left.has(0);
        ends[isGone ? "forgotten" : "untouched"] += 1;
        const reported = { seed, number, dieAt, moment, unfinished, receipts: forgettings.length };
        expect(reported).toEqual({
          seed,
          number,
          dieAt,
          moment,
          unfinished: 0,
          receipts: isGone ? expect.any(Number) : 0,
        });
        expect({ ...reported, isProven: !isGone || forgettings.length > 0 }).toMatchObject({ isProven: true });
        expect({ ...reported, other: left.has(1) }).toMatchObject({ other: true });
        expect({ ...reported, found: results.length > 0 }).toMatchObject({ found: true });
        expect((await verifyStore(folder)).problems).toEqual([]);
        rmSync(folder, { recursive: true, force: true });
      }
      // Otherwise the kills have hit nothing that matters.
      expect(ends.forgotten).toBeGreaterThan(0);
    },
  );
});
