import { describe, expect, it } from "vitest";
import { datesIn } from "./dates.ts";
import { collectOffers, needsIn } from "./numbers.ts";

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
    const needs = datesIn("2023-05-08").flatMap((date) => date.needs);
    expect(offersOf(`until ${text} at most`).filter((offer) => needs.includes(offer))).not.toEqual([]);
  });

  it.each([
    ["03/04/2026", "04/03/2026"],
    ["10-11-2026", "11-10-2026"],
    ["on 6/7", "on 7/6"],
    ["7 am", "7 pm"],
    ["at 9 p.m.", "at 9 a.m."],
    ["8:30 p. m.", "8:30 a. m."],
    ["午後3時に", "午前3時に"],
    ["下午2点起飞", "上午2点起飞"],
  ])("[J5] %s does not prove %s, and each proves itself", (one, other) => {
    const isProven = (text: string, by: string) => {
      const offers = new Set<string>();
      collectOffers(by, offers);
      return needsIn(text).length > 0 && needsIn(text).every((needs) => needs.some((need) => offers.has(need)));
    };
    expect([isProven(one, one), isProven(other, other)]).toEqual([true, true]);
    expect([isProven(one, other), isProven(other, one)]).toEqual([false, false]);
  });

  it("[C16] prove no other year of the same day", () => {
    expect(offersOf("截止2023年5月8日")).not.toContain("yearless:5-8");
    expect(offersOf("截止5月8日")).toContain("yearless:5-8");
  });

  it("[C15] are no generations, and no names", () => {
    expect(offersOf("the Gen 4 drives, and ask Marco 3 questions")).toEqual([]);
  });
});
