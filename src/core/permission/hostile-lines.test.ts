import { expect, it } from "vitest";
import { LINE_CHARS_MAX, readShellLine } from "./shell.ts";

const RUNS = [
  "$(",
  "`",
  "{a,",
  "(",
  "${a:-",
  "<<a ",
  "a|",
  "env ",
  "\\",
  "'",
  '"$(',
  "a=( ",
  "[[ ( ",
  "case a in a) ",
  "a;",
  "*",
  "$a ",
  "! ",
  "{1..9}",
  "find -exec ",
  "find -exec a ; ",
  "xargs ",
  "sh -c ",
  "eval ",
  "A=b ",
  "f() ",
  "if ",
  "> a ",
  "<(",
  "$((",
  "\n",
  "#",
  "a\\\n",
  "time ",
  "sudo -u ",
  "bash -c 'bash -c ",
  "a&",
  "[ ",
  "trap ",
];

it("[I1] [H5] a hostile line comes to an end, at any length", () => {
  for (const run of RUNS) {
    for (const chars of [100, 1_000, LINE_CHARS_MAX, 100_000]) {
      const line = readShellLine(run.repeat(Math.ceil(chars / run.length)));
      if (chars > LINE_CHARS_MAX) expect(line.unknown).toBe("it is longer than 10000 signs");
    }
  }
});
