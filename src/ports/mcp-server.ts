interface AnyServer {
  /** Leads the names of its tools: `mcp__<name>__<tool>`. */
  readonly name: string;
  /** How long one call may take; without it, as long as any tool. */
  readonly timeoutMs?: number | undefined;
  /** How long it may take until its tools are listed. */
  readonly connectTimeoutMs?: number | undefined;
  /** False leaves it out. */
  readonly enabled?: boolean | undefined;
  /** The server's own names of the tools that are offered; without it, all of them. */
  readonly tools?: readonly string[] | undefined;
}

/** A server that is a program of this machine, spoken with on its stdin and stdout. */
export interface McpProgram extends AnyServer {
  readonly command: string;
  readonly args?: readonly string[] | undefined;
  /** What it sees besides a few harmless variables; `${NAME}` stands for a variable of the runtime's environment. */
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** A server at an address. */
export interface McpAddress extends AnyServer {
  readonly url: string;
  /** Sent with every request; `${NAME}` stands for a variable of the runtime's environment. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly transport?: "streamable-http" | "sse" | undefined;
}

/** An MCP server whose tools sessions have. */
export type McpServerConfig = McpProgram | McpAddress;
