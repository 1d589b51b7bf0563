import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { createHeldModel, SAID } from "../../../../test/support/held-summaries.ts";
import { createVirtualClock } from "../../../../test/support/virtual-clock.ts";
import { DefaultCompactor } from "../compaction/policy.ts";
import type { ModelPrices } from "../contract/money.ts";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "../create-runtime.ts";
import type { Session } from "../sessions/session-handle.ts";

/** Dear to write, cheap to read again: it pays for many calls, or once the cache is cold. */
const PRICES: ModelPrices = { currency: "USD", input: 3, cached_input: 0.3, cache_write: 3.75, output: 15 };
const MINUTE_MS = 60_000;
/** A turn takes about 150 tokens; it is looked at from 500 on. */
const COMPACTION = {
  autoCompactThreshold: 1_000,
  prepareAt: 0.5,
  recentTurnBudget: 2,
  maxSummaryTokens: 100,
  minTurnsBetweenCompactions: 1,
  policy: "economy",
  prepare: false,
} as const;

function open(prices: ModelPrices | undefined, options: RuntimeOptions = {}) {
  const model = createHeldModel(prices === undefined ? {} : { prices });
  const clock = createVirtualClock();
  const store = createInMemoryStore({ now: clock.now });
  const runtime = createRuntime({
    model,
    clock,
    store,
    env: {},
    toolPreset: "none",
    compaction: COMPACTION,
    ...options,
  });
  return { model, clock, runtime };
}

async function say(session: Session, turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) {
    await session.turn(`And on. ${SAID}`);
    await setImmediate();
  }
}

describe("[R4] without an explicit threshold", () => {
  const { autoCompactThreshold: _explicit, policy: _policy, ...DERIVED } = COMPACTION;
  const WINDOW = 4_000;
  const derived = (prices: ModelPrices | undefined, contextWindow = WINDOW) => {
    const model = { ...createHeldModel(prices === undefined ? {} : { prices }), contextWindow };
    return open(prices, { model, compaction: DERIVED });
  };

  it("a context is compacted once that is cheaper than continuing, at the size that was shown before", async () => {
    const { runtime } = derived({ currency: "USD", input: 3, output: 3 });
    const session = await runtime.createSession(`Begin. ${SAID}`);
    const shown: number[] = [];
    while ((await session.compactions()).length === 0) {
      const {
        autoCompactThreshold: auto_compact_threshold = 0,
        nextCallCost: next_call_cost = 0,
        estimatedTokens: estimated_tokens,
      } = await session.context();
      expect(next_call_cost).toBeCloseTo((estimated_tokens * 3) / 1_000_000, 9);
      shown.push(auto_compact_threshold);
      await say(session, 1);
    }
    const [compaction] = await session.compactions();
    expect(compaction?.tokensBefore).toBeLessThan(WINDOW * 0.8);
    expect(Math.min(...shown)).toBeLessThan(WINDOW * 0.8);
    expect(compaction?.tokensBefore).toBeGreaterThanOrEqual(Math.min(...shown));
    await runtime.close();
  });

  it("it is compacted at 80 % of the window where continuing stays cheaper", async () => {
    const { runtime } = derived({ ...PRICES, cached_input: 0.001 });
    const session = await runtime.createSession(`Begin. ${SAID}`);
    expect((await session.context()).autoCompactThreshold).toBe(WINDOW * 0.8);
    while ((await session.compactions()).length === 0) await say(session, 1);
    const [compaction] = await session.compactions();
    expect(compaction?.tokensBefore).toBeGreaterThanOrEqual(WINDOW * 0.8);
    await runtime.close();
  });

  it("without a price it is compacted at 80 % of the window, and at 100,000 tokens of a larger one", async () => {
    for (const [window, threshold] of [
      [WINDOW, 3_200],
      [1_000_000, 100_000],
    ]) {
      const { runtime } = derived(undefined, window);
      const session = await runtime.createSession(`Begin. ${SAID}`);
      const context = await session.context();
      expect(context.autoCompactThreshold).toBe(threshold);
      expect(context.nextCallCost).toBeUndefined();
      await runtime.close();
    }
  });
});

