import type { McpServer } from "@agentclientprotocol/sdk";
import { invalid } from "@rkat/core/contract/error";
import type { McpServerConfig, Tool } from "@rkat/core/ports/tool";

/** The MCP servers that a client brings for one session. */
export interface SessionServers {
  /** Connects to what is due; it never rejects, and a server that does not answer is left out. */
  prepare(signal: AbortSignal): Promise<void>;
  tools(): readonly Tool[];
  report(): readonly { readonly name: string; readonly error?: string }[];
  close(): Promise<void>;
}

const SERVERS_MAX = 64;
const NAME_CHARS_MAX = 64;

/** A client's servers as those of a configuration; throws INVALID_PARAMS, naming the field, for what cannot be one. */
export function serversOf(given: readonly McpServer[] | undefined | null): readonly McpServerConfig[] {
  const servers = given ?? [];
  if (servers.length > SERVERS_MAX) throw invalid(`mcpServers: write at most ${SERVERS_MAX} servers`);
  return servers.map((server, index) => {
    const field = `mcpServers[${index}]`;
    const { name } = server;
    if (name.trim() === "" || name.length > NAME_CHARS_MAX) {
      throw invalid(`${field}.name: write a name of 1 to ${NAME_CHARS_MAX} characters`);
    }
    if (servers.findIndex((other) => other.name === name) !== index) {
      throw invalid(`${field}.name: another server has the name ${name}, so give this one its own`);
    }
    if ("command" in server) {
      if (server.command.trim() === "") throw invalid(`${field}.command: write the program to start`);
      return { name, command: server.command, args: server.args, env: pairs(server.env) };
    }
    if (!/^https?:\/\/[^/@]+(?:\/|$)/i.test(server.url)) {
      throw invalid(`${field}.url: write an address like https://example.com/mcp`);
    }
    const transport = server.type === "sse" ? "sse" : "streamable-http";
    return { name, url: server.url, headers: pairs(server.headers), transport };
  });
}

function pairs(given: readonly { readonly name: string; readonly value: string }[]): Record<string, string> {
  return Object.fromEntries(given.map(({ name, value }) => [name, value]));
}
