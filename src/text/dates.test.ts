import { describe, expect, it } from "vitest";
import { datesIn } from "./dates.ts";

const offersOf = (text: string): readonly string[] => datesIn(text).flatMap(({ offers }) => offers);

describe("dates in a text", () => {
  it.each([
    ["2023-05-08"],
    ["8.5.2023"],
    ["5/8/2023"],
    ["May 8th, 2023"],
    ["8 mai 2023"],
    ["8 de mayo de 2023"],
    ["8 maggio 2023"],
    ["2023年5月8日"],
  ])("[C15] prove the same day when they are written as %s", (text) => {
    expect(offersOf(`until ${text} at most`)).toContain("date:2023-5-8");
  });

  it("[C16] prove no other year of the same day", () => {
    expect(offersOf("截止2023年5月8日")).not.toContain("yearless:5-8");
    expect(offersOf("截止5月8日")).toContain("yearless:5-8");
  });

  it("[C15] are no generations, and no names", () => {
    expect(offersOf("the Gen 4 drives, and ask Marco 3 questions")).toEqual([]);
  });
});
