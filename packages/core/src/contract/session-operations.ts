import { ContractVersion } from "./capability.ts";
import { AgentEvent } from "./event.ts";
import { cliFlag, InboxSource, JOB_ENDS, positive, WhenBusy } from "./input.ts";
import { jsonChars } from "./json.ts";
import { TextBlock } from "./message.ts";
import { Answer, AskedCall, approval_id, content, Remember } from "./permission.ts";
import { ForkReplacing, ReadRevision, RestoreRevision, RewriteCommit, RewriteTranscript } from "./rewrite.ts";
import { fieldOf, z } from "./schema.ts";
import { CheckedServer, Named, SessionId } from "./session.ts";
import { ForkedSession, MessagePage, SessionHistory } from "./session-info.ts";
import { GoalState } from "./wire/goal.ts";

const TEXT_CHARS_MAX = 1_000_000;

export const InjectContext = z.object({
  session_id: SessionId,
  text: cliFlag(
    "TEXT",
    z
      .string()
      .min(1, { error: "the text is empty" })
      .max(TEXT_CHARS_MAX)
      .describe("the text that the model sees from its next call on"),
  ),
  source: z.string().optional().describe("where the text comes from; the model sees it"),
  idempotency_key: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe("the same key again adds nothing; with another text it is refused"),
});
export type InjectContext = z.infer<typeof InjectContext>;

export const InjectedContext = z.object({
  status: z
    .enum(["applied", "staged", "duplicate"])
    .describe("staged: a turn is running, and its next model call sees it; duplicate: it was there already"),
});

const PAYLOAD_CHARS_MAX = 65_536;
const shortText = { error: "write a text of 1 to 200 characters" };

/** Something that happened outside; the model is shown it as data, never as what the user said. */
export const ExternalEvent = z.object({
  session_id: SessionId,
  kind: z
    .literal("generic_json", { error: 'write "generic_json"; there is no other kind' })
    .default("generic_json")
    .describe("the form of the payload; there is one"),
  event_type: cliFlag(
    "TYPE",
    z
      .string(shortText)
      .min(1, shortText)
      .max(200, shortText)
      .describe("what happened, a name of 1 to 200 characters")
      .meta({ examples: ["build.finished"] }),
  ),
  payload: cliFlag(
    "[JSON]",
    z
      .unknown()
      .refine((payload) => jsonChars(payload) <= PAYLOAD_CHARS_MAX, {
        error: `write at most ${PAYLOAD_CHARS_MAX} characters of JSON`,
      })
      .optional()
      .describe(`facts of the event, any JSON of at most ${PAYLOAD_CHARS_MAX} characters`)
      .meta({ examples: [{ green: true }] }),
  ),
  blocks: z
    .array(TextBlock, { error: "write a list of text blocks; other media go into a prompt" })
    .refine((blocks) => blocks.reduce((sum, { text }) => sum + text.length, 0) <= PAYLOAD_CHARS_MAX, {
      error: `write at most ${PAYLOAD_CHARS_MAX} characters`,
    })
    .nullish()
    .describe("a description"),
  idempotency_key: z
    .string(shortText)
    .min(1, shortText)
    .max(200, shortText)
    .nullish()
    .describe("the same key again is the same event"),
});
export type ExternalEvent = z.infer<typeof ExternalEvent>;

export const ExternalEventOutcome = z.object({
  outcome_type: z
    .enum(["accepted", "deduplicated", "rejected"])
    .describe("deduplicated: the event was there already; rejected: its key was used for another"),
  input_id: z.string().optional().describe("the id of the event that was accepted"),
  existing_id: z.string().optional().describe("the id of the event that was there already"),
  reason: z.string().optional().describe("why it was rejected"),
});
export type ExternalEventOutcome = z.infer<typeof ExternalEventOutcome>;

const OneSession = z.object({ session_id: SessionId });
const head_revision = z.string().describe("the revision of the transcript as it is now");
const TranscriptRevision = SessionHistory.extend({
  revision: z.string().describe("the revision that was read"),
  head_revision,
});
export type TranscriptRevision = z.infer<typeof TranscriptRevision>;

const RewriteResult = z.object({
  ...Named,
  parent_revision: z.string().describe("the revision before, to restore it by"),
  revision: z.string().describe("the revision now"),
  message_count: z.number().int().describe("messages of the transcript now"),
  commit: RewriteCommit.describe("the recorded commit"),
});
export type RewriteResult = z.infer<typeof RewriteResult>;

