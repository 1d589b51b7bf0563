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
