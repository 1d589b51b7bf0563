import { cliFlag, nonnegative, positive } from "./input.ts";
import { z } from "./schema.ts";
import { SessionSummary } from "./session-info.ts";

export const ListSessions = z.object({
  limit: cliFlag("--limit <n>", positive.optional().describe("show at most so many")),
  offset: cliFlag("--offset <n>", nonnegative.default(0).describe("leave out the newest so many")),
  labels: cliFlag(
    "--label <key=value>",
    z.record(z.string(), z.string()).optional().describe("only sessions with these labels"),
  ),
  archived: cliFlag("--archived", z.boolean().default(false).describe("archived sessions, too")),
  cursor: cliFlag(
    "--cursor <cursor>",
    z
      .string()
      .optional()
      .describe(
        "go on where an earlier answer ended: its next_cursor, without an offset; no session comes twice, and one that changes meanwhile moves to the front and may be missed",
      ),
  ),
});

export const SessionPage = z.object({
  sessions: z.array(SessionSummary).describe("the sessions, the one that changed last first"),
  next_cursor: z
    .string()
    .optional()
    .describe("the cursor of the next page; only with a limit, where more sessions follow"),
});
