import type { AgentEvent } from "@rkat/core/contract/event";
import { describe, expect, it } from "vitest";
import { createPaint } from "../io.ts";
import { createWorkLines, patchLines } from "./turn-view.ts";

const output = { isTerminal: true, columns: 80, write: () => {} };
const plain = createPaint(output, { NO_COLOR: "1" });

const call = (name: string, args: Readonly<Record<string, string>>): AgentEvent => ({
  type: "tool_call_requested",
  id: "1",
  name,
  args,
});
const answered = (
  result: string,
  more: { readonly is_error?: boolean; readonly duration_ms?: number } = {},
): AgentEvent => ({
  type: "tool_execution_completed",
  id: "1",
  name: "shell",
  result,
  is_error: false,
  duration_ms: 10,
  ...more,
});
const patchOfLines = (count: number): string =>
  ["*** Begin Patch", ...Array.from({ length: count - 2 }, (_, at) => `+line ${at}`), "*** End Patch"].join("\n");

describe("[G5] what a turn does besides talking", () => {
  it("[G5] is a call, then the first line of its result and how many more there are", () => {
    const lines = createWorkLines(plain, () => 0);
    expect(lines(call("shell", { command: "seq 1 3" }))).toEqual(["· shell: seq 1 3"]);
    expect(lines(answered("1\n2\n3\n"))).toEqual(["  ⎿ 1 … 2 more lines"]);
    expect(lines(answered("one\u001b[2J"))).toEqual(["  ⎿ one[2J"]);
    expect(lines(answered("a\nb", { duration_ms: 1_500 }))).toEqual(["  ⎿ a … 1 more line (1.5 s)"]);
    expect(lines(answered(" \n"))).toEqual(["  ⎿ (nothing)"]);
    expect(lines(answered("no such\nfile", { is_error: true }))).toEqual(["  shell failed: no such file"]);
    const [long = ""] = lines(answered("x".repeat(1_000_000)));
    expect(long).toHaveLength(124);
  });

  it("[G5] is a patch of at most 12 lines when it was made, and none when it failed", () => {
    const lines = createWorkLines(plain, () => 0);
    const reported = (count: number, isError = false): readonly string[] => {
      expect(lines(call("apply_patch", { patch: patchOfLines(count) }))).toEqual(["· apply_patch"]);
      return lines(answered("Done.", { is_error: isError }));
    };
    expect(reported(30)).toEqual([
      "  *** Begin Patch",
      ...Array.from({ length: 11 }, (_, at) => `  +line ${at}`),
      "  … 18 more lines",
      "  ⎿ Done.",
    ]);
    // A line that says there is one more would be no shorter than that one.
    expect(reported(13)).toHaveLength(14);
    expect(reported(13)).not.toContain("  … 1 more line");
    expect(reported(30, true)).toEqual(["  shell failed: Done."]);
  });

  it("[G5] has the lines of a patch in the colours of what they do", () => {
    const paint = createPaint(output, { FORCE_COLOR: "1" });
    expect(patchLines("--- a\n+++ b\n@@ 1 @@\n-old\n+\tnew\u001b[2J\n same\n", paint)).toEqual([
      paint.cyan("--- a"),
      paint.cyan("+++ b"),
      paint.cyan("@@ 1 @@"),
      paint.red("-old"),
      paint.green("+    new[2J"),
      " same",
    ]);
  });

  it("[G5] is a thought, with how long it took where that is known", () => {
    let nowMs = 1_000;
    const lines = createWorkLines(plain, () => nowMs);
    expect(lines({ type: "reasoning_delta", delta: "I" })).toEqual([]);
    nowMs = 3_500;
    lines({ type: "reasoning_delta", delta: "\nlook." });
    expect(lines({ type: "reasoning_complete", content: "I\nlook." })).toEqual(["· thought 2.5 s: I look."]);
    expect(lines({ type: "reasoning_complete", content: "Again." })).toEqual(["· thought: Again."]);
    expect(lines({ type: "text_delta", delta: "Yes" })).toEqual([]);
  });
});
