import type { AgentCompacted, AgentContext, AgentStatus } from "../../contract/agent/agent.ts";
import type { MemoryMetadata } from "../../contract/agent/agent-entry.ts";
import type { MemoryResults } from "../../contract/memory.ts";
import type { Dispatch } from "../dispatch.ts";

/** An agent that remembers, for as long as it lives. */
export interface Agent {
  readonly name: string;
  /** Adds a memory. A compaction that is due with it begins; nobody waits for it. */
  remember(content: string, metadata?: MemoryMetadata): Promise<{ count: number; compaction_due: boolean }>;
  /** Keeps a private note, which the context shows when it is relevant; resolves with the number of notes. */
  note(content: string, title?: string): Promise<number>;
  /** Both summaries, the newest memories word for word, and all of it as a prompt. */
  context(options?: { immediate?: number }): Promise<AgentContext>;
  /** Compacts now, whether or not it is due. */
  compact(): Promise<AgentCompacted>;
  /** Whether a compaction is due. */
  shouldCompact(): Promise<boolean>;
  status(): Promise<AgentStatus>;
  /** Searches all this agent remembers. */
  recall(query: string, options?: { limit?: number }): Promise<MemoryResults>;
}

export function createAgentHandle(dispatch: Dispatch, name: string): Agent {
  const agent = name;
  return {
    name,
    remember: (content, metadata) =>
      dispatch("remember", { agent, content, ...(metadata === undefined ? {} : { metadata }) }),
    note: async (content, title) =>
      (await dispatch("takeNote", { agent, content, ...(title === undefined ? {} : { title }) })).notes,
    context: ({ immediate } = {}) => dispatch("readAgentContext", { agent, immediate }),
    compact: () => dispatch("compactAgent", { agent }),
    shouldCompact: async () => (await dispatch("readAgentStatus", { agent })).compaction_due,
    status: () => dispatch("readAgentStatus", { agent }),
    recall: (query, { limit } = {}) => dispatch("searchHistory", { query, limit, agent }),
  };
}
