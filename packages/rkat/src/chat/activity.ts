import { unwrapSubAgentEvent } from "@rkat/core/contract/describe-event";
import type { AgentEvent } from "@rkat/core/contract/event";
import { callHint, toolName } from "../commands/event-words.ts";
import { counted, oneLine } from "../io.ts";

/** Shows the current activity and its duration while nothing else is printed. */
export interface Activity {
  begin(words: string): void;
  onEvent(event: AgentEvent): void;
  end(): void;
}

const SIGNS = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"] as const;
const TICK_MS = 120;
const NAME_CHARS_MAX = 60;

export interface ActivityRow {
  /** Whether it can be shown below an answer that is streamed. */
  readonly showsAnswers: boolean;
  /** Shows the words and the time; without words, nothing. */
  show(words: string | undefined, time: string): void;
}

export function createActivity(row: ActivityRow): Activity {
  /** Tools that run, by their calls. */
  const running = new Map<string, string>();
  let model = "";
  let words: string | undefined;
  let sinceMs = 0;
  /** When the wait ends; undefined where that is unknown. */
  let untilMs: number | undefined;
  let sign = 0;
  let ticking: NodeJS.Timeout | undefined;
  const draw = (): void => {
    const seconds = (ms: number): string => `${Math.max(0, Math.round(ms / 1_000))} s`;
    const time = untilMs === undefined ? seconds(Date.now() - sinceMs) : `in ${seconds(untilMs - Date.now())}`;
    const shown = words && `${SIGNS[sign % SIGNS.length]} ${words}${untilMs === undefined ? "…" : ""}`;
    row.show(shown, `${time} · Ctrl-C stops`);
  };
  const say = (next: string | undefined): void => {
    if (next === words && untilMs === undefined) return;
    words = next;
    sinceMs = Date.now();
    untilMs = undefined;
    draw();
  };
  const toolsText = (): string => {
    const [first = model] = running.values();
    return running.size <= 1 ? first : `${first} and ${counted(running.size - 1, "other call")}`;
  };
  const onEvent = (event: AgentEvent): void => {
    switch (event.type) {
      case "turn_started":
      case "compaction_completed":
      case "compaction_failed":
        say(model);
        break;
      case "reasoning_delta":
        say("thinking");
        break;
      case "text_delta":
        say(row.showsAnswers ? "answering" : undefined);
        break;
      case "tool_call_requested":
        running.set(event.id, oneLine(`${toolName(event)}${callHint(event)}`, NAME_CHARS_MAX));
        break;
      case "tool_execution_started":
      case "tool_approval_answered":
        say(toolsText());
        break;
      case "tool_execution_completed":
        running.delete(event.id);
        say(toolsText());
        break;
      case "tool_approval_requested":
        say(undefined);
        break;
      case "compaction_started": {
        const size = `about ${counted(event.estimated_history_tokens, "token")}`;
        say(`compacting ${counted(event.message_count, "message")}, ${size}; the newest turns stay`);
        break;
      }
      case "retrying":
        say(`asking again (${event.attempt} of ${event.max_attempts})`);
        untilMs = Date.now() + event.delay_ms;
        draw();
        break;
      default:
    }
  };
  return {
    begin: (asking) => {
      model = asking;
      running.clear();
      say(asking);
      ticking ??= setInterval(() => {
        sign += 1;
        draw();
      }, TICK_MS);
    },
    onEvent: (reported) => {
      const { event, agent } = unwrapSubAgentEvent(reported);
      // A sub-agent shows only that it works; its approval requests are asked elsewhere.
      const isQuestion = event.type === "tool_approval_requested" || event.type === "tool_approval_answered";
      if (agent === undefined || isQuestion) onEvent(event);
      else if (event.type === "tool_call_requested")
        say(`sub-agent ${oneLine(agent, NAME_CHARS_MAX)}: ${oneLine(toolName(event), NAME_CHARS_MAX)}`);
    },
    end: () => {
      clearInterval(ticking);
      ticking = undefined;
      say(undefined);
    },
  };
}
