import { describe, expect, it } from "vitest";
import { parseDuration } from "./input.ts";

describe("a written duration", () => {
  it("[B1] is read in every unit, also in several", () => {
    const written = ["250ms", "30s", "5m", "1h 30m", "0.5m", "2d"];
    expect(written.map(parseDuration)).toEqual([250, 30_000, 300_000, 5_400_000, 30_000, 172_800_000]);
  });

  it("[B1] is refused when it is none", () => {
    const wrong = ["5", "soon", "5constructor", "5tostring", "-5s", "", `${"9".repeat(400)}d`, "9999999999999d"];
    expect(wrong.map(parseDuration)).toEqual(wrong.map(() => undefined));
  });
});
