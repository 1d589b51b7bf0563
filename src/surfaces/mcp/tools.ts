import type { Tool } from "@modelcontextprotocol/sdk/types.js";
import { ConfigTool, objectSchemaOf, ResumeTool, RunTool, SkillsTool } from "../../contract/mcp-tools.ts";
import { OPERATIONS, type OperationName } from "../../contract/operations.ts";

/** A tool, and the operation that it calls. */
export interface OperationTool {
  readonly operation: OperationName;
  readonly tool: Tool;
  readonly isListed: boolean;
}

/** What a memory server offers: nothing of it runs a turn or shows a session whole. */
const MEMORY_TOOLS: readonly OperationName[] = [
  "searchMemory",
  "searchHistory",
  "readMemoryStatus",
  "remember",
  "takeNote",
  "readAgentContext",
  "compactAgent",
  "readAgentStatus",
  "listAgents",
];

/** Every row of the table of operations that has a tool, by the tool's name; of two rows with one name the later. */
export function createTools({ memoryOnly }: { readonly memoryOnly: boolean }): ReadonlyMap<string, OperationTool> {
  // The keys of OPERATIONS are the names of operations.
  const names = (Object.keys(OPERATIONS) as OperationName[]).filter(
    (name) => !memoryOnly || MEMORY_TOOLS.includes(name),
  );
  return new Map(
    names.flatMap((operation) => {
      const row = OPERATIONS[operation];
      if (!("mcp" in row)) return [];
      // Nothing leaves a context where no turn runs: there, to search memory is to search all of it.
      const meant = memoryOnly && operation === "searchMemory" ? "searchHistory" : operation;
      const isListed = memoryOnly || !("mcpListed" in row);
      return [[row.mcp, { operation: meant, tool: toolOf(row.mcp, meant), isListed }] as const];
    }),
  );
}

function toolOf(name: string, operation: OperationName): Tool {
  const { summary, input } = OPERATIONS[operation];
  const inputSchema = objectSchemaOf(INPUTS[operation] ?? input);
  if (inputSchema === undefined) throw new Error(`the input of ${operation} is no object, so it cannot be a tool's`);
  return {
    name,
    description: DESCRIPTIONS[operation] ?? summary,
    inputSchema,
    annotations: hintsOf(operation),
  };
}

type ToolInput = typeof RunTool | typeof ResumeTool | typeof ConfigTool | typeof SkillsTool;
const INPUTS: Partial<Record<OperationName, ToolInput>> = {
  createSession: RunTool,
  resumeSession: ResumeTool,
  patchConfig: ConfigTool,
  readSkill: SkillsTool,
};

const DESCRIPTIONS: Partial<Record<OperationName, string>> = {
  patchConfig:
    "Read the effective configuration (get), replace the project's own layer of it (set), or change that layer by a merge patch in which null removes a key (patch).",
  readSkill: "List the skills of this server (list), or read the one a key of the list names (inspect).",
};

/** Operations that answer with a list, as the tool of the same name does inside a session. */
export const ANSWERS_LIST: readonly OperationName[] = ["searchMemory", "searchHistory"];
/** Operations that run a turn. */
export const RUNS_TURN: readonly OperationName[] = ["createSession", "startTurn", "resumeSession"];

/** Operations that take nothing away and do the same when they are called again. */
const REPEATABLE: readonly OperationName[] = ["interruptTurn", "injectContext"];
/** Operations that only add: what was there before is there afterwards. */
const ADDS: readonly OperationName[] = [
  "injectContext",
  "forkSession",
  "forkReplacing",
  "importSession",
  "compactSession",
  "undoCompaction",
  "expandCompaction",
  "remember",
  "takeNote",
  "compactAgent",
];

/** A client asks its user before it calls what may destroy; what is not known to be harmless may. */
function hintsOf(operation: OperationName): NonNullable<Tool["annotations"]> {
  // A turn speaks with a provider, and its tools may do anything that was allowed.
  const openWorldHint = RUNS_TURN.includes(operation);
  if (/^(?:read|list|search|export)/.test(operation)) return { readOnlyHint: true, openWorldHint };
  return {
    readOnlyHint: false,
    destructiveHint: !ADDS.includes(operation) && !REPEATABLE.includes(operation),
    idempotentHint: REPEATABLE.includes(operation),
    openWorldHint,
  };
}
