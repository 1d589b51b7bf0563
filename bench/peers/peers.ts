/** A project that is measured: its driver is `drivers/NAME.ts`. */
export interface Peer {
  readonly name: string;
  readonly title: string;
  /** What is configured where nothing is kept, and where sessions are kept in a folder; absent where there is no such way. */
  readonly memory: string;
  readonly folder?: string;
  /** What continues a turn whose process ended, where there is such a thing. */
  readonly survives?: string;
  /** Whether it runs steps of others in a database: then it is in no other table. */
  readonly isDatabase?: boolean;
  /** What finds again what was said, where there is such a thing. */
  readonly recalls?: string;
  /** What keeps contexts below a window, where there is such a thing, or why it is not measured. */
  readonly compacts?: string;
  readonly compactsNot?: string;
  /** Exact versions, installed from npm; none for what is here. */
  readonly packages: Readonly<Record<string, string>>;
  /** Told with the versions, where the newest was not taken. */
  readonly note?: string;
}

/** In the order of the tables. `bare-fetch` is the floor. */
export const PEERS: readonly Peer[] = [
  {
    name: "bare-fetch",
    title: "bare fetch",
    memory: "the least a streamed agent can do: no retries, no limits, no events",
    folder: "each message a line of a file that is synced before the next step",
    recalls: "the angle of vectors in an array",
    compacts: "nothing: every request has all messages",
    packages: {},
  },
  {
    name: "rkat",
    title: "rkat",
    memory: "createRuntime with its defaults",
    folder: "openRuntime on a folder with its defaults, and resumeTurns",
    survives: "resumeTurns; tools say what they change",
    recalls: "searchMemory, embedder remote",
    compacts: "compaction: true and the window of the model",
    packages: {},
  },
  {
    name: "ai-sdk",
    title: "AI SDK",
    memory: "streamText with a tool and stopWhen; the program holds the messages",
    folder: "the chat store of its guide on persistence: one file for each chat, written whole after a turn",
    compacts: "pruneMessages in prepareStep from 3/4 of the window, as its guide on loop control has it",
    packages: { ai: "7.0.173", "@ai-sdk/openai-compatible": "3.0.92", zod: "4.6.7" },
  },
  {
    name: "mastra",
    title: "Mastra",
    memory: "Agent with Memory on LibSQLStore at :memory:, lastMessages unlimited",
    folder: "Agent with Memory on LibSQLStore in a file, lastMessages unlimited",
    survives: "createDurableAgent (beta), recovery.durableAgents auto, recoverActiveRuns",
    recalls: "Memory.recall with LibSQLVector, scope resource; the answer by default of topK 4, messageRange 1",
    compacts: "observationalMemory with its defaults",
    packages: { "@mastra/core": "1.71.0", "@mastra/libsql": "1.23.1", "@mastra/memory": "1.31.0", zod: "4.6.7" },
  },
  {
    name: "openai-agents",
    title: "OpenAI Agents",
    memory: "Agent, Runner and a MemorySession for each session; Chat Completions, tracing off",
    compactsNot: "its compaction is a call of OpenAI's service (`responses.compact`) that answers with an opaque item",
    packages: { "@openai/agents": "0.20.0", zod: "4.6.7" },
  },
  {
    name: "langgraph",
    title: "LangGraph",
    memory: "createAgent with MemorySaver",
    folder: "createAgent with SqliteSaver.fromConnString",
    survives: "SqliteSaver, durability sync, stream(null)",
    recalls: "InMemoryStore with an index, a message an item; 10 items by default",
    compacts: "summarizationMiddleware from 3/4 of the window, keeping its default of 20 messages",
    packages: {
      "@langchain/langgraph": "1.4.13",
      "@langchain/core": "1.2.13",
      "@langchain/openai": "1.6.0",
      "@langchain/langgraph-checkpoint": "1.1.5",
      "@langchain/langgraph-checkpoint-sqlite": "1.0.4",
      langchain: "1.5.14",
      zod: "4.6.7",
    },
    note: "the newest whose dependencies the registry has; 1.7.3 asks for @langchain/core 1.3. better-sqlite3 12.11.1, which its store needs, aborts long runs on Node 24.19 and later, not on Node 22",
  },
  {
    name: "pi",
    title: "pi",
    memory: "createAgentSession with SessionManager.inMemory, the tool and no built-in ones",
    folder: "the same with SessionManager.create: a JSONL file for each session",
    compacts: "its compaction with its defaults and the window of the model",
    packages: { "@earendil-works/pi-coding-agent": "0.87.1" },
    note: "the newest whose dependencies the registry has; 1.5.2 asks for @earendil-works/pi-schema",
  },
  {
    name: "tanstack",
    title: "TanStack AI",
    memory: "chat() with a server tool; a StreamProcessor holds the messages",
    packages: { "@tanstack/ai": "0.58.0", "@tanstack/ai-openai": "0.23.1", zod: "4.6.7" },
    note: "@tanstack/ai-persistence, which keeps sessions, is not in the registry",
  },
  {
    name: "dbos",
    title: "DBOS",
    memory: "–",
    folder: "a workflow for each turn, in PostgreSQL; the loop around the model is written by hand, each call a step",
    survives: "registerWorkflow, runStep, launch",
    isDatabase: true,
    packages: { "@dbos-inc/dbos-sdk": "5.3.0" },
    note: "it has no agents or sessions, so only turns of it are killed",
  },
];

/** What is not compared, and why; told on the page. */
export const LEFT_OUT: readonly (readonly [what: string, why: string])[] = [
  [
    "the AI SDK's workflow packages",
    "no driver yet: workflows are compiled by a bundler's plugin and run by a world of their own",
  ],
];
