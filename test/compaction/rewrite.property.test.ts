import { hash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { grammarFaults } from "@rkat/core/compaction/grammar";
import type { Entry } from "@rkat/core/contract/entry";
import type { SessionRow } from "@rkat/core/ports/store";
import { type Placed, showTranscript } from "@rkat/core/state/context";
import { textOfEntry } from "@rkat/core/state/entry-events";
import { findRevision, revisionOf } from "@rkat/core/state/rewrites";
import { foldRow } from "@rkat/core/state/session-row";
import { foldSession, type WholeState } from "@rkat/core/state/whole-state";
import { describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { below, chance, pick } from "./chances.ts";
import { brokenRules } from "./context-rules.ts";
import { createRandomSession, type RandomSession } from "./random-session.ts";

/** One history again: `SEED=123 npx vitest run test/compaction/rewrite.property.test.ts`. */
const REPLAYED = process.env.SEED;
const HISTORIES = byEffort({ quick: 80, usual: 500, full: 1_500 });
const FROM = 3_000_000;
const STEPS_MAX = 14;
const TIMEOUT_MS = 300_000;
/** The event loop gets its turn so often; and so often summaries are written by models, which takes longer. */
const HISTORIES_AT_ONCE = 50;

const sha256 = (text: string): string => hash("sha256", text);

/**
 * What a session should be, by the simplest means: every transcript it had is copied as text, and a compaction stands
 * while the transcript begins with the very messages it was made from.
 */
class Model {
  /** By revision, as text. */
  readonly revisions = new Map<string, string>();
  readonly madeFrom = new Map<string, readonly number[]>();
  readonly undone = new Set<string>();

  look(state: WholeState): void {
    this.revisions.set(revisionOf(state.transcript, sha256), textOf(state.transcript));
    for (const { body } of state.compactions) {
      if (!this.madeFrom.has(body.compaction_id)) this.madeFrom.set(body.compaction_id, seqsOf(said(state.transcript)));
    }
  }

  standing(state: WholeState) {
    const now = seqsOf(said(state.transcript));
    return state.compactions.filter(({ body }) => {
      const from = this.madeFrom.get(body.compaction_id) ?? [];
      return !this.undone.has(body.compaction_id) && from.every((seq, at) => seq === now[at]);
    });
  }
}

const said = (transcript: readonly Placed[]): readonly Placed[] =>
  transcript.filter(({ message }) => message.role !== "system");
/** What it says: the same words written twice are one revision. */
const textOf = (transcript: readonly Placed[]): string => JSON.stringify(transcript.map(({ message }) => message));
const seqsOf = (placed: readonly Placed[]): readonly number[] => placed.map(({ seq }) => seq);

describe("rewriting and restoring a transcript", () => {
  it(
    `[C13] [F10] between turns, compactions, pins, expansions and undos is what a simple model says: ${HISTORIES} histories`,
    async () => {
      const counts = { rewritten: 0, refused: 0, cameBack: 0 };
      for (let seed = FROM; seed < FROM + HISTORIES; seed += 1) {
        if (REPLAYED !== undefined && seed !== Number(REPLAYED)) continue;
        const isWordless = seed % HISTORIES_AT_ONCE !== 0;
        try {
          await live(await createRandomSession(seed, { turnsMax: 3, isWordless }), counts);
        } catch (cause) {
          throw new Error(`seed ${seed}: ${String(cause)}`, { cause });
        }
        if (!isWordless) await setImmediate();
      }
      if (REPLAYED !== undefined) return;
      // It says little if nothing was rewritten, refused, or a compaction never stood again.
      expect(counts.rewritten).toBeGreaterThan(HISTORIES);
      expect(counts.refused).toBeGreaterThan(HISTORIES / 4);
      expect(counts.cameBack).toBeGreaterThan(HISTORIES / 250);
    },
    TIMEOUT_MS,
  );
});

const ACTIONS = ["rewrite", "rewrite", "restore", "compact", "compact", "pin", "unpin", "expand", "undo"] as const;

async function live(session: RandomSession, counts: { rewritten: number; refused: number; cameBack: number }) {
  const { state, random } = session;
  const model = new Model();
  model.look(state);
  const steps = 1 + below(random, STEPS_MAX);
  for (let step = 0; step < steps; step += 1) {
    const action = chance(random, 0.2) ? "addTurns" : (pick(random, ACTIONS) ?? "rewrite");
    const before = new Map(state.compactions.map(({ body, undone }) => [body.compaction_id, undone]));
    const revision = revisionOf(state.transcript, sha256);
    const outcome = action === "addTurns" ? await session.addTurns(1) : await session[action]();
    if (outcome === "rewritten" || outcome === "refused") counts[outcome] += 1;
    if (outcome === "refused") expect(revisionOf(state.transcript, sha256)).toBe(revision);
    if (outcome === "rewritten") {
      const back = state.compactions.filter((one) => !one.undone && before.get(one.body.compaction_id) === true);
      counts.cameBack += back.length;
    }
    if (action === "undo") {
      for (const { body, undoneByHand } of state.compactions) if (undoneByHand) model.undone.add(body.compaction_id);
    }
    model.look(state);
    expectModel(session, model, `${action} at step ${step}`);
  }
  expectRestart(session);
  for (const [revision, transcript] of model.revisions) {
    const found = findRevision(state, revision, sha256);
    const past = state.rewrites[found?.restores ?? -1]?.before ?? state.transcript;
    expect(textOf(past.slice(0, found?.message_count))).toBe(transcript);
  }
}

function expectModel({ state }: RandomSession, model: Model, after: string): void {
  const standing = model.standing(state);
  const ids = (list: typeof standing) => list.map(({ body }) => body.compaction_id);
  expect({ after, standing: ids(state.compactions.filter(({ undone }) => !undone)) }).toEqual({
    after,
    standing: ids(standing),
  });
  const shown = showTranscript(state.transcript, standing, state.pins);
  expect({ after, shown: state.shown }).toEqual({ after, shown });
  const faults = grammarFaults(state.transcript.map(({ message }) => message));
  expect({ after, broken: [...brokenRules(state), ...faults] }).toEqual({ after, broken: [] });
}

/** A process that has only the log says the same, and so does the row. */
function expectRestart({ state, entries }: RandomSession): void {
  // What was an entry is one again.
  const read = JSON.parse(JSON.stringify(entries)) as Entry[];
  expect(JSON.parse(JSON.stringify(foldSession(state.sessionId, read)))).toEqual(JSON.parse(JSON.stringify(state)));
  const row = read.reduce<SessionRow | undefined>((so, entry) => foldRow(so, state.sessionId, entry), undefined);
  const [first] = state.transcript;
  expect(row).toMatchObject({
    message_count: state.transcript.length,
    has_system: first?.message.role === "system",
    text_seq: state.lastText?.seq ?? 0,
    last_seq: state.lastSeq,
  });
  const holds = read.find(({ seq, span }) => seq <= (row?.text_seq ?? 0) && (row?.text_seq ?? 0) < seq + span);
  expect(holds === undefined ? undefined : textOfEntry(holds, row?.text_seq ?? 0)).toBe(state.lastText?.text);
}
