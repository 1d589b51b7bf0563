import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { CAPABILITY_ABSENT } from "@rkat/core/contract/capability";
import { ERRORS } from "@rkat/core/contract/error";
import { OPERATIONS } from "@rkat/core/contract/operations";
import { z } from "@rkat/core/contract/schema";
import { capabilitiesPage } from "./capabilities-page.ts";
import { cliPage } from "./cli-page.ts";
import { configurationPage } from "./configuration-page.ts";
import { llmsIndex } from "./llms.ts";
import { code, markdownTable, page } from "./markdown.ts";
import { generatePython } from "./python-client.ts";

/** Every generated page by its file name in `docs/`. */
export function generatePages(): Readonly<Record<string, string>> {
  return {
    "operations.md": operationsPage(),
    "errors.md": errorsPage(),
    "capabilities.md": capabilitiesPage(),
    "cli.md": cliPage(),
    "configuration.md": configurationPage(),
    "../llms.txt": llmsIndex(),
  };
}

interface Operation {
  readonly summary: string;
  readonly input: z.ZodType;
  readonly rpc: string;
  readonly http: string;
  readonly mcp?: string;
  readonly mcpListed?: false;
  readonly cli: string;
  readonly scope: string;
  readonly audited?: { readonly action: string } | false;
  readonly requires?: keyof typeof CAPABILITY_ABSENT;
}

function operationsPage(): string {
  const rows: readonly (readonly [string, Operation])[] = Object.entries(OPERATIONS);
  const overview = rows.map(([name, { summary }]) => [`[\`${name}\`](#${name.toLowerCase()})`, summary]);
  const sections = rows.map(([name, operation]) => operationSection(name, operation));
  return page("Operations", "packages/core/src/contract/operations.ts", [
    "What a client can ask for. Every surface offers the same operations with the same fields and the same errors. Over HTTP a token must have the scope that is named, or `admin`; [tokens.md](tokens.md) has the rest.",
    markdownTable(["operation", "what it does"], overview),
    ...sections,
  ]);
}

function operationSection(name: string, operation: Operation): string {
  const { summary, requires } = operation;
  const places = markdownTable(
    ["surface", "name"],
    [
      ["JSON-RPC", code(operation.rpc)],
      ["HTTP", code(operation.http)],
      ["MCP tool", toolCell(operation)],
      ["command line", code(operation.cli)],
      ["scope of a token", code(operation.scope)],
      ...(operation.audited ? [["audited as", code(operation.audited.action)]] : []),
    ],
  );
  const need = requires && `Needs \`${requires}\`; without it the answer is \`${CAPABILITY_ABSENT[requires].code}\`.`;
  return [`## ${name}`, summary, need, places, fieldTable(operation.input)].filter(Boolean).join("\n\n");
}

function toolCell({ mcp, mcpListed }: Operation): string {
  if (mcp === undefined) return "none: a person decides";
  return mcpListed === undefined ? code(mcp) : `${code(mcp)}, which \`tools/list\` names with \`--all-tools\``;
}

/** As much of a JSON schema as an input of ours uses. */
interface Schema {
  readonly description?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly const?: unknown;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
}

function fieldTable(input: z.ZodType): string {
  // zod's type of a JSON schema is this one with every keyword of the standard.
  const rows = fieldRows(z.toJSONSchema(input, { io: "input" }) as Schema);
  return rows.length === 0 ? "No input." : markdownTable(["field", "type", "required", "default", "meaning"], rows);
}

/** A row a field, and one for each field within it. */
function fieldRows({ properties = {}, required = [] }: Schema, within = ""): readonly (readonly string[])[] {
  return Object.entries(properties).flatMap(([field, schema]) => [
    [
      code(`${within}${field}`),
      code(schema.properties === undefined ? typeText(schema) : "object"),
      required.includes(field) ? "yes" : "no",
      schema.default === undefined ? "" : code(JSON.stringify(schema.default)),
      schema.description ?? "",
    ],
    ...fieldRows(schema, `${within}${field}.`),
  ]);
}

function typeText(schema: Schema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf) return unionText(schema.anyOf);
  if (schema.type === "array") return arrayText(typeText(schema.items ?? {}));
  if (schema.type === "object") return objectText(schema);
  return schema.format ?? [schema.type ?? "any"].flat().join(" | ");
}

/** Shapes told apart by their `type` are named by it: written out, the blocks of a message would fill a page. */
function unionText(options: readonly Schema[]): string {
  const tags = options.map((option) => option.properties?.type?.const);
  const isTagged = tags.every((tag) => typeof tag === "string");
  const texts = isTagged ? tags.map((tag) => `${tag} block`) : options.map(typeText);
  return [...new Set(texts)].join(" | ");
}

function arrayText(item: string): string {
  return item.includes(" ") && !item.startsWith("{") ? `(${item})[]` : `${item}[]`;
}

function objectText({ properties, required = [], additionalProperties }: Schema): string {
  if (properties === undefined) {
    const value = typeof additionalProperties === "object" ? typeText(additionalProperties) : "any";
    return value === "any" ? "object" : `map of ${value}`;
  }
  const fields = Object.entries(properties).map(
    ([field, schema]) => `${field}${required.includes(field) ? "" : "?"}: ${typeText(schema)}`,
  );
  return `{ ${fields.join(", ")} }`;
}

function errorsPage(): string {
  const rows = Object.entries(ERRORS).map(([name, row]) => [
    code(name),
    String(row.rpc),
    String(row.http),
    String(row.exit),
    row.category,
    row.meaning,
  ]);
  return page("Errors", "packages/core/src/contract/error.ts", [
    "One table for every surface: JSON-RPC sends the number and puts the code into `error.data.code`, HTTP sends the status with the code in its body, MCP answers with a tool error that carries the code, and the command line exits with the exit code.",
    markdownTable(["code", "JSON-RPC", "HTTP", "exit", "category", "meaning"], rows),
  ]);
}

if (import.meta.main) {
  for (const [name, text] of Object.entries(generatePages())) writeFileSync(join(import.meta.dirname, name), text);
  const root = join(import.meta.dirname, "..");
  for (const [path, text] of Object.entries(await generatePython())) writeFileSync(join(root, path), text);
}
