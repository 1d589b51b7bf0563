import { ERRORS } from "../../../contract/error.ts";
import type { RunResult } from "../../../contract/session.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { grouped } from "../plain-text.ts";

/** What is known of a session's limits. */
export interface Limits {
  readonly max_tokens?: number | undefined;
}

/** Whether the turn did what was asked, and if not, why; the limits of a resumed session are not known. */
export function judge(
  result: RunResult,
  limits: Limits | undefined,
): { readonly exit: number; readonly sentence?: string } {
  const { terminal_cause_kind: cause, extraction_error: extraction } = result;
  if (cause === "budget_exhausted") {
    return { exit: ERRORS.BUDGET_EXHAUSTED.exit, sentence: `Stopped: ${budgetName(result, limits)} is used up.` };
  }
  if (cause === "time_budget_exceeded") {
    return { exit: ERRORS.BUDGET_EXHAUSTED.exit, sentence: "Stopped: the time budget is used up." };
  }
  const { exit } = ERRORS.AGENT_ERROR;
  if (extraction !== undefined) return judgeExtraction(extraction, cause);
  if (cause === "turn_limit_reached") return { exit, sentence: "Stopped: the limit of model calls is reached." };
  return cause === undefined ? { exit: 0 } : { exit, sentence: `Stopped: ${cause}.` };
}

/** Only an output that was there can have failed to match. */
function judgeExtraction(
  { attempts, reason: said }: NonNullable<RunResult["extraction_error"]>,
  cause: RunResult["terminal_cause_kind"],
): { readonly exit: number; readonly sentence: string } {
  const reason = withoutControls(said);
  if (cause === undefined) {
    const sentence = `Stopped: ${reason} before there was an output of the schema.`;
    return { exit: ERRORS.REQUEST_CANCELLED.exit, sentence };
  }
  if (cause === "llm_failure" || cause === "retry_exhausted") {
    return { exit: ERRORS.PROVIDER_ERROR.exit, sentence: `Stopped: the output could not be asked for: ${reason}` };
  }
  const sentence = `Stopped: no output matched the schema after ${attempts} attempts: ${reason}`;
  return { exit: ERRORS.AGENT_ERROR.exit, sentence };
}

function budgetName({ usage }: RunResult, limits: Limits | undefined): string {
  if (limits === undefined) return "a budget of the session";
  const { max_tokens } = limits;
  const isTokens = max_tokens !== undefined && usage.total_tokens >= max_tokens;
  return isTokens ? `the token budget of ${grouped(max_tokens)}` : "the tool call budget";
}
