import type { EntryBody, EntryBodyOf } from "../contract/entry.ts";
import { RuntimeError } from "../contract/error.ts";
import { defined } from "../contract/json.ts";
import type { ToolUseBlock } from "../contract/message.ts";
import type { AskedCall } from "../contract/permission.ts";
import type { Clock } from "../ports/clock.ts";
import type { AnsweredQuestion } from "../ports/tool.ts";
import { isWaiting, type PendingApproval, type SessionState } from "../state/session-state.ts";

/** The verdict of the permission rules on a call. */
export interface Judged {
  readonly verdict: "allow" | "ask" | "deny";
  /** The rule that decided, as a sentence for a person. */
  readonly why: string;
  /** The rules that "always" would add; absent when no safe rule can be named. */
  readonly always?: readonly string[] | undefined;
  /** The session's rules that would allow the call; absent when none would. */
  readonly allowing?: readonly string[] | undefined;
}

/** The refusal of a call that needs approval when no approver is available. */
export type Unattended = string | ((asked: Judged) => string);

export type Permit = (call: ToolUseBlock["data"]) => Promise<Judged> | Judged;

export interface Approvals {
  readonly permit: Permit;
  /** Set when no approver is available: calls that need approval are denied. */
  readonly unattended: Unattended | undefined;
  readonly timeoutMs: number;
}

/** Either some calls wait for approval, or all run except the refused ones. */
export type Ruling = { readonly asked: readonly AskedCall[] } | { readonly refusals: ReadonlyMap<string, string> };

const ALLOWED: Judged = { verdict: "allow", why: "" };

/** Applies the rules to the calls of one answer; all calls that need approval are asked for together. */
export async function ruleOn(calls: readonly ToolUseBlock[], { permit, unattended }: Approvals): Promise<Ruling> {
  const asked: AskedCall[] = [];
  const refusals = new Map<string, string>();
  for (const { data } of calls) {
    // A call with unreadable arguments is not run anyway.
    const judged = data.args_error === undefined ? await permit(data) : ALLOWED;
    const { verdict, why, always } = judged;
    const { id, name, args } = data;
    if (verdict === "deny") refusals.set(id, `not run: ${why}`);
    else if (verdict === "ask" && unattended !== undefined) {
      const advice = typeof unattended === "string" ? unattended : unattended(judged);
      refusals.set(id, `not run: ${why}; ${advice}`);
    } else if (verdict === "ask")
      asked.push({ id, name, args, why, ...(always === undefined ? {} : { always: [...always] }) });
  }
  return asked.length > 0 ? { asked } : { refusals };
}

/** Applies the rules again once every approval is answered; a deny rule still wins. */
export async function ruleAgain(
  calls: readonly ToolUseBlock[],
  { asked, answers }: PendingApproval,
  { permit }: Approvals,
): Promise<ReadonlyMap<string, string>> {
  const refusals = new Map<string, string>();
  for (const { data } of calls) {
    const answer = answers.get(data.id);
    const { verdict, why } = data.args_error === undefined ? await permit(data) : ALLOWED;
    if (verdict === "deny" || (verdict === "ask" && answer === undefined)) refusals.set(data.id, `not run: ${why}`);
    // What a server asked is answered by the call that runs again.
    else if (answer !== undefined && answer.decision !== "allow" && !isQuestion(asked, data.id))
      refusals.set(data.id, refusalBy(answer));
  }
  return refusals;
}

export const TIMEOUT = "timeout";

export function isQuestion({ calls }: PendingApproval["asked"], callId: string): boolean {
  return calls.some(({ id, question }) => id === callId && question !== undefined);
}

const ACTIONS = { allow: "accept", deny: "decline", cancel: "cancel" } as const;

/** The answer to the question of a call's server; undefined if it has asked none. */
export function answeredQuestion(
  { approval }: Pick<SessionState, "approval">,
  callId: string,
): AnsweredQuestion | undefined {
  const answer = approval?.answers.get(callId);
  if (approval === undefined || answer === undefined || !isQuestion(approval.asked, callId)) return undefined;
  const action = answer.by === TIMEOUT ? "cancel" : ACTIONS[answer.decision];
  const resuming = approval.asked.resuming?.find(({ id }) => id === callId)?.value ?? {};
  return { answer: { action, ...(action === "accept" ? { content: answer.value ?? {} } : {}) }, resuming };
}

function refusalBy({ by, reason }: EntryBodyOf<"approval_answered">): string {
  if (by === TIMEOUT) return "not run: approval timed out";
  return `not run: the user denied it${reason === undefined || reason === "" ? "" : `: ${reason}`}`;
}

/** The entry that makes a turn wait for approval. */
export function askedEntry(
  asked: readonly AskedCall[],
  of: { readonly clock: Clock; readonly timeoutMs: number } & Pick<
    EntryBodyOf<"approval_asked">,
    "progress" | "resuming"
  >,
): EntryBody {
  const { clock, timeoutMs, progress, resuming } = of;
  const expires_at_ms = Math.min(clock.now() + timeoutMs, Date.UTC(9999, 0));
  return {
    kind: "approval_asked",
    approval_id: clock.newId(),
    calls: [...asked],
    expires_at_ms,
    progress,
    ...defined({ resuming }),
  };
}

/** Throws SESSION_BUSY while a turn waits for approval: the caller has to answer or interrupt it first. */
export function requireNotWaiting(state: Pick<SessionState, "approval" | "sessionId">, clock: Clock): void {
  const { approval, sessionId } = state;
  if (approval === undefined || !isWaiting(state) || clock.now() >= approval.asked.expires_at_ms) return;
  const names = [...new Set(approval.asked.calls.map(({ name }) => name))].join(", ");
  const message = `session ${sessionId} waits for approval of ${names}; answer it, or interrupt the turn`;
  throw new RuntimeError("SESSION_BUSY", message, { details: { approval_id: approval.asked.approval_id } });
}
