import { describe, expect, it } from "vitest";
import { mixedStem, stem } from "./stems.ts";

describe("stems", () => {
  it.each([
    ["English", stem, "deploy deploys deployed deploying"],
    ["irregular English", stem, "keep keeps kept keeping"],
    ["English among others", mixedStem, "insist insists insisted"],
    ["German", mixedStem, "rechnung rechnungen"],
    ["German with another ending", mixedStem, "fehlt fehlen"],
    ["French", mixedStem, "livré livrés livrer livrez"],
  ])("[C15] [D5] of %s are the same for every form", (_, stemmer, forms) => {
    expect(new Set(forms.split(" ").map(stemmer)).size).toBe(1);
  });

  it("[C15] [D5] of names are the names", () => {
    expect(["retention_days", "sha256"].map(mixedStem)).toEqual(["retention_days", "sha256"]);
    expect(["日程", "w3"].map(stem)).toEqual(["日程", "w3"]);
  });
});
