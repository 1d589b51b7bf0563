import { describe, expect, it } from "vitest";
import { GROWTH_MAX, growthOf, READERS } from "./counted-readers.ts";

const FRAGMENTS = ["1%", "十", "1. ", "a ", "1 May "];
const CHARS = 8_000;

describe("the steps of a reader of texts", () => {
  it.each(Object.entries(READERS))("[J5] grow with the text: %s", (_, read) => {
    const grown = FRAGMENTS.map((fragment) => ({ fragment, growth: growthOf(read, fragment, CHARS) }));
    expect(grown.filter(({ growth }) => growth > GROWTH_MAX)).toEqual([]);
  });
});
