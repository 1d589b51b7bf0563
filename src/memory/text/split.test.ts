import { describe, expect, it } from "vitest";
import { splitText } from "./split.ts";

const sentence = (index: number): string => `This is sentence number ${index} of a long message about nothing much.`;

describe("splitting a text", () => {
  it("[D1] leaves a short one whole and makes nothing of nothing", () => {
    expect(splitText("  one line ")).toEqual(["one line"]);
    expect(splitText(" \n ")).toEqual([]);
  });

  it("[D1] cuts a long one at the ends of sentences and loses none", () => {
    const sentences = Array.from({ length: 100 }, (_, index) => sentence(index));
    const parts = splitText(sentences.join(" "));
    expect(parts.every((part) => part.endsWith("."))).toBe(true);
    expect(parts.every((part) => part.length <= 960)).toBe(true);
    expect(sentences.filter((one) => !parts.some((part) => part.includes(one)))).toEqual([]);
  });

  it("[D1] cuts what has no ends, and no sign in two", () => {
    for (const sign of ["x", "漢", "🎉"]) {
      const parts = splitText(sign.repeat(5_000));
      expect(parts.length).toBeGreaterThan(5);
      expect(parts.join("")).toBe(sign.repeat(5_000));
      expect(parts.every((part) => part.isWellFormed())).toBe(true);
    }
  });
});
