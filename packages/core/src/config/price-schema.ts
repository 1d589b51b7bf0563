import { z } from "../contract/schema.ts";

const amount = { error: "write an amount of US dollars of at least 0, like 0.5" };
const dollars = z.number(amount).nonnegative(amount);

/** What calls of a session may cost. */
export const CostLimit = z
  .number({ error: "write an amount of US dollars above 0, like 0.5" })
  .positive({ error: "write an amount of US dollars above 0, like 0.5" });

/** The price of a model per million tokens, where it differs from the catalogue or is missing there. */
export const Price = z.strictObject({
  input: dollars.meta({ description: "US dollars for a million tokens of input; 0 is a price, too", examples: [3] }),
  cached_input: dollars
    .optional()
    .meta({ description: "for those that are read from the provider's cache; without it, as input", examples: [0.3] }),
  cache_write: dollars
    .optional()
    .meta({ description: "for those that are put into the cache; without it, as input", examples: [3.75] }),
  output: dollars.meta({ description: "for a million tokens of output", examples: [15] }),
  cache_minutes: z
    .number({ error: "write a number of minutes above 0, like 60" })
    .positive({ error: "write a number of minutes above 0, like 60" })
    .optional()
    .meta({ description: "how long the provider keeps what it has cached; without it, 5", examples: [60] }),
  as_of: z.iso
    .date({ error: 'write a day in quotes, like "2026-11-16"' })
    .optional()
    .meta({ description: "the day on which you looked, as a note to yourself", examples: ["2026-11-16"] }),
});
