import { Duration } from "../contract/input.ts";
import { z } from "../contract/schema.ts";

// Node's timers fire at once for longer waits, so they are refused.
export const TIMER_MS_MAX = 2 ** 31 - 1;

/** Every message here completes the sentence "<key> is <value>; …" and says what to write. */
export const whole = (least: number, most = Number.MAX_SAFE_INTEGER) => {
  const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
  const error = `write a whole number ${range}`;
  return z.int({ error }).min(least, { error }).max(most, { error });
};
export const fraction = (error: string) => z.number({ error }).positive({ error }).max(1, { error });
export const flag = z.boolean({ error: "write true or false" });
export const text = z.string({ error: "write a text in quotes" }).min(1, { error: "write a text, or remove the key" });
export const oneOf = <const T extends readonly string[]>(names: T) =>
  z.enum(names, { error: `write one of ${names.map((name) => `"${name}"`).join(", ")}` });
export const wait = Duration.refine((ms) => ms > 0 && ms <= TIMER_MS_MAX, {
  error: "write a duration longer than zero and of at most 24 days, like 30s",
});
export const waitOrNone = z.union([z.literal("disabled"), wait], { error: 'write a duration like 45s, or "disabled"' });
export const msOrNone = (given: number | "disabled") => (given === "disabled" ? undefined : given);

/** Secrets stay out of the configuration: it names the variable that holds one. */
export const variableName = z.string({ error: "write the name of an environment variable" }).regex(/^[A-Za-z_]\w*$/, {
  error: "write the name of the environment variable that holds the key, never the key itself",
});
export const address = z
  .url({ protocol: /^https?$/, error: "write an address like http://localhost:11434/v1" })
  .refine((url) => !/^[a-z]+:\/\/[^/]*@/i.test(url), {
    error: "write the address without a user name or password, and name the key's variable in api_key_env",
  });

/** The description of a key that `rkat init` writes, with an example; by default, its default value. */
export const common = (description: string, ...examples: readonly unknown[]) => ({ description, examples });

const amount = { error: "write an amount of US dollars of at least 0, like 0.5" };
const dollars = z.number(amount).nonnegative(amount);

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
