import { hash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { Entry } from "@rkat/core/contract/entry";
import { neededSeqs, readCheckpoint, restoreState, writeCheckpoint } from "@rkat/core/state/checkpoint";
import { assembleContext, hashContext } from "@rkat/core/state/context";
import { applyAlone, type SessionState } from "@rkat/core/state/session-state";
import { foldSession } from "@rkat/core/state/whole-state";
import { describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { below, chance, pick } from "./chances.ts";
import { randomExtras } from "./random-extras.ts";
import { createRandomSession, type RandomSession } from "./random-session.ts";

/** One history again: `SEED=123 npx vitest run test/compaction/checkpoint.property.test.ts`. */
const REPLAYED = process.env.SEED;
const HISTORIES = byEffort({ quick: 8, usual: 60, full: 2_000 });
const TIMEOUT_MS = 300_000;
const STEPS_MAX = 14;
/** Of the beginnings of a log so many are come back to. */
const RESUMED_SHARE = 0.25;

describe("a session that is come back to by a checkpoint", () => {
  it(
    "[F4] is at every later moment what its whole log says it is",
    async () => {
      const seen = { resumed: 0, alone: 0, whole: 0 };
      for (let seed = 0; seed < HISTORIES; seed += 1) {
        if (REPLAYED !== undefined && seed !== Number(REPLAYED)) continue;
        try {
          const session = await createRandomSession(seed, {
            turnsMax: 3,
            isWordless: seed % 10 !== 0,
            ...(seed % 3 === 0 ? { strategy: "cascade" as const } : {}),
          });
          check(await liveOn(session), session, seen);
        } catch (cause) {
          throw new Error(`seed ${seed}: ${String(cause)}`, { cause });
        }
        await setImmediate();
      }
      if (REPLAYED !== undefined) return;
      expect(seen.resumed).toBeGreaterThan(HISTORIES);
      expect(seen.alone).toBeGreaterThan(5 * seen.resumed);
      expect(seen.whole).toBeGreaterThan(HISTORIES / 2);
    },
    TIMEOUT_MS,
  );
});

const ACTIONS = ["pin", "unpin", "expand", "compact", "compact", "evict", "undo", "rewrite", "restore"] as const;

/** Everything that can be done to a session, in any order; some are forks of what came of that. */
async function liveOn(session: RandomSession): Promise<RandomSession> {
  const { random } = session;
  for (let step = 0; step < STEPS_MAX; step += 1) {
    if (chance(random, 0.3)) await session.addTurns(2);
    else if (chance(random, 0.5)) await session.append(randomExtras(random, step, session.state));
    else await session[pick(random, ACTIONS) ?? "pin"]();
  }
  if (!chance(random, 0.2)) return session;
  const fork = await session.fork();
  await fork.addTurns(2);
  await fork.compact();
  await fork.append(randomExtras(random, STEPS_MAX, fork.state));
  return fork;
}

function check(session: RandomSession, { random }: RandomSession, seen: Record<"resumed" | "alone" | "whole", number>) {
  const { sessionId } = session.state;
  // As a store reads them: nothing is the same object as before.
  const entries: readonly Entry[] = JSON.parse(JSON.stringify(session.entries));
  const texts = entries.map((_, at) => textOf(foldSession(sessionId, entries.slice(0, at + 1))));
  expect(textOf(session.state)).toBe(texts.at(-1));
  const first = below(random, 4);
  for (let from = first; from < entries.length; from += 1) {
    if (!chance(random, RESUMED_SHARE)) continue;
    let state = resume(foldSession(sessionId, entries.slice(0, from + 1)), entries);
    seen.resumed += 1;
    expect(textOf(state)).toBe(texts[from]);
    for (let at = from + 1; at < entries.length; at += 1) {
      const entry = entries[at];
      if (entry === undefined) break;
      const before = textOf(state);
      if (!applyAlone(state, entry)) {
        seen.whole += 1;
        expect(textOf(state)).toBe(before);
        break;
      }
      seen.alone += 1;
      expect(textOf(state)).toBe(texts[at]);
      // A checkpoint of what was come back to is as good as one of what was folded.
      if (chance(random, 0.05)) state = resume(state, entries);
    }
  }
}

const sha256 = (text: string): string => hash("sha256", text);

/** By nothing but what is kept and the entries it names. */
function resume(before: SessionState, entries: readonly Entry[]): SessionState {
  const entryAt = (seq: number) => entries.find((entry) => entry.seq <= seq && seq < entry.seq + entry.span);
  const checkpoint = readCheckpoint(writeCheckpoint(before, sha256), before.sessionId, sha256);
  if (checkpoint === undefined) throw new Error("a checkpoint that was just written is none");
  const named = new Set(neededSeqs(checkpoint));
  const state = restoreState(checkpoint, (seq) => (named.has(seq) ? entryAt(seq) : undefined), sha256);
  if (state === undefined) throw new Error("a checkpoint of this very log is said to be of another");
  return state;
}

/** Everything a state has that a turn needs, as a text; the context also by its hash. */
function textOf(state: SessionState): string {
  const all = state as SessionState &
    Record<"transcript" | "rewrites" | "compactions" | "holes" | "readOnlyTools", unknown>; // A whole one has these.
  const {
    transcript: _said,
    rewrites: _rewrites,
    compactions: _compactions,
    holes: _holes,
    readOnlyTools: _tools,
    ...light
  } = all;
  const plain = (_name: string, value: unknown): unknown =>
    value instanceof Set || value instanceof Map ? [...value] : value;
  const fields = Object.entries(light).sort(([a], [b]) => (a < b ? -1 : 1));
  // A field a line: what differs is read off a failure.
  const lines = fields.map(([name, value]) => `${name}: ${JSON.stringify(value, plain)}`);
  return [...lines, hashContext(assembleContext(state), sha256)].join("\n");
}
