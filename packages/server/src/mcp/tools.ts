import type { Tool } from "@modelcontextprotocol/server";
import { OPERATION_NAMES, type OperationName, operationOf } from "@rkat/core/contract/operations";
import { objectSchemaOf } from "@rkat/core/contract/wire/mcp-tools";

export interface OperationTool {
  readonly operation: OperationName;
  readonly tool: Tool;
  readonly isListed: boolean;
}

/** Every row of the table of operations that has a tool, by the tool's name; of two rows with one name the later. */
export function createTools({ memoryOnly }: { readonly memoryOnly: boolean }): ReadonlyMap<string, OperationTool> {
  return new Map(
    OPERATION_NAMES.flatMap((operation) => {
      const { mcp, mcpListed = true, mcpMemory = false } = operationOf(operation);
      if (mcp === undefined || (memoryOnly && !mcpMemory)) return [];
      // Without turns no context is compacted, so a memory search covers everything.
      const meant = memoryOnly && operation === "searchMemory" ? "searchHistory" : operation;
      return [[mcp, { operation: meant, tool: toolOf(mcp, meant), isListed: memoryOnly || mcpListed }] as const];
    }),
  );
}

function toolOf(name: string, operation: OperationName): Tool {
  const { summary, input, mcpSummary = summary, mcpInput = () => input } = operationOf(operation);
  const inputSchema = objectSchemaOf(mcpInput());
  if (inputSchema === undefined)
    throw new Error(`the input of ${operation} is not an object, so it cannot be a tool's`);
  return {
    name,
    description: mcpSummary,
    inputSchema,
    annotations: hintsOf(operation),
  };
}

/** Clients ask before destructive calls; a tool counts as destructive unless it is known to be harmless. */
function hintsOf(operation: OperationName): NonNullable<Tool["annotations"]> {
  const { http, runs, effect } = operationOf(operation);
  // A turn speaks with a provider, and its tools may do anything that was allowed.
  const openWorldHint = runs === "turn";
  if (http.startsWith("GET ")) return { readOnlyHint: true, openWorldHint };
  return {
    readOnlyHint: false,
    destructiveHint: effect === undefined,
    idempotentHint: effect === "idempotent",
    openWorldHint,
  };
}
