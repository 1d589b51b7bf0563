/** A node of a syntax tree, as ESTree has them; its other fields are looked at by name. */
export interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

export interface Identifier extends Node {
  readonly name: string;
}

export function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
}

/** The nodes right below one. */
export function nodesIn(node: Node): readonly Node[] {
  return Object.values(node).flatMap((value) =>
    Array.isArray(value) ? value.filter(isNode) : isNode(value) ? [value] : [],
  );
}

/** The names that a pattern declares, or by `keys` the names they are taken from. */
export function bindingsOf(pattern: Node, which: "names" | "keys" = "names"): readonly string[] {
  switch (pattern.type) {
    case "Identifier":
      return [(pattern as Identifier).name];
    case "Property": {
      const key = pattern.key as Node; // Every property has one.
      if (which === "keys" && key.type === "Identifier") return [(key as Identifier).name];
      return bindingsOf(pattern.value as Node, which); // And a value.
    }
    case "AssignmentPattern":
      return bindingsOf(pattern.left as Node, which); // Its left side is a pattern.
    default:
      return nodesIn(pattern).flatMap((inner) => bindingsOf(inner, which));
  }
}

export interface Reference {
  readonly name: string;
  readonly start: number;
  readonly end: number;
  /** Whether it stands for a key and its value, as in `{ name }`. */
  readonly isShorthand: boolean;
}

/** Where a module uses these names of its top level; where a function or a block has such a name of its own, it does not. */
export function referencesIn(program: Node, names: ReadonlySet<string>): readonly Reference[] {
  if (names.size === 0) return [];
  const found: Reference[] = [];
  const visit = (node: Node, seen: ReadonlySet<string>): void => {
    const { type, start, end } = node;
    switch (type) {
      case "Identifier": {
        const { name } = node as Identifier;
        if (seen.has(name)) found.push({ name, start, end, isShorthand: false });
        return;
      }
      case "ImportDeclaration":
        return;
      case "ExportNamedDeclaration":
        if (isNode(node.declaration)) visit(node.declaration, seen);
        return;
      case "MemberExpression":
        visit(node.object as Node, seen);
        if (node.computed) visit(node.property as Node, seen);
        return;
      case "Property": {
        if (node.computed) visit(node.key as Node, seen);
        const value = node.value as Node;
        if (!node.shorthand || value.type !== "Identifier") {
          visit(value, seen);
          return;
        }
        const { name } = value as Identifier;
        if (seen.has(name)) found.push({ name, start, end, isShorthand: true });
        return;
      }
      case "MethodDefinition":
      case "PropertyDefinition":
        if (node.computed) visit(node.key as Node, seen);
        if (isNode(node.value)) visit(node.value, seen);
        return;
      case "LabeledStatement":
        visit(node.body as Node, seen);
        return;
      case "BreakStatement":
      case "ContinueStatement":
        return;
      case "VariableDeclarator":
        visitDefaults(node.id as Node, seen);
        if (isNode(node.init)) visit(node.init, seen);
        return;
      default: {
        const inside = without(seen, declaredBy(node));
        for (const inner of nodesIn(node)) {
          if (isPattern(node, inner)) visitDefaults(inner, inside);
          else visit(inner, inside);
        }
      }
    }
  };
  /** What stands in a pattern besides the names it declares. */
  const visitDefaults = (pattern: Node, seen: ReadonlySet<string>): void => {
    if (pattern.type === "Identifier") return;
    if (pattern.type === "AssignmentPattern") {
      visitDefaults(pattern.left as Node, seen);
      visit(pattern.right as Node, seen);
      return;
    }
    if (pattern.type === "Property") {
      if (pattern.computed) visit(pattern.key as Node, seen);
      visitDefaults(pattern.value as Node, seen);
      return;
    }
    for (const inner of nodesIn(pattern)) visitDefaults(inner, seen);
  };
  for (const statement of program.body as readonly Node[]) visit(statement, names);
  return found;
}

const FUNCTIONS: ReadonlySet<string> = new Set([
  "FunctionDeclaration",
  "FunctionExpression",
  "ArrowFunctionExpression",
]);
const LOOPS: ReadonlySet<string> = new Set(["ForStatement", "ForOfStatement", "ForInStatement"]);

/** The names that are declared by a node for what is inside it. No source of ours has `var`. */
function declaredBy(node: Node): readonly string[] {
  if (FUNCTIONS.has(node.type)) return (node.params as readonly Node[]).flatMap((param) => bindingsOf(param));
  if (node.type === "CatchClause") return isNode(node.param) ? bindingsOf(node.param) : [];
  if (node.type === "BlockStatement") return declaredIn(node.body as readonly Node[]);
  if (node.type === "SwitchStatement") {
    return (node.cases as readonly Node[]).flatMap(({ consequent }) => declaredIn(consequent as readonly Node[]));
  }
  if (!LOOPS.has(node.type)) return [];
  return declaredIn([node.init, node.left].filter(isNode));
}

function declaredIn(statements: readonly Node[]): readonly string[] {
  return statements.flatMap((statement) => {
    if (statement.type === "VariableDeclaration") {
      return (statement.declarations as readonly Node[]).flatMap(({ id }) => bindingsOf(id as Node));
    }
    const isNamed = statement.type === "FunctionDeclaration" || statement.type === "ClassDeclaration";
    return isNamed && isNode(statement.id) ? bindingsOf(statement.id) : [];
  });
}

/** Whether a child declares names rather than using them. */
function isPattern(parent: Node, child: Node): boolean {
  if (FUNCTIONS.has(parent.type)) return child === parent.id || (parent.params as readonly Node[]).includes(child);
  if (parent.type === "CatchClause") return child === parent.param;
  return parent.type === "ClassDeclaration" && child === parent.id;
}

function without(names: ReadonlySet<string>, hidden: readonly string[]): ReadonlySet<string> {
  if (!hidden.some((name) => names.has(name))) return names;
  return new Set([...names].filter((name) => !hidden.includes(name)));
}

export interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** A text with its edits, none of which may overlap. */
export function apply(code: string, edits: readonly Edit[]): string {
  let written = "";
  let at = 0;
  for (const { start, end, text } of edits.toSorted((a, b) => a.start - b.start || a.end - b.end)) {
    written += code.slice(at, start) + text;
    at = end;
  }
  return written + code.slice(at);
}
