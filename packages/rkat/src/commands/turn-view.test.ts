import type { AgentEvent } from "@rkat/core/contract/event";
import { describe, expect, it } from "vitest";
import type { Io } from "../io.ts";
import { createTextView, type TextViewOptions } from "./turn-view.ts";

const result = {
  session_id: "0199aabb-0000-7000-8000-000000000001",
  text: "Done.",
  turns: 2,
  tool_calls: 1,
  usage: { input_tokens: 20, output_tokens: 7, total_tokens: 27 },
};
const FOOTER = "[Session: 0199aabb | Turns: 2 | Tokens: 20 in / 7 out]\n";

const delta = (text: string): AgentEvent => ({ type: "text_delta", delta: text });
const call: AgentEvent = { type: "tool_call_requested", id: "1", name: "shell", args: { command: "ls -la\nrm x" } };
const retrying: AgentEvent = { type: "retrying", attempt: 1, max_attempts: 3, error: "overloaded", delay_ms: 500 };

/** A view on one terminal, where both streams are seen together. */
function terminalView(options: Partial<TextViewOptions> = {}, isTerminal = true) {
  const seen: string[] = [];
  const output = (name: string) => ({
    isTerminal,
    columns: 80,
    write: (text: string) => void seen.push(`${name} ${text}`),
  });
  const io = { env: { NO_COLOR: "1" }, stdout: output("out"), stderr: output("err") };
  // The view looks at nothing else of it.
  const view = createTextView(io as unknown as Io, { isStreaming: true, isVerbose: false, ...options });
  return { view, seen };
}

describe("the text view", () => {
  it("keeps what it tells on lines of its own", () => {
    const { view, seen } = terminalView();
    for (const event of [delta("Let me"), delta(" look."), call, delta("Done.")]) view.show(event);
    view.end(result);
    expect(seen).toEqual([
      "out Let me",
      "out  look.",
      "out \n",
      "err · shell: ls -la rm x\n",
      "out Done.",
      "out \n",
      `err ${FOOTER}`,
    ]);
  });

  it("prints the whole text at the end when it does not stream", () => {
    const { view, seen } = terminalView({ isStreaming: false }, false);
    for (const event of [delta("Let me look."), call, retrying]) view.show(event);
    view.end(result);
    expect(seen).toEqual(["err ! retrying in 0.5 s (1 of 3): overloaded\n", "out Done.", "out \n", `err ${FOOTER}`]);
  });

  it("prints what was said until the turn broke off", () => {
    const { view, seen } = terminalView({ isStreaming: false });
    view.show(delta("Once upon"));
    view.breakOff("Once upon");
    expect(seen).toEqual(["out Once upon", "out \n"]);
  });

  it("lets no model steer the terminal, and changes nothing in a pipe", () => {
    const wicked = delta("a\u001b]0;owned\u0007b\n");
    const terminal = terminalView();
    terminal.view.show(wicked);
    expect(terminal.seen).toEqual(["out a]0;ownedb\n"]);
    const pipe = terminalView({}, false);
    pipe.view.show(wicked);
    expect(pipe.seen).toEqual(["out a\u001b]0;owned\u0007b\n"]);
  });

  it("[J2] tells of a compaction that is ready to whoever wants to know all, and of one that is dropped to everybody", () => {
    const usage = { input_tokens: 900, output_tokens: 100 };
    const sizes = { summary_tokens: 100, messages_before: 12, messages_after: 5 };
    const ready: AgentEvent = { type: "compaction_prepared", compaction_id: "c", ...sizes, usage };
    const dropped: AgentEvent = { type: "compaction_dropped", reason: "what it covers\nhas changed", usage };
    const line = "err ! a prepared compaction was dropped: what it covers has changed\n";
    for (const [isVerbose, lines] of [
      [false, [line]],
      [true, ["err · a compaction is ready: a summary of 100 tokens\n", line]],
    ] as const) {
      const { view, seen } = terminalView({ isVerbose });
      for (const event of [ready, dropped]) view.show(event);
      expect(seen).toEqual(lines);
    }
  });
});
