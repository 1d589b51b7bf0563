import type { MemoryMetadata } from "../contract/agent.ts";
import {
  type AnswerOf,
  type Ask,
  createMethodsAbout,
  type MethodsAbout,
  type OptionsOf,
} from "../runtime/operation-calls.ts";

/** A named agent with memories. Every operation on an agent is a method. */
export interface Agent extends Omit<MethodsAbout<"agent">, "remember" | "note"> {
  readonly name: string;
  /** Adds a memory. A compaction that becomes due starts in the background. */
  remember(content: string, metadata?: MemoryMetadata): Promise<AnswerOf<"remember">>;
  /** Keeps a private note, which the context shows when it is relevant; resolves with the number of notes. */
  note(content: string, title?: string): Promise<number>;
  shouldCompact(): Promise<boolean>;
  recall(query: string, options?: OptionsOf<"searchHistory", "query" | "agent">): Promise<AnswerOf<"searchHistory">>;
}

export function createAgentHandle(ask: Ask, name: string): Agent {
  const methods = createMethodsAbout(ask, "agent", name);
  return {
    ...methods,
    name,
    remember: (content, metadata) => methods.remember(content, { metadata }),
    note: async (content, title) => (await methods.note(content, { title })).notes,
    shouldCompact: async () => (await methods.status()).compactionDue,
    recall: (query, options) => ask("searchHistory", { query, agent: name }, options),
  };
}
