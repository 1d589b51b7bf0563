import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Plugin } from "rolldown";
import { parseSync, transformSync } from "rolldown/utils";
import {
  apply,
  bindingsOf,
  type Edit,
  type Identifier,
  isNode,
  type Node,
  nodesIn,
  referencesIn,
} from "./references.ts";

/**
 * Bundles what a module makes when it is loaded, schemas above all, so that it is made when it is first used:
 * `const Hit = z.object(…)` becomes a function that makes the schema once, and every use of `Hit`, here and in other
 * modules, a call of it. What a row of a table holds is made when that row is asked for it. Sources say nothing of it.
 */
export function madeOnFirstUse({ applies, isValue }: Choice): Plugin {
  const read = createReader({ applies, isValue });
  return {
    name: "made-on-first-use",
    transform: {
      filter: { id: /\/src\/.*\.ts$/ },
      handler: (_code, id) => {
        const module = read(id);
        return module === undefined ? null : rewrite(module, read);
      },
    },
  };
}

interface Choice {
  /** Whether the constants of a module are made on first use. */
  readonly applies: (path: string) => boolean;
  /** Whether another plugin brings a module as its value. */
  readonly isValue: (path: string) => boolean;
}

interface Module {
  readonly path: string;
  readonly code: string;
  readonly program: Node;
  /** Names of this module, imported ones included, that are calls in the bundle. */
  readonly late: ReadonlySet<string>;
  /** Those that are declared here. */
  readonly made: readonly Declaration[];
}

interface Declaration {
  readonly name: string;
  readonly init: Node;
  /** The whole `const … ;`, without `export`. */
  readonly statement: Node;
}

type Reader = (path: string) => Module | undefined;

/** Reads modules as they are without their types; undefined for one that is bundled as its value. */
function createReader({ applies, isValue }: Choice): Reader {
  const modules = new Map<string, Module>();
  const read: Reader = (path) => {
    if (isValue(path)) return undefined;
    const known = modules.get(path);
    if (known !== undefined) return known;
    const { code } = transformSync(path, readFileSync(path, "utf8"), { lang: "ts" });
    const program = parseSync(path, code, { lang: "js" }).program as unknown as Node; // Its nodes are what a Node says.
    const imported = new Set<string>();
    for (const statement of program.body as readonly Node[]) {
      for (const { local, name, from } of importsOf(statement, path)) {
        if (isMade(read(from), name)) imported.add(local);
      }
    }
    const late = new Set(imported);
    const made: Declaration[] = [];
    // In the order of the module: what a constant is made of stands above it.
    for (const declaration of applies(path) ? constantsOf(program) : []) {
      if (!isWork(declaration.init, late)) continue;
      late.add(declaration.name);
      made.push(declaration);
    }
    const module = { path, code, program, late, made };
    modules.set(path, module);
    return module;
  };
  return read;
}

function isMade(module: Module | undefined, name: string): boolean {
  return module?.made.some((one) => one.name === name) === true;
}

function importsOf(statement: Node, path: string): readonly { local: string; name: string; from: string }[] {
  const from = sourceOf(statement, path);
  if (statement.type !== "ImportDeclaration" || from === undefined) return [];
  return (statement.specifiers as readonly Node[]).map((specifier) => ({
    local: (specifier.local as Identifier).name,
    name: isNode(specifier.imported) ? (specifier.imported as Identifier).name : "*",
    from,
  }));
}

function sourceOf({ source }: Node, path: string): string | undefined {
  const from = isNode(source) && typeof source.value === "string" ? source.value : "";
  return from.startsWith(".") && from.endsWith(".ts") ? resolve(dirname(path), from) : undefined;
}

function constantsOf(program: Node): readonly Declaration[] {
  return (program.body as readonly Node[]).flatMap((outer) => {
    const statement = outer.type === "ExportNamedDeclaration" && isNode(outer.declaration) ? outer.declaration : outer;
    if (statement.type !== "VariableDeclaration" || statement.kind !== "const") return [];
    const [first, ...others] = statement.declarations as readonly Node[];
    if (first === undefined || others.length > 0 || !isNode(first.id) || !isNode(first.init)) return [];
    return first.id.type === "Identifier" ? [{ name: (first.id as Identifier).name, init: first.init, statement }] : [];
  });
}

