import type { ContentBlock } from "../contract/message.ts";
import type { ServerQuestion } from "../contract/permission.ts";
import type { JsonObject, McpServer } from "../contract/session.ts";
import type { ToolSpec } from "./model.ts";

export interface ToolCallContext {
  readonly sessionId: string;
  readonly toolUseId: string;
  /** Aborts when the turn is interrupted, its time is up, or the tool's own timeout has passed. */
  readonly signal: AbortSignal;
  readonly shellEnv: Readonly<Record<string, string>>;
  /** Identifies this call also if it runs again in another process: an idempotency key for remote services. */
  readonly effectId: string;
  /**
   * Runs a function and records its result, which is JSON of at most 64 KiB. If the call runs again in another process, it
   * returns the recorded result. A function that was running when its process ended runs again.
   */
  step<T>(name: string, run: () => T | Promise<T>): Promise<T>;
  /** How long a question of the call waits for the user; undefined if no one can be asked. */
  readonly asksWithinMs?: number | undefined;
  /** The answer to the question that this call has returned before, with what continues it. */
  readonly answered?: AnsweredQuestion | undefined;
}

/** What `execute` returns to ask the user: the call runs again, in any process, once there is an answer. */
export class AskUser {
  readonly question: ServerQuestion;
  /** Stored, and given to the call with the answer. */
  readonly resuming: JsonObject;
  constructor(question: ServerQuestion, resuming: JsonObject) {
    this.question = question;
    this.resuming = resuming;
  }
}

export interface AnsweredQuestion {
  readonly answer: { readonly action: "accept" | "decline" | "cancel"; readonly content?: JsonObject };
  readonly resuming: JsonObject;
}

/**
 * What a call changes. After its process ended, a call without a recorded result runs again if it changes nothing or can be
 * repeated; a call that must happen once is reported to the model as unknown.
 */
export type Effects = "none" | "idempotent" | "once";

/** Text or blocks; `isError` marks a failure for the model. Any other JSON value is passed to the model as such. */
export type ToolOutput = string | { readonly content: string | readonly ContentBlock[]; readonly isError?: boolean };

/** A tool of a model. Arguments are validated against `inputSchema` before `execute` is called. */
export interface Tool extends ToolSpec {
  /** Overrides the runtime's default. */
  readonly timeoutMs?: number;
  /** By default "once". */
  readonly effects?: Effects;
  /**
   * Set for a tool of an MCP server: the server's name, its own name for the tool, and a fingerprint of both with the
   * tool's description, schema and hints.
   */
  readonly mcp?: { readonly server: string; readonly tool: string; readonly fingerprint?: string };
  /** Whether it needs approval unless a rule allows or denies it. */
  readonly needsApproval?: boolean | ((args: JsonObject) => boolean | Promise<boolean>);
  /** Set if the caller runs it: the turn ends with the call, and the turn with the result continues. */
  readonly isClients?: true;
  /** Set if a client runs it during the turn, over its connection. */
  readonly isCallback?: true;
  /**
   * The session's tool that it replaces: it is available only where that one is, and rules judge its calls as calls of
   * that one, too.
   */
  readonly standsFor?: { readonly tool: string; args(args: JsonObject): JsonObject };
  /** Its secrets: masked in all tool output of the session. */
  readonly secrets?: readonly string[];
  /** Returns a `ToolOutput` or its promise. A thrown error becomes an error result with its message. */
  execute(args: JsonObject, context: ToolCallContext): unknown;
}

interface AnyServer {
  /** The prefix of its tool names: `mcp__<name>__<tool>`. */
  readonly name: string;
  /** The timeout of one call; by default that of any tool. */
  readonly timeoutMs?: number | undefined;
  /** The timeout for connecting and listing its tools. */
  readonly connectTimeoutMs?: number | undefined;
  /** False disables it. */
  readonly enabled?: boolean | undefined;
  /** The server's names of the offered tools; by default all. */
  readonly tools?: readonly string[] | undefined;
}

/** A server that is a local program on stdin and stdout. */
export interface McpProgram extends AnyServer {
  readonly command: string;
  readonly args?: readonly string[] | undefined;
  /**
   * Its environment besides a few harmless variables; `${NAME}` is replaced by a variable of the runtime's environment.
   */
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** A server at an address. */
export interface McpAddress extends AnyServer {
  readonly url: string;
  /** Sent with every request; `${NAME}` is replaced by a variable of the runtime's environment. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly transport?: "streamable-http" | "sse" | undefined;
}

/** Keeps the logins at MCP servers, each as a text with secrets, by the server's name and address. */
export interface McpLogins {
  read(server: McpAddress): string | undefined;
  /** Replaces the login; undefined removes it. */
  write(server: McpAddress, login: string | undefined): void;
}

/** An MCP server whose tools are available to sessions. */
export type McpServerConfig = McpProgram | McpAddress;

/** A server as the runtime uses it. */
export function configOf({ name, command, url, args, env, headers, ...rest }: McpServer): McpServerConfig {
  const connectTimeoutMs = rest.connect_timeout_secs === undefined ? undefined : rest.connect_timeout_secs * 1_000;
  if (url === undefined) return { name, command: command ?? "", args, env, connectTimeoutMs };
  return { name, url, headers, connectTimeoutMs, transport: rest.transport === "sse" ? "sse" : "streamable-http" };
}
