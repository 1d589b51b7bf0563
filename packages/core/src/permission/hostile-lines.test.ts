import { expect, it } from "vitest";
import { HOSTILE_SIGNS } from "../../../../test/permission/hostile-signs.ts";
import { LINE_CHARS_MAX, readShellLine } from "./shell.ts";

it("[I1] [H5] a hostile line comes to an end, at any length", () => {
  for (const run of HOSTILE_SIGNS) {
    for (const chars of [100, 1_000, LINE_CHARS_MAX, 100_000]) {
      const line = readShellLine(run.repeat(Math.ceil(chars / run.length)));
      if (chars > LINE_CHARS_MAX) expect(line.unknown).toBe("it is longer than 10000 characters");
    }
  }
});
