import { beforeAll, describe, expect, it } from "vitest";
import { createHeldModel, SUMMARY_USAGE } from "../../../../test/support/held-summaries.ts";
import {
  compactionsIn,
  eventsOf,
  goOn,
  isCompacted,
  open,
  otherWork,
  saidMuch,
  waitForEvent,
} from "../../../../test/support/prepared-sessions.ts";
import { createInMemoryStore } from "../create-runtime.ts";

// Loaded by the first compaction otherwise, which takes as long as many turns.
beforeAll(async () => {
  await import("../compaction/run-compaction.ts");
  await import("../compaction/published.ts");
});

describe("[J2] a compaction that is prepared in one process", () => {
  it("another runtime on the same store puts it into force; two that prepare the same use one", async () => {
    const store = createInMemoryStore();
    const shared = { ...store, close: async () => {} };
    const first = createHeldModel();
    const [one, two] = [open(first, { store: shared }), open(createHeldModel(), { store: shared })];
    const { session } = await saidMuch(first, one);
    first.release();
    const { compaction_id } = await waitForEvent(session, "compaction_prepared");
    await one.close();
    const there = two.session(session.id);
    await goOn(there, () => isCompacted(there));
    expect((await there.compactions()).map((made) => made.compactionId)).toEqual([compaction_id]);
    await two.close();

    const [a, b] = [createHeldModel(), createHeldModel()];
    const [three, four] = [open(a, { store: shared }), open(b, { store: shared })];
    const { session: both } = await saidMuch(a, three);
    b.hold();
    const other = four.session(both.id);
    await goOn(other, () => b.asked() === 1);
    expect([a.asked(), b.asked()]).toEqual([1, 1]);
    a.release();
    await waitForEvent(both, "compaction_prepared");
    b.release();
    expect(await waitForEvent(both, "compaction_dropped")).toMatchObject({
      reason: "another was prepared meanwhile",
      usage: SUMMARY_USAGE,
    });
    await Promise.all([three.close(), four.close()]);
  });

  it("is recorded although another process has the session when it is ready", async () => {
    const store = createInMemoryStore();
    const shared = { ...store, close: async () => {} };
    const model = createHeldModel();
    const runtime = open(model, { store: shared });
    const { session } = await saidMuch(model, runtime);
    const hold = await store.locks.hold(session.id);
    model.release();
    // It is ready and cannot be told.
    await otherWork(50);
    expect(compactionsIn(await eventsOf(session))).toEqual([]);
    await hold.release();
    expect(await waitForEvent(session, "compaction_prepared")).toMatchObject({ usage: SUMMARY_USAGE });
    await runtime.close();
  });
});
