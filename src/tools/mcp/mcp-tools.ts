import type { McpServerConfig } from "../../ports/mcp-server.ts";
import type { Tool } from "../../ports/tool.ts";
import { createServerSlot, type SlotParts } from "./server-slot.ts";

/** The tools of MCP servers, whose connections all sessions share. */
export interface McpTools {
  /**
   * Connects to what is due, side by side, and lists anew what changed. It resolves when that is done or the signal
   * aborts and never rejects: a server that does not answer is left out, with a sentence.
   */
  prepare(signal: AbortSignal): Promise<void>;
  /** What there is as of the last `prepare`; nothing is started for it. */
  tools(): readonly Tool[];
  /** How each server is, in the order they were given. */
  report(): readonly McpServerReport[];
  /** Ends every connection and every program, in bounded time. */
  close(): Promise<void>;
}

export interface McpServerReport {
  readonly name: string;
  readonly state: "connected" | "failed" | "off";
  readonly tools: readonly string[];
  /** Why it failed. */
  readonly error?: string;
}

/** Nothing is loaded or started before the first `prepare`. */
export function createMcpTools(servers: readonly McpServerConfig[], parts: SlotParts): McpTools {
  const slots = servers.map((server) => ({
    server,
    slot: server.enabled === false ? undefined : createServerSlot(server, parts),
  }));
  const all = slots.flatMap(({ slot }) => slot ?? []);
  return {
    prepare: async (signal) => {
      const ready = Promise.all(all.map((slot) => slot.prepare()));
      const { promise: aborted, resolve } = Promise.withResolvers<void>();
      const onAbort = (): void => resolve();
      if (signal.aborted) resolve();
      signal.addEventListener("abort", onAbort, { once: true });
      // What was begun goes on: other sessions may wait for the same servers.
      await Promise.race([ready, aborted]);
      signal.removeEventListener("abort", onAbort);
    },
    tools: () => all.flatMap((slot) => slot.tools()),
    report: () =>
      slots.map(({ server: { name }, slot }) => {
        if (slot === undefined) return { name, state: "off", tools: [] };
        const error = slot.failure();
        if (error !== undefined) return { name, state: "failed", tools: [], error };
        return { name, state: "connected", tools: slot.tools().map((tool) => tool.name) };
      }),
    close: async () => {
      await Promise.all(all.map((slot) => slot.close()));
    },
  };
}
