import type { AgentEvent } from "@rkat/core/contract/event";
import { describe, expect, it } from "vitest";
import type { Io } from "../io.ts";
import { createEventsView, createJsonView, createSubAgentLines, createTextView, type TurnView } from "./turn-view.ts";

const who = { call_id: "c1", agent: "reviewer", child_id: "child-1" };
const below = { call_id: "c2", agent: "clerk", child_id: "child-2" };
const inside = (event: AgentEvent, of: typeof who = who, depth = 1): AgentEvent => ({
  type: "sub_agent_event",
  ...of,
  depth,
  event,
});
const usage = { input_tokens: 12_000, output_tokens: 345 };
const started: AgentEvent = { type: "sub_agent_started", ...who, task: "Read the\nchange.\u001b[2J" };
const ended: AgentEvent = { type: "sub_agent_completed", ...who, status: "completed", usage, tool_calls: 1 };
const call: AgentEvent = { type: "tool_call_requested", id: "1", name: "shell", args: { command: "ls" } };
const stream: readonly AgentEvent[] = [
  started,
  inside({ type: "turn_started", turn_number: 0 }),
  inside(call),
  inside({ type: "sub_agent_started", ...below, task: "File it." }),
  inside(call, below, 2),
  // As a session tells it that only hands on what it hears.
  inside(inside(call, below)),
  inside({ type: "sub_agent_completed", ...below, status: "failed", usage, tool_calls: 2 }),
  inside({ type: "text_complete", content: "Fine." }),
  ended,
];

function seenBy(open: (io: Io) => TurnView, isTerminal: boolean): string {
  let seen = "";
  const output = {
    isTerminal,
    columns: 80,
    write: (text: string) => {
      seen += text;
    },
  };
  const view = open({ env: { NO_COLOR: "1" }, stdout: output, stderr: output } as unknown as Io); // All it looks at.
  for (const event of stream) view.show(event);
  return seen.replace(/in \d+\.\d s/g, "in N s");
}
const text = (isVerbose: boolean) => (io: Io) => createTextView(io, { isStreaming: true, isVerbose });

describe("what is told of sub-agents", () => {
  it("[O4] is a line when one begins and when it ends, with what it took, on a terminal alone", () => {
    expect(seenBy(text(false), true)).toBe(
      [
        "· ▸ reviewer: Read the change.[2J",
        "·   reviewer ▸ clerk: File it.",
        "·   reviewer ◂ clerk failed: 12,345 tokens, 2 tool calls in N s",
        "· ◂ reviewer completed: 12,345 tokens, 1 tool call in N s",
        "",
      ].join("\n"),
    );
    expect(seenBy(text(false), false)).toBe("");
    expect(seenBy((io) => createJsonView(io, { isVerbose: false }), true)).toBe("");
  });

  it("[O4] is each of their calls, too, where everything is asked for, indented by how deep they are", () => {
    const verbose = seenBy(text(true), false);
    expect(verbose).toBe(
      [
        "· ▸ reviewer: Read the change.[2J",
        '·   reviewer → shell {"command":"ls"}',
        "·   reviewer ▸ clerk: File it.",
        '·     clerk → shell {"command":"ls"}',
        '·     clerk → shell {"command":"ls"}',
        "·   reviewer ◂ clerk failed: 12,345 tokens, 2 tool calls in N s",
        "· ◂ reviewer completed: 12,345 tokens, 1 tool call in N s",
        "",
      ].join("\n"),
    );
    expect(seenBy((io) => createJsonView(io, { isVerbose: true }), false)).toBe(verbose);
  });

  it("[O4] is every event as it is where events are asked for", () => {
    const lines = seenBy((io) => createEventsView(io), false)
      .trimEnd()
      .split("\n");
    expect(lines.map((line) => JSON.parse(line))).toEqual(stream);
  });

  it("[O4] says how long one took by when it began", () => {
    let nowMs = 1_000;
    const lineOf = createSubAgentLines(() => nowMs);
    lineOf(started, () => undefined);
    nowMs = 4_400;
    expect(lineOf(ended, () => undefined)).toMatch(/in 3\.4 s$/);
  });
});