/** The rows of the table about what a transcript says. */
export const REWRITE_OPERATIONS = {
  forkReplacing: {
    summary:
      "Make a new session of the messages before an index, with another message in place of the one at that index.",
    input: OneSession.extend(ForkReplacing),
    output: ForkedSession,
    rpc: "session/fork_replace",
    http: "POST /sessions/{session_id}/fork-replace",
    mcp: "meerkat_fork_replace",
    mcpListed: false,
    cli: "rkat session fork ID --at N --replacement JSON",
    scope: "run",
    audited: false,
    effect: "adds",
    requires: "session-store",
  },
  rewriteTranscript: {
    summary: "Replace some messages by others; the old ones stay in the log and can be restored.",
    input: OneSession.extend(RewriteTranscript),
    output: RewriteResult,
    rpc: "session/rewrite_transcript",
    method: "rewrite",
    http: "POST /sessions/{session_id}/rewrite-transcript",
    mcp: "meerkat_rewrite_transcript",
    mcpListed: false,
    cli: "rkat session rewrite ID --from N",
    scope: "run",
    audited: { action: "transcript_rewritten" },
    requires: "session-store",
  },
  readRevision: {
    summary: "Read a transcript as it was at a revision, or as it is now, with its revision.",
    input: OneSession.extend({
      ...ReadRevision,
      limit: cliFlag("--limit <n>", MessagePage.limit.clone()),
      offset: cliFlag("--offset <n>", MessagePage.offset.clone()),
    }),
    output: TranscriptRevision,
    rpc: "session/transcript_revision",
    method: "revision",
    rpcNulls: true,
    http: "GET /sessions/{session_id}/transcript-revisions/{revision}",
    mcp: "meerkat_transcript_revision",
    mcpListed: false,
    cli: "rkat session revision ID [REVISION]",
    scope: "read",
    requires: "session-store",
  },
  restoreRevision: {
    summary: "Restore a transcript to a revision; later messages stay in the log.",
    input: OneSession.extend(RestoreRevision),
    output: RewriteResult,
    rpc: "session/restore_transcript_revision",
    method: "restore",
    http: "POST /sessions/{session_id}/restore-transcript-revision",
    mcp: "meerkat_restore_transcript_revision",
    mcpListed: false,
    cli: "rkat session restore ID REVISION",
    scope: "run",
    audited: { action: "transcript_rewritten" },
    requires: "session-store",
  },
  listRewrites: {
    summary: "List how a transcript was rewritten and restored, oldest first.",
    input: z.strictObject({ session_id: SessionId }),
    output: z.object({
      session_id: Named.session_id,
      head_revision,
      commits: z.array(RewriteCommit).describe("each change, oldest first"),
    }),
    rpc: "session/transcript_rewrites",
    method: "rewrites",
    http: "GET /sessions/{session_id}/transcript-rewrites",
    mcp: "meerkat_transcript_rewrites",
    mcpListed: false,
    cli: "rkat session rewrites ID",
    scope: "read",
    requires: "session-store",
  },
} as const;

const Approval = z.object({
  ...Named,
  approval_id,
  calls: z.array(AskedCall).describe("the calls that wait"),
  asked_at: z.string().describe("when approval was requested, as ISO 8601"),
  expires_at: z.string().describe("until when it can be answered; then it counts as denied"),
});
export type Approval = z.infer<typeof Approval>;

/** The rows of the table about calls that wait for approval. */
export const APPROVAL_OPERATIONS = {
  listApprovals: {
    summary: "List the tool calls that wait for approval, oldest first.",
    input: z.strictObject({ session_id: SessionId.optional().describe("only those of this session") }),
    output: z.object({ approvals: z.array(Approval).describe("the pending approvals, oldest first") }),
    rpc: "session/approvals",
    http: "GET /approvals",
    cli: "rkat session approvals",
    scope: "read",
    sees: "own",
  },
  answerApproval: {
    summary: "Approve or deny tool calls that wait for approval; the turn continues here once none of its calls waits.",
    input: z.strictObject({
      session_id: SessionId,
      approval_id: cliFlag("--approval <id>", approval_id.clone()),
      decision: cliFlag("DECISION", Answer.decision.clone()),
      remember: cliFlag(
        "--for <how-long>",
        Remember.default("once").describe(
          "how long an approval holds: once, or for calls like these in the session or the project",
        ),
      ),
      calls: cliFlag(
        "--call <id>",
        Answer.calls.optional().describe("the calls that it answers; by default all that wait"),
      ),
      reason: cliFlag("--reason <text>", Answer.reason.clone()),
      content: cliFlag(
        "--content <json>",
        content.optional().describe("the answer to an MCP server's question, by its schema; only with allow"),
      ),
    }),
    output: z.object({
      ...Named,
      answered: z.literal(true).describe("that the answer is stored"),
      waiting_calls: z.number().int().describe("calls of the turn that still wait"),
    }),
    rpc: "session/answer_approval",
    http: "POST /sessions/{session_id}/approvals/{approval_id}",
    cli: "rkat session approve ID",
    scope: "approve",
    audited: { action: "approval_answered" },
  },
} as const;

