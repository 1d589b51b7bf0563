import { hash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { Entry } from "@rkat/core/contract/entry";
import { assembleContext, hashContext } from "@rkat/core/state/context";
import { foldSession, type WholeState } from "@rkat/core/state/whole-state";
import { describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { below, chance, pick } from "./chances.ts";
import { createRandomSession, type RandomSession } from "./random-session.ts";

/** One history again: `SEED=123 npx vitest run test/compaction/undo.property.test.ts`. */
const REPLAYED = process.env.SEED;
const HISTORIES = byEffort({ quick: 80, usual: 800, full: 3_000 });
const TIMEOUT_MS = 300_000;
/** The event loop gets its turn so often; and so often summaries are written by models, which takes longer. */
const HISTORIES_AT_ONCE = 50;

describe("undoing a compaction", () => {
  it(
    "[C13] at once gives back the context byte for byte",
    async () => {
      await forHistories(0, async (session) => {
        await liveOn(session);
        const { state } = session;
        const before = { shown: [...state.shown], length: state.transcript.length };
        const outcome = await session.compact();
        if (!outcome.compacted) return false;
        await undo(session, outcome.compactionId);
        const injected = state.transcript.slice(before.length);
        expect(bytesOf(state)).toEqual(bytesOf({ shown: [...before.shown, ...injected] }));
        return true;
      });
    },
    TIMEOUT_MS,
  );

  it(
    "[C13] later gives what the same turns are without it and what was built on it",
    async () => {
      await forHistories(HISTORIES, async (session) => {
        await liveOn(session);
        const outcome = await session.compact();
        if (!outcome.compacted) return false;
        await liveOn(session);
        const target = session.state.compactions.find(({ body }) => body.compaction_id === outcome.compactionId);
        if (target === undefined || target.undone) return false;
        await undo(session, outcome.compactionId);
        expect(bytesOf(session.state)).toEqual(bytesOf(foldWithout(session, target.seq)));
        return true;
      });
    },
    TIMEOUT_MS,
  );

  it(
    "[C13] the first of several, expanded or not, is never having compacted",
    async () => {
      await forHistories(2 * HISTORIES, async (session) => {
        await liveOn(session);
        await session.compact();
        await session.expand();
        await liveOn(session);
        const [first] = session.state.compactions;
        if (first === undefined) return false;
        await undo(session, first.body.compaction_id);
        expect(bytesOf(session.state)).toEqual(bytesOf({ ...session.state, shown: session.state.transcript }));
        expect(bytesOf(session.state)).toEqual(bytesOf(foldWithout(session, first.seq)));
        return true;
      });
    },
    TIMEOUT_MS,
  );
});

/** Gives sessions to a check until enough of them had something to undo; a failure names its seed. */
async function forHistories(from: number, check: (session: RandomSession) => Promise<boolean>): Promise<void> {
  let checked = 0;
  for (let seed = from; seed < from + HISTORIES; seed += 1) {
    if (REPLAYED !== undefined && seed !== Number(REPLAYED)) continue;
    const isWordless = seed % HISTORIES_AT_ONCE !== 0;
    try {
      checked += (await check(await createRandomSession(seed, { turnsMax: 4, isWordless }))) ? 1 : 0;
    } catch (cause) {
      throw new Error(`seed ${seed}: ${String(cause)}`, { cause });
    }
    if (!isWordless) await setImmediate();
  }
  if (REPLAYED === undefined) expect(checked).toBeGreaterThan(HISTORIES / 2);
}

const STEPS_MAX = 4;

/** Turns, pins, expansions, further compactions and undos of them, in any order. */
async function liveOn(session: RandomSession): Promise<void> {
  const { random } = session;
  const steps = below(random, STEPS_MAX + 1);
  for (let step = 0; step < steps; step += 1) {
    if (chance(random, 0.4)) await session.addTurns(2);
    else await session[pick(random, ["pin", "unpin", "expand", "compact", "compact", "undo"] as const) ?? "pin"]();
  }
}

async function undo({ append }: RandomSession, compaction_id: string): Promise<void> {
  await append([{ kind: "compaction_undone", compaction_id }]);
}

/** The log without the compaction at a seq, those after it, and what was done to them; read as a store reads it. */
function foldWithout({ entries, state }: RandomSession, seq: number): WholeState {
  const isBuiltOnIt = ({ seq: at, body }: Entry): boolean =>
    at >= seq && (body.kind === "compacted" || body.kind === "compaction_undone" || body.kind === "expanded");
  const text = JSON.stringify(entries.filter((entry) => !isBuiltOnIt(entry)));
  // What was an entry is one again.
  return foldSession(state.sessionId, JSON.parse(text) as Entry[]);
}

function bytesOf(state: Pick<WholeState, "shown">): { seqs: string; bytes: string; sha256: string } {
  const messages = assembleContext(state);
  return {
    seqs: state.shown.map(({ seq }) => seq).join(),
    bytes: JSON.stringify(messages),
    sha256: hashContext(messages, (text) => hash("sha256", text)),
  };
}
