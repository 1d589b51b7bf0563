import { describe, expect, it } from "vitest";
import { GROWTH_MAX, growthOf, READERS } from "./counted-readers.ts";

const FRAGMENTS = `1, 1% 1. 十 年 ’ a - _ * 12: h one $ @ / \` " ( | A --a`.split(" ").concat(" ", "\n", "10 as ");
const PAIRS = FRAGMENTS.flatMap((first) => FRAGMENTS.map((second) => first + second));
const MINUTES_MS = 60_000;

describe("the steps of a reader of texts", () => {
  it.each(Object.entries(READERS))(
    "[J5] grow with the text, whatever two pieces it repeats: %s",
    (_, read) => {
      const grown = PAIRS.map((fragment) => ({ fragment, growth: growthOf(read, fragment, 8_000) }));
      expect(grown.filter(({ growth }) => growth > GROWTH_MAX)).toEqual([]);
    },
    10 * MINUTES_MS,
  );

  it.each([
    ["figuresIn", "1,"],
    ["figuresIn", "1%"],
    ["figuresIn", "1 May "],
    ["stemsOf", "十"],
    ["sentencesOf", "1."],
    ["sentencesOf", "1. "],
    ["marksOf", "a "],
  ])(
    "[J5] grow with the text from 30 to 120 to 480 kB: %s on %j",
    (name, fragment) => {
      const read = READERS[name] ?? (() => undefined);
      expect(growthOf(read, fragment, 120_000)).toBeLessThan(GROWTH_MAX);
      expect(growthOf(read, fragment, 480_000)).toBeLessThan(GROWTH_MAX);
    },
    MINUTES_MS,
  );
});
