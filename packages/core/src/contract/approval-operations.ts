import { Answer, AskedCall, approval_id, Remember } from "./approval.ts";
import { cliFlag } from "./input.ts";
import { z } from "./schema.ts";
import { Named, SessionId } from "./session.ts";

const Approval = z.object({
  ...Named,
  approval_id,
  calls: z.array(AskedCall).describe("the calls that wait"),
  asked_at: z.string().describe("when it was asked, as ISO 8601"),
  expires_at: z.string().describe("until when an answer counts; then it is taken for a no"),
});
export type Approval = z.infer<typeof Approval>;

/** The rows of the table about calls that wait for a person's word. */
export const APPROVAL_OPERATIONS = {
  listApprovals: {
    summary: "List the questions about tool calls that wait for a person's word, oldest first.",
    input: z.strictObject({ session_id: SessionId.optional().describe("only those of this session") }),
    output: z.object({ approvals: z.array(Approval).describe("the questions, oldest first") }),
    rpc: "session/approvals",
    http: "GET /approvals",
    cli: "rkat session approvals",
    scope: "read",
    sees: "own",
  },
  answerApproval: {
    summary: "Say whether tool calls that wait may run; the turn goes on here once nothing of it waits any more.",
    input: z.strictObject({
      session_id: SessionId,
      approval_id: cliFlag("--approval <id>", approval_id.clone()),
      decision: cliFlag("DECISION", Answer.decision.clone()),
      remember: cliFlag(
        "--for <how-long>",
        Remember.default("once").describe(
          "for how long a yes counts: once, or for calls like these in the session or the project",
        ),
      ),
      calls: cliFlag(
        "--call <id>",
        Answer.calls.optional().describe("the calls it speaks of; all that wait unless given"),
      ),
      reason: cliFlag("--reason <text>", Answer.reason.clone()),
    }),
    output: z.object({
      ...Named,
      answered: z.literal(true).describe("that the word is kept"),
      waiting_calls: z.number().int().describe("calls of the turn that still wait"),
    }),
    rpc: "session/answer_approval",
    http: "POST /sessions/{session_id}/approvals/{approval_id}",
    cli: "rkat session approve ID",
    scope: "approve",
    audited: { action: "approval_answered" },
  },
} as const;
