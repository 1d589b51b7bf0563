import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { createPaint, type Paint } from "../io.ts";
import { languageOf } from "./highlight.ts";
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

const NESTED = `Title
=====

1. A first step that is long enough to be wrapped:
   \`\`\`
   code
     more
   \`\`\`
   Text of the step that goes on behind its code.

   A paragraph of its own.
   - [ ] open, and long enough to be wrapped too
     - deeper
   | a | b |
   |---|---|
   | 1 | 2 |

Behind the list\\
broken, <b>HTML</b>

> quoted text that is long enough to be wrapped
> and goes on
> - item
> \`\`\`
> code
> \`\`\`
>> deeper

    indented code
`;

const WIDE = `| name | what it is |
|------|------------|
| one | a text that is far too long for a column |
| two | |
| three | short |
`;

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
  "    ",
  "> ```\n",
  "===\n",
  "y".repeat(1_200),
  "z".repeat(4_100),
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

// biome-ignore lint/suspicious/noControlCharactersInRegex: the marks of our own are looked at.
const MARKS = /\u001b\[(\d+)m/g;
/** What each mark that ends something ends. */
const CLOSES: Readonly<Record<string, readonly string[]>> = {
  22: ["1", "2"],
  23: ["3"],
  24: ["4"],
  29: ["9"],
  39: ["31", "32", "35", "36"],
};

function bare(text: string): string {
  return text.replace(MARKS, "");
}

describe("Markdown on a terminal", () => {
  it("[G5] is shown as what it means, wrapped at words", () => {
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
      a    │     1
      b    │   two

      ts
      const a = "**not bold**";
        f();
      ────────────────────────────────────────
      The end, with an unclosed *star and a
      [bracket.
      "
    `);
  });

  it("[G5] looks the same in whatever pieces it comes", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(9), { maxLength: 400 }), fc.constantFrom(40, 80, 200), (cuts, width) => {
        expect(shown(cutAt(ANSWER, cuts), { width })).toBe(shown([ANSWER], { width }));
      }),
      { numRuns: 200 },
    );
  });

  it("[G5] looks the same in whatever pieces it comes, where it is no Markdown either", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...PIECES), { maxLength: 40 }), fc.array(fc.nat(9)), (words, cuts) => {
        const text = words.join("");
        expect(shown(cutAt(text, cuts))).toBe(shown([text]));
      }),
      { numRuns: 500 },
    );
  });

  it("[G5] keeps within the width, and steers nothing", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...PIECES), { maxLength: 40 }),
        fc.integer({ min: 20, max: 90 }),
        (words, width) => {
          const text = shown(words, { width });
          expect(text).not.toMatch(/[^\P{Cc}\n]/u);
          // Code is wrapped by the terminal.
          if (/`{3}|~{3}| {4}/.test(words.join(""))) return;
          for (const line of text.split("\n")) expect(cellsOf(line)).toBeLessThanOrEqual(width);
        },
      ),
      { numRuns: 500 },
    );
  });

  it("[G5] is laid out as it is nested, and wrapped with a hanging indent", () => {
    expect(shown([NESTED], { width: 40 })).toMatchInlineSnapshot(`
      "Title
      ═════

      1. A first step that is long enough to
         be wrapped:

         code
           more
         Text of the step that goes on behind
         its code.

         A paragraph of its own.
         ☐ open, and long enough to be wrapped
           too
           • deeper
         a │ b
         ──┼──
         1 │ 2

      Behind the list
      broken, <b>HTML</b>

      │ quoted text that is long enough to be
      │ wrapped and goes on
      │ • item
      │ 
      │ code
      │ │ deeper

          indented code
      "
    `);
  });

  it("[G5] shows a table that does not fit by rows, and rows without end as they come", () => {
    expect(shown([WIDE], { width: 30 })).toMatchInlineSnapshot(`
      "name: one
      what it is: a text that is far
        too long for a column
      ─
      name: two
      ─
      name: three
      what it is: short
      "
    `);
    const rows = Array.from({ length: 300 }, (_, at) => `| ${at} | x |\n`);
    const lines = shown(["| a | b |\n|--:|---|\n", ...rows]).split("\n");
    expect([lines[2], lines[250], lines.length]).toEqual(["  0 │ x", "248 │ x", 303]);
  });

  it("[G5] marks what it means, and nothing that only looks like it", () => {
    const marked = (text: string): string => {
      let drawn = "";
      const mark = (name: string) => (words: string) => `<${name}>${words}</>`;
      const names = Object.keys(createPaint(screen, {}));
      // Every brush of the paint is there.
      const paint = Object.fromEntries(names.map((name) => [name, mark(name)])) as unknown as Paint;
      const stream = createMarkdownStream({ write: (words) => (drawn += words), width: () => 100, paint });
      stream.push(text);
      stream.end();
      return drawn.trimEnd();
    };
    expect(marked("**a b** *c* ***d*** ~~e~~ `f`")).toBe(
      "<bold>a b</> <italic>c</> <bold><italic>d</></> <strikethrough>e</> <cyan>f</>",
    );
    expect(marked("**a *b* c** **d `*` e**")).toBe(
      "<bold>a</> <bold><italic>b</></> <bold>c</> <bold>d</> <bold><cyan>*</></> <bold>e</>",
    );
    expect(marked("[a b](https://c.de/f_(g)) and https://h.ij/k_l_m.")).toBe(
      "<underline>a b</> <dim>(https://c.de/f_(g))</> and <underline>https://h.ij/k_l_m</>.",
    );
    expect(marked("这是**「重要」**的")).toBe("这是<bold>「重要」</>的");
    const plain = "a_b_c 2 * 3 * 4, 5*(6)*7, f(**kwargs), [x] [y](z w) & < 3 \\( x_1 \\) *open `too";
    expect(marked(plain)).toBe(plain);
  });

  it("[G5] holds lines back while their language is loaded, and loses none when it is not waited for", async () => {
    let drawn = "";
    const paint = createPaint(screen, { FORCE_COLOR: "1" });
    const stream = createMarkdownStream({ write: (words) => (drawn += words), width: () => 80, paint });
    stream.push("```lua\nlocal a = 1\n");
    stream.push("```\nafter");
    stream.end();
    expect(bare(drawn)).toBe("lua\nlocal a = 1\nafter\n");
    drawn = "";
    stream.push("```swift\nlet a = 1\n");
    stream.push("let b");
    const before = bare(drawn);
    await languageOf("swift");
    await new Promise(setImmediate);
    expect([before, bare(drawn)]).toEqual(["swift\n", "swift\nlet a = 1\n"]);
    expect(drawn).toContain("\u001b[35mlet\u001b[39m a");
    stream.push(" = 2");
    stream.end();
    expect(bare(drawn)).toBe("swift\nlet a = 1\nlet b = 2\n");
  });

  it("[G5] [H2] writes only what can be read and marks of its own, which are closed where a line ends", () => {
    const signs = fc.oneof(
      fc.constantFrom(
        ...PIECES,
        "```ts\n",
        "\t",
        "\r",
        "\u009b31m",
        "\u001b[31m",
        "\u2028",
        "\u2066",
        "\u{e0041}",
        "\ufe0f",
      ),
      fc.string({ unit: "binary", maxLength: 5 }),
      fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)),
    );
    fc.assert(
      fc.property(fc.array(signs, { maxLength: 60 }), (words) => {
        for (const line of shown(words, { colour: "1" }).split("\n")) {
          expect(bare(line)).not.toMatch(/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/u);
          const open = new Set<string>();
          for (const [, code = ""] of line.matchAll(MARKS)) {
            if (CLOSES[code] === undefined) open.add(code);
            else for (const one of CLOSES[code]) open.delete(one);
          }
          expect([...open], JSON.stringify(line)).toEqual([]);
        }
      }),
      { numRuns: 1_000 },
    );
  });
});
