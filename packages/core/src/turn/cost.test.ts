import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import type { Usage } from "../contract/event.ts";
import type { ModelPrices } from "../contract/money.ts";
import type { Spent } from "../ports/store.ts";
import { addSpending, addUsage, NO_USAGE, nanosOf, OTHER_MODELS, SPENT_MAX, type Spending, withCost } from "./cost.ts";

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

const DAY_MS = 86_400_000;
const usage = { input_tokens: 10, output_tokens: 5, cost: { amount: 0.1, currency: "USD" as const } };
const onDay = (day: number, model = "m", by?: string): Spending => ({ model, by, usage, timestamp_ms: day * DAY_MS });
const foldAll = (spent: readonly Spending[]): readonly Spent[] => spent.reduce(addSpending, []);

describe("what a row keeps of what was spent", () => {
  it("[I7] is a sum for each day, model and name that asked", () => {
    const [first, second, third] = foldAll([onDay(0), onDay(0), onDay(0, "m", "web"), onDay(1)]);
    expect(first).toEqual({
      day: "1970-01-01",
      model: "m",
      calls: 2,
      usage: { input_tokens: 20, output_tokens: 10, cost: { amount: 0.2, currency: "USD" } },
    });
    expect(second).toMatchObject({ day: "1970-01-01", by: "web", calls: 1 });
    expect(third).toMatchObject({ day: "1970-01-02", calls: 1 });
  });

  it("[I7] [H5] is bounded: the oldest days are put together, and the newest stay apart", () => {
    const sums = foldAll(Array.from({ length: 400 }, (_, day) => onDay(day)));
    expect(sums.length).toBe(SPENT_MAX);
    expect(sums.at(-1)).toMatchObject({ day: "1971-02-04", calls: 1 });
    expect(sums[0]).toMatchObject({ day: "1971-01-04", calls: 400 - SPENT_MAX + 1 });
  });

  it("[I7] gives up which of too many models it was before it gives up who asked", () => {
    const sums = foldAll(Array.from({ length: 100 }, (_, at) => onDay(0, `m${at}`, at % 2 === 0 ? "web" : "ci")));
    expect(sums.length).toBe(SPENT_MAX);
    const callsBy = (name: string) =>
      sums.filter(({ by }) => by === name).reduce((calls, { calls: more }) => calls + more, 0);
    expect([callsBy("web"), callsBy("ci")]).toEqual([50, 50]);
    expect(sums.some(({ model }) => model === OTHER_MODELS)).toBe(true);
  });

  it("[I7] adds up to what was spent, whatever was put together", () => {
    const spending = fc.record({ day: fc.nat(90), model: fc.nat(60), by: fc.option(fc.nat(60)) });
    fc.assert(
      fc.property(fc.array(spending, { maxLength: 200 }), (given) => {
        const spent = given.map(({ day, model, by }) => onDay(day, `m${model}`, by === null ? undefined : `t${by}`));
        const sums = foldAll(spent);
        expect(sums.length).toBeLessThanOrEqual(SPENT_MAX);
        expect(sums.reduce((calls, sum) => calls + sum.calls, 0)).toBe(spent.length);
        expect(sums.map((sum) => sum.usage).reduce(addUsage, NO_USAGE)).toEqual(
          spent.map(() => usage).reduce(addUsage, NO_USAGE),
        );
      }),
    );
  });
});
