import { describe, expect, it } from "vitest";
import { fc } from "../../../../../test/support/property.ts";
import { answerArithmetic } from "./asks.ts";

describe("arithmetic", () => {
  it.each([
    ["what is 17 * 23?", "17 * 23 = 391"],
    ["What's 0.1 + 0.2?", "0.1 + 0.2 = 0.3"],
    ["2 + 3 * (4 - 1) =", "2 + 3 * (4 - 1) = 11"],
    ["how much is 10 divided by 4?", "10 divided by 4 = 2.5"],
    ["what is 1/3?", "1/3 = about 0.333333333333"],
    ["compute -2 ^ 2", "-2 ^ 2 = -4"],
    ["what is 7 x 6", "7 x 6 = 42"],
    ["what is 1,000,000 * 2?", "1000000 * 2 = 2000000"],
    ["what is 9007199254740993 + 0.5?", "9007199254740993 + 0.5 = 9007199254740993.5"],
    ["what is 5 squared?", "5 squared = 25"],
    ["what is 17 mod 5?", "17 mod 5 = 2"],
    ["what is 1 / 0?", "1 / 0 has no answer I can give: it divides by zero."],
    ["what is 2 ^ 999?", "2 ^ 999 has no answer I can give: I only raise to powers up to 64."],
  ])("[A8] answers “%s”", (question, answer) => {
    expect(answerArithmetic(question)).toBe(answer);
  });

  it.each(["What is the port?", "2026-01-02", "what is 7443?", "1.2.3", "what is (1 + 2", "call 555-1234", "2 +", "-"])(
    "[A8] leaves “%s” alone",
    (text) => {
      expect(answerArithmetic(text)).toBeUndefined();
    },
  );

  it("[A8] agrees with exact integer arithmetic", () => {
    const operand = fc.bigInt({ min: 0n, max: 10n ** 20n });
    fc.assert(
      fc.property(operand, operand, operand, (a, b, c) => {
        expect(answerArithmetic(`what is ${a} * ${b} - ${c}?`)).toBe(`${a} * ${b} - ${c} = ${a * b - c}`);
      }),
    );
  });

  it("[A8] survives any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."0123456789+-*/%^(). ="), maxLength: 60 }), (text) => {
        expect(() => answerArithmetic(`what is ${text}`)).not.toThrow();
      }),
    );
  });
});