describe("[J3] with the policy economy", () => {
  it("a context over its threshold waits while the cache is warm, and is compacted when it has gone cold", async () => {
    const { runtime, clock, model } = open(PRICES);
    const session = await runtime.createSession(`Begin. ${SAID}`);
    await say(session, 8);
    // Nine calls have not made up for a summary yet, although the threshold is passed.
    expect((await session.context()).estimatedTokens).toBeGreaterThan(1_000);
    expect(model.asked()).toBe(0);
    clock.advance(6 * MINUTE_MS);
    await say(session, 1);
    const [compaction] = await session.compactions();
    expect(compaction).toMatchObject({ trigger: "threshold", economy: { cache: "cold", calls: 9, currency: "USD" } });
    const { saves = 0, costs = 0 } = compaction?.economy ?? {};
    expect(saves).toBeGreaterThan(0);
    expect(costs).toBeGreaterThan(0);
    await runtime.close();
  });

  it("one below its threshold is compacted when that pays, and the events tell both numbers", async () => {
    // Nothing is cached, so every call pays for everything again.
    const { runtime } = open({ currency: "USD", input: 3, output: 3 });
    const session = await runtime.createSession(`Begin. ${SAID}`);
    await say(session, 4);
    const { events } = await session.listEvents({ limit: 200 });
    const reported = events.map(({ payload }) => payload).filter(({ type }) => String(type).startsWith("compaction"));
    expect(reported).toEqual([
      expect.objectContaining({ type: "compaction_started", economy: expect.objectContaining({ cache: "warm" }) }),
      expect.objectContaining({ type: "compaction_completed", economy: expect.objectContaining({ calls: 3 }) }),
    ]);
    const [compaction] = await session.compactions();
    expect(compaction?.tokensBefore).toBeLessThan(1_000);
    const { compaction: preview } = await session.compact({ preview: true });
    expect(preview?.economy).toMatchObject({ currency: "USD", saves: expect.any(Number), costs: expect.any(Number) });
    await runtime.close();
  });

  it("where no price is known the threshold decides", async () => {
    for (const prices of [undefined, { currency: "USD", input: 0, output: 0 } as const]) {
      const { runtime, model } = open(prices);
      const session = await runtime.createSession(`Begin. ${SAID}`);
      await say(session, 14);
      const compactions = await session.compactions();
      expect(compactions.length).toBeGreaterThan(1);
      expect(compactions[0]?.tokensBefore).toBeGreaterThanOrEqual(1_000);
      expect(compactions[0]?.economy).toBeUndefined();
      expect(model.asked()).toBe(compactions.length);
      await runtime.close();
    }
  });

  it("a session can insist on the threshold, and ask for economy", async () => {
    const { runtime, model } = open(PRICES);
    const session = await runtime.createSession(`Begin. ${SAID}`, { compaction: { policy: "threshold" } });
    await say(session, 8);
    expect(model.asked()).toBe(1);
    const fixed = open(PRICES, { compaction: { ...COMPACTION, policy: "threshold" } });
    const asked = await fixed.runtime.createSession(`Begin. ${SAID}`, {
      compaction: { policy: "economy", prepare: false },
    });
    await say(asked, 8);
    expect(fixed.model.asked()).toBe(0);
    await Promise.all([runtime.close(), fixed.runtime.close()]);
  });

  it("is refused with a compactor of one's own, and what is not one with a sentence", async () => {
    const { policy: _, ...rest } = COMPACTION;
    const own = { ...rest, compactor: new DefaultCompactor() };
    const refusal = 'compaction.policy: "economy" is not for a compactor of one\'s own; leave one of the two out';
    expect(() => open(PRICES, { compaction: { ...own, policy: "economy" } })).toThrow(refusal);
    const { runtime } = open(PRICES, { compaction: own });
    await expect(runtime.createSession("Hello.", { compaction: { policy: "economy" } })).rejects.toThrow(refusal);
    const wrong = { ...rest, policy: "cheap" } as unknown as typeof COMPACTION;
    expect(() => open(PRICES, { compaction: wrong })).toThrow("compaction.policy: write threshold or economy");
    expect(() => open(PRICES, { compaction: { ...rest, prepareAt: 2 } })).toThrow(
      "compaction.prepareAt: write a fraction",
    );
    await runtime.close();
  });
});