const message_id = z.string().min(1).describe("the message, by its id");

const InboxMessage = z.object({
  message_id: message_id,
  when_busy: WhenBusy.describe("how it was sent: steer and interrupt go before queue"),
  source: InboxSource.describe("who sent it"),
  text: z.string().describe("the beginning of its text"),
  queued_at: z.string().describe("when it was queued, as ISO 8601"),
});
export type InboxMessage = z.infer<typeof InboxMessage>;

/** The rows of the table about messages that wait. */
export const INBOX_OPERATIONS = {
  readInbox: {
    summary: "List the messages that wait in a session, the next one first.",
    input: z.strictObject({ session_id: SessionId }),
    output: z.object({ messages: z.array(InboxMessage).describe("the messages that wait, the next one first") }),
    rpc: "session/inbox",
    method: "inbox",
    http: "GET /sessions/{session_id}/inbox",
    mcp: "meerkat_inbox",
    mcpListed: false,
    cli: "rkat session inbox ID",
    scope: "read",
  },
  removeInboxMessage: {
    summary: "Remove a message that waits in a session, before it reaches the model.",
    input: z.strictObject({
      session_id: SessionId,
      message_id: cliFlag("MESSAGE", message_id),
    }),
    output: z.object({ removed: z.literal(true).describe("that it does not reach the model") }),
    namesSession: true,
    rpc: "session/inbox_remove",
    http: "DELETE /sessions/{session_id}/inbox/{message_id}",
    mcp: "meerkat_inbox_remove",
    mcpListed: false,
    cli: "rkat session unqueue ID MESSAGE",
    scope: "run",
    audited: false,
    effect: "idempotent",
  },
} as const;

const job_id = z.string().min(1).max(100).describe("the job's id");

const Job = z.object({
  job_id,
  command: z.string().describe("the command, without its secrets"),
  status: z
    .enum(["running", ...JOB_ENDS])
    .describe("how it goes or has ended; unknown: that cannot be told, or not on this machine"),
  started_at_unix: z.number().int().describe("when it was started, in seconds since 1970"),
  host: z.string().optional().describe("the machine it runs on, if that is another one"),
});

export type Job = z.infer<typeof Job>;

/** The rows of the table about commands that run on between turns. */
export const JOB_OPERATIONS = {
  listJobs: {
    summary: "List the background jobs of a session, the oldest first.",
    input: z.strictObject({ session_id: SessionId }),
    output: z.object({ jobs: z.array(Job).describe("the commands that its tools started in the background") }),
    rpc: "session/jobs",
    http: "GET /sessions/{session_id}/jobs",
    mcp: "meerkat_jobs",
    mcpListed: false,
    cli: "rkat session jobs ID",
    scope: "read",
  },
  cancelJob: {
    summary: "Kill a background job of a session, with everything that it started.",
    input: z.strictObject({ session_id: SessionId, job_id: cliFlag("JOB", job_id) }),
    output: z.object({ cancelled: z.literal(true).describe("that it has ended") }),
    namesSession: true,
    rpc: "session/job_cancel",
    http: "DELETE /sessions/{session_id}/jobs/{job_id}",
    mcp: "meerkat_job_cancel",
    mcpListed: false,
    cli: "rkat session cancel-job ID JOB",
    scope: "run",
    audited: false,
  },
} as const;

/** The row of the table about goals, which turns begin. */
export const GOAL_OPERATIONS = {
  endGoal: {
    summary: "End the goal of a session: a turn that runs is finished, and no further one begins.",
    input: z.strictObject({ session_id: SessionId }),
    output: z.object({ goal: GoalState.describe("the goal, and how it ended") }),
    namesSession: true,
    rpc: "session/goal_end",
    http: "DELETE /sessions/{session_id}/goal",
    mcp: "meerkat_goal_end",
    mcpListed: false,
    cli: "rkat session end-goal ID",
    scope: "run",
    audited: false,
    effect: "idempotent",
  },
} as const;

const persisted = z
  .literal(false, { error: "the session keeps its servers; write a server of every session into .rkat/mcp.toml" })
  .nullish()
  .describe("false: the session keeps the change, and no file is written");
const server_name = z.string().min(1, { error: "write the name of a server" }).describe("the server, by its name");
const OfServer = OneSession.extend({ server_name: cliFlag("SERVER", server_name), persisted });

const McpChange = z.object({
  session_id: z.string().describe("the session's id"),
  operation: z.enum(["add", "remove", "reload"]).describe("what was asked for"),
  server_name: z.string().optional().describe("the server; absent for all"),
  status: z.literal("staged").describe("stored, and holds from the next turn on"),
  persisted: z.literal(false).describe("that no file was written"),
  applied_at_turn: z.number().int().describe("the number of that turn"),
});

