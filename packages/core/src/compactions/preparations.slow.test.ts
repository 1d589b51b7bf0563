import { setImmediate } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "vitest";
import { createHeldModel, SAID, SUMMARY, SUMMARY_USAGE } from "../../../../test/support/held-summaries.ts";
import {
  ANSWER,
  compactionsIn,
  eventsOf,
  goOn,
  isCompacted,
  lastSeq,
  open,
  READY,
  saidMuch,
  say,
  TURNS_MAX,
  waitForEvent,
} from "../../../../test/support/prepared-sessions.ts";
import { configWith, listen } from "../../../../test/support/runtime.ts";
import type { AgentEvent } from "../contract/event.ts";
import { createInMemoryStore, type RuntimeOptions } from "../create-runtime.ts";
import type { Session } from "../sessions/session-handle.ts";

// Loaded by the first compaction otherwise, which takes as long as many turns.
beforeAll(async () => {
  await import("../compaction/run-compaction.ts");
  await import("../compaction/published.ts");
});

describe("[J2] a compaction is prepared behind the turn", () => {
  it("no turn waits for it, and it is put into force at the next boundary that is due", async () => {
    const model = createHeldModel();
    const runtime = open(model);
    const { session, turns } = await saidMuch(model, runtime);
    // Well beyond the threshold, with the summary still unwritten.
    for (let turn = turns; turn < turns + 3; turn += 1) await say(session, turn);
    expect(compactionsIn(await eventsOf(session))).toEqual([]);
    expect(model.asked()).toBe(1);
    model.release();
    const prepared = await waitForEvent(session, "compaction_prepared");
    expect(prepared).toMatchObject({ summary_tokens: 100, usage: SUMMARY_USAGE });
    const before = await session.history();
    const { events } = await listen(session.stream(`And on. ${SAID}`));
    expect(compactionsIn(events)).toEqual([
      expect.objectContaining({ type: "compaction_started" }),
      expect.objectContaining({ type: "compaction_completed", prepared: true, waited_ms: 0 }),
    ]);
    const [compaction] = await session.compactions();
    expect(compaction).toMatchObject({
      compactionId: prepared.compaction_id,
      trigger: "threshold",
      summary: SUMMARY,
      prepared: { seq: expect.any(Number) },
      receipt: { lost: 0 },
    });
    // What was said since it was prepared stands after it, word for word.
    const { messages } = await session.context();
    const said = before.messages.slice(-6).map(({ seq: _, ...message }) => message);
    expect(messages.map(({ seq: _, ...message }) => message)).toEqual(expect.arrayContaining(said));
    expect(messages.length).toBeLessThan(before.messages.length);
    await runtime.close();
  });

  it("what it took is counted once: in the session, in its row, by who asked", async () => {
    const model = createHeldModel();
    const runtime = open(model);
    const { session, turns } = await saidMuch(model, runtime);
    const caller = { name: "ada", scopes: new Set(["run" as const]), labels: {} };
    model.release();
    await waitForEvent(session, "compaction_prepared");
    let answers = turns;
    while (answers < TURNS_MAX && !(await isCompacted(session))) {
      await runtime.dispatch("startTurn", { session_id: session.id, prompt: `On. ${SAID}` }, { caller });
      answers += 1;
    }
    const all = {
      inputTokens: answers * ANSWER.input_tokens + SUMMARY_USAGE.input_tokens,
      outputTokens: answers * ANSWER.output_tokens + SUMMARY_USAGE.output_tokens,
    };
    expect((await runtime.readUsage()).total.usage).toMatchObject(all);
    expect((await session.read()).usage).toMatchObject(all);
    expect((await session.turn("And?")).usage.inputTokens).toBe(all.inputTokens + ANSWER.input_tokens);
    await runtime.close();
  });

  it("while the session rests, too", async () => {
    const model = createHeldModel();
    const runtime = open(model, { compaction: { ...READY, prepareAt: 0.85 } });
    const session = await runtime.createSession(`Build 1000 is here. ${SAID}`);
    let turn = 1;
    // It is the answer that makes the context large enough: no boundary of the turn has seen that.
    while (turn < TURNS_MAX && (await session.context()).estimatedTokens < 850) turn += await say(session, turn);
    expect(model.asked()).toBe(0);
    expect(await waitForEvent(session, "compaction_prepared")).toMatchObject({ usage: SUMMARY_USAGE });
    await runtime.close();
  });

  it("a turn waits for it when the context would not fit, and says for how long", async () => {
    const model = createHeldModel({ contextWindow: 1_300 });
    const runtime = open(model);
    const { session, turns } = await saidMuch(model, runtime);
    let turn = turns;
    let isWaiting = false;
    let waited: Promise<unknown> = Promise.resolve();
    while (turn < TURNS_MAX && !isWaiting) {
      const calls = model.requests.length;
      const stream = session.stream(`Build ${1_000 + turn} is in /srv/build/${turn}/out.log. ${SAID}`);
      const ended = listen(stream);
      turn += 1;
      // A turn that goes on asks the model; one that waits does not, however long one looks.
      for (let round = 0; round < 200 && model.requests.length === calls; round += 1) {
        await setImmediate();
      }
      isWaiting = model.requests.length === calls;
      if (!isWaiting) await ended;
      else waited = ended;
    }
    expect(compactionsIn(await eventsOf(session))).toEqual([]);
    model.release();
    const { events } = (await waited) as Awaited<ReturnType<typeof listen>>;
    expect(compactionsIn(events)).toEqual([
      expect.objectContaining({ type: "compaction_prepared" }),
      expect.objectContaining({ type: "compaction_started" }),
      expect.objectContaining({ type: "compaction_completed", prepared: true, waited_ms: expect.any(Number) }),
    ]);
    expect(model.asked()).toBe(1);
    await runtime.close();
  });

  it.each<[what: string, change: (session: Session) => Promise<unknown>]>([
    ["a pin", async (session) => session.pin((await session.history()).messages[2]?.seq ?? 0)],
    [
      "a rewrite",
      (session) =>
        session.rewrite({ start: 0, end: 1 }, [{ role: "user", content: "Build 900 is gone." }], { reason: "edit" }),
    ],
  ])("%s of what it covers drops it, and that is told", async (_what, change) => {
    const model = createHeldModel();
    const runtime = open(model);
    const { session } = await saidMuch(model, runtime);
    model.release();
    const { compaction_id } = await waitForEvent(session, "compaction_prepared");
    await change(session);
    const isDropped = (events: readonly AgentEvent[]) => events.some(({ type }) => type === "compaction_dropped");
    expect(await goOn(session, isDropped)).toContainEqual({
      type: "compaction_dropped",
      reason: "the covered messages have changed since it was prepared",
      usage: SUMMARY_USAGE,
    });
    expect((await session.compactions()).map((one) => one.compactionId)).not.toContain(compaction_id);
    await runtime.close();
  });

  it("an undo and an expansion of the one before drop it", async () => {
    for (const change of ["undo", "expand"] as const) {
      const model = createHeldModel();
      const runtime = open(model);
      const { session } = await saidMuch(model, runtime);
      model.release();
      await waitForEvent(session, "compaction_prepared");
      const { compaction } = await session.compact();
      const first = compaction?.compactionId ?? "";
      model.hold();
      await goOn(session, () => model.asked() === 2);
      const after = await lastSeq(session);
      model.release();
      await waitForEvent(session, "compaction_prepared", after);
      if (change === "undo") await session.undoCompaction(first);
      else await session.expandCompaction(first, { maxTokens: 400 });
      const events = await goOn(session, (now) => now.some(({ type }) => type === "compaction_dropped"));
      expect(events).toContainEqual(expect.objectContaining({ reason: expect.stringMatching(/changed/) }));
      await runtime.close();
    }
  });

  it("a text that is injected meanwhile stands after it", async () => {
    const model = createHeldModel();
    const runtime = open(model);
    const { session } = await saidMuch(model, runtime);
    await session.inject("The staging port is 4711.");
    model.release();
    await waitForEvent(session, "compaction_prepared");
    await goOn(session, () => isCompacted(session));
    const { messages } = await session.context();
    expect(messages.filter((message) => JSON.stringify(message).includes("4711"))).toHaveLength(1);
    expect((await session.compactions())[0]?.prepared).toBeDefined();
    await runtime.close();
  });

  it("is not begun where it would pass a budget", async () => {
    const model = createHeldModel();
    const runtime = open(model);
    const session = await runtime.createSession(`Build 1000. ${SAID}`, { budgetLimits: { max_tokens: 1_000 } });
    for (let turn = 1; turn < 12; turn += 1) await say(session, turn);
    expect(model.asked()).toBe(0);
    expect((await session.read()).usage?.inputTokens).toBe(120);
    await runtime.close();
  });

  it("one a session, four a process", async () => {
    const model = createHeldModel();
    const runtime = open(model);
    model.hold();
    for (let number = 0; number < 6; number += 1) {
      const session = await runtime.createSession(`Session ${number}. ${SAID}`);
      for (let turn = 1; turn < 9; turn += 1) await say(session, turn);
    }
    expect(model.asked()).toBe(4);
    await runtime.close();
  });

  it("of a summary that fails is told, counted, and not tried again at once", async () => {
    const model = createHeldModel({ summary: "​" });
    const runtime = open(model, { compaction: { ...READY, minTurnsBetweenCompactions: 4 } });
    const { session } = await saidMuch(model, runtime);
    model.release();
    expect(await waitForEvent(session, "compaction_dropped")).toEqual({
      type: "compaction_dropped",
      reason: "LLM returned empty summary",
      usage: SUMMARY_USAGE,
    });
    const spent = (await session.read()).usage?.inputTokens ?? 0;
    expect(spent % 100).toBe((spent - SUMMARY_USAGE.input_tokens) % 100);
    await session.turn(`And on. ${SAID}`);
    await session.turn(`And on. ${SAID}`);
    expect(model.asked()).toBe(1);
    expect(await session.compactions()).toEqual([]);
    await runtime.close();
  });

  it("ends with the runtime, and with an interrupt: what it took is counted, and nothing is compacted", async () => {
    for (const end of ["close", "interrupt"] as const) {
      const store = createInMemoryStore();
      const model = createHeldModel();
      const runtime = open(model, { store: { ...store, close: async () => {} } });
      const { session, turns } = await saidMuch(model, runtime);
      if (end === "close") await runtime.close();
      else {
        await session.interrupt();
        expect(await waitForEvent(session, "compaction_dropped")).toMatchObject({ reason: "interrupted" });
      }
      const later = open(createHeldModel(), { store });
      const again = later.session(session.id);
      expect(compactionsIn(await eventsOf(again))).toEqual([{ type: "compaction_dropped", reason: "interrupted" }]);
      const { usage } = await again.read();
      expect(usage?.inputTokens).toBeGreaterThan(turns * ANSWER.input_tokens);
      expect(usage?.estimated).toBe(true);
      await later.close();
      if (end === "interrupt") await runtime.close();
    }
  });

  it("by hand it is used, and previewed as free; with instructions another is made", async () => {
    const model = createHeldModel();
    const runtime = open(model);
    const { session } = await saidMuch(model, runtime);
    model.release();
    const { compaction_id } = await waitForEvent(session, "compaction_prepared");
    const { compaction: previewed } = await session.compact({ preview: true });
    expect(previewed).toMatchObject({ compactionId: compaction_id, cost: { inputTokens: 0, maxOutputTokens: 0 } });
    expect(await session.compact()).toMatchObject({
      compacted: true,
      compaction: { compactionId: compaction_id, trigger: "manual" },
    });
    expect(model.asked()).toBe(1);
    model.hold();
    await goOn(session, () => model.asked() === 2);
    const after = await lastSeq(session);
    model.release();
    await waitForEvent(session, "compaction_prepared", after);
    const { compaction } = await session.compact({ instructions: "Keep every build." });
    expect(compaction).toMatchObject({ instructions: "Keep every build.", trigger: "manual" });
    expect(compaction?.prepared).toBeUndefined();
    expect(compactionsIn(await eventsOf(session)).slice(-3)).toEqual([
      expect.objectContaining({ type: "compaction_dropped", usage: SUMMARY_USAGE }),
      expect.objectContaining({ type: "compaction_started" }),
      expect.objectContaining({ type: "compaction_completed" }),
    ]);
    await runtime.close();
  });

  it("is off unless it is asked for, by configuration, code or session; economy asks for it", async () => {
    const cases: readonly [RuntimeOptions, object, boolean][] = [
      [{}, {}, true],
      [{ compaction: { ...READY, prepare: false } }, {}, false],
      [{ compaction: { ...READY, prepare: false } }, { prepare: true }, true],
      [{ compaction: { ...READY, prepare: false } }, { policy: "economy" }, false],
      [{ compaction: withoutPrepare(), config: configWith({ compaction: { prepare: true } }) }, {}, true],
      [{ compaction: withoutPrepare(), config: configWith({ compaction: { policy: "economy" } }) }, {}, true],
      [{ compaction: withoutPrepare() }, { policy: "economy" }, true],
      [{ compaction: withoutPrepare() }, {}, false],
    ];
    for (const [options, compaction, isPrepared] of cases) {
      const model = createHeldModel();
      const runtime = open(model, options);
      const session = await runtime.createSession(`Build 1000. ${SAID}`, { compaction });
      for (let turn = 1; turn < 12; turn += 1) await say(session, turn);
      const types = compactionsIn(await eventsOf(session)).map(({ type }) => type);
      expect({ compaction, isPrepared: types.includes("compaction_prepared") }).toEqual({ compaction, isPrepared });
      expect(types).toContain("compaction_completed");
      await runtime.close();
    }
  });
});

function withoutPrepare() {
  const { prepare: _, ...rest } = READY;
  return rest;
}
