import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { numberedName, numberOf, parseMarkdown, toMarkdown } from "./vault.ts";

const parsed = (text: string) => {
  const { fields, body } = parseMarkdown(text);
  return { fields: Object.fromEntries(fields), body };
};

/** Of any characters; `fc.string` would take seconds to prepare for them. */
const anyText = fc
  .array(fc.oneof(fc.integer({ min: 0, max: 0xd7ff }), fc.integer({ min: 0xe000, max: 0x10ffff })))
  .map((codes) => String.fromCodePoint(...codes));

describe("front matter", () => {
  it("is read as a person writes it", () => {
    const text = [
      "---",
      "# who was there",
      "place: the mill",
      "",
      'who: "Ada: the first"',
      "mood: 'it''s fine'",
      "at: 10:30",
      "tags:",
      "  - a",
      "  - b",
      "---",
      "",
      "It rained.",
      "",
    ];
    const fields = {
      place: "the mill",
      who: "Ada: the first",
      mood: "it's fine",
      at: "10:30",
      tags: "- a\n- b",
    };
    expect(parsed(text.join("\n"))).toEqual({ fields, body: "It rained.\n" });
    expect(parsed(text.join("\r\n"))).toEqual({ fields, body: "It rained.\r\n" });
  });

  it.each([
    ["none", "It rained.\n"],
    ["nothing at all", ""],
    ["one rule", "---"],
    ["a rule that none follows", "---\nplace: the mill\n"],
    ["two rules with nothing between", "---\n---\nIt rained.\n"],
    ["two rules with prose between", "---\nIt rained.\n---\nplace: the mill\n"],
    ["a list without a key", "---\n- It rained.\n---\n"],
    ["a rule later on", "It rained.\n---\nplace: the mill\n---\n"],
    ["a longer rule", "----\nplace: the mill\n----\n"],
  ])("is not seen in a text with %s", (_, text) => {
    expect(parsed(text)).toEqual({ fields: {}, body: text });
  });

  it("may stand alone, with the body right below, or with space after its rules", () => {
    expect(parsed("---\na: b\n---")).toEqual({ fields: { a: "b" }, body: "" });
    expect(parsed("---\na: b\n---\n")).toEqual({ fields: { a: "b" }, body: "" });
    expect(parsed("---  \na:\n--- \nIt rained.")).toEqual({ fields: { a: "" }, body: "It rained." });
  });

  it("is written without quotes where no reader could mistake it", () => {
    const fields = { title: "Notes from 10:30", name: "a: b", n: 7, none: undefined, metadata: { a: [1, "\n"] } };
    expect(toMarkdown(fields, "It rained.")).toBe(
      '---\ntitle: Notes from 10:30\nname: "a: b"\nn: 7\nmetadata: {"a":[1,"\\n"]}\n---\n\nIt rained.',
    );
  });

  it("gives fields and body back as they were, whatever they are", () => {
    const text = fc.oneof(anyText, fc.string({ unit: fc.constantFrom(..."-:#\"' \r\n\ta") }));
    fc.assert(
      fc.property(text, text, (title, body) => {
        expect(parsed(toMarkdown({ seq: 1, title }, body))).toEqual({ fields: { seq: "1", title }, body });
      }),
      { numRuns: 500 },
    );
  });

  it("of any length is read in one pass", () => {
    const lines = `a: b\n`.repeat(200_000);
    expect(parsed(`---\n${lines}---\n`)).toEqual({ fields: { a: "b" }, body: "" });
    const open = `---\n${lines}`;
    expect(parsed(open)).toEqual({ fields: {}, body: open });
  });
});

it("knows the names that numbers have, and no others", () => {
  for (const number of [1, 42, 999_999, 1_000_000]) expect(numberOf(numberedName(number))).toBe(number);
  expect(numberOf("000007.MD")).toBe(7);
  for (const name of ["000000.md", "7.md", "0000007.md", "000007.txt", "notes.md", "2026-07-01.md", "0000-1.md", ""]) {
    expect([name, numberOf(name)]).toEqual([name, undefined]);
  }
});
