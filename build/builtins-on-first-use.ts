import type { Plugin } from "rolldown";
import { parseSync } from "rolldown/utils";
import { apply, type Edit, type Identifier, isNode, type Node, referencesIn } from "./references.ts";

/**
 * Bundles imports of Node's own modules so that each is loaded when it is first used. An import also asks for every
 * name such a module has, and some load more for it: that of `node:crypto` took 14 ms, of which 4 are for hashes.
 */
export function builtinsOnFirstUse(applies: (path: string) => boolean): Plugin {
  return {
    name: "builtins-on-first-use",
    transform: {
      filter: { id: /\/src\/.*\.ts$/, code: /from "node:/ },
      handler: (code, id) => (applies(id) ? rewrite(code, id) : null),
    },
  };
}

function rewrite(code: string, id: string): string {
  const program = parseSync(id, code, { lang: "js" }).program as unknown as Node; // Its nodes are what a Node says.
  const uses = new Map<string, string>();
  const edits: Edit[] = [];
  for (const { type, source, specifiers, start, end } of program.body as readonly Node[]) {
    const from = isNode(source) && typeof source.value === "string" ? source.value : "";
    const names = (specifiers ?? []) as readonly Node[];
    if (type !== "ImportDeclaration" || !from.startsWith("node:")) continue;
    if (names.some((specifier) => specifier.type !== "ImportSpecifier")) continue;
    const loader = from.replaceAll(/\W/g, "_");
    for (const { local, imported } of names) {
      uses.set((local as Identifier).name, `(${loader}().${(imported as Identifier).name})`);
    }
    const text = `function ${loader}() { return ${loader}.loaded ??= process.getBuiltinModule(${JSON.stringify(from)}); }`;
    edits.push({ start, end, text });
  }
  for (const { name, start, end, isShorthand } of referencesIn(program, new Set(uses.keys()))) {
    const use = uses.get(name) ?? name;
    edits.push({ start, end, text: isShorthand ? `${name}: ${use}` : use });
  }
  return apply(code, edits);
}
