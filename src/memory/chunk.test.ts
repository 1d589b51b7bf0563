import { describe, expect, it } from "vitest";
import type { Message } from "../contract/message.ts";
import { chunksOf, passageFor } from "./chunk.ts";

const created_at = "2026-11-15T12:00:00.000Z";
const place = { session_id: "s1", turn: 2, seq: 7, created_at_ms: Date.parse(created_at) };

describe("chunks of a message", () => {
  it("[D1] say where they come from", () => {
    const [chunk] = chunksOf({ role: "user", content: "The port is 6543.", created_at }, place);
    expect({ ...chunk, terms: undefined }).toEqual({
      ...place,
      part: 0,
      role: "user",
      kind: "text",
      text: "The port is 6543.",
      terms: undefined,
    });
    expect(chunk?.terms.get("6543")).toBe(1);
    expect(chunk?.terms.get("@2026-11-15")).toBe(1);
  });

  it("[D1] hold what was said and what tools were asked, and not the reasoning", () => {
    const message: Message = {
      role: "block_assistant",
      stop_reason: "tool_use",
      created_at,
      blocks: [
        { block_type: "reasoning", data: { text: "hmm" } },
        { block_type: "text", data: { text: "Let me look." } },
        { block_type: "tool_use", data: { id: "c1", name: "read", args: { path: "src/a.ts", lines: 3 } } },
      ],
    };
    expect([...chunksOf(message, place)].map(({ part, kind, text }) => ({ part, kind, text }))).toEqual([
      { part: 0, kind: "text", text: "Let me look." },
      { part: 1, kind: "tool_call", text: "read path: src/a.ts\nlines: 3" },
    ]);
  });

  it("[D1] [H5] of an endless text are its beginning and its end", () => {
    const content = `first\n${"noise and more noise\n".repeat(1_000_000)}last`;
    const chunks = [
      ...chunksOf(
        { role: "tool_results", results: [{ tool_use_id: "c1", content, is_error: false }], created_at },
        place,
      ),
    ];
    expect(chunks.length).toBeLessThan(2 * 2_048 * 1.5);
    expect(chunks.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThan(18_000_000);
    expect(chunks[0]?.text.startsWith("first")).toBe(true);
    expect(chunks.at(-1)?.text.endsWith("last")).toBe(true);
    expect(chunks.map(({ part }) => part)).toEqual([...chunks.keys()]);
  });
});

describe("the passage of a chunk", () => {
  const where = { ...place, part: 0, role: "user", kind: "text" } as const;
  const chunk = { ...where, id: 2, before: 1, after: 0, text: "Yes, at eight." };

  it("[D5] begins with what was said before it in its session", () => {
    const before = { ...chunk, id: 1, text: "Shall we meet tonight?" };
    expect(passageFor(chunk, before)).toBe("Shall we meet tonight?\nYes, at eight.");
    expect(passageFor(chunk, { ...before, session_id: "s2" })).toBe("Yes, at eight.");
    expect(passageFor(chunk, undefined)).toBe("Yes, at eight.");
  });

  it("[D5] takes only the end of a long one", () => {
    const passage = passageFor(chunk, { ...chunk, id: 1, text: "word ".repeat(1_000) });
    expect(passage.length).toBeLessThan(450);
  });
});
