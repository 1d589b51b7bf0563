import { ForgetReceipt, Signed } from "./forget.ts";
import { cliFlag, nonnegative } from "./input.ts";
import { z } from "./schema.ts";

const SESSIONS_DEFAULT = 100;
const SESSIONS_MAX = 1_000;
const bounded = { error: `write a whole number from 1 to ${SESSIONS_MAX}` };

const Prune = z.strictObject({
  dry_run: cliFlag(
    "--dry-run",
    z.boolean({ error: "write true or false" }).default(false).describe("change nothing: list what would go"),
  ),
  limit: cliFlag(
    "--limit <n>",
    z
      .int(bounded)
      .min(1, bounded)
      .max(SESSIONS_MAX, bounded)
      .default(SESSIONS_DEFAULT)
      .describe(`the most sessions to go at once, the oldest first, up to ${SESSIONS_MAX}`),
  ),
});

const Pruned = z.object({
  session_id: z.string().describe("the session"),
  title: z.string().optional().describe("how it begins; only of a dry run"),
  updated_at: z.string().describe("when it last changed, in RFC 3339"),
  rule: z.string().describe("why it goes: `sessions`, or the label of the rule"),
  kept_for: z.string().describe("how long the rule keeps, such as 90d"),
});

export const PruneResult = z.object({
  dry_run: z.boolean().describe("whether nothing was changed"),
  sessions: z.array(Pruned).describe("the sessions that went, or would, the oldest first"),
  more: nonnegative.describe("sessions that are due besides and go the next time"),
  busy: nonnegative.describe("sessions that are due, but run a turn or are locked; they are erased later"),
  receipt: ForgetReceipt.optional().describe("what was done and found afterwards; absent where nothing went"),
  signed: Signed.optional().describe("the same with its signature"),
});
export type PruneResult = z.infer<typeof PruneResult>;

export const PRUNE_OPERATIONS = {
  prune: {
    summary: "Forget the sessions that the configuration keeps no longer, with one signed receipt.",
    input: Prune,
    output: PruneResult,
    rpc: "memory/prune",
    http: "POST /memory/prune",
    cli: "rkat prune",
    cliJson: ["--json", "--yes"],
    scope: "admin",
    sees: "project",
    audited: { action: "sessions_pruned", counts: ["sessions"] },
    requires: "session-store",
  },
} as const;
