import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { applyHunks, PATCH_FILES_MAX, parsePatch } from "./patch-text.ts";

const patchOf = (...lines: string[]) => ["*** Begin Patch", ...lines, "*** End Patch"].join("\n");

describe("parsePatch", () => {
  it("reads every kind of section", () => {
    const patch = patchOf(
      "*** Add File: new.txt",
      "+one",
      "+",
      "+*** End Patch",
      "*** Delete File: old dir/gone.txt",
      "*** Update File: a.ts",
      "*** Move to: b.ts",
      "@@ class A",
      "@@   method()",
      " keep",
      "-drop",
      "+come",
      "",
      "@@",
      "-last",
      "*** End of File",
    );
    expect(parsePatch(patch)).toEqual([
      { kind: "add", path: "new.txt", lines: ["one", "", "*** End Patch"] },
      { kind: "delete", path: "old dir/gone.txt" },
      {
        kind: "update",
        path: "a.ts",
        moveTo: "b.ts",
        hunks: [
          {
            anchors: ["class A", "  method()"],
            lines: [
              { mark: " ", text: "keep" },
              { mark: "-", text: "drop" },
              { mark: "+", text: "come" },
              { mark: " ", text: "" },
            ],
            isAtEnd: false,
          },
          { anchors: [], lines: [{ mark: "-", text: "last" }], isAtEnd: true },
        ],
      },
    ]);
  });

  it("reads a patch in CRLF, with space around it, and a first hunk without @@", () => {
    const patch = `\n${patchOf("*** Update File: a", "-x", "+y").replaceAll("\n", "\r\n")}\r\n\r\n`;
    expect(parsePatch(patch)).toEqual([
      {
        kind: "update",
        path: "a",
        moveTo: undefined,
        hunks: [
          {
            anchors: [],
            lines: [
              { mark: "-", text: "x" },
              { mark: "+", text: "y" },
            ],
            isAtEnd: false,
          },
        ],
      },
    ]);
  });

  it("reads a move without any change", () => {
    expect(parsePatch(patchOf("*** Update File: a", "*** Move to: b"))).toEqual([
      { kind: "update", path: "a", moveTo: "b", hunks: [] },
    ]);
  });

  it.each([
    ["", 'line 1 of the patch: a patch starts with "*** Begin Patch"'],
    ["hello", 'but found "hello"'],
    ["*** Begin Patch\n*** Add File: a\n+x", "but the patch ends"],
    [patchOf(), "the patch changes no file"],
    [patchOf("*** Add File: a", "x"), 'line 3 of the patch: every line of an added file starts with "+"'],
    [patchOf("*** Add File:   "), 'expected "*** Add File: path"'],
    [patchOf("*** Rename File: a"), 'expected "*** Add File: path"'],
    [patchOf("*** Update File: a"), "the update of a needs at least one hunk"],
    [patchOf("*** Update File: a", "@@ x"), "a hunk has at least one line"],
    [patchOf("*** Update File: a", "@@", "x"), 'line 4 of the patch: a line of a hunk starts with " "'],
    [patchOf("*** Update File: a", "*** Move to:  ", "+x"), 'expected "*** Move to: path"'],
    [patchOf("*** Delete File: a", "-x"), 'expected "*** Add File: path"'],
    [`${patchOf("*** Delete File: a")}\nmore`, 'nothing may follow "*** End Patch"'],
  ])("[A5] refuses %j with a sentence", (patch, sentence) => {
    expect(() => parsePatch(patch)).toThrow(sentence);
  });

  it("[H5] refuses more files than its bound", () => {
    const sections = Array.from({ length: PATCH_FILES_MAX + 1 }, (_, at) => `*** Delete File: f${at}`);
    expect(() => parsePatch(patchOf(...sections))).toThrow(`at most ${PATCH_FILES_MAX} files`);
  });
});

function apply(text: string, ...hunkLines: string[]): string {
  const [file] = parsePatch(["*** Begin Patch", "*** Update File: f", ...hunkLines, "*** End Patch"].join("\n"));
  if (file?.kind !== "update") throw new Error("not an update");
  return applyHunks("f", text, file.hunks);
}

