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

  it.each([
    ["English", "The kettle boiled, and nobody had brought any tea for the afternoon. "],
    ["Chinese", "昨天我去了北京，今天回到上海。天气很好，我们去公园散步。"],
    ["Chinese of long sentences", `${"天气很好我们去公园散步".repeat(9)}。`],
  ])("[D1] says little of %s twice", (_, text) => {
    const parts = splitText(text.repeat(1_000));
    const chars = parts.reduce((sum, part) => sum + part.length, 0);
    expect(chars / (text.length * 1_000)).toBeLessThan(1.5);
  });

  it("[D1] [H5] makes longer parts of a text without end, not more of them", () => {
    const sentences = Array.from({ length: 150_000 }, (_, index) => sentence(index));
    const parts = splitText(sentences.join(" "));
    expect(parts.length).toBeLessThan(2_048 * 1.5);
    expect(Math.max(...parts.map(({ length }) => length))).toBeLessThan(8_000);
    expect(parts.some((part) => part.includes(sentence(75_000)))).toBe(true);
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
