import type { ContentBlock } from "../contract/message.ts";
import type { JsonObject } from "../contract/session.ts";
import type { ToolSpec } from "./model.ts";

/** What a tool may know of the call it serves. */
export interface ToolCallContext {
  readonly sessionId: string;
  readonly toolUseId: string;
  /** Aborts when the turn is interrupted, its time is up, or the tool's own timeout has passed. */
  readonly signal: AbortSignal;
  readonly shellEnv: Readonly<Record<string, string>>;
}

/** Text, or blocks; `isError` marks a failure the model should see. Another value of JSON is given to the model as such. */
export type ToolOutput = string | { readonly content: string | readonly ContentBlock[]; readonly isError?: boolean };

/** Something a model can do. Arguments are validated against `inputSchema` before `execute` is called. */
export interface Tool extends ToolSpec {
  /** Overrides the runtime's default. */
  readonly timeoutMs?: number;
  /** Set for a tool of an MCP server: the server's name, and its own name for the tool. */
  readonly mcp?: { readonly server: string; readonly tool: string };
  /** Whether a person is asked before it runs, unless a rule allows or denies it. */
  readonly needsApproval?: boolean | ((args: JsonObject) => boolean | Promise<boolean>);
  /** Set where the client runs it: a turn that calls it ends, and a turn with the result continues. */
  readonly isClients?: true;
  /**
   * The tool of a session that it does the work of in another place: it is there only where that one is, and rules judge a
   * call of it as this call of that one besides.
   */
  readonly standsFor?: { readonly tool: string; args(args: JsonObject): JsonObject };
  /** What it was given to keep: masked in everything that tools of its session give. */
  readonly secrets?: readonly string[];
  /** Gives a `ToolOutput`, or its promise. A thrown error becomes an error result with its message. */
  execute(args: JsonObject, context: ToolCallContext): unknown;
}
