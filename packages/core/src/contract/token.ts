import { Scope } from "./caller.ts";
import { z } from "./schema.ts";

const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;

/** What a token may be called: its file has the name, too. */
export const TokenName = z.string().regex(NAME, {
  error: "write 1 to 64 small letters, digits, dots, _ and -, the first a letter or digit",
});

/** A token as it is kept: its secret is not in it. */
export const Token = z.strictObject({
  name: TokenName.describe("how logs and audits call it"),
  /** A secret of 256 random bits cannot be guessed, so a slow hash would only slow down requests. */
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .describe("of the secret"),
  scopes: z.array(Scope).min(1).describe("what it may do"),
  labels: z.record(z.string(), z.string()).describe("only sessions that have all of them are there for it"),
  created_at: z.iso.datetime().describe("when it was made"),
  expires_at: z.iso.datetime().optional().describe("when it ends; without it, it does not"),
  max_cost_per_day: z.number().positive().optional().describe("what its turns may cost between two midnights, UTC"),
  rate: z
    .strictObject({
      requests: z.int().positive().describe("so many requests"),
      per_ms: z.int().positive().describe("in so many milliseconds"),
    })
    .optional()
    .describe("how often it may ask; without it, as often as it likes"),
});
export type Token = z.infer<typeof Token>;