describe("applyHunks", () => {
  it("applies hunks in order, each after the one before", () => {
    expect(apply("a\nx\nb\nx\nc\n", "@@", "-x", "+1", "@@", "-x", "+2")).toBe("a\n1\nb\n2\nc\n");
  });

  it("steps past anchors, one after the other", () => {
    const text = "class A\n  run()\n    x\nclass B\n  stop()\n    x\n  run()\n    x\n";
    expect(apply(text, "@@ class B", "@@   run()", "-    x", "+    y")).toBe(
      "class A\n  run()\n    x\nclass B\n  stop()\n    x\n  run()\n    y\n",
    );
  });

  it("adds lines after their anchor, at the end without one, and to an empty file", () => {
    expect(apply("a\nb\n", "@@ a", "+new")).toBe("a\nnew\nb\n");
    expect(apply("a\nb\n", "+new")).toBe("a\nb\nnew\n");
    expect(apply("a\nb\n", "@@ a", "+new", "*** End of File")).toBe("a\nb\nnew\n");
    expect(apply("", "+new")).toBe("new\n");
  });

  it("ties a hunk to the end of the file where told", () => {
    expect(apply("x\na\nx\n", "-x", "+y", "*** End of File")).toBe("x\na\ny\n");
    expect(() => apply("x\na\n", "-x", "*** End of File")).toThrow('f: this line was not found: "x"');
  });

  it("prefers an exact place to one that differs in whitespace, wherever it stands", () => {
    expect(apply("  x\nx  \nx\n", "-x", "+y")).toBe("  x\nx  \ny\n");
    expect(apply("  x\nx  \n", "-x", "+y")).toBe("  x\ny\n");
    expect(apply("  x\n", "-x", "+y")).toBe("y\n");
  });

  it("leaves the whitespace of context lines as the file has it", () => {
    expect(apply("\tif (a) {  \n\t\tb\n", " if (a) {", "-b", "+c")).toBe("\tif (a) {  \nc\n");
  });

  it("keeps CRLF, mixed line endings, a missing final newline and a byte order mark", () => {
    expect(apply("a\r\nb\r\n", " a", "-b", "+c", "+d")).toBe("a\r\nc\r\nd\r\n");
    expect(apply("a\r\nb\nc\r\n", "-c", "+d")).toBe("a\r\nb\nd\r\n");
    expect(apply("a\nb", " a", "-b", "+c")).toBe("a\nc");
    expect(apply("a\nb", "+c")).toBe("a\nb\nc");
    expect(apply("a\nb", "-b")).toBe("a");
    expect(apply("\uFEFFa\nb\n", "-a", "+c")).toBe("\uFEFFc\nb\n");
    expect(apply("a\n", "-a")).toBe("");
  });

  it("[A5] names the file and the first line that was not found", () => {
    expect(() => apply("a\nb\nc\n", " a", " b", "-nope", "+d")).toThrow('f: this line was not found: "nope"');
    expect(() => apply("a\n", "@@ missing()", "+x")).toThrow('f: this line was not found: "missing()"');
    expect(() => apply("a\nb\n", " b", "-c")).toThrow('f: this line was not found: "c"');
    expect(() => apply("", "-c")).toThrow('f: this line was not found: "c"');
  });

  it("[H5] gives up on a search that would not end", () => {
    const hunk = [...Array.from({ length: 20_000 }, () => " same"), "-other"];
    expect(() => apply("same\n".repeat(40_000), ...hunk)).toThrow("repeat too often");
  });
});

interface Edit {
  readonly mark: " " | "+" | "-";
  readonly text: string;
}

const linesOf = (edits: readonly Edit[], dropped: "+" | "-") =>
  edits.filter(({ mark }) => mark !== dropped).map(({ text }) => text);

/** Lines that tempt the looser matching rules, and any others; a patch cannot say a carriage return. */
const lineArbitrary = fc.oneof(
  fc.constantFrom("", "a", " a", "a ", "\ta", "+a", "-a", "@@", "@@ a", "*** End Patch", "*** End of File"),
  fc.string({ unit: "grapheme" }).map((text) => text.replaceAll(/[\r\n\uFEFF]/g, "")),
);
const editsArbitrary = fc.array(fc.record({ mark: fc.constantFrom(" ", "+", "-"), text: lineArbitrary }), {
  minLength: 1,
  maxLength: 40,
});
const formatArbitrary = fc.record({ newline: fc.constantFrom("\n", "\r\n"), final: fc.boolean(), bom: fc.boolean() });

describe("any old and new file", () => {
  it("are turned into one another exactly by a patch of the whole file", () => {
    fc.assert(
      fc.property(editsArbitrary, formatArbitrary, (edits, { newline, final, bom }) => {
        const old = linesOf(edits, "+");
        // Without a final newline, a last empty line is not there to be spoken of.
        fc.pre(old.length > 0 && (final || old.at(-1) !== ""));
        // One line without an ending does not tell which ending the file would use.
        fc.pre(old.length > 1 || final || newline === "\n");
        const write = (lines: readonly string[]) =>
          (bom ? "\uFEFF" : "") + lines.join(newline) + (final && lines.length > 0 ? newline : "");
        const hunk = edits.map(({ mark, text }) => mark + text);
        expect(apply(write(old), ...hunk)).toBe(write(linesOf(edits, "-")));
      }),
      { numRuns: 2_000 },
    );
  });

  it("are turned into one another exactly by many hunks with little context", () => {
    const hunkArbitrary = fc.record({
      gap: fc.nat({ max: 4 }),
      body: fc.array(fc.constantFrom<Edit["mark"]>("+", "-"), { minLength: 1, maxLength: 4 }),
    });
    fc.assert(
      fc.property(fc.array(hunkArbitrary, { minLength: 1, maxLength: 8 }), (hunks) => {
        let count = 0;
        const fresh = (mark: Edit["mark"]): Edit => {
          count += 1;
          return { mark, text: `line ${count}` };
        };
        const all: Edit[] = [];
        const patch: string[] = [];
        for (const { gap, body } of hunks) {
          for (let at = 0; at < gap; at += 1) all.push(fresh(" "));
          const edits = [fresh(" "), ...body.map(fresh), fresh(" ")];
          all.push(...edits);
          patch.push("@@", ...edits.map(({ mark, text }) => mark + text));
        }
        const write = (dropped: "+" | "-") => `${linesOf(all, dropped).join("\n")}\n`;
        expect(apply(write("+"), ...patch)).toBe(write("-"));
      }),
      { numRuns: 500 },
    );
  });
});
