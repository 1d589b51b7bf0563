/** What a driver of a project exports, as `open`. Its file is copied beside the packages it imports, and runs in a process of its own. */
export type Open = (setting: Setting) => Promise<Agent>;

export interface Setting {
  /** Of a server of the Chat Completions API. */
  readonly baseUrl: string;
  readonly model: string;
  readonly systemPrompt: string;
  readonly tools: readonly AgentTool[];
  /** Where sessions are kept; nothing is kept without one. */
  readonly folder?: string;
  /** An empty database of PostgreSQL, for projects that keep everything in one. */
  readonly database?: string;
  /** Whether turns must survive the end of the process, by what the project has for that. */
  readonly survives?: boolean;
  /** Makes vectors of texts, by OpenAI's API; given where a memory is searched. */
  readonly embeddings?: { readonly baseUrl: string; readonly model: string; readonly dimensions: number };
  /** Tokens that the model can see; given where contexts are compacted. */
  readonly windowTokens?: number;
}

export interface Said {
  readonly role: "user" | "assistant";
  readonly text: string;
}

export interface AgentTool {
  readonly name: string;
  readonly description: string;
  readonly fields: Readonly<Record<string, "string" | "integer">>;
  /** What a call changes, for projects that can be told. */
  readonly effects: "none" | "idempotent" | "once";
  /** `key` is the same when the call is run again, where the project has such a key. */
  run(args: Readonly<Record<string, unknown>>, key?: string): string | Promise<string>;
}

export interface Agent {
  /** Creates a session, and answers with its id. */
  begin(): Promise<string>;
  /** One turn, streamed; answers with the text it ended with, when the project says that the turn is done. */
  turn(session: string, prompt: string): Promise<string>;
  /** All messages that are kept of a session, as text to look for prompts in. */
  kept(session: string): Promise<string>;
  /**
   * Continues the turns that a killed process left open, where the project can. Resolves when they have ended, with
   * what the project says went wrong. */
  recover?(session: string): Promise<string | undefined>;
  /** Puts talks into the memory that is searched, each as a session of its own. */
  learn?(talks: readonly (readonly Said[])[]): Promise<void>;
  /** Finds so many messages for a question; without a number, what the project gives a model by default. */
  find?(question: string, count?: number): Promise<readonly string[]>;
  close(): Promise<void>;
}
