import { AgentName } from "./agent.ts";
import { SeqRange } from "./compaction.ts";
import { cliFlag, nonnegative, positive } from "./input.ts";
import { z } from "./schema.ts";
import { SessionId } from "./session.ts";

const count = z.number().int().nonnegative();
/** Shorter texts stand everywhere by chance. */
const TEXT_CHARS_MIN = 4;
const TEXT_CHARS_MAX = 10_000;
const MESSAGES_MAX = 1_000;
const named = {
  error: `write a text of ${TEXT_CHARS_MIN} to ${TEXT_CHARS_MAX} characters; shorter ones stand everywhere`,
};

const OneMessage = z.strictObject({ session_id: SessionId, seq: positive.describe("the message, by its seq") });

const TARGETS = ["session_id", "messages", "agent", "query_exact", "query"] as const;

/** What is to be forgotten: one of a session, messages, an agent, and everything that says a text. */
export const Forget = z
  .strictObject({
    session_id: cliFlag(
      "--session <session>",
      SessionId.optional().describe("forget this session, or a message of it"),
    ),
    seq: cliFlag("--seq <seq>", positive.optional().describe("with a session: only the message with this seq")),
    messages: z
      .array(OneMessage, { error: "write a list of {session_id, seq}" })
      .min(1, { error: "write at least one message" })
      .max(MESSAGES_MAX, { error: `write at most ${MESSAGES_MAX} messages` })
      .optional()
      .describe("forget these messages, such as those a dry run of a query listed"),
    agent: cliFlag("--agent <name>", AgentName.optional().describe("forget what this agent remembers")),
    memory: cliFlag(
      "--memory <number>",
      positive.optional().describe("with an agent: only the memory with this number"),
    ),
    query_exact: cliFlag(
      "--text <text>",
      z
        .string(named)
        .refine((text) => text.trim().length >= TEXT_CHARS_MIN && text.length <= TEXT_CHARS_MAX, named)
        .optional()
        .describe("forget every message, memory and schedule that contains this, in any case, spacing and encoding")
        .meta({ examples: ["ada@example.org"] }),
    ),
    query: cliFlag(
      "--query <text>",
      z
        .string()
        .min(1, { error: "write what to look for" })
        .max(TEXT_CHARS_MAX)
        .optional()
        .describe("with dry_run: list the messages a search finds; then forget those that are meant, by messages"),
    ),
    dry_run: cliFlag(
      "--dry-run",
      z.boolean({ error: "write true or false" }).default(false).describe("change nothing: list what would be erased"),
    ),
  })
  .refine((input) => TARGETS.filter((name) => input[name] !== undefined).length === 1, {
    path: ["session_id"],
    error: `name one of ${TARGETS.join(", ")}`,
  })
  .refine(({ seq, session_id }) => seq === undefined || session_id !== undefined, {
    path: ["seq"],
    error: "name its session, too",
  })
  .refine(({ memory, agent }) => memory === undefined || agent !== undefined, {
    path: ["memory"],
    error: "name its agent, too",
  })
  .refine(({ query, dry_run }) => query === undefined || dry_run, {
    path: ["query"],
    error: "a query is only for a dry run; forget what it lists by messages",
  });
export type Forget = z.infer<typeof Forget>;

/** A message or a memory that goes, or would. */
const Going = z.object({
  session_id: z.string().optional().describe("the session it is of"),
  agent: z.string().optional().describe("the agent whose memory or note it is"),
  schedule_id: z.string().optional().describe("the schedule whose definition it is"),
  seq: count.describe("its number in the log"),
  kind: z.string().describe("what it is"),
  at: z.string().describe("its time, in RFC 3339"),
  excerpt: z.string().optional().describe("its beginning; only in a dry run"),
});
export type Going = z.infer<typeof Going>;

const ForgottenLog = z.object({
  session_id: z.string().optional().describe("the session"),
  agent: z.string().optional().describe("or the agent"),
  schedule_id: z
    .string()
    .optional()
    .describe("or the schedule; it is deleted, unless only an earlier definition of it is erased"),
  all: z.boolean().describe("whether all of it is erased"),
  messages: count.describe("erased messages, memories, notes and definitions of schedules"),
  cut: count.describe("summaries that lost sentences"),
  holes: z.array(SeqRange).describe("the shortened entries"),
});

const Place = z.object({
  place: z.string().describe("the file or table"),
  form: z.string().describe("how it is written there"),
});

const settings = count.describe("settings of the realm's own configuration that contain the text and are removed");

