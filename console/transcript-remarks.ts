import type { AgentEvent } from "../src/contract/event.ts";
import { formatCount, formatDuration } from "./format.ts";

/** What befell a turn, as a sentence between messages. */
export interface Remark {
  readonly seq: number;
  readonly atMs: number;
  readonly tone: "bad" | "warn" | "plain";
  readonly text: string;
}

const CAUSES: Readonly<Record<string, string>> = {
  budget_exhausted: "a budget of the session is used up",
  time_budget_exceeded: "its time is used up",
  turn_limit_reached: "it made as many model calls as a turn may",
  retry_exhausted: "the model failed again and again",
  structured_output_validation_failed: "no answer matched the schema",
};

const BUDGETS = { tokens: "tokens", time: "time", tool_calls: "tool calls", cost: "money" } as const;

/** The sentence for an event; undefined for what the messages say themselves. */
export function remarkOf(event: AgentEvent): Pick<Remark, "tone" | "text"> | undefined {
  switch (event.type) {
    case "run_failed":
      if (event.error_class === "cancelled") return { tone: "warn", text: "The turn was interrupted." };
      return { tone: "bad", text: `The turn failed: ${event.error}` };
    case "run_completed": {
      const cause = event.terminal_cause_kind;
      if (cause === undefined) return undefined;
      return { tone: "warn", text: `The turn stopped short: ${CAUSES[cause] ?? cause.replaceAll("_", " ")}.` };
    }
    case "retrying": {
      const wait = event.delay_ms === 0 ? "at once" : `in ${formatDuration(event.delay_ms)}`;
      const which = `attempt ${event.attempt} of ${event.max_attempts} comes ${wait}`;
      return { tone: "warn", text: `The model call failed, and ${which}: ${event.error}` };
    }
    case "tool_execution_timed_out":
      return { tone: "warn", text: `The tool ${event.name} was stopped after ${formatDuration(event.timeout_ms)}.` };
    case "tool_approval_answered": {
      const who = event.by === undefined ? "" : ` by ${event.by}`;
      const reach = { once: "", session: " for the session", project: " for the project" }[event.remember];
      if (event.decision === "allow") return { tone: "plain", text: `Allowed${reach}${who}.` };
      return { tone: "warn", text: `Denied${who}${event.reason === undefined ? "." : `: ${event.reason}`}` };
    }
    case "compaction_failed":
      return { tone: "warn", text: `A compaction failed, and the context stays as it was: ${event.error}` };
    case "native_compaction_refused":
      return {
        tone: "warn",
        text: `${event.provider} refused its own compaction, and the summary is sent instead: ${event.error}`,
      };
    case "compaction_dropped":
      return { tone: "plain", text: `A compaction that was prepared is not made: ${event.reason}.` };
    case "budget_warning":
      return { tone: "warn", text: `${event.percent} % of the session's ${BUDGETS[event.budget_type]} are used.` };
    case "extraction_failed":
      return { tone: "bad", text: `No result of the wanted form, after ${event.attempts} attempts: ${event.reason}` };
    case "hook_denied":
      return { tone: "warn", text: `A hook refused it: ${event.message}` };
    case "hook_failed":
      return { tone: "warn", text: `A hook failed: ${event.error}` };
    case "background_job_completed":
      return { tone: "plain", text: `The job ${event.display_name} has ended (${event.terminal_status}).` };
    case "transcript_rewrite_committed": {
      const { messages_before, messages_after, reason } = event.record.commit;
      const change = `${formatCount(messages_before)} messages are now ${formatCount(messages_after)}`;
      return { tone: "plain", text: `The transcript was rewritten: ${change} (${reason.note ?? reason.kind}).` };
    }
    default:
      return undefined;
  }
}
