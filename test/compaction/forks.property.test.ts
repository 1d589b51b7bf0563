import { setImmediate } from "node:timers/promises";
import { forkBodies } from "@rkat/core/sessions/fork";
import { messagesOf } from "@rkat/core/state/context";
import type { WholeState } from "@rkat/core/state/whole-state";
import { describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { below, pick } from "./chances.ts";
import { createFoldedSession } from "./folded-session.ts";
import { createRandomSession, type RandomSession } from "./random-session.ts";

/** One history again: `SEED=123 npx vitest run test/compaction/forks.property.test.ts`. */
const REPLAYED = process.env.SEED;
const HISTORIES = byEffort({ quick: 60, usual: 400, full: 10_000 });
const FROM = 9_000_000;
const STEPS_MAX = 14;
const FAULTS_MAX = 5;
const TIMEOUT_MS = 3_600_000;

/** Actions that only add to a session: after them a fork at an earlier point still has the context of then. */
const ADDS = ["turns", "compact", "evict"] as const;
const CHANGES = ["pin", "unpin", "expand", "undo", "rewrite", "restore"] as const;

interface Point {
  readonly before: number;
  readonly context: string;
}

const contextOf = ({ shown }: WholeState): string => JSON.stringify(messagesOf(shown));

async function forkAt({ state }: RandomSession, before: number): Promise<WholeState> {
  const bodies = await forkBodies(state, { before }, () => undefined);
  const [first, ...rest] = bodies;
  const system = first?.kind === "session_created" ? first.settings.system_prompt : undefined;
  const fork = createFoldedSession(system);
  await fork.append(rest);
  return fork.state;
}

describe("forks of any history", () => {
  it(
    `[R3] have the context of the source at that point, byte for byte: ${HISTORIES} histories, several forks each`,
    async () => {
      const faults: object[] = [];
      const counts = { forks: 0, compacted: 0, reordered: 0 };
      for (let seed = FROM; seed < FROM + HISTORIES && faults.length < FAULTS_MAX; seed += 1) {
        if (REPLAYED !== undefined && seed !== Number(REPLAYED)) continue;
        const session = await createRandomSession(seed, { turnsMax: 3, isWordless: true });
        const { state, random } = session;
        const done: string[] = [];
        let points: Point[] = [];
        for (let step = 0; step < 2 + below(random, STEPS_MAX); step += 1) {
          const action = pick(random, random() < 0.75 ? ADDS : CHANGES) ?? "turns";
          done.push(action);
          if (action === "turns") await session.addTurns(2);
          else await session[action]();
          if (!ADDS.some((name) => name === action)) points = [];
          const before = state.transcript.length;
          points = [...points.filter((point) => point.before !== before), { before, context: contextOf(state) }];
          const point = pick(random, points);
          if (point === undefined) continue;
          const fork = await forkAt(session, point.before);
          counts.forks += 1;
          if (fork.shownBy.length > 0) counts.compacted += 1;
          if (contextOf(fork) === point.context) continue;
          const isReordered = state.rewrites.length > 0 && fork.compactions.length === 0;
          if (isReordered) counts.reordered += 1;
          else faults.push({ seed, done: done.join(), at: point.before });
          break;
        }
        if (seed % 50 === 0) await setImmediate();
      }
      expect(faults).toEqual([]);
      if (REPLAYED !== undefined) return;
      // Otherwise nothing that matters was tried.
      expect(counts.compacted).toBeGreaterThan(HISTORIES / 4);
      expect(counts.reordered).toBeLessThan(counts.forks / 10);
    },
    TIMEOUT_MS,
  );
});
