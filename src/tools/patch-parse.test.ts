import { describe, expect, it } from "vitest";
import { PATCH_FILES_MAX, parsePatch } from "./patch-text.ts";

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
