import { describe, expect, it } from "vitest";
import { fc } from "../../test/support/property.ts";
import type { Usage } from "../contract/event.ts";
import type { ModelPrices } from "../contract/money.ts";
import { addUsage, NO_USAGE, nanosOf, withCost } from "./cost.ts";

const prices: ModelPrices = { currency: "USD", input: 3, cached_input: 0.3, cache_write: 3.75, output: 15 };

describe("the cost of a call", () => {
  it("[I7] is charged by what the tokens are: new, read from the cache, put into it, said", () => {
    const usage = { input_tokens: 1_000, output_tokens: 100, cache_read_tokens: 700, cache_creation_tokens: 200 };
    expect(withCost(usage, prices)).toEqual({ ...usage, cost: { amount: 0.002_76, currency: "USD" } });
  });

  it("[I7] charges what is cached as input where no other price is said", () => {
    const usage = { input_tokens: 1_000, output_tokens: 0, cache_read_tokens: 700, cache_creation_tokens: 200 };
    expect(withCost(usage, { currency: "USD", input: 3, output: 15 }).cost?.amount).toBe(0.003);
  });

  it("[I7] follows the length of the input where a model charges more for a long one", () => {
    const long = { ...prices, above: { input_tokens: 200_000, input: 6, output: 22.5 } };
    const charged = (input_tokens: number) => withCost({ input_tokens, output_tokens: 1_000 }, long).cost?.amount;
    expect(charged(200_000)).toBe(0.615);
    expect(charged(200_001)).toBe(1.222_506);
  });

  it("[I7] is nothing for a price of nothing, and absent without a price or without anything counted", () => {
    const usage = { input_tokens: 10, output_tokens: 5 };
    expect(withCost(usage, { currency: "USD", input: 0, output: 0 }).cost).toEqual({ amount: 0, currency: "USD" });
    expect(withCost(usage, undefined)).toEqual(usage);
    expect(withCost(NO_USAGE, prices)).toEqual(NO_USAGE);
  });

  it("[I7] is what the model itself tells, where it does", () => {
    const usage: Usage = { input_tokens: 10, output_tokens: 5, cost: { amount: 0.7, currency: "USD" } };
    expect(withCost(usage, prices)).toEqual(usage);
  });
});

const tokens = fc.integer({ min: 0, max: 2_000_000 });
const price = fc.integer({ min: 0, max: 100_000_000 }).map((millionths) => millionths / 1_000_000);
const call = fc
  .record({
    usage: fc.record({ input_tokens: tokens, output_tokens: tokens, cache_read_tokens: tokens }),
    prices: fc.option(fc.record({ input: price, cached_input: price, output: price })),
  })
  .map(({ usage, prices }) => withCost(usage, prices === null ? undefined : { currency: "USD", ...prices }));

describe("sums of costs", () => {
  it("[I7] agree to the last billionth of a dollar, in whatever order and groups they are made", () => {
    fc.assert(
      fc.property(fc.array(call, { minLength: 1, maxLength: 40 }), fc.nat(40), (calls, split) => {
        const sum = (some: readonly Usage[]): Usage => some.reduce(addUsage, NO_USAGE);
        const whole = sum(calls);
        const inParts = addUsage(sum(calls.slice(0, split)), sum(calls.slice(split)));
        expect(inParts).toEqual(whole);
        expect(sum(calls.toReversed())).toEqual(whole);
        const known = calls.flatMap(({ cost }) => cost ?? []);
        const nanos = known.reduce((total, cost) => total + BigInt(nanosOf(cost)), 0n);
        expect(BigInt(nanosOf(whole.cost ?? { amount: 0 }))).toBe(nanos);
        const isUnknown = calls.some((one) => one.cost === undefined && one.input_tokens + one.output_tokens > 0);
        expect(whole.cost?.partial).toBe(known.length > 0 && isUnknown ? true : undefined);
        // What the wire and the log hold is read back as the same.
        expect(JSON.parse(JSON.stringify(whole))).toEqual(whole);
      }),
    );
  });
});
