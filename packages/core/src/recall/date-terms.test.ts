import { describe, expect, it } from "vitest";
import { datesAskedFor, datesNamedIn, dateTermsOf } from "./chunk.ts";

/** A Sunday. */
const NOW = Date.UTC(2026, 10, 15, 12);

describe("dates", () => {
  it("[D5] of a moment are its day, month, month of any year, year and weekday", () => {
    expect(dateTermsOf(NOW)).toEqual(["@2026-11-15", "@2026-11", "@11", "@2026", "@day0"]);
    expect(dateTermsOf(Number.NaN)).toEqual([]);
  });

  it.each([
    ["2023-05-08"],
    ["8.5.2023"],
    ["8 May, 2023"],
    ["May 8th, 2023"],
    ["8 mai 2023"],
    ["8 de mayo de 2023"],
    ["8. Mai 2023"],
    ["2023年5月8日"],
  ])("[D5] are read in %s", (text) => {
    expect([...datesNamedIn(`we met on ${text} in town`)]).toEqual(["@2023-05-08", "@2023-05"]);
  });

  it.each([
    ["what did I say yesterday?", ["@2026-11-14"]],
    ["was habe ich gestern gesagt", ["@2026-11-14"]],
    ["昨天说了什么", ["@2026-11-14"]],
    ["3 days ago", ["@2026-11-12"]],
    ["vor 2 Wochen", ["@2026-11-01"]],
    ["last month", ["@2026-10"]],
    ["l'année dernière", ["@2025"]],
    ["on Friday", ["@day5"]],
    ["what happened in May", ["@05"]],
    ["it may rain", []],
  ])("[D5] asked for by %j are counted from now", (query, terms) => {
    expect([...datesAskedFor(query, NOW)]).toEqual(terms);
  });

  it("[D5] of last week are its seven days, from Monday", () => {
    const days = [...datesAskedFor("what did we do last week", NOW)];
    expect([days[0], days.at(-1), days.length]).toEqual(["@2026-11-02", "@2026-11-08", 7]);
  });
});
