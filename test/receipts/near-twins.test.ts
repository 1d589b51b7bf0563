import { indexTexts } from "@rkat/core/grounding/occurrence";
import { describe, expect, it } from "vitest";
import { NEAR_TWINS, type NearTwin } from "./near-twins.ts";
import { HELD_OUT_TWINS } from "./near-twins-held-out.ts";

const isKept = async ([kind, text, standing]: NearTwin): Promise<boolean> => {
  const index = indexTexts([`We spoke of the weather. ${standing} Then we went on.`], () => undefined);
  return index.has({ kind, text });
};

describe("a receipt", () => {
  it.each(NEAR_TWINS)("[C15] of the %s %j, where %j stands, says kept: %s", async (...twin) => {
    expect(await isKept(twin)).toBe(twin[3]);
  });

  it.each(HELD_OUT_TWINS)("[C15] held out: of the %s %j, where %j stands, says kept: %s", async (...twin) => {
    expect(await isKept(twin)).toBe(twin[3]);
  });
});
