import { describe, expect, it } from "vitest";
import fixture from "./word-pieces.fixture.json" with { type: "json" };
import { clipped, createTokenizer, readVocabulary } from "./word-pieces.ts";

const ALL = 100_000;
const vocabulary = await readVocabulary();
const tokenize = createTokenizer(vocabulary);

describe("word pieces", () => {
  it.each(fixture.cases)("[D5] are those of the reference: $text", ({ text, pieces }) => {
    expect(tokenize(text, ALL)).toEqual(pieces);
  });

  it("[D5] are no more than asked for", () => {
    const text = "some words to count ".repeat(1000);
    expect(tokenize(text, 7)).toEqual(tokenize(text, ALL).slice(0, 7));
  });

  it("[D5] take a mark in a text for text", () => {
    expect(tokenize("[SEP]", ALL).map((piece) => vocabulary[piece])).toEqual(["[", "sep", "]"]);
  });

  it("[D5] cost no more than their bound, however long the text", () => {
    // Work that grows faster than the text would not end within the time of a test.
    expect(tokenize(" ".repeat(10_000_000), ALL)).toEqual([]);
    expect(tokenize("é".repeat(10_000_000), ALL)).toHaveLength(1);
  });

  it("[D5] do not cut a character in two", () => {
    expect(clipped(`a${"😀".repeat(20_000)}`).endsWith("😀")).toBe(true);
  });

  it("[D5] survive half characters", () => {
    expect(tokenize("\ud800 lone \udc00", ALL).map((piece) => vocabulary[piece])).toEqual(["lone"]);
  });
});
