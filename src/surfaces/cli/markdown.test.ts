import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createPaint } from "./io.ts";
import { createMarkdownStream } from "./markdown.ts";
import { cellsOf } from "./wrapped-text.ts";

const screen = { isTerminal: true, columns: 80, write: () => {} };

function shown(pieces: readonly string[], { width = 80, colour = "0" } = {}): string {
  let text = "";
  const write = (drawn: string): void => {
    text += drawn;
  };
  const stream = createMarkdownStream({
    write,
    width: () => width,
    paint: createPaint(screen, { FORCE_COLOR: colour }),
  });
  for (const piece of pieces) stream.push(piece);
  stream.end();
  return text;
}

const ANSWER = `# What *it* does

Some **bold** words and \`code\` with snake_case, 2 * 3 = 6, and a [link](https://example.com/a) in a paragraph.
It goes on with 漢字かな交じり文 and e\u0301.

- one item that is rather long and must be wrapped with a hanging indent
  - a nested **one**
- [x] done
1. first

> quoted

| name | value |
|---|---:|
| **a** | 1 |
| b | \`two\` |

\`\`\`ts
const a = "**not bold**";
  f();
\`\`\`
---
The end, with an unclosed *star and a [bracket.`;

const PIECES = [
  "**",
  "*",
  "_",
  "`",
  "```\n",
  "[",
  "](",
  ")",
  "~~",
  "\\",
  "&lt;",
  "<b>",
  "# ",
  "- ",
  "1. ",
  "> ",
  "| a | b |\n",
  "|---|---|\n",
  "\n",
  "\n\n",
  " ",
  "  \n",
  "word",
  "a_b_c",
  "https://a.example",
  "漢字",
  "e\u0301",
  "👩‍👩‍👧",
  "\u001b]0;x\u0007",
  "\u202e",
  "!",
  "long".repeat(30),
];

function cutAt(text: string, cuts: readonly number[]): readonly string[] {
  const pieces: string[] = [];
  let at = 0;
  for (const cut of cuts) {
    pieces.push(text.slice(at, at + cut));
    at += cut;
  }
  return [...pieces, text.slice(at)];
}

function lettersOf(text: string): string {
  return text.replace(/[^\p{L}\p{N}]/gu, "");
}

describe("Markdown on a terminal", () => {
  it("is shown as what it means, wrapped at words", () => {
    expect(shown([ANSWER], { width: 40 })).toMatchInlineSnapshot(`
      "What it does

      Some bold words and code with
      snake_case, 2 * 3 = 6, and a link
      (https://example.com/a) in a paragraph.
      It goes on with 漢字かな交じり文 and é.

      • one item that is rather long and must
        be wrapped with a hanging indent
        • a nested one
      ☑ done
      1. first

      │ quoted

      name │ value
      ─────┼──────
      a    │ 1
      b    │ two

      ts
      const a = "**not bold**";
        f();
      ────────────────────────────────────────
      The end, with an unclosed *star and a
      [bracket.
      "
    `);
  });

  it("looks the same in whatever pieces it comes", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(9), { maxLength: 400 }), fc.constantFrom(40, 80, 200), (cuts, width) => {
        expect(shown(cutAt(ANSWER, cuts), { width })).toBe(shown([ANSWER], { width }));
      }),
      { numRuns: 200 },
    );
  });

  it("loses no word of what is no Markdown either", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...PIECES), { maxLength: 40 }), fc.array(fc.nat(9)), (words, cuts) => {
        const text = words.join("");
        expect(lettersOf(shown(cutAt(text, cuts)))).toBe(lettersOf(shown([text])));
      }),
      { numRuns: 500 },
    );
  });

  it("keeps within the width, and steers nothing", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...PIECES), { maxLength: 40 }),
        fc.integer({ min: 20, max: 90 }),
        (words, width) => {
          const text = shown(words, { width });
          expect(text).not.toMatch(/[^\P{Cc}\n]/u);
          if (words.some((word) => word.includes("```") || word.includes("|"))) return;
          for (const line of text.split("\n")) expect(cellsOf(line)).toBeLessThanOrEqual(width);
        },
      ),
      { numRuns: 500 },
    );
  });
});
