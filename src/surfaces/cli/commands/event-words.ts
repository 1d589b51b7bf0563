import type { AgentEventOf } from "../../../contract/event.ts";
import { counted, grouped, oneLine } from "../io.ts";

const ARGS_CHARS_MAX = 100;
const NAME_CHARS_MAX = 200;

/** A tool is named by whoever serves it, and a call of one by the model. */
export function toolName({ name }: { readonly name: string }): string {
  return oneLine(name, NAME_CHARS_MAX);
}

/** The first text among the arguments, such as a command or a subject. */
export function callHint({ args }: AgentEventOf<"tool_call_requested">): string {
  const values = Object.values(args);
  const hint = values.find((value) => typeof value === "string") ?? (values.length === 0 ? "" : JSON.stringify(args));
  return hint === "" ? "" : `: ${oneLine(hint, ARGS_CHARS_MAX)}`;
}

/** A compaction as one line, when it begins and when it is done. */
export function compactionLine(event: AgentEventOf<"compaction_started" | "compaction_completed">): string {
  if (event.type === "compaction_started") {
    const size = `about ${counted(event.estimated_history_tokens, "token")}`;
    return `compacting ${counted(event.message_count, "message")}, ${size}…`;
  }
  const { messages_before, messages_after, summary_tokens, judged, native } = event;
  const change = `${grouped(messages_before)} → ${grouped(messages_after)} messages`;
  const found = judged && `; judged: ${judged.contradicted} contradicted, ${judged.unverified} unverified`;
  const kept = native && `; beside it, ${native.provider}'s own`;
  return `compacted: ${change}, a summary of ${counted(summary_tokens, "token")}${found ?? ""}${kept ?? ""}`;
}

/** An eviction as one line. */
export function evictionLine({ outputs, tokens_before, tokens_after }: AgentEventOf<"context_evicted">): string {
  const change = `${grouped(tokens_before)} → ${grouped(tokens_after)} tokens`;
  return `evicted: ${counted(outputs, "tool output")}, about ${change}`;
}

export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
