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

/** An MCP server whose tools are available to sessions. */
export type McpServerConfig = McpProgram | McpAddress;
