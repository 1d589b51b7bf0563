import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { fitTexts } from "./tier-summariser.ts";

const bytes = (texts: readonly string[]): number => texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);

describe("memories for a small model", () => {
  it("[E4] are cut in the middle of the longest ones, and short ones stay whole", () => {
    const long = "a long story ".repeat(1_000);
    const [short, cut] = fitTexts(["A fox came.", long], 1_000);
    expect(short).toBe("A fox came.");
    expect(cut).toMatch(/^a long story .*left out.* long story $/s);
    expect(fitTexts(["A fox came.", "It rained."], 1_000)).toEqual(["A fox came.", "It rained."]);
  });

  it("[E4] fit, whatever they are", () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ maxLength: 400 }), { minLength: 1, maxLength: 20 }),
        fc.integer({ min: 400, max: 4_000 }),
        (texts, max) => {
          const fitted = fitTexts(texts, max);
          expect(fitted.length).toBe(texts.length);
          expect(bytes(fitted)).toBeLessThanOrEqual(max);
        },
      ),
    );
  });
});
