import { Usage } from "./event.ts";
import { cliFlag, parseDuration } from "./input.ts";
import { z } from "./schema.ts";

const when = { error: "write how far back, like 7d, or a day, like 2026-11-01" };
const DAY = z.iso.date();

const By = z.enum(["model", "label", "day", "token"], { error: "write model, label, day or token" });

const ReadUsage = z.strictObject({
  by: cliFlag(
    "--by <what>",
    By.default("model").describe("what it is told apart by: model, label, day (UTC), or the token that asked"),
  ),
  since: cliFlag(
    "--since <when>",
    z
      .string(when)
      .refine((text) => DAY.safeParse(text).success || (parseDuration(text) ?? 0) > 0, when)
      .optional()
      .describe("only from this day on: how far back, such as 7d, or a day, such as 2026-11-01")
      .meta({ examples: ["7d"] }),
  ),
  labels: cliFlag(
    "--label <key=value>",
    z.record(z.string(), z.string()).optional().describe("only sessions with these labels"),
  ),
});

const sums = {
  calls: z.number().int().nonnegative().describe("model calls; a compaction counts as one, whatever it took"),
  usage: Usage.describe("the tokens of those calls, and what they cost"),
};

export const UsageReport = z.object({
  by: By.describe("what it is told apart by"),
  since: z.string().optional().describe("the first day that is counted; absent for all days"),
  groups: z
    .array(
      z.object({
        key: z.string().describe("the model, the label as key=value, the day, or the token; empty for none"),
        ...sums,
      }),
    )
    .describe("the dearest first, days in their order; a session with two labels is counted under both"),
  total: z.object(sums).describe("all of it, each call once"),
});
export type UsageReport = z.infer<typeof UsageReport>;

/** The rows of the table about what was used. */
export const USAGE_OPERATIONS = {
  readUsage: {
    summary: "Sum up what models were used, with their tokens and cost, over all sessions and agents.",
    input: ReadUsage,
    output: UsageReport,
    rpc: "usage/read",
    http: "GET /usage",
    mcp: "meerkat_usage",
    mcpListed: false,
    cli: "rkat usage",
    scope: "read",
    sees: "own",
    requires: "session-store",
  },
} as const;
