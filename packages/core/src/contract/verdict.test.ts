import { describe, expect, it } from "vitest";
import { verdictOf } from "./verdict.ts";

const NOTHING = { recoverable: 0, lost: 0, invented: [], invented_cut: false };
const invented = { kind: "number", text: "9999", sentence: "The port is 9999." };

describe("the verdict of a receipt", () => {
  it.each([
    [NOTHING, "Nothing lost."],
    [
      { ...NOTHING, recoverable: 11, doubtful: ["One.", "Two."] },
      "Nothing lost. 11 facts are no longer shown to the model and can be found again. 2 sentences of the summary could not be checked.",
    ],
    [
      { ...NOTHING, recoverable: 1, doubtful: ["One."] },
      "Nothing lost. 1 fact is no longer shown to the model and can be found again. 1 sentence of the summary could not be checked.",
    ],
    [{ ...NOTHING, lost: 1 }, "1 fact is lost."],
    [
      { ...NOTHING, lost: 1_200, recoverable: 3 },
      "1,200 facts are lost. 3 facts are no longer shown to the model and can be found again.",
    ],
    [
      { ...NOTHING, invented: [invented], invented_cut: true },
      "Nothing lost. 1 invented fact was cut from the summary.",
    ],
    [{ ...NOTHING, invented: [invented, invented] }, "Nothing lost. 2 invented facts are in the summary."],
  ])("[R2] of %j is %j", (receipt, verdict) => {
    expect(verdictOf(receipt)).toBe(verdict);
  });
});
