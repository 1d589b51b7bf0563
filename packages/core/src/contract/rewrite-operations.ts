import { cliFlag } from "./input.ts";
import { ForkReplacing, ReadRevision, RestoreRevision, RewriteCommit, RewriteTranscript } from "./rewrite.ts";
import { z } from "./schema.ts";
import { Named, SessionId } from "./session.ts";
import { ForkedSession, MessagePage, SessionHistory } from "./session-info.ts";

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
  commit: RewriteCommit.describe("what was recorded of it"),
});
export type RewriteResult = z.infer<typeof RewriteResult>;

/** The rows of the table about what a transcript says. */
export const REWRITE_OPERATIONS = {
  forkReplacing: {
    summary: "Make a new session of the messages before an index and another in the place of the one at it.",
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
    summary: "Put other messages in the place of some; what was there stays in the log and can be restored.",
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
    summary: "Make a transcript what it was at a revision; what was said since stays in the log.",
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