/** What is signed: it holds nothing of what was forgotten. */
export const ForgetReceipt = z.object({
  version: z.literal(1).describe("of this shape"),
  forgetting_id: z.string().describe("its id"),
  at: z.string().describe("when it was done, in RFC 3339"),
  target: z
    .enum(["session", "sessions", "message", "messages", "agent", "memory", "text"])
    .describe("what was to be erased"),
  by: z.string().optional().describe("the name of the caller"),
  logs: z.array(ForgottenLog).describe("the sessions, agents and schedules with erased content"),
  blobs: count.describe("files kept beside the logs that were removed"),
  settings: settings.optional(),
  scan: z
    .object({
      texts: count.describe("texts that were searched for"),
      places: count.describe("files and tables that were scanned"),
      bytes: count.describe("bytes that were scanned"),
      matches: count.describe("places that still contain one of them"),
      elsewhere: z.array(Place).describe("those places, at most 100"),
    })
    .describe("the result of a scan of all stored bytes"),
  quoted_in: z
    .array(
      z.object({
        session_id: z.string().optional().describe("the session it is of"),
        agent: z.string().optional().describe("or the agent"),
        schedule_id: z.string().optional().describe("or the schedule"),
        seq: count.describe("its number in the log"),
      }),
    )
    .describe("other messages that contain the same text and were not to be erased, at most 100"),
  backups: z
    .array(z.object({ place: z.string().describe("where it is"), at: z.string().describe("when it was made") }))
    .describe("known back-ups of before, which still hold it until they are brought up to date or deleted"),
});
export type ForgetReceipt = z.infer<typeof ForgetReceipt>;

export const Signed = z.object({
  receipt: z.string().describe("the receipt as it was signed, as JSON"),
  signature: z.string().describe("of those bytes, by Ed25519, in Base64"),
  public_key: z.string().describe("the key it is checked with"),
});

export const ForgetResult = z.object({
  dry_run: z.boolean().describe("whether nothing was changed"),
  logs: z.array(ForgottenLog).describe("the sessions, agents and schedules with erased content, or that would have it"),
  going: z.array(Going).describe("the messages, memories, notes and definitions of schedules to erase, at most 1,000"),
  more: count.describe("of them, those that are not listed"),
  settings: settings.optional(),
  receipt: ForgetReceipt.optional().describe("of an erasure: what was done and what was found afterwards"),
  signed: Signed.optional().describe("the same with its signature"),
});
export type ForgetResult = z.infer<typeof ForgetResult>;

export const FORGET_OPERATIONS = {
  forget: {
    summary: "Forget a session, messages, an agent's memory or a text everywhere, with a signed receipt.",
    input: Forget,
    output: ForgetResult,
    rpc: "memory/forget",
    http: "POST /memory/forget",
    mcp: "meerkat_forget",
    cli: "rkat memory forget",
    cliJson: ["--json", "--yes"],
    scope: "admin",
    sees: "project",
    audited: { action: "erased", counts: ["going", "more", "settings"] },
    requires: "session-store",
  },
  listForgettings: {
    summary: "List the signed receipts of erasures.",
    input: z.strictObject({}),
    output: z.object({
      forgettings: z
        .array(Signed.extend({ valid: z.boolean().describe("whether the signature is valid") }))
        .describe("oldest first"),
      unfinished: count.describe("erasures in progress"),
    }),
    rpc: "memory/forgettings",
    http: "GET /memory/forgettings",
    mcp: "meerkat_forgettings",
    mcpListed: false,
    cli: "rkat memory erasures",
    scope: "admin",
    sees: "project",
    requires: "session-store",
  },
} as const;

const SESSIONS_DEFAULT = 100;
const SESSIONS_MAX = 1_000;
const bounded = { error: `write a whole number from 1 to ${SESSIONS_MAX}` };

const Prune = z.strictObject({
  dry_run: cliFlag(
    "--dry-run",
    z.boolean({ error: "write true or false" }).default(false).describe("change nothing: list what would be erased"),
  ),
  limit: cliFlag(
    "--limit <n>",
    z
      .int(bounded)
      .min(1, bounded)
      .max(SESSIONS_MAX, bounded)
      .default(SESSIONS_DEFAULT)
      .describe(`the maximum number of sessions to erase, oldest first, up to ${SESSIONS_MAX}`),
  ),
});

const Pruned = z.object({
  session_id: z.string().describe("the session"),
  title: z.string().optional().describe("its beginning; only in a dry run"),
  updated_at: z.string().describe("when it last changed, in RFC 3339"),
  rule: z.string().describe("the rule: `sessions`, or its label"),
  kept_for: z.string().describe("how long the rule keeps, such as 90d"),
});

export const PruneResult = z.object({
  dry_run: z.boolean().describe("whether nothing was changed"),
  sessions: z.array(Pruned).describe("the sessions that were erased, or would be, oldest first"),
  more: nonnegative.describe("further sessions that are due; they are erased the next time"),
  busy: nonnegative.describe("sessions that are due, but run a turn or are locked; they are erased later"),
  receipt: ForgetReceipt.optional().describe("what was done and found afterwards; absent if nothing was erased"),
  signed: Signed.optional().describe("the same with its signature"),
});
export type PruneResult = z.infer<typeof PruneResult>;

export const PRUNE_OPERATIONS = {
  prune: {
    summary: "Forget the sessions past their retention period, with one signed receipt.",
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
