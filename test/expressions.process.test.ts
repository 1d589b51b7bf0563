import { join } from "node:path";
import { parseAst } from "rolldown/parseAst";
import { analyse } from "scslre";
import { describe, expect, it } from "vitest";
import { isShipped, projectFiles } from "./source-files.ts";

const shipped = projectFiles().filter(isShipped);

/** The faults of an expression: how its work outgrows the text it reads, and on what. */
function faultsOf(where: string, expression: RegExp): readonly string[] {
  return analyse(expression).reports.map(({ type, character }) => {
    const grows = `grows faster than its text on a run of ${character.literal.source.slice(0, 40)}`;
    return `${where}: /${expression.source.slice(0, 80)}/ ${grows} (${type}); begin with what the run cannot follow`;
  });
}

function literalsIn(path: string, text: string): readonly RegExp[] {
  const found: RegExp[] = [];
  const visit = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    if ("regex" in node && node.regex !== null && typeof node.regex === "object") {
      // What the parser calls a regular expression has both.
      const { pattern, flags } = node.regex as { readonly pattern: string; readonly flags: string };
      found.push(new RegExp(pattern, flags));
    }
    for (const inner of Object.values(node)) visit(inner);
  };
  visit(parseAst(text, { lang: "ts" }, path));
  return found;
}

/** Those a module makes of strings when it is loaded. */
async function madeIn(path: string): Promise<readonly RegExp[]> {
  const { RegExp: own } = globalThis;
  const made: RegExp[] = [];
  globalThis.RegExp = new Proxy(own, {
    construct: (target, given: [string, string]) => {
      const expression = new target(...given);
      made.push(expression);
      return expression;
    },
  });
  try {
    await import(join(import.meta.dirname, "..", path));
  } finally {
    globalThis.RegExp = own;
  }
  return made;
}

describe("every regular expression of the source", () => {
  it("takes steps in proportion to its text, as it is written", () => {
    const all = shipped.flatMap(({ path, text }) => literalsIn(path, text).map((one) => ({ path, one })));
    expect(all.length).toBeGreaterThan(600);
    expect(all.flatMap(({ path, one }) => faultsOf(path, one))).toEqual([]);
  });

  it("takes steps in proportion to its text, as it is made of strings", async () => {
    const faults: string[] = [];
    let count = 0;
    for (const { path } of shipped.filter(({ text }) => /\bnew RegExp\(/.test(text))) {
      const made = await madeIn(path);
      count += made.length;
      faults.push(...made.flatMap((one) => faultsOf(path, one)));
    }
    expect(count).toBeGreaterThan(15);
    expect(faults).toEqual([]);
  });

  it("is told when it does not", () => {
    expect(faultsOf("here", /\s+-\s+/u)).toHaveLength(1);
    expect(faultsOf("here", /(?<!\s)\s+-\s+/u)).toEqual([]);
  });
});
