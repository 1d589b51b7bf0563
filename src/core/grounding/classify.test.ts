import { describe, expect, it } from "vitest";
import { classify } from "./occurrence.ts";
import type { Specific } from "./specifics.ts";

const path = (text: string): Specific => ({ kind: "path", text, seq: 1 });

describe("classify", () => {
  it("[C15] names the first place that holds a specific, and asks for recovery only of the rest", async () => {
    const asked: string[] = [];
    const items = await classify([path("a.ts"), path("b.ts"), path("c.ts"), path("d.ts"), path("e.ts")], {
      summary: "a.ts was changed",
      breathe: () => undefined,
      tail: ["a.ts", "and b.ts"],
      pinned: ["b.ts", "keep c.ts"],
      recover: async ({ text }) => asked.push(text) > 0 && text === "d.ts",
    });
    expect(items.map(({ status }) => status)).toEqual(["in_summary", "in_tail", "pinned", "recoverable", "lost"]);
    expect(asked).toEqual(["d.ts", "e.ts"]);
  });
});
