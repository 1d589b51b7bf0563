import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "@rkat/core/create-runtime";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { createServers } from "@rkat/server/mcp/server";

export const REALM = "test-realm";

/** A client of the SDK and a server in one process, on in-memory stores and the offline model unless told otherwise. */
export async function connectMcp(
  options: RuntimeOptions = {},
  {
    memoryOnly = false,
    allTools = false,
    without = [],
    client = createClient(),
  }: { memoryOnly?: boolean; allTools?: boolean; without?: readonly ("store" | "memory")[]; client?: Client } = {},
) {
  const stores = { store: createInMemoryStore(), memory: {}, compaction: true as const };
  const kept = Object.entries(stores).filter(([name]) => !without.some((absent) => absent === name));
  const runtime = createRuntime({ model: "offline", env: {}, ...Object.fromEntries(kept), ...options });
  const [near, far] = InMemoryTransport.createLinkedPair();
  const clock = createSystemClock();
  const server = createServers({ runtime, realm: REALM, version: "1.2.3", memoryOnly, allTools, clock })();
  await server.connect(far);
  await client.connect(near);
  await client.listTools(); // From here on the client checks every result against the tool's schema.
  const close = async (): Promise<void> => {
    await client.close();
    await runtime.close();
  };
  return { client, runtime, server, call: caller(client), close };
}

export function createClient(): Client {
  return new Client({ name: "test", version: "1" });
}

/** Calls a tool and reads the JSON in its text. */
export function caller(client: Client) {
  return async (name: string, args: Record<string, unknown> = {}) => {
    // Without tasks, which nobody asks for, a call answers with this.
    const result = (await client.callTool({ name, arguments: args })) as CallToolResult;
    return { isError: result.isError === true, payload: payloadOf(result), result };
  };
}

function payloadOf({ content }: CallToolResult) {
  const [block] = content;
  if (block?.type !== "text" || content.length !== 1) throw new Error("expected one text");
  return JSON.parse(block.text);
}
