import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { createOutputTail } from "./command.ts";

function tailOf(chunks: readonly Uint8Array[], charsMax: number) {
  const tail = createOutputTail(charsMax);
  for (const chunk of chunks) tail.push(chunk);
  tail.end();
  return tail.read();
}

describe("output tail", () => {
  it("[H5] keeps the end and counts the whole, however the stream is cut into chunks", () => {
    const textArbitrary = fc.string({ unit: "binary", maxLength: 60 });
    fc.assert(
      fc.property(textArbitrary, fc.nat({ max: 40 }), fc.integer({ min: 1, max: 9 }), (text, charsMax, step) => {
        const bytes = Buffer.from(text);
        const chunks = Array.from({ length: Math.ceil(bytes.length / step) }, (_, at) =>
          bytes.subarray(at * step, (at + 1) * step),
        );
        const kept = tailOf(chunks, charsMax + 1);
        const whole = bytes.toString();
        expect(whole.endsWith(kept.text)).toBe(true);
        // One character less where the cut went through a pair.
        expect(Math.min(whole.length, charsMax + 1) - kept.text.length).toBeOneOf([0, 1]);
        expect(kept.text.isWellFormed()).toBe(true);
        expect(kept).toMatchObject({ isLossy: false, charsTotal: whole.length });
      }),
    );
  });

  it("tells replaced bytes from a replacement character that was there", () => {
    expect(tailOf([Buffer.from("\uFFFD")], 10)).toEqual({ text: "\uFFFD", isLossy: false, charsTotal: 1 });
    expect(tailOf([Buffer.from([0x61, 0xff, 0x62])], 10)).toEqual({ text: "a\uFFFDb", isLossy: true, charsTotal: 3 });
    const unfinished = Buffer.from("é").subarray(0, 1);
    expect(tailOf([unfinished], 10)).toEqual({ text: "\uFFFD", isLossy: true, charsTotal: 1 });
  });
});
