import { setImmediate } from "node:timers/promises";
import { foldSession } from "@rkat/core/state/whole-state";
import { describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { below, chance, pick } from "./chances.ts";
import { brokenByFailure, brokenRules } from "./context-rules.ts";
import { beforeEviction, brokenByEviction } from "./eviction-rules.ts";
import { createRandomSession, type RandomSession } from "./random-session.ts";

/** One history again: `SEED=123 npx vitest run test/compaction/evictions.property.test.ts`. */
const REPLAYED = process.env.SEED;
const HISTORIES = byEffort({ quick: 150, usual: 2_000, full: 100_000 });
const WORDY_HISTORIES = byEffort({ quick: 10, usual: 60, full: 1_000 });
const FROM = 3_000_000;
const TIMEOUT_MS = 3_600_000;
const FAULTS_MAX = 5;
/** The event loop gets its turn so often. */
const HISTORIES_AT_ONCE = 100;
const STEPS_MAX = 12;

describe("any history, evicted from again and again, with turns, compactions, pins, expansions, undos, rewrites and forks between", () => {
  it(
    `[J1] is taken by every provider, loses nothing and is undone exactly: ${HISTORIES} histories`,
    async () => {
      const { faults, evictions } = await live(FROM, HISTORIES, true);
      expect(faults).toEqual([]);
      // Otherwise nothing that matters was tried.
      if (REPLAYED === undefined) expect(evictions).toBeGreaterThan(HISTORIES / 2);
    },
    TIMEOUT_MS,
  );

  it(
    `[J1] the same of histories with words: ${WORDY_HISTORIES}`,
    async () => {
      expect((await live(FROM + HISTORIES, WORDY_HISTORIES, false)).faults).toEqual([]);
    },
    TIMEOUT_MS,
  );
});

async function live(from: number, count: number, isWordless: boolean) {
  const faults: object[] = [];
  let evictions = 0;
  for (let seed = from; seed < from + count && faults.length < FAULTS_MAX; seed += 1) {
    if (REPLAYED !== undefined && seed !== Number(REPLAYED)) continue;
    const done: string[] = [];
    const broken = await firstFault(await createRandomSession(seed, { turnsMax: 4, isWordless }), done);
    if (broken.length > 0) faults.push({ seed, done: done.join(), broken });
    evictions += done.filter((step) => step === "evicted").length;
    if (seed % HISTORIES_AT_ONCE === 0) await setImmediate();
  }
  return { faults, evictions };
}

const ACTIONS = ["pin", "unpin", "expand", "undo", "rewrite", "restore", "compact"] as const;

async function firstFault(first: RandomSession, done: string[]): Promise<readonly string[]> {
  let session = first;
  const { random } = first;
  const steps = 2 + below(random, STEPS_MAX);
  for (let step = 0; step < steps; step += 1) {
    const share = random();
    if (share < 0.35) {
      const broken = await evict(session, done);
      if (broken.length > 0) return broken;
    } else if (share < 0.65) {
      done.push("turns");
      await session.addTurns(1 + below(random, 3));
    } else if (share < 0.68) {
      done.push("fork");
      session = await session.fork();
    } else {
      const action = pick(random, ACTIONS) ?? "pin";
      done.push(action);
      await session[action]();
    }
    const broken = brokenRules(session.state);
    if (broken.length > 0) return broken;
  }
  return brokenByReading(session);
}

async function evict(session: RandomSession, done: string[]): Promise<readonly string[]> {
  const { state, append, random } = session;
  const before = beforeEviction(state);
  const evicted = await session.evict();
  done.push(evicted ? "evicted" : "nothing to evict");
  const record = state.compactions.at(-1);
  if (!evicted || record === undefined) return brokenByFailure(before, state);
  const broken = brokenByEviction(before, state, record);
  if (broken.length > 0 || chance(random, 0.7)) return broken;
  done.push("undone");
  await append([{ kind: "compaction_undone", compaction_id: record.body.compaction_id }]);
  const isSame = JSON.stringify(state.shown) === JSON.stringify(before.shown);
  return isSame ? [] : ["undone at once, it is another context"];
}

/** A log that is read again, as a store reads it, gives the same context. */
function brokenByReading({ entries, state }: RandomSession): readonly string[] {
  const read = foldSession(state.sessionId, JSON.parse(JSON.stringify(entries)));
  const isSame = JSON.stringify(read.shown) === JSON.stringify(state.shown);
  return isSame && read.lastInputTokens === state.lastInputTokens ? [] : ["read again, it is another context"];
}
