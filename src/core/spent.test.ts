import { describe, expect, it } from "vitest";
import { fc } from "../../test/support/property.ts";
import type { Spent } from "../ports/store.ts";
import { addUsage, NO_USAGE } from "./cost.ts";
import { addSpending, OTHER_MODELS, SPENT_MAX, type Spending } from "./spent.ts";

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
