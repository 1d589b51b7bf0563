import type { McpServer } from "../../contract/session.ts";
import { configOf, type McpServerConfig, type Tool } from "../../ports/tool.ts";
import type { McpTools } from "./mcp-tools.ts";

/** A server that a session added; forks and sub-agents, which have the same id, share its connection. */
type Added = McpServer & { readonly id: string };

interface SessionServers {
  /** Connects, and keeps the connections until the returned function is called. */
  hold(added: readonly Added[], signal: AbortSignal): Promise<() => void>;
  tools(added: readonly Added[]): readonly Tool[];
  /** Ends the connections of servers that are not among those kept, once no turn uses them. */
  drop(added: readonly Added[], kept: readonly Added[]): void;
  close(): Promise<void>;
}

/** Connections that no turn uses; the one that was used longest ago is ended. */
const IDLE_MAX = 32;

/** The servers that sessions added, each started by the first turn that has it. */
export function createSessionServers(open: (server: McpServerConfig) => McpTools): SessionServers {
  // In order of use.
  const opened = new Map<string, { readonly mcp: McpTools; turns: number; isDropped: boolean }>();
  const ending = new Set<Promise<void>>();
  const trim = (): void => {
    const idle = [...opened].filter(([, { turns }]) => turns === 0);
    for (const [at, [id, { mcp, isDropped }]] of idle.entries()) {
      if (!isDropped && at >= idle.length - IDLE_MAX) continue;
      opened.delete(id);
      const ended = mcp.close().finally(() => ending.delete(ended));
      ending.add(ended);
    }
  };
  return {
    hold: async (added, signal) => {
      const held = added.map((server) => {
        const one = opened.get(server.id) ?? { mcp: open(configOf(server)), turns: 0, isDropped: false };
        opened.delete(server.id);
        opened.set(server.id, one);
        one.turns += 1;
        return one;
      });
      await Promise.all(held.map(({ mcp }) => mcp.prepare(signal)));
      return () => {
        for (const one of held) one.turns -= 1;
        trim();
      };
    },
    tools: (added) => added.flatMap(({ id }) => opened.get(id)?.mcp.tools() ?? []),
    drop: (added, kept) => {
      const ids = new Set(kept.map(({ id }) => id));
      for (const { id } of added) {
        const one = opened.get(id);
        if (one !== undefined && !ids.has(id)) one.isDropped = true;
      }
      trim();
    },
    close: async () => {
      await Promise.all([...ending, ...[...opened.values()].map(({ mcp }) => mcp.close())]);
    },
  };
}
