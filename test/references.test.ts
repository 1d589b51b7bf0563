import { parseSync } from "rolldown/utils";
import { describe, expect, it } from "vitest";
import { apply, type Node, referencesIn } from "../build/references.ts";

/** A module in which every use of `late` is a call. */
function called(code: string): string {
  const program = parseSync("a.js", code, { lang: "js" }).program as unknown as Node; // Its nodes are what a Node says.
  const uses = referencesIn(program, new Set(["late"]));
  return apply(
    code,
    uses.map(({ start, end, isShorthand }) => ({ start, end, text: isShorthand ? "late: late()" : "late()" })),
  );
}

describe("uses of a name", () => {
  it.each([
    ["const a = late;", "const a = late();"],
    ["const a = { late, late: late, b: late.late };", "const a = { late: late(), late: late(), b: late().late };"],
    ["const f = (b = late) => [b, ...late];", "const f = (b = late()) => [b, ...late()];"],
    ["const { late: a = late } = b[late];", "const { late: a = late() } = b[late()];"],
    [
      "class A { late = late; [late]() { return this.late; } }",
      "class A { late = late(); [late()]() { return this.late; } }",
    ],
  ])("are found: %s", (code, expected) => expect(called(code)).toBe(expected));

  it.each([
    "const f = (late) => late;",
    "const f = ({ late }) => late;",
    "function f() { const late = 1; return { late }; }",
    "function f() { return late; function late() {} }",
    "for (const late of []) late();",
    "try {} catch (late) { late(); }",
    "switch (1) { case 1: { const late = 2; late; } }",
    'import { late } from "./a.js";',
  ])("are not those of another thing of this name: %s", (code) => expect(called(code)).toBe(code));
});
