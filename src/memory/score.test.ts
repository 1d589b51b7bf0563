import { describe, expect, it } from "vitest";
import type { LexicalMatches } from "../ports/memory.ts";
import { plainWords, queryTerms } from "../text/terms.ts";
import { createScore, descending, exactnessOf } from "./rank.ts";

const nothing: LexicalMatches = { postings: [], chunks: 0, termsTotal: 0, lengthOf: () => 0 };
const scoreOf = (query: string, text: string, likeness?: number): number =>
  createScore(query, queryTerms(query), nothing)({ text, likeness });

describe("a score", () => {
  it("[D3] is 1 for the same words and at least 0.99 for a passage", () => {
    const text = "We settled on argon2id for hashing passwords, with 64 MB of memory.";
    expect(scoreOf(text, text)).toBe(1);
    expect(scoreOf("settled on argon2id for hashing", text)).toBe(0.99);
    expect(scoreOf(`They said: ${text} And more.`, text)).toBe(0.99);
  });

  it("[D3] is below 0.99 for anything else", () => {
    expect(scoreOf("passwords hashing argon2id", "argon2id hashing passwords", 1)).toBeLessThan(0.99);
    expect(exactnessOf(plainWords("the memory"), "of the memory of others")).toBe(0);
  });

  it("[D3] is above 0.7 for most of the words or for a like meaning", () => {
    expect(scoreOf("which port does staging use?", "Staging uses port 6543.")).toBeGreaterThan(0.7);
    expect(scoreOf("any dessert ideas?", "Grandmother's lemon cake.", 0.8)).toBeGreaterThan(0.7);
  });

  it("[D3] is below 0.3 for one word of several, or none", () => {
    expect(scoreOf("boiling point of tungsten", "You should get to the point.")).toBeLessThan(0.3);
    expect(scoreOf("boiling point of tungsten", "The fence is blue.", 0)).toBeLessThan(0.3);
  });

  it("[D3] never rises down a list", () => {
    expect(descending([1, 0.5, 0.7, 0.2, 0.4, 0.1])).toEqual([1, 0.6, 0.6, 0.3, 0.3, 0.1]);
  });
});
