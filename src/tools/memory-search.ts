import { z } from "zod";
import type { MemoryHit } from "../contract/memory.ts";
import type { Tool } from "../ports/tool.ts";
import { defineTool } from "./define-tool.ts";

/** Searches for the session that asks. */
export type SearchForTool = (asked: {
  readonly query: string;
  readonly limit: number;
  readonly sessionId: string;
  /** Everything that was said, or only what has left a context. */
  readonly reach: "discarded" | "everything";
  readonly signal: AbortSignal;
}) => Promise<readonly MemoryHit[]>;

const HITS_DEFAULT = 5;
const HITS_MAX = 20;

const input = z.strictObject({
  query: z.string().min(1).describe("Natural language search query describing what you want to recall."),
  limit: z.int().nonnegative().default(HITS_DEFAULT).describe("Maximum number of results to return. Capped at 20."),
});

/** The tools a session reaches memory with. What they return are quotations, each with who said it and when. */
export function createMemoryTools(search: SearchForTool): readonly Tool[] {
  const tool = (name: string, reach: "discarded" | "everything", description: string): Tool =>
    defineTool({
      name,
      description,
      input,
      run: async ({ query, limit }, { sessionId, signal }) => {
        const hits = await search({ query, limit: Math.min(limit, HITS_MAX), sessionId, reach, signal });
        return JSON.stringify(hits);
      },
    });
  return [
    tool(
      "memory_search",
      "discarded",
      "Search semantic memory for past conversation content. Memory contains text from earlier conversation turns that were compacted away to save context space.",
    ),
    tool(
      "search_project_history",
      "everything",
      "Search everything that was said in any session of this project, compacted or not. Use it for what another session may have said.",
    ),
  ];
}
