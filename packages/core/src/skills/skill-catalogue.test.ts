import { hash } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { InlineSkill } from "../ports/skill.ts";
import { createSkillCatalogue } from "./skill-catalogue.ts";

const sha256 = (text: string): string => hash("sha256", text);
const catalogue = (skills: readonly InlineSkill[]) => createSkillCatalogue(skills, sha256);
const skills = (count: number, description: string): readonly InlineSkill[] =>
  Array.from({ length: count }, (_, at) => ({ name: `skill-${at}`, description, body: "Text." }));
const bytes = (text: string): number => Buffer.byteLength(text);

describe("what a model is told of skills", () => {
  it("[M1] is a line each, whole where there is room", () => {
    const { prompt, lines } = catalogue(skills(3, "What it\n  teaches."));
    expect(lines).toEqual([
      "- skill-0: What it teaches.",
      "- skill-1: What it teaches.",
      "- skill-2: What it teaches.",
    ]);
    expect(prompt.endsWith(lines.join("\n"))).toBe(true);
  });

  it.each([
    [20, "d".repeat(1_024)],
    [60, "d".repeat(1_024)],
    [200, "d".repeat(90)],
    [1_000, "漢字🙂".repeat(300).slice(0, 1_024)],
  ])("[M1] takes at most 8 KiB for %i skills: descriptions are cut, then the rest is counted", (count, description) => {
    const { prompt, lines } = catalogue(skills(count, description));
    expect(bytes(prompt)).toBeLessThanOrEqual(8_192);
    expect(bytes(prompt)).toBeGreaterThan(4_000);
    expect(prompt.isWellFormed()).toBe(true);
    const reported = prompt.split("\n").filter((line) => line.startsWith("- skill-"));
    const [, more = "0"] = /^- (\d+) more; load_skill without a name lists them all$/m.exec(prompt) ?? [];
    expect(reported.length + Number(more)).toBe(count);
    expect(lines).toHaveLength(count);
  });
});

describe("a skill of code's", () => {
  it.each<[string, RegExp, object]>([
    ["a name of other signs", /^skills\.0: name it in at most 64/, { name: "No Name" }],
    ["a description that is too long", /description of at most 1024/, { description: "d".repeat(1_025) }],
    ["no body", /give skill one a body/, { body: "" }],
    ["files that are no texts", /at most 64 files/, { files: { a: 1 } }],
    ["a pattern that is none", /allowedTools of skill one: .*names no tool/, { allowedTools: ["bash(ls)"] }],
    ["our own name", /memory-retrieval is taken/, { name: "memory-retrieval" }],
  ])("[M1] with %s is refused", (_why, sentence, wrong) => {
    const given = { name: "one", description: "One.", body: "Text.", ...wrong };
    expect(() => catalogue([given])).toThrow(sentence);
  });

  it("[M1] is refused where another of them has its name", () => {
    expect(() => catalogue([...skills(1, "d"), ...skills(1, "d")])).toThrow(/skill-0 is taken/);
  });
});
