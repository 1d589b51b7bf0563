import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { clip, quotableSentences } from "./sentences.ts";

describe("sentences", () => {
  it.each([
    ["The port is 99. Use it! Why? Because.", ["The port is 99.", "Use it!", "Why?", "Because."]],
    ["See src/a.ts, v1.2.3 and e.g. Node. Then stop.", ["See src/a.ts, v1.2.3 and e.g. Node.", "Then stop."]],
    ["Run `a. B` now. Done.", ["Run `a. B` now.", "Done."]],
    ["- one\n* two\n\n  3) three", ["one", "two", "three"]],
    ["端口是7443。好！", ["端口是7443。", "好！"]],
    [" \n\t", []],
  ])("[A8] splits %j", (text, sentences) => {
    expect(quotableSentences(text)).toEqual(sentences);
  });

  it("[A8] gives pieces of the text itself, none longer than a quote", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 3_000 }), (text) => {
        for (const sentence of quotableSentences(text)) {
          expect(text).toContain(sentence);
          expect(sentence.isWellFormed()).toBe(true);
          expect(sentence.length).toBeLessThanOrEqual(400);
        }
      }),
    );
  });

  it("[A8] clips between words and never inside a number", () => {
    expect(clip("the port is 7443", 14)).toBe("the port is");
    expect(clip(`${"端".repeat(30)}7443`, 32)).toBe("端".repeat(30));
  });
});
