import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { below, chance } from "./chances.ts";
import { brokenByCompaction, brokenByFailure, brokenRules, snapshot } from "./context-rules.ts";
import type { Wording } from "./random-entries.ts";
import { createRandomSession, type RandomSession } from "./random-session.ts";

/** One history again: `SEED=123 npx vitest run test/compaction/grammar`. */
const REPLAYED = process.env.SEED;
const HISTORIES_A_PART = byEffort({ quick: 250, usual: 5_000, full: 25_000 });
const WORDY_HISTORIES = byEffort({ quick: 50, usual: 500, full: 2_000 });
const WORDY_FROM = 1_000_000;
const CASCADE_HISTORIES = byEffort({ quick: 50, usual: 500, full: 500 });
const WORDY_CASCADE_HISTORIES = byEffort({ quick: 15, usual: 150, full: 150 });
const CASCADE_FROM = 2_000_000;
const TIMEOUT_MS = 600_000;
const FAULTS_MAX = 5;
/** The event loop gets its turn so often. */
const HISTORIES_AT_ONCE = 100;

/** A part of the hundred thousand; parts lie in several files, so that they run at once. */
export function describeHistories(part: number): void {
  const from = part * HISTORIES_A_PART;
  describe(NAME, () => {
    it(
      `[C14] is taken by every provider and loses nothing: ${HISTORIES_A_PART} histories from seed ${from}`,
      async () => {
        expect(await faultsFrom(from, HISTORIES_A_PART, { turnsMax: 3, isWordless: true })).toEqual([]);
      },
      TIMEOUT_MS,
    );
  });
}

export function describeWordyHistories(): void {
  describe(NAME, () => {
    it(
      `[C14] the same where summaries are written by models and curators: ${WORDY_HISTORIES} histories`,
      async () => {
        expect(await faultsFrom(WORDY_FROM, WORDY_HISTORIES, { turnsMax: 4, isWordless: false })).toEqual([]);
      },
      TIMEOUT_MS,
    );
  });
}

export function describeCascadeHistories(): void {
  describe(NAME, () => {
    it(
      `[C14] [E9] the same by cascade: ${CASCADE_HISTORIES} histories, and ${WORDY_CASCADE_HISTORIES} written by models`,
      async () => {
        const how = { turnsMax: 3, strategy: "cascade" } as const;
        expect(await faultsFrom(CASCADE_FROM, CASCADE_HISTORIES, { ...how, isWordless: true })).toEqual([]);
        const from = CASCADE_FROM + CASCADE_HISTORIES;
        expect(await faultsFrom(from, WORDY_CASCADE_HISTORIES, { ...how, isWordless: false })).toEqual([]);
      },
      TIMEOUT_MS,
    );
  });
}

const NAME = "any history, compacted again and again, with pins, expansions, undos and rewrites between";

/** The first broken rules, each with the seed of its history. */
async function faultsFrom(from: number, count: number, wording: Wording): Promise<readonly object[]> {
  const faults: object[] = [];
  for (let seed = from; seed < from + count && faults.length < FAULTS_MAX; seed += 1) {
    if (REPLAYED !== undefined && seed !== Number(REPLAYED)) continue;
    const fault = await firstFault(await createRandomSession(seed, wording));
    if (fault !== undefined) faults.push({ seed, ...fault });
    if (seed % HISTORIES_AT_ONCE === 0) await setImmediate();
  }
  return faults;
}

const COMPACTIONS_MAX = 5;

/** Lives a session through; the first rule that is broken, and after what. */
async function firstFault(session: RandomSession): Promise<{ done: string; broken: readonly string[] } | undefined> {
  const { state, random } = session;
  const done: string[] = [];
  // Most chains are short: what breaks after five compactions mostly breaks after two.
  const compactions = 1 + Math.floor(COMPACTIONS_MAX * random() ** 3);
  for (let count = 0; count < compactions; count += 1) {
    for (const action of randomActions(session)) {
      done.push(action);
      await session[action]();
      const broken = brokenRules(state);
      if (broken.length > 0) return { done: done.join(), broken };
    }
    const before = snapshot(state);
    const outcome = await session.compact();
    done.push(outcome.compacted ? "compact" : outcome.reason);
    const record = outcome.compacted ? state.compactions.at(-1) : undefined;
    const broken = [
      ...(record === undefined ? brokenByFailure(before, state) : brokenByCompaction(before, state, record)),
      ...brokenRules(state),
    ];
    if (broken.length > 0) return { done: done.join(), broken };
    await session.addTurns(1 + below(random, 2));
  }
  return undefined;
}

function randomActions({ random }: RandomSession) {
  const actions = ["pin", "unpin", "expand", "undo", "rewrite", "restore"] as const;
  const shares = { pin: 0.25, unpin: 0.1, expand: 0.25, undo: 0.15, rewrite: 0.2, restore: 0.1 };
  return actions.filter((action) => chance(random, shares[action]));
}
