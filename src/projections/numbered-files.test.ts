import { expect, it } from "vitest";
import { numberedName, numberOf } from "./vault-files.ts";

it("knows the names that numbers have, and no others", () => {
  for (const number of [1, 42, 999_999, 1_000_000]) expect(numberOf(numberedName(number))).toBe(number);
  expect(numberOf("000007.MD")).toBe(7);
  for (const name of ["000000.md", "7.md", "0000007.md", "000007.txt", "notes.md", "2026-07-01.md", "0000-1.md", ""]) {
    expect([name, numberOf(name)]).toEqual([name, undefined]);
  }
});
