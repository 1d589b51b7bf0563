import { describe, expect, it } from "vitest";
import { createPaint } from "../io.ts";
import { createMarkdownStream } from "./markdown.ts";

const screen = { isTerminal: true, columns: 80, write: () => {} };
const paint = createPaint(screen, { FORCE_COLOR: "1" });

function show(pieces: readonly string[]): void {
  const stream = createMarkdownStream({ write: () => {}, width: () => 80, paint });
  for (const piece of pieces) stream.push(piece);
  stream.end();
}

describe("the work of Markdown on a terminal", () => {
  it("[G5] takes work in proportion to its length, whatever it repeats", () => {
    const units = [
      "*",
      "*a ",
      "[",
      "[a](",
      "`",
      "` `` ",
      "|",
      " ",
      ">",
      "#",
      "_a",
      "<a ",
      "\\",
      "https://",
      "1",
      "a",
      "、",
    ];
    const marks = ["\u0301", "👩\u200d", "\ufe0f", "か\u3099"];
    const blocks = ["| a | `b` |\n", "- a\n", "> a\n>> b\n", "\n", "  - a\n"];
    for (const unit of [...units, ...marks, ...blocks]) expectProportion("", unit);
    expectProportion("```\n", "x");
    expectProportion("```\n", "x y\n");
    expectProportion("| a | b |\n|---|---|\n", "| x | y |\n");
  });

  it("[G5] keeps nothing of what it has shown", () => {
    for (const unit of ["*", "a ", "`", "| a ", " ", "https://a", "\u0301", "x"]) {
      let given = 0;
      let drawn = 0;
      let kept = 0;
      const write = (text: string): void => {
        drawn += text.replace(/\n/g, "").length;
      };
      const stream = createMarkdownStream({ write, width: () => 80, paint: createPaint(screen, { FORCE_COLOR: "0" }) });
      for (let at = 0; at < 20_000; at += 1) {
        stream.push(unit);
        given += unit.length;
        // A gap where a line ends is not written.
        if (unit.trim() !== "") kept = Math.max(kept, given * 0.9 - drawn);
      }
      stream.end();
      expect(kept, JSON.stringify(unit)).toBeLessThan(8_000);
    }
  });
});

/** CPU of the shortest of some runs: what else the machine does only adds to it. */
function cpuOf(text: string): number {
  const runs = Array.from({ length: 2 }, () => {
    const before = process.cpuUsage();
    show(text.match(/.{1,7}/gs) ?? []);
    const { user, system } = process.cpuUsage(before);
    return user + system;
  });
  return Math.min(...runs);
}

/** Four times the text is four times the work, and not sixteen; one in three tries must show it. */
function expectProportion(first: string, unit: string): void {
  const chars = 8_000;
  const text = (length: number): string => first + unit.repeat(length / unit.length);
  const ratios: number[] = [];
  while (ratios.length < 3 && !ratios.some((ratio) => ratio < 9)) {
    ratios.push(cpuOf(text(4 * chars)) / cpuOf(text(chars)));
  }
  expect(Math.min(...ratios), JSON.stringify(unit)).toBeLessThan(9);
}
