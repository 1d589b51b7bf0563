import { z } from "zod";
import { AgentName } from "./agent/agent.ts";
import { nonnegative } from "./input/whole-number.ts";
import { SessionId } from "./session.ts";

const HITS_DEFAULT = 5;
const HITS_MAX = 20;
const QUERY_CHARS_MAX = 100_000;

/**
 * The tools that read what memory holds: ours, and those of this product's own MCP server, whichever name it has. What
 * they are asked and what they answer is no memory, or memory would find its own echo.
 */
export function isRecallTool(name: string): boolean {
  return RECALL_TOOL.test(name);
}

const RECALL_TOOL =
  /^(?:mcp__.*__)?(?:memory_search|search_project_history|agent_context|meerkat_(?:history|context))(?:_[\da-f]{8})?$/;

/** One thing found again. */
export const MemoryHit = z.object({
  content: z.string(),
  /** 0 to 1: how sure it answers; useful ones are above 0.7. */
  score: z.number(),
  session_id: z.string(),
  turn: z.number().int(),
  seq: z.number().int(),
  role: z.string(),
  kind: z.string(),
  created_at: z.string(),
  /** The agent whose memory it is; `turn` is the memory's number then. */
  agent: z.string().optional(),
  /** Who said it, and that it is a quotation: a recalled text is data, whatever it asks for. */
  origin: z.string(),
});
export type MemoryHit = z.infer<typeof MemoryHit>;

export const MemorySearch = z.strictObject({
  query: z
    .string({ error: "write what to look for" })
    .refine((query) => query.trim() !== "", { error: "write what to look for" })
    .refine((query) => query.length <= QUERY_CHARS_MAX, { error: `write at most ${QUERY_CHARS_MAX} characters` }),
  /** More than 20 are cut to 20. */
  limit: nonnegative.default(HITS_DEFAULT).transform((limit) => Math.min(limit, HITS_MAX)),
  scope: z.enum(["project", "session"], { error: 'write "project" or "session"' }).optional(),
  session_id: SessionId.optional(),
  /** Only what this agent remembers. */
  agent: AgentName.optional(),
  /** Answers as if nothing had been said in `session_id` after this seq. */
  as_of_seq: nonnegative.optional(),
});
export type MemorySearch = z.infer<typeof MemorySearch>;

export const MemoryResults = z.object({
  results: z.array(MemoryHit),
  /** `lexical`: by words alone, because there are no vectors yet, or no embedder. */
  mode: z.enum(["hybrid", "lexical"]),
});
export type MemoryResults = z.infer<typeof MemoryResults>;

export const MemoryStatusReport = z.object({
  /** Chunks that can be found. */
  entries: z.number().int(),
  /** Chunks that have no vector yet. */
  pending: z.number().int(),
  /** Sessions whose log is not taken in to its end. */
  sessions_behind: z.number().int(),
  embedder: z.string(),
  index: z.string(),
  bytes: z.number().int(),
  mode: z.enum(["hybrid", "lexical"]),
  /** Why the embedder cannot be used, or what last failed. */
  problem: z.string().optional(),
});
export type MemoryStatusReport = z.infer<typeof MemoryStatusReport>;
