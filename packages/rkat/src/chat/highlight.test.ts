import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { createPaint, type Paint } from "../io.ts";
import { createHighlight, languageOf } from "./highlight.ts";

const screen = { isTerminal: true, columns: 80, write: () => {} };
const colours = createPaint(screen, { FORCE_COLOR: "1" });

/** Paint that can be read. */
const named = Object.fromEntries(
  ["magenta", "green", "dim", "cyan", "red"].map((name) => [name, (text: string) => `<${name}>${text}</>`]),
  // Those are the ones that code is painted with.
) as unknown as Paint;

async function shown(name: string, code: string, paint: Paint = named): Promise<string> {
  const language = await languageOf(name);
  if (language === undefined) throw new Error(`no language ${name}`);
  const highlight = createHighlight(language, paint);
  return code.split("\n").map(highlight).join("\n");
}

/** What marks a line for the eye, taken off again. */
function bare(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it is what is taken off.
  return text.replace(/\u001b\[\d+m/g, "");
}

const NAMES =
  "js ts jsx tsx json python shell go rust c c++ java c# kotlin html xml css sql yaml toml diff dockerfile ruby swift lua";

describe("code on a terminal", () => {
  it("[G5] is told apart by keywords, texts, comments and numbers, over several lines", async () => {
    expect(await shown("ts", 'const a = "b"; // c\nlet d = `e\nf` + 1;')).toMatchInlineSnapshot(`
      "<magenta>const</> a = <green>"b"</>; <dim>// c</>
      <magenta>let</> d = <green>\`e</>
      <green>f\`</> + <cyan>1</>;"
    `);
    expect(await shown("python", 'def f():\n  """one\n  two"""\n  return 1 # x')).toMatchInlineSnapshot(`
      "<magenta>def</> f():
        <green>"""one</>
      <green>  two"""</>
        <magenta>return</> <cyan>1</> <dim># x</>"
    `);
    expect(await shown("json", '{ "a": "b", "c": [1, null] }')).toMatchInlineSnapshot(
      `"{ <cyan>"a"</>: <green>"b"</>, <cyan>"c"</>: [<cyan>1</>, <cyan>null</>] }"`,
    );
    expect(
      await shown("yaml", "# a\nb: 'c' # d\n- e: 1.5\n- \"f: g\"\ntext: |\n  # none\n  x: y\nlast: true"),
    ).toMatchInlineSnapshot(`
      "<dim># a</>
      <cyan>b</>: <green>'c'</> <dim># d</>
      - <cyan>e</>: <cyan>1.5</>
      - <green>"f: g"</>
      <cyan>text</>: <cyan>|</>
      <green>  # none</>
      <green>  x: y</>
      <cyan>last</>: <cyan>true</>"
    `);
    expect(await shown("diff", "@@ -1 +1 @@\n-a\n+b\n c")).toMatchInlineSnapshot(`
      "<cyan>@@ -1 +1 @@</>
      <red>-a</>
      <green>+b</>
       c"
    `);
  });

  it("[G5] has every language by its names, in whatever case", async () => {
    for (const name of NAMES.split(" ")) expect(await languageOf(name.toUpperCase()), name).toBeDefined();
    expect(languageOf("markdown")).toBeUndefined();
    expect(languageOf("constructor")).toBeUndefined();
  });

  it("[G5] is the same text in every language, whatever it says", async () => {
    const signs = [...`'"\`/*#{}()<>\\$ a1:-=漢`, "\n", "/*", "*/", "//", "if", "<<EOF", '"""'];
    for (const name of NAMES.split(" ")) {
      const language = await languageOf(name);
      if (language === undefined) throw new Error(name);
      fc.assert(
        fc.property(fc.array(fc.constantFrom(...signs), { maxLength: 60 }), (pieces) => {
          const code = pieces.join("");
          const highlight = createHighlight(language, colours);
          expect(bare(code.split("\n").map(highlight).join("\n"))).toBe(code);
        }),
        { numRuns: 60 },
      );
    }
  });

  it("[G5] is shown plainly where its language throws or stands still, and where a line is too long", () => {
    const stumbling = createHighlight(
      {
        token: () => {
          throw new Error("no");
        },
      },
      colours,
    );
    expect(stumbling("a b")).toBe("a b");
    expect(createHighlight({ token: () => "keyword" }, colours)("a b")).toBe("a b");
    let calls = 0;
    const counted = createHighlight(
      {
        token: (stream) => {
          calls += 1;
          stream.next();
          return "keyword";
        },
      },
      colours,
    );
    const long = "x".repeat(501);
    expect(counted(long)).toBe(long);
    expect(calls).toBe(0);
    // A block without an end is no work without one.
    for (let line = 0; line < 10_000; line += 1) counted("x".repeat(100));
    expect(calls).toBeLessThanOrEqual(200_000);
  });
});
