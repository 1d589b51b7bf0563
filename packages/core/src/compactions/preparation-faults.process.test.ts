import { beforeAll, describe, expect, it } from "vitest";
import { createHeldModel, SAID, SUMMARY_USAGE } from "../../../../test/support/held-summaries.ts";
import {
  compactionsIn,
  eventsOf,
  goOn,
  isCompacted,
  open,
  READY,
  saidMuch,
  say,
  waitForEvent,
} from "../../../../test/support/prepared-sessions.ts";
import { DefaultCompactor } from "../compaction/policy.ts";
import { createInMemoryStore, type Runtime, type RuntimeOptions } from "../create-runtime.ts";
import type { Compactor } from "../ports/compactor.ts";
import type { Session } from "../sessions/session-handle.ts";

// Loaded by the first compaction otherwise, which takes as long as many turns.
beforeAll(async () => {
  await import("../compaction/run-compaction.ts");
  await import("../compaction/published.ts");
});

const base = new DefaultCompactor(READY);
const own = (given: Partial<Compactor>): Compactor => ({
  shouldCompact: (context) => base.shouldCompact(context),
  compactionPrompt: () => base.compactionPrompt(),
  maxSummaryTokens: () => base.maxSummaryTokens(),
  prepareForSummarization: (messages) => base.prepareForSummarization(messages),
  rebuildHistory: (messages, summary) => base.rebuildHistory(messages, summary),
  ...given,
});
/** Nothing that can be made a text. */
const ODD: unknown = Object.create(null);
const fail = (): never => {
  throw ODD;
};
const UNSHOWN = "something was thrown that cannot be shown";

async function grow(runtime: Runtime, turns = 12): Promise<Session> {
  const session = await runtime.createSession(`Build 1000. ${SAID}`);
  for (let turn = 1; turn < turns; turn += 1) await say(session, turn);
  return session;
}

describe("[J2] what fails while a compaction is prepared", () => {
  const faults: readonly [who: string, compaction: NonNullable<RuntimeOptions["compaction"]>, reason: RegExp][] = [
    ["a curator", { ...READY, curator: fail }, /^the curator failed: something was thrown/],
    [
      "a curator that gives something else",
      { ...READY, curator: () => ({}) as never },
      /the curator returned no summary/,
    ],
    ["a hook", { ...READY, beforeCompaction: fail }, /^the hook before compaction failed: something was thrown/],
    ["a compactor that cannot rebuild", { prepare: true, compactor: own({ rebuildHistory: fail }) }, /thrown/],
    ["a compactor that cannot prepare", { prepare: true, compactor: own({ prepareForSummarization: fail }) }, /thrown/],
    ["a compactor without a prompt", { prepare: true, compactor: own({ compactionPrompt: fail }) }, /thrown/],
  ];
  it.each(faults)("%s is told in the log, and turns go on", async (_who, compaction, reason) => {
    const runtime = open(createHeldModel(), { compaction });
    const session = await grow(runtime);
    const dropped = compactionsIn(await eventsOf(session)).filter(({ type }) => type === "compaction_dropped");
    expect(dropped[0]).toMatchObject({ reason: expect.stringMatching(reason) });
    expect(await isCompacted(session)).toBe(false);
    await runtime.close();
  });

  it("at any moment: a compactor that fails after the summary is paid for is told, and what it took counted", async () => {
    let isMade = false;
    for (let times = 0; !isMade; times += 1) {
      const model = createHeldModel();
      let answered = 0;
      const maxSummaryTokens = (): number => {
        if (model.asked() === 1) answered += 1;
        return answered > times ? fail() : 100;
      };
      const runtime = open(model, { compaction: { ...READY, compactor: own({ maxSummaryTokens }) } });
      const { session } = await saidMuch(model, runtime);
      model.release();
      const end = await Promise.race([
        waitForEvent(session, "compaction_prepared"),
        waitForEvent(session, "compaction_dropped"),
      ]);
      isMade = end.type === "compaction_prepared";
      if (!isMade) expect(end).toMatchObject({ reason: UNSHOWN, usage: SUMMARY_USAGE });
      expect(times).toBeLessThan(20);
      await runtime.close();
    }
  });

  it("a compactor that never answers fails no turn", async () => {
    const runtime = open(createHeldModel(), {
      compaction: { prepare: true, compactor: own({ maxSummaryTokens: fail }) },
    });
    const session = await grow(runtime);
    const reasons = compactionsIn(await eventsOf(session)).map((event) => "reason" in event && event.reason);
    expect(reasons).toContain(UNSHOWN);
    await runtime.close();
  });

  it("a log that takes nothing is told to whoever listens, without secrets", async () => {
    const store = createInMemoryStore();
    let isBroken = false;
    const append: typeof store.log.append = (...entries) => {
      const kinds = JSON.stringify(entries);
      if (isBroken && kinds.includes("compaction_prepared"))
        throw new Error("the disk says no to sk-verysecretkey0001");
      return store.log.append(...entries);
    };
    const model = createHeldModel();
    const runtime = open(model, { store: { ...store, log: { ...store.log, append } } });
    const { session } = await saidMuch(model, runtime);
    isBroken = true;
    const received = waitForEvent(session, "compaction_dropped");
    model.release();
    expect(await received).toEqual({
      type: "compaction_dropped",
      reason: "the store failed: the disk says no to [redacted]",
    });
    expect(compactionsIn(await eventsOf(session))).toEqual([]);
    // It is over: the next one can be made.
    isBroken = false;
    await goOn(session, () => isCompacted(session));
    await runtime.close();
  });
});
