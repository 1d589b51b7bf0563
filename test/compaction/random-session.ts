import { grammarFaults } from "../../src/core/compaction/grammar/grammar.ts";
import { planExpansion, shownWith } from "../../src/core/compaction/plan/expand.ts";
import type { CompactionOutcome } from "../../src/core/compaction/run-compaction.ts";
import type { Placed } from "../../src/core/session/shown.ts";
import { createRandom } from "../crash/random.ts";
import type { Random } from "../support/random-history.ts";
import { createVirtualClock } from "../support/virtual-clock.ts";
import { below, chance, pick } from "./chances.ts";
import { createFoldedSession, type FoldedSession } from "./folded-session.ts";
import { compactRandomly } from "./random-compaction.ts";
import { randomEntries, type Wording } from "./random-entries.ts";

/** A session to which everything is done that can be done to a context, the same for the same seed. */
export interface RandomSession extends FoldedSession {
  readonly random: Random;
  addTurns(turnsMax: number): Promise<void>;
  compact(): Promise<CompactionOutcome>;
  pin(): Promise<void>;
  unpin(): Promise<void>;
  /** Brings back part of what a standing compaction took out. */
  expand(): Promise<void>;
  /** Undoes one of the standing compactions, not only the newest. */
  undo(): Promise<void>;
}

export async function createRandomSession(seed: number, wording: Wording): Promise<RandomSession> {
  const random = createRandom(seed);
  const { isWordless, strategy } = wording;
  const session = createFoldedSession(chance(random, 0.7) ? "be brief" : undefined);
  const { state, append } = session;
  const clock = createVirtualClock();
  let parts = 0;
  const addTurns = (turnsMax: number): Promise<void> => {
    parts += 1;
    return append(randomEntries(random, parts, { turnsMax, isWordless }));
  };
  await addTurns(wording.turnsMax);
  return {
    ...session,
    random,
    addTurns,
    compact: () => compactRandomly({ session, random, clock, isWordless, strategy }),
    pin: () => pin(session, random),
    unpin: async () => {
      const seq = pick(random, [...state.pins]);
      if (seq !== undefined) await append([{ kind: "pinned", seq, pinned: false }]);
    },
    expand: () => expand(session, random),
    undo: async () => {
      const compaction_id = pick(random, standingIn(session))?.body.compaction_id;
      if (compaction_id !== undefined) await append([{ kind: "compaction_undone", compaction_id }]);
    },
  };
}

function standingIn({ state }: FoldedSession) {
  return state.compactions.filter((record) => !record.undone);
}

/** As the service does it: unless a provider would not take what comes back with it. */
async function pin({ state, append }: FoldedSession, random: Random): Promise<void> {
  const placed = pick(random, state.transcript);
  if (placed === undefined || placed.message.role === "system" || state.pins.has(placed.seq)) return;
  const { seq } = placed;
  if (isTaken(shownWith(state, { pin: seq }))) await append([{ kind: "pinned", seq, pinned: true }]);
}

/** As the service does it: whole turns of the range that is asked for, unless a provider would not take them. */
async function expand(session: FoldedSession, random: Random): Promise<void> {
  const { state, append } = session;
  const range = pick(random, pick(random, standingIn(session))?.body.discarded ?? []);
  if (range === undefined) return;
  const from_seq = range.from_seq + below(random, range.to_seq - range.from_seq + 1);
  const room = pick(random, [40, 400, 100_000]) ?? 0;
  const ranges = [...planExpansion(state, [{ ...range, from_seq }], room).expanded];
  if (ranges.length > 0 && isTaken(shownWith(state, { ranges }))) await append([{ kind: "expanded", ranges }]);
}

function isTaken(shown: readonly Placed[]): boolean {
  return grammarFaults(shown.map(({ message }) => message)).length === 0;
}