/** The rows of the table about the MCP servers of one session. */
export const SESSION_SERVER_OPERATIONS = {
  addMcpServer: {
    summary: "Add an MCP server to a session: its tools are there from the next turn on.",
    input: OneSession.extend({
      server_config: cliFlag("CONFIG", CheckedServer.describe("the server: a command to start, or a url")),
      persisted,
    }),
    output: McpChange,
    rpc: "mcp/add",
    http: "POST /sessions/{session_id}/mcp/add",
    cli: "rkat session add-server ID CONFIG",
    scope: "admin",
    audited: { action: "mcp_server_added" },
    effect: "adds",
  },
  removeMcpServer: {
    summary: "Remove an MCP server from a session, also a configured one: its tools are gone from the next turn on.",
    input: OfServer,
    output: McpChange,
    rpc: "mcp/remove",
    http: "POST /sessions/{session_id}/mcp/remove",
    cli: "rkat session remove-server ID SERVER",
    scope: "run",
    audited: { action: "mcp_server_removed" },
  },
  reloadMcpServers: {
    summary: "Connect again to an MCP server of a session, or to all of them, before the next turn.",
    input: OfServer.extend({ server_name: fieldOf(OfServer, "server_name").optional() }),
    output: McpChange,
    rpc: "mcp/reload",
    rpcNulls: true,
    http: "POST /sessions/{session_id}/mcp/reload",
    cli: "rkat session reload-servers ID [SERVER]",
    scope: "run",
    audited: false,
    effect: "idempotent",
  },
} as const;

const ofSession = z.literal("session").describe("of one session; there is nothing else");
const Scope = z.object({ type: ofSession, session_id: SessionId }).describe("whose events are meant");

/** A place in a session's events. */
export const EventCursor = z.object({
  scope: Scope,
  sequence: cliFlag(
    "--after <seq>",
    z.number().int().nonnegative().describe("the number of the last event that was seen"),
  ),
});
export type EventCursor = z.infer<typeof EventCursor>;

const OneScope = z.object({ scope: Scope });

/** Events of one page; a reader asks again for the next. */
const EVENTS_PAGE_MAX = 1_000;

const ListEvents = OneScope.extend({
  cursor: EventCursor.optional().describe("only what came after this place; without it, everything"),
  limit: positive
    .max(EVENTS_PAGE_MAX, { error: `write at most ${EVENTS_PAGE_MAX}` })
    .default(EVENTS_PAGE_MAX)
    .describe(`events of a page; ${EVENTS_PAGE_MAX} at most`),
});

const session_id = z.string().describe("the session's id");
const Source = z.object({ type: ofSession, session_id }).describe("what the event comes from");
const event_id = z.string().describe("the event's own id");
const timestamp_ms = z.number().int().nonnegative().describe("when it happened, in milliseconds of Unix time");
const payload = AgentEvent.describe("the event itself");

/** An event with its place in the session. */
export const EventEnvelope = z.object({
  event_id,
  source: Source,
  source_id: z.string().describe("the id of what it comes from"),
  seq: z.number().int().nonnegative().describe("its number; 0 for live-only events, which are not in the log"),
  timestamp_ms,
  payload,
});
export type EventEnvelope = z.infer<typeof EventEnvelope>;

export const EventPage = z.object({
  contract_version: ContractVersion,
  scope: Scope,
  from_cursor: EventCursor.describe("the place after which the page begins"),
  latest_cursor: EventCursor.describe("the place of the newest event there is"),
  events: z
    .array(
      z.object({
        event_id,
        cursor: EventCursor.describe("the place of the event"),
        timestamp_ms,
        source: Source,
        session_id,
        payload,
      }),
    )
    .describe("the events, oldest first"),
  has_more: z.boolean().describe("whether newer ones follow"),
});
export type EventPage = z.infer<typeof EventPage>;

/** The rows of the table about events. */
export const EVENT_OPERATIONS = {
  readEventCursor: {
    summary: "Read the number of a session's newest durable event; 0 when it has none.",
    input: OneScope,
    output: z.object({
      contract_version: ContractVersion,
      cursor: EventCursor.describe("the place of the newest event"),
    }),
    rpc: "events/latest_cursor",
    http: "GET /sessions/{session_id}/events/cursor",
    mcp: "meerkat_events_cursor",
    mcpListed: false,
    cli: "rkat session events ID",
    scope: "read",
    requires: "session-store",
  },
  listEvents: {
    summary: "List a session's durable events after a cursor, oldest first.",
    input: ListEvents,
    output: EventPage,
    rpc: "events/list_since",
    http: "GET /sessions/{session_id}/events/list",
    mcp: "meerkat_events_list",
    mcpListed: false,
    cli: "rkat session events ID",
    scope: "read",
    requires: "session-store",
  },
} as const;
