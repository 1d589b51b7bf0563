import { describe, expect, it } from "vitest";
import { readFrontMatter } from "./front-matter.ts";

const read = (text: string) => readFrontMatter({ path: "SKILL.md", text });

describe("front matter", () => {
  it("is a table before a text", async () => {
    const text = "---\r\nname: one\r\ntools: [a, b]\r\n---\nWhat it says.\n---\nMore.";
    expect(await read(text)).toEqual({ table: { name: "one", tools: ["a", "b"] }, body: "What it says.\n---\nMore." });
    expect(await read("No head.")).toEqual({ table: {}, body: "No head." });
    expect(await read("---\n---\n")).toEqual({ table: {}, body: "" });
  });

  it.each([
    ["has no end", "---\nname: one", /^SKILL\.md: write a line --- after/],
    ["is a list", "---\n- one\n---\n", /^SKILL\.md: fix its front matter: it is not a table/],
    ["is no YAML", "---\na: [\n---\n", /^SKILL\.md: fix its front matter: /],
    ["refers to itself", `---\na: &a [1]\nb: [${"*a,".repeat(999)}]\n---\n`, /^SKILL\.md: fix its front matter: /],
    ["is too long", `---\n${"#".repeat(20_000)}\n---\n`, /^SKILL\.md: shorten its front matter/],
  ])("is refused in a sentence where it %s", async (_, text, sentence) => {
    await expect(read(text)).rejects.toThrow(sentence);
  });
});
