import { describe, expect, it } from "vitest";
import { offeredName } from "./mcp-tools.ts";

describe("the name of a server's tool", () => {
  it("[G9] is both names, where every provider accepts them", () => {
    expect(offeredName("files", "read_file")).toBe("mcp__files__read_file");
    expect(offeredName("my-files", "_hidden")).toBe("mcp__my-files___hidden");
  });

  it("[G9] is always one that providers accept, and the same every time", () => {
    const long = offeredName("a".repeat(60), "b".repeat(60));
    expect(long).toMatch(/^mcp__a{50}_[0-9a-f]{8}$/);
    expect(offeredName("a".repeat(60), "b".repeat(60))).toBe(long);
    for (const odd of ["", "é", "a.b", "a/b c", "\n", "💥"]) {
      expect(offeredName(odd, odd)).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
    }
  });

  it("[G9] is no other tool's", () => {
    const pairs = [
      ["a", "b__c"],
      ["a__b", "c"],
      ["a_", "_b"],
      ["a", "__b"],
      ["a__", "b"],
      ["s", "a.b"],
      ["s", "a_b"],
      ["s", "a/b"],
      ["s.", "a"],
      ["s_", "a"],
      ["s", "x".repeat(70)],
      ["s", "x".repeat(71)],
    ] as const;
    expect(new Set(pairs.map(([server, tool]) => offeredName(server, tool))).size).toBe(pairs.length);
  });
});
