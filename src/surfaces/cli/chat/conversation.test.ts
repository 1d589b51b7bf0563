import { describe, expect, it } from "vitest";
import { contextBar } from "./conversation.ts";

const part = (kind: string, estimated_tokens: number) => ({ kind, seqs: [1, 1] as [number, number], estimated_tokens });

const context = {
  messages: { length: 9 },
  parts: [
    part("system", 10),
    part("summary", 990),
    part("pinned", 500),
    part("expanded", 1_000),
    part("turn", 1_500),
    part("turn", 500),
  ],
  tool_tokens: 500,
  context_window: 10_000,
  auto_compact_threshold: 8_000,
};

const at = (columns: number | undefined, env = {}) => ({
  env,
  stdout: { isTerminal: true, columns, write: () => {} },
});

describe("the bar of a context", () => {
  it("tells its parts without colour, in the width there is", () => {
    expect(contextBar(context, at(41, { NO_COLOR: "1" }))).toEqual([
      "9 messages, about 5,000 of 10,000 tokens",
      "▚▚≡▓▓▓▓◆◆▒▒▒▒████████···········│········",
      "▚ tools       500",
      "≡ system       10",
      "▓ summary     990",
      "◆ pinned      500  1 part",
      "▒ expanded  1,000  1 part",
      "█ turns     2,000  2 turns",
      "· free      5,000",
      "│ compaction starts at 8,000, in about 3,000",
    ]);
    for (const columns of [20, 33, 200]) {
      expect(contextBar(context, at(columns, { NO_COLOR: "1" }))[1]).toHaveLength(columns);
    }
    expect(contextBar(context, at(undefined, { NO_COLOR: "1" }))[1]).toHaveLength(80);
  });

  it("has no end where the window is not known, and no mark without compaction", () => {
    const { context_window: _window, auto_compact_threshold: _threshold, ...unknown } = context;
    const lines = contextBar(unknown, at(40, { NO_COLOR: "1" }));
    expect(lines[0]).toBe("9 messages, about 5,000 tokens");
    expect(lines.join("")).not.toMatch(/[·│]/);
  });

  it("shows a context that has grown beyond both", () => {
    const full = { ...context, parts: [part("turn", 12_000)], tool_tokens: 0 };
    const lines = contextBar(full, at(31, { NO_COLOR: "1" }));
    expect(lines).toEqual([
      "9 messages, about 12,000 of 10,000 tokens",
      `${"█".repeat(20)}│${"█".repeat(10)}`,
      "█ turns  12,000  1 turn",
      "· free        0",
      "│ compaction starts at 8,000, which is reached",
    ]);
  });

  it("is coloured on a terminal", () => {
    expect(contextBar(context, at(40))[1]).toContain("\u001b[");
  });
});
