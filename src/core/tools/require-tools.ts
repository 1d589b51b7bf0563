import { RuntimeError } from "../../contract/error.ts";
import type { Tool } from "../../ports/tool.ts";
import { requireSound } from "../json-schema.ts";

/** Throws INVALID_PARAMS, naming the tool, unless all of them can be offered and called: code brought them unseen. */
export function requireTools(tools: readonly Tool[]): void {
  if (!Array.isArray(tools)) throw new RuntimeError("INVALID_PARAMS", "tools: give a list of tools");
  for (const [index, tool] of tools.entries()) {
    const fault = toolFault(tool);
    if (fault !== undefined) throw new RuntimeError("INVALID_PARAMS", `tools.${index}: ${fault}`);
    requireSound(tool.inputSchema, `the input schema of tool ${tool.name}`);
  }
}

function toolFault(tool: unknown): string | undefined {
  if (typeof tool !== "object" || tool === null) return "give a tool, {name, description, inputSchema, execute}";
  // Every field of an object may be looked for; what is found is unknown.
  const { name, description, inputSchema, execute, timeoutMs = 1 } = tool as { readonly [K in keyof Tool]?: unknown };
  if (typeof name !== "string" || name === "") return "give the tool a name";
  if (typeof description !== "string") return `give tool ${name} a description`;
  const isSchema = typeof inputSchema === "object" && inputSchema !== null && !Array.isArray(inputSchema);
  if (!isSchema) return `give tool ${name} an inputSchema, a JSON schema`;
  if (typeof execute !== "function") return `give tool ${name} a function execute`;
  return typeof timeoutMs === "number" && timeoutMs > 0 ? undefined : `give tool ${name} a timeoutMs above 0`;
}
