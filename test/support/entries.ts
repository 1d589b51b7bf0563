import type { EntryBody } from "@rkat/core/contract/entry";

export function idOf(number: number): string {
  return `01900000-0000-7000-8000-${number.toString(16).padStart(12, "0")}`;
}

const created_at = "2026-01-01T00:00:00.000Z";

export const created: EntryBody = {
  kind: "session_created",
  settings: {
    model: "offline",
    provider: "offline",
    max_turns: 100,
    budget_limits: {},
    tools: { builtins: "none", shell: false, memory: false },
    tool_filter: "All",
    structured_output_retries: 2,
    labels: { team: "a" },
  },
};
export const said = (content: string): EntryBody => ({
  kind: "turn_opened",
  message: { role: "user", content, created_at },
});
export const answered = (text: string): EntryBody => ({
  kind: "assistant",
  message: {
    role: "block_assistant",
    blocks: [{ block_type: "text", data: { text } }],
    stop_reason: "end_turn",
    created_at,
  },
  usage: { input_tokens: 10, output_tokens: 5 },
});
export const closed: EntryBody = {
  kind: "turn_closed",
  end: {
    status: "completed",
    final_call: { stop_reason: "end_turn", usage: { input_tokens: 10, output_tokens: 5 } },
    extraction_required: false,
    usage: { input_tokens: 10, output_tokens: 5 },
  },
};
