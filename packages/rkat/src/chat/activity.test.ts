import type { AgentEvent } from "@rkat/core/contract/event";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createActivity } from "./activity.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const call = (id: string, name: string, args = {}): AgentEvent => ({ type: "tool_call_requested", id, name, args });
const started = (id: string): AgentEvent => ({ type: "tool_execution_started", id, name: "shell" });
const completed = (id: string): AgentEvent => ({
  type: "tool_execution_completed",
  id,
  name: "shell",
  result: "",
  is_error: false,
  duration_ms: 1,
});
const asked: AgentEvent = {
  type: "tool_approval_requested",
  session_id: "s",
  approval_id: "a",
  calls: [],
  expires_at: "",
};
const agreed: AgentEvent = {
  type: "tool_approval_answered",
  session_id: "s",
  approval_id: "a",
  decision: "allow",
  calls: ["1"],
  remember: "once",
};
const inside = (event: AgentEvent): AgentEvent => ({
  type: "sub_agent_event",
  call_id: "c",
  agent: "reviewer",
  child_id: "child",
  depth: 1,
  event,
});

/** An activity that has begun, and the words it shows. */
function begun(showsAnswers = true) {
  let shown: { readonly words: string | undefined; readonly time: string } = { words: undefined, time: "" };
  const activity = createActivity({
    showsAnswers,
    show: (words, time) => {
      shown = { words, time };
    },
  });
  activity.begin("asking the model");
  /** Without the sign that turns. */
  const words = (): string | undefined => shown.words?.slice(2);
  const after = (event: AgentEvent): string | undefined => {
    activity.onEvent(event);
    return words();
  };
  return { activity, after, words, shown: () => shown };
}

describe("[G5] what happens while nothing else is seen", () => {
  it("[G5] has words for each event", () => {
    const { after, words, activity } = begun();
    expect(words()).toBe("asking the model…");
    expect(after({ type: "reasoning_delta", delta: "hm" })).toBe("thinking…");
    expect(after({ type: "text_delta", delta: "Yes" })).toBe("answering…");
    after(call("1", "shell", { command: "ls\u001b[2J\n-la" }));
    expect(after(started("1"))).toBe("shell: ls[2J -la…");
    after(call("2", "read_file", { path: "a.ts" }));
    expect(after(started("2"))).toBe("shell: ls[2J -la and 1 other call…");
    expect(after(completed("1"))).toBe("read_file: a.ts…");
    expect(after(completed("2"))).toBe("asking the model…");
    expect(after({ type: "compaction_started", message_count: 9, estimated_history_tokens: 1_200 } as AgentEvent)).toBe(
      "compacting 9 messages, about 1,200 tokens; the newest turns stay…",
    );
    expect(after({ type: "compaction_failed", error: "no" } as AgentEvent)).toBe("asking the model…");
    activity.end();
    expect(words()).toBe(undefined);
  });

  it("[G5] is silent where an answer is seen itself, and while a person is asked", () => {
    const { after } = begun(false);
    expect(after({ type: "text_delta", delta: "Yes" })).toBe(undefined);
    after(call("1", "shell", { command: "ls" }));
    expect(after(started("1"))).toBe("shell: ls…");
    expect(after(asked)).toBe(undefined);
    expect(after(agreed)).toBe("shell: ls…");
  });

  it("[G5] tells what a sub-agent calls, and is silent while that one asks", () => {
    const { after } = begun();
    expect(after(inside(call("9", "shell", { command: "ls" })))).toBe("sub-agent reviewer: shell…");
    expect(after(inside({ type: "text_delta", delta: "Fine" }))).toBe("sub-agent reviewer: shell…");
    expect(after(inside(asked))).toBe(undefined);
  });

  it("[G5] counts up while it lasts, and down to the next try", () => {
    const { activity, after, words, shown } = begun();
    vi.advanceTimersByTime(3_000);
    expect(shown().time).toBe("3 s · Ctrl-C stops");
    after({ type: "retrying", attempt: 1, max_attempts: 3, error: "overloaded", delay_ms: 5_000 });
    expect([words(), shown().time]).toEqual(["asking again (1 of 3)", "in 5 s · Ctrl-C stops"]);
    vi.advanceTimersByTime(2_040);
    expect(shown().time).toBe("in 3 s · Ctrl-C stops");
    activity.end();
    expect(vi.getTimerCount()).toBe(0);
  });
});
