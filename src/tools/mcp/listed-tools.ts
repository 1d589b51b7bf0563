import { z } from "zod";
import { messageOf } from "../../contract/error.ts";
import type { JsonObject } from "../../contract/session.ts";
import type { McpServerConfig } from "../../ports/mcp-server.ts";
import type { Tool } from "../../ports/tool.ts";
import { offeredName } from "./tool-name.ts";
import { outputOf } from "./tool-result.ts";

export interface ListedBy {
  readonly server: McpServerConfig;
  /** Throws, in words, for a JSON schema that is none. */
  requireSound(schema: JsonObject, what: string): void;
  warn(sentence: string): void;
  /** Calls a tool by the server's own name for it; throws what the model is to read. */
  call(tool: string, args: JsonObject, signal: AbortSignal): Promise<Readonly<Record<string, unknown>>>;
}

const TOOLS_MAX = 256;
const DESCRIPTION_CHARS_MAX = 10_000;

/** The tools of a server's list that can be offered; each that cannot is told of, and costs the others nothing. */
export function readTools(listed: readonly unknown[], by: ListedBy): readonly Tool[] {
  const { name, tools: allowed } = by.server;
  for (const missing of (allowed ?? []).filter((tool) => !listed.some((raw) => nameOf(raw) === tool)))
    by.warn(`MCP server ${name} has no tool ${missing}`);
  const wanted = listed.filter((raw) => allowed?.includes(nameOf(raw)) ?? true);
  if (wanted.length > TOOLS_MAX)
    by.warn(`MCP server ${name} has ${wanted.length} tools, of which the first ${TOOLS_MAX} are offered`);
  const tools = new Map<string, Tool>();
  for (const raw of wanted.slice(0, TOOLS_MAX)) {
    try {
      const tool = readTool(raw, by);
      if (tools.has(tool.name)) throw new Error("the server has another of this name");
      tools.set(tool.name, tool);
    } catch (thrown) {
      by.warn(`tool ${nameOf(raw)} of MCP server ${name} is left out: ${messageOf(thrown)}`);
    }
  }
  return [...tools.values()];
}

const ListedTool = z.object({
  name: z.string().min(1),
  description: z.string().optional(),
  inputSchema: z.record(z.string(), z.unknown()),
});

function readTool(raw: unknown, { server, requireSound, call }: ListedBy): Tool {
  const parsed = ListedTool.safeParse(raw);
  if (!parsed.success) throw new Error("its description is not one of a tool");
  const { name, description = "", inputSchema } = parsed.data;
  // The dialect marker goes: a validator that does not know the dialect by this address refuses the whole schema.
  const { $schema: _dialect, ...schema } = inputSchema;
  if (schema.type !== "object") throw new Error("its input schema is not one of an object");
  requireSound(schema, "its input schema");
  return {
    name: offeredName(server.name, name),
    description: description.slice(0, DESCRIPTION_CHARS_MAX),
    inputSchema: schema,
    ...(server.timeoutMs === undefined ? {} : { timeoutMs: server.timeoutMs }),
    execute: async (args, { signal }) => {
      try {
        return outputOf(await call(name, args, signal));
      } catch (thrown) {
        if (!signal.aborted) throw thrown;
        // Whoever stopped it says why, and better than the protocol does.
        return { content: "interrupted: this call may or may not have taken effect", isError: true };
      }
    },
  };
}

function nameOf(raw: unknown): string {
  return typeof raw === "object" && raw !== null && "name" in raw && typeof raw.name === "string" ? raw.name : "?";
}