const WORK: ReadonlySet<string> = new Set(["CallExpression", "NewExpression", "TaggedTemplateExpression"]);
const LATER: ReadonlySet<string> = new Set(["ArrowFunctionExpression", "FunctionExpression"]);

/** Whether a value takes work to make: something is called for it, it is an expression, or it is made of such. */
function isWork(value: Node, late: ReadonlySet<string>): boolean {
  if (LATER.has(value.type)) return false;
  if (value.type === "Identifier") return late.has((value as Identifier).name);
  if (value.type === "Literal") return value.regex !== undefined;
  return WORK.has(value.type) || nodesIn(value).some((inner) => isWork(inner, late));
}

function rewrite({ path, code, program, late, made }: Module, read: Reader): string {
  refuseOtherWays(program, path, read);
  const edits: Edit[] = referencesIn(program, late).map(({ name, start, end, isShorthand }) => ({
    start,
    end,
    text: isShorthand ? `${name}: ${name}()` : `(${name}())`,
  }));
  for (const { name, init, statement } of made) {
    edits.push(...makeFunction(name, { start: statement.start, end: statement.end }, init));
    edits.push(...rowsOf(init).flatMap((row) => laterFields(row, late)));
  }
  return apply(code, edits);
}

/** `const NAME = INIT;` as a function that makes it once. */
function makeFunction(name: string, at: Omit<Edit, "text">, init: Node): readonly Edit[] {
  return [
    { start: at.start, end: init.start, text: `function ${name}() { return (${name}.made ??= (` },
    { start: init.end, end: at.end, text: ")); }" },
  ];
}

/** The rows of a table: an object of objects. */
function rowsOf(table: Node): readonly Node[] {
  if (table.type !== "ObjectExpression") return [];
  const values = (table.properties as readonly Node[]).flatMap(({ value }) => (isNode(value) ? [value] : []));
  return values.filter((value) => value.type === "ObjectExpression");
}

/** A getter for each field of a row that takes work; it replaces itself by what it made. */
function laterFields(row: Node, late: ReadonlySet<string>): readonly Edit[] {
  return (row.properties as readonly Node[]).flatMap(({ type, key, value, computed, shorthand }) => {
    if (type !== "Property" || computed || shorthand || !isNode(key) || !isNode(value) || !isWork(value, late))
      return [];
    const name = JSON.stringify((key as Identifier).name ?? key.value);
    return [
      {
        start: key.start,
        end: value.start,
        text: `get ${name}() { return Object.defineProperty(this, ${name}, { value: (`,
      },
      { start: value.end, end: value.end, text: `) })[${name}]; }` },
    ];
  });
}

/** What cannot be followed is no reason to guess. */
function refuseOtherWays(program: Node, path: string, read: Reader): void {
  const refuse = (name: string, how: string) => {
    throw new Error(`${path} takes ${name} ${how}, and the bundle makes it on first use: import it by its name`);
  };
  const follow = (node: Node): void => {
    const from = sourceOf(node, path);
    const module = from === undefined ? undefined : read(from);
    if (module !== undefined && module.made.length > 0) {
      if (node.type === "ImportExpression") return;
      if (node.type === "ExportAllDeclaration") refuse("everything", "by a star");
      for (const specifier of (node.specifiers ?? []) as readonly Node[]) {
        if (specifier.type === "ImportNamespaceSpecifier") refuse("everything", "by a star");
        const name = specifier.type === "ExportSpecifier" ? (specifier.local as Identifier).name : "";
        if (isMade(module, name)) refuse(name, "to export it again");
      }
    }
    for (const inner of nodesIn(node)) follow(inner);
    // `const { NAME } = await import(…)`, and `(await import(…)).NAME`.
    const [awaited, taken] =
      node.type === "VariableDeclarator"
        ? [node.init, node.id]
        : node.type === "MemberExpression"
          ? [node.object, node.property]
          : [];
    if (!isNode(awaited) || awaited.type !== "AwaitExpression" || !isNode(awaited.argument) || !isNode(taken)) return;
    const loaded = awaited.argument.type === "ImportExpression" ? sourceOf(awaited.argument, path) : undefined;
    if (loaded === undefined) return;
    const names = taken.type === "Identifier" ? [(taken as Identifier).name] : bindingsOf(taken, "keys");
    for (const name of names) if (isMade(read(loaded), name)) refuse(name, "from a module that is loaded later");
  };
  follow(program);
}
