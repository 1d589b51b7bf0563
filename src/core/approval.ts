import type { AskedCall, Progress } from "../contract/approval.ts";
import type { EntryBody, EntryBodyOf } from "../contract/entry.ts";
import { RuntimeError } from "../contract/error.ts";
import type { ToolUseBlock } from "../contract/message.ts";
import type { Clock } from "../ports/clock.ts";
import { isWaiting, type PendingApproval, type SessionState } from "./session-state.ts";

/** What rules say of a call. */
export interface Judged {
  readonly verdict: "allow" | "ask" | "deny";
  /** Which rule says so, in a sentence for a person. */
  readonly why: string;
  /** The rules that "always" would add; absent where none can be named that is safe. */
  readonly always?: readonly string[] | undefined;
  /** The rules by which an `allow` of the session would let it run; absent where none would. */
  readonly allowing?: readonly string[] | undefined;
}

/** What a call is refused with where nobody can be asked about it. */
export type Unattended = string | ((asked: Judged) => string);

/** Judges a call before it is run. */
export type Permit = (call: ToolUseBlock["data"]) => Promise<Judged> | Judged;

/** How a turn asks. */
export interface Approvals {
  readonly permit: Permit;
  /** Set where nobody can answer: then what would be asked is denied. */
  readonly unattended: Unattended | undefined;
  /** How long an answer is waited for. */
  readonly timeoutMs: number;
}

/** What becomes of the calls of an answer: they wait, or they run but for those that are refused. */
export type Ruled = { readonly asked: readonly AskedCall[] } | { readonly refusals: ReadonlyMap<string, string> };

const ALLOWED: Judged = { verdict: "allow", why: "" };

/** Rules on the calls of an answer: all that need a person's word are asked about together. */
export async function ruleOn(calls: readonly ToolUseBlock[], { permit, unattended }: Approvals): Promise<Ruled> {
  const asked: AskedCall[] = [];
  const refusals = new Map<string, string>();
  for (const { data } of calls) {
    // One whose arguments cannot be read is not run anyway.
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

/** The same once every word is there: a yes counts for what it was asked, a rule that denies still denies. */
export async function ruleAgain(
  calls: readonly ToolUseBlock[],
  { answers }: PendingApproval,
  { permit }: Approvals,
): Promise<ReadonlyMap<string, string>> {
  const refusals = new Map<string, string>();
  for (const { data } of calls) {
    const answer = answers.get(data.id);
    const { verdict, why } = data.args_error === undefined ? await permit(data) : ALLOWED;
    if (verdict === "deny" || (verdict === "ask" && answer === undefined)) refusals.set(data.id, `not run: ${why}`);
    else if (answer?.decision === "deny") refusals.set(data.id, refusalBy(answer));
  }
  return refusals;
}

export const TIMEOUT = "timeout";

function refusalBy({ by, reason }: EntryBodyOf<"approval_answered">): string {
  if (by === TIMEOUT) return "not run: nobody said in time whether it may";
  return `not run: the user said no${reason === undefined || reason === "" ? "" : `: ${reason}`}`;
}

/** The entry by which a turn waits. */
export function askedEntry(
  asked: readonly AskedCall[],
  of: { readonly clock: Clock; readonly timeoutMs: number; readonly progress: Progress },
): EntryBody {
  const { clock, timeoutMs, progress } = of;
  const expires_at_ms = Math.min(clock.now() + timeoutMs, Date.UTC(9999, 0));
  return { kind: "approval_asked", approval_id: clock.newId(), calls: [...asked], expires_at_ms, progress };
}

/** Throws SESSION_BUSY while a turn waits for a word: whoever wants something else answers or interrupts it first. */
export function requireNotWaiting(state: Pick<SessionState, "approval" | "sessionId">, clock: Clock): void {
  const { approval, sessionId } = state;
  if (approval === undefined || !isWaiting(state) || clock.now() >= approval.asked.expires_at_ms) return;
  const names = [...new Set(approval.asked.calls.map(({ name }) => name))].join(", ");
  const message = `session ${sessionId} waits for a word on ${names}; answer it, or interrupt the turn`;
  throw new RuntimeError("SESSION_BUSY", message, { details: { approval_id: approval.asked.approval_id } });
}
