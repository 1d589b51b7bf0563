import { AgentEvent } from "@rkat/core/contract/event";
import { OPERATIONS, type OperationName, operationOf } from "@rkat/core/contract/operations";
import { PROVIDER_NAMES } from "@rkat/core/contract/session";
import { parseSync } from "rolldown/utils";
import type { SourceFile } from "./source-files.ts";
import type { Rule } from "./tidy-rules.ts";

/** What has a table, the names in it, and where lists of them may stand. */
interface Table {
  readonly what: string;
  readonly names: ReadonlySet<string>;
  readonly home: RegExp;
  readonly advice: string;
  /** Whether a `switch` over the names is a list, too: an operation is told apart by its columns. */
  readonly hasColumns?: true;
}

// The keys of the table are its names.
const ROWS = (Object.keys(OPERATIONS) as OperationName[]).map((name) => ({ name, ...operationOf(name) }));
const TABLES: readonly Table[] = [
  {
    what: "operations",
    names: new Set(ROWS.flatMap(({ name, rpc, mcp }) => [name, rpc, ...(mcp === undefined ? [] : [mcp])])),
    home: /^packages\/core\/src\/contract\//,
    advice: "add a column to the table in contract/operations.ts",
    hasColumns: true,
  },
  {
    what: "events",
    names: new Set(AgentEvent.options.map((option) => option.shape.type.value)),
    home: /^packages\/core\/src\/contract\/event\.ts$/,
    advice: "add a column to the table in contract/event.ts",
  },
  {
    what: "providers",
    names: new Set(PROVIDER_NAMES),
    // The names on the wire, and the folder that knows providers apart.
    home: /^packages\/core\/src\/(?:contract\/session\.ts$|providers\/)/,
    advice: "ask the catalogue in providers/catalog.ts",
  },
];

/** Lists that stay, each with its reason. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  "packages/console/openapi.ts": "examples in the words of each SDK, which a test runs",
  "packages/core/src/contract/hook.ts": "points of hooks, three of which have the names of events",
};

/** As many names of one table as are a list of it. */
const NAMES_MIN = 3;

/** Refuses lists of operations, events or providers beside their tables: nobody adds a new name to them. */
export const tableFaults: Rule = (files) =>
  files.filter(({ path }) => isProduct(path) && !(path in EXCEPTIONS)).flatMap(faultsIn);

function isProduct(path: string): boolean {
  return /^packages\/(?:\w+\/src|console)\/.*\.tsx?$/.test(path) && !path.endsWith(".test.ts");
}

function faultsIn({ path, text }: SourceFile): readonly string[] {
  // Most files name too few to be parsed.
  const words = new Set(text.match(/[\w/]+/g));
  const isNamed = ({ names, home }: Table) =>
    !home.test(path) && [...names].filter((name) => words.has(name)).length >= NAMES_MIN;
  const tables = TABLES.filter(isNamed);
  if (tables.length === 0) return [];
  const faults: string[] = [];
  const visit = (node: Node): void => {
    const found = new Set(namesIn(node));
    for (const { what, names, advice, hasColumns } of found.size < NAMES_MIN ? [] : tables) {
      const listed = [...found].filter((name) => names.has(name));
      if (listed.length < NAMES_MIN || (node.type === "SwitchStatement" && !hasColumns)) continue;
      const line = text.slice(0, node.start).split("\n").length;
      faults.push(`${path}:${line} lists ${what} (${listed.slice(0, NAMES_MIN).join(", ")}, …): ${advice}`);
    }
    for (const inner of nodesIn(node)) visit(inner);
  };
  visit(parseSync(path, text).program as unknown as Node); // A tree of ESTree.
  return faults;
}

/** The names that an array, the keys of a record of values, a `switch` or a chain of comparisons lists. */
function namesIn(node: Node): readonly string[] {
  switch (node.type) {
    case "ArrayExpression":
      return nodesIn(node).map((item) => textOf(item.type === "ArrayExpression" ? nodesIn(item)[0] : item));
    case "ObjectExpression":
      return nodesIn(node).flatMap((property) => {
        const [key, value] = nodesIn(property);
        // A record of functions, or of what is declared elsewhere, implements what it names.
        const isValue = /^(?:Literal|TemplateLiteral|ArrayExpression|ObjectExpression)$/.test(value?.type ?? "");
        return isValue ? [key?.type === "Identifier" ? String(key.name) : textOf(key)] : [];
      });
    case "SwitchStatement":
      return nodesIn(node).map((one) => (one.type === "SwitchCase" ? textOf(nodesIn(one)[0]) : ""));
    case "LogicalExpression":
      return nodesIn(node).flatMap((side) =>
        side.type === "BinaryExpression" ? nodesIn(side).map(textOf) : side.type === node.type ? namesIn(side) : [],
      );
    default:
      return [];
  }
}

/** The text of a literal; empty for anything else. */
function textOf(node: Node | undefined): string {
  return node?.type === "Literal" ? String(node.value) : "";
}

/** A node of a syntax tree, as ESTree has them; its other fields are read by name. */
interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
}

/** The nodes right below one. */
function nodesIn(node: Node): readonly Node[] {
  return Object.values(node).flatMap((value) =>
    Array.isArray(value) ? value.filter(isNode) : isNode(value) ? [value] : [],
  );
}
