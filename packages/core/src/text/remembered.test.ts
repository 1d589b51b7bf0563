import { describe, expect, it } from "vitest";
import { remembered } from "./remembered.ts";

describe("what was read before", () => {
  it("is not read again, unless it is long or too much else was read since", () => {
    const read: string[] = [];
    const lengthOf = remembered({ entriesMax: 2, charsMax: 4 }, (text) => {
      read.push(text);
      return text.length;
    });
    const lengths = ["one", "one", "longer", "longer", "two", "one", "six", "one"].map(lengthOf);
    expect(lengths).toEqual([3, 3, 6, 6, 3, 3, 3, 3]);
    expect(read).toEqual(["one", "longer", "longer", "two", "six", "one"]);
  });
});
