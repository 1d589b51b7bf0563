import { describe, expect, it } from "vitest";
import { callBars, contextBar } from "./context-strip.ts";

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
  kinds: [
    { kind: "system" as const, tokens: 10 },
    { kind: "summary" as const, tokens: 990 },
    { kind: "pinned" as const, tokens: 500 },
    { kind: "expanded" as const, tokens: 1_000 },
    { kind: "turn" as const, tokens: 1_000 },
    { kind: "tool_output" as const, tokens: 750 },
    { kind: "memory" as const, tokens: 250 },
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
      "▚▚≡▓▓▓▓◆◆▒▒▒▒████▤▤▤◇···········│········",
      "▚ tools          500",
      "≡ system          10",
      "▓ summary        990",
      "◆ pinned         500  1 part",
      "▒ expanded     1,000  1 part",
      "█ turns        1,000  2 turns",
      "▤ tool output    750",
      "◇ memory         250",
      "· free         5,000",
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
    const full = {
      ...context,
      parts: [part("turn", 12_000)],
      kinds: [{ kind: "turn" as const, tokens: 12_000 }],
      tool_tokens: 0,
    };
    const lines = contextBar(full, at(31, { NO_COLOR: "1" }));
    expect(lines).toEqual([
      "9 messages, about 12,000 of 10,000 tokens",
      `${"█".repeat(20)}│${"█".repeat(10)}`,
      "█ turns  12,000  1 turn",
      "· free        0",
      "│ compaction starts at 8,000, which is reached",
    ]);
  });

  it("[G5] is coloured on a terminal alone, and not where colours are unwanted", () => {
    expect(contextBar(context, at(40))[1]).toContain("\u001b[");
    const piped = { env: {}, stdout: { isTerminal: false, columns: undefined, write: () => {} } };
    for (const io of [piped, at(40, { NO_COLOR: "1" })])
      expect(contextBar(context, io).join("")).not.toContain("\u001b");
  });
});

describe("the bars of model calls", () => {
  const call = (seq: number, turn: number, tokens: number) => ({
    seq,
    turn,
    at: "2026-11-16T00:00:00.000Z",
    model: "scripted",
    tokens,
    tool_tokens: 0,
    parts: [
      { kind: "system" as const, tokens: 100 },
      { kind: "turn" as const, tokens: tokens - 100 },
    ],
    context_window: 1_000,
    threshold: 800,
  });
  const compaction = { seq: 9, compaction_id: "c", tokens_before: 700, tokens_after: 200, undone: false };
  const calls = { calls: [call(3, 1, 400), call(7, 2, 700), call(12, 3, 200)], compactions: [compaction] };

  it("[G5] stand on one scale, with compactions between them and what each sign means below", () => {
    expect(callBars(calls, at(41, { NO_COLOR: "1" }))).toEqual([
      "SEQ  TURN  TOKENS",
      "3       1     400  ≡≡██████·········│····",
      "7       2     700  ≡≡█████████████··│····",
      "9    ▼ compacted: 700 → 200 tokens",
      "12      3     200  ≡≡██·············│····",
      "≡ system  █ turns  │ compaction starts",
    ]);
    for (const columns of [60, 200]) expect(callBars(calls, at(columns, { NO_COLOR: "1" }))[1]).toHaveLength(columns);
    const undone = { ...calls, compactions: [{ ...compaction, undone: true }] };
    expect(callBars(undone, at(41, { NO_COLOR: "1" }))[3]).toBe("9    ▼ compacted: 700 → 200 tokens, undone since");
    expect(callBars(calls, at(41))[1]).toContain("\u001b[");
  });
});
