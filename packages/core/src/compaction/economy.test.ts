import { describe, expect, it } from "vitest";
import { createRandom } from "../../../../test/crash/random.ts";
import { byEffort } from "../../../../test/support/effort.ts";
import { testSeed } from "../../../../test/support/seed.ts";
import type { ModelPrices } from "../contract/money.ts";
import { expectedCalls, pays, removesEnough, type Stakes, weigh } from "./economy.ts";

/** US dollars a million tokens, as a model of the middle charges them. */
const PRICES: ModelPrices = { currency: "USD", input: 3, cached_input: 0.3, cache_write: 3.75, output: 15 };
const STAKES: Stakes = {
  prices: PRICES,
  tokensBefore: 100_000,
  tokensAfter: 20_000,
  readTokens: 100_000,
  summaryTokens: 2_000,
  calls: 10,
  idleMs: 0,
};
const MINUTE_MS = 60_000;

describe("[J3] whether a compaction pays", () => {
  // Every figure of this table was computed by hand.
  it.each<[what: string, change: Partial<Stakes>, saves: number, costs: number, isWorth: boolean]>([
    // 10 × 80,000 × 0.3/M; 100,000 × 3/M + 2,000 × 15/M + 20,000 × (3.75 − 0.3)/M
    ["of ten warm calls does not", {}, 0.24, 0.399, false],
    ["of twenty warm calls does", { calls: 20 }, 0.48, 0.399, true],
    // The next call would put 100,000 tokens into the cache; with it, 20,000: 80,000 × 3.75/M + 9 × 80,000 × 0.3/M
    ["of ten calls does once the cache is cold", { idleMs: 6 * MINUTE_MS }, 0.516, 0.33, true],
    ["is still judged warm just before the cache ends", { idleMs: 5 * MINUTE_MS - 1 }, 0.24, 0.399, false],
    ["is judged cold when it ends", { idleMs: 5 * MINUTE_MS }, 0.516, 0.33, true],
    [
      "of a cache of an hour stays warm",
      { idleMs: 6 * MINUTE_MS, prices: { ...PRICES, cache_minutes: 60 } },
      0.24,
      0.399,
      false,
    ],
    // Nothing is cached: 3 × 80,000 × 2/M; 100,000 × 2/M + 2,000 × 8/M
    [
      "of three calls without a cache does",
      { calls: 3, prices: { currency: "USD", input: 2, output: 8 } },
      0.48,
      0.216,
      true,
    ],
    // Its summary is paid for: only what stays is put into the cache again.
    ["that is prepared does for ten calls", { readTokens: 0, summaryTokens: 0 }, 0.24, 0.069, true],
    ["that is prepared does not for two", { readTokens: 0, summaryTokens: 0, calls: 2 }, 0.048, 0.069, false],
    // 300,000 tokens are charged at twice the price, 60,000 are not: 4 × (300,000 × 0.6 − 60,000 × 0.3)/M;
    // 300,000 × 6/M + 2,000 × 30/M + 60,000 × 3.45/M
    [
      "counts that long inputs are charged more",
      {
        tokensBefore: 300_000,
        tokensAfter: 60_000,
        readTokens: 300_000,
        calls: 4,
        prices: {
          ...PRICES,
          above: { input_tokens: 200_000, input: 6, cached_input: 0.6, cache_write: 7.5, output: 30 },
        },
      },
      0.648,
      2.067,
      false,
    ],
  ])("%s", (_what, change, saves, costs, isWorth) => {
    const stakes = { ...STAKES, ...change };
    expect(weigh(stakes)).toMatchObject({ saves, costs, currency: "USD", calls: stakes.calls });
    expect(pays(stakes)).toBe(isWorth);
  });

  it("is not decided by a model that costs nothing", () => {
    const free = { ...STAKES, prices: { currency: "USD", input: 0, output: 0 } as const };
    expect(weigh(free)).toBeUndefined();
    expect(pays(free)).toBe(false);
  });

  it("is never answered yes where less than 5 % would go, whatever it saves", () => {
    const much = { ...STAKES, calls: 1_000, readTokens: 0, summaryTokens: 0 };
    expect(pays({ ...much, tokensAfter: 95_000, idleMs: 6 * MINUTE_MS })).toBe(true);
    expect(pays({ ...much, tokensAfter: 95_001, idleMs: 6 * MINUTE_MS })).toBe(false);
    expect(removesEnough({ tokensBefore: 0, tokensAfter: 0 })).toBe(false);
  });

  it("expects as many calls as there were since the last compaction, between three and fifty", () => {
    expect(expectedCalls({ session_boundary_index: 12, last_compaction_boundary_index: 5 })).toBe(7);
    expect(expectedCalls({ session_boundary_index: 12 })).toBe(12);
    expect(expectedCalls({ session_boundary_index: 12, last_compaction_boundary_index: 11 })).toBe(3);
    expect(expectedCalls({ session_boundary_index: 900 })).toBe(50);
  });

  const cases = byEffort({ usual: 2_000, full: 100_000 });
  it(`holds in ${cases} drawn cases: more calls, a smaller context, a shorter or a cheaper summary never make it pay less`, () => {
    const seed = testSeed();
    const random = createRandom(seed);
    const upTo = (most: number): number => Math.floor(random() * most);
    for (let round = 0; round < cases; round += 1) {
      const tokensBefore = 1 + upTo(1_000_000);
      const input = (1 + upTo(2_000)) / 100;
      const stakes: Stakes = {
        prices: {
          currency: "USD",
          input,
          output: (1 + upTo(8_000)) / 100,
          ...(random() < 0.7 ? { cached_input: Math.round(input * upTo(100)) / 100 } : {}),
          ...(random() < 0.7 ? { cache_write: Math.round(input * (100 + upTo(100))) / 100 } : {}),
        },
        tokensBefore,
        tokensAfter: upTo(tokensBefore * 1.1),
        readTokens: random() < 0.3 ? 0 : tokensBefore,
        summaryTokens: upTo(8_000),
        calls: 1 + upTo(60),
        idleMs: upTo(20 * MINUTE_MS),
      };
      const reported = { seed, round, stakes };
      const yes = pays(stakes);
      if (stakes.tokensAfter > tokensBefore * 0.95) expect({ ...reported, yes }).toEqual({ ...reported, yes: false });
      if (!yes) continue;
      const { prices } = stakes;
      const easier: readonly Partial<Stakes>[] = [
        { calls: stakes.calls + 1 },
        { tokensAfter: Math.floor(stakes.tokensAfter / 2) },
        { summaryTokens: Math.floor(stakes.summaryTokens / 2) },
        { readTokens: 0 },
        { prices: { ...prices, output: prices.output / 2 } },
        // All prices at once change the figures and not the answer.
        { prices: doubled(prices) },
      ];
      for (const change of easier) {
        expect({ ...reported, change, yes: pays({ ...stakes, ...change }) }).toEqual({
          ...reported,
          change,
          yes: true,
        });
      }
    }
  });
});

function doubled(prices: ModelPrices): ModelPrices {
  const { input, output, cached_input, cache_write } = prices;
  return {
    ...prices,
    input: input * 2,
    output: output * 2,
    ...(cached_input === undefined ? {} : { cached_input: cached_input * 2 }),
    ...(cache_write === undefined ? {} : { cache_write: cache_write * 2 }),
  };
}
