import { z } from "./schema.ts";

const amount = z.number().nonnegative();
const count = z.number().int().nonnegative();

/** What calls of models cost. Amounts have at most nine decimals, so that sums of them are exact. */
export const Cost = z.object({
  amount: amount.describe("the amount, as a decimal number"),
  currency: z.literal("USD").describe("the currency"),
  partial: z.literal(true).optional().describe("some calls have no known price, so this is a minimum"),
});
export type Cost = z.infer<typeof Cost>;

/** US dollars for a million tokens of each kind. */
const Rates = z.object({
  input: amount.describe("a million tokens of input"),
  cached_input: amount.optional().describe("of those, tokens that were read from the cache; without it, as input"),
  cache_write: amount.optional().describe("of those, tokens that were put into the cache; without it, as input"),
  output: amount.describe("a million tokens of output"),
});
export type Rates = z.infer<typeof Rates>;

/** The published price of a model. */
export const ModelPrices = Rates.extend({
  currency: z.literal("USD").describe("the currency"),
  above: Rates.extend({
    input_tokens: z.number().int().positive().describe("the input tokens above which they apply"),
  })
    .optional()
    .describe("the prices of a call with a longer input"),
  as_of: z.string().optional().describe("the day they were read, as 2026-11-16"),
  cache_minutes: z
    .number()
    .positive()
    .optional()
    .describe("how long the provider keeps what it has cached; without it, 5"),
  source: z.string().optional().describe("their source"),
});
export type ModelPrices = z.infer<typeof ModelPrices>;

/** Whether a compaction pays: what it saves and what it costs, by the prices and the cache of that moment. */
export const Economy = z.object({
  saves: amount.describe("the expected saving in later calls"),
  costs: amount.describe("the cost of the summary, and of caching the remaining context again"),
  currency: z.literal("USD").describe("the currency of both"),
  calls: count.describe("model calls that are expected to follow"),
  cache: z.enum(["warm", "cold"]).describe("whether the provider still had the context in its cache"),
});
export type Economy = z.infer<typeof Economy>;
