import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cutText, headOf, leftOut, tailOf } from "./transcript-text.ts";

const utf8Bytes = (text: string) => Buffer.byteLength(text);
const anyText = fc.string({
  unit: fc.constantFrom("a", "é", "漢", "😀", "\ud83d", "\ude00", "\n"),
  maxLength: 300,
});

describe("cutting text", () => {
  it("[C9] keeps within its bytes and breaks no character", () => {
    fc.assert(
      fc.property(anyText, fc.nat({ max: 400 }), (text, bytesMax) => {
        for (const cut of [cutText(text, bytesMax), headOf(text, bytesMax), tailOf(text, bytesMax)]) {
          expect(utf8Bytes(cut)).toBeLessThanOrEqual(bytesMax);
          expect(cut.isWellFormed()).toBe(true);
        }
        const whole = text.toWellFormed();
        expect(whole.startsWith(headOf(text, bytesMax))).toBe(true);
        expect(whole.endsWith(tailOf(text, bytesMax))).toBe(true);
        if (utf8Bytes(whole) <= bytesMax) expect(cutText(text, bytesMax)).toBe(whole);
      }),
    );
  });

  it("[C9] says how many characters are missing between head and tail", () => {
    const cut = cutText(`${"a".repeat(10_000)}${"z".repeat(10_000)}`, 100);
    expect(cut).toBe(`${"a".repeat(31)}\n[… 19,938 characters left out …]\n${"z".repeat(31)}`);
    expect(leftOut(1, "message")).toBe("[… 1 message left out …]");
  });
});
