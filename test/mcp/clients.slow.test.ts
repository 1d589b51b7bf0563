import { createMCPClient } from "@ai-sdk/mcp";
import { Client as NewClient, StreamableHTTPClientTransport as NewTransport } from "@modelcontextprotocol/client";
import { isCreateTaskResultV2, isDetailedTaskV2 } from "@modelcontextprotocol/ext-tasks/core/v2";
import { Client as OldClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as OldTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { MCPServerStreamableHttp } from "@openai/agents";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { listenHttp } from "@rkat/server/mcp/serve-http";
import { createServers } from "@rkat/server/mcp/server";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { serveAlone, WITH_TASKS } from "../support/mcp-alone.ts";

let url: URL;
let close: () => Promise<void>;
beforeAll(async () => {
  const clock = createSystemClock();
  const runtime = createRuntime({ model: "offline", env: {}, store: createInMemoryStore(), memory: {} });
  const createServer = createServers({ runtime, realm: "test", version: "1", memoryOnly: false, clock });
  const place = { host: "127.0.0.1", port: 0, token: undefined, allowedHosts: [] };
  const listener = await listenHttp({ ...place, createServer, clock, log: () => {} });
  url = new URL(listener.url);
  close = async () => {
    await listener.close();
    await runtime.close();
  };
});
afterAll(() => close());

const info = { name: "test", version: "1" };
const call = { name: "meerkat_run", arguments: { prompt: "What is 2 + 3?" } };

/** What a client sees: the names of the tools, and the answer of one. */
interface Seen {
  readonly names: readonly string[];
  readonly answer: unknown;
}

const withNew = async (mode: "auto" | "legacy" | { pin: string }): Promise<Seen> => {
  const client = new NewClient(info, { versionNegotiation: { mode } });
  await client.connect(new NewTransport(url));
  const { tools } = await client.listTools();
  const answer = await client.callTool(call);
  await client.close();
  return { names: tools.map(({ name }) => name), answer };
};

/** The clients that people use, each with its own code. */
const CLIENTS: Readonly<Record<string, () => Promise<Seen>>> = {
  "client 2 of the SDK, pinned to 2026-07-28": () => withNew({ pin: "2026-07-28" }),
  "client 2 of the SDK, which negotiates": () => withNew("auto"),
  "client 2 of the SDK, of 2025": () => withNew("legacy"),
  "client 1 of the SDK": async () => {
    const client = new OldClient(info);
    await client.connect(new OldTransport(url) as Transport); // Its accessors may answer undefined.
    const { tools } = await client.listTools();
    const answer = await client.callTool(call);
    await client.close();
    return { names: tools.map(({ name }) => name), answer };
  },
  "@ai-sdk/mcp": async () => {
    const client = await createMCPClient({ transport: { type: "http", url: url.href } });
    const tools = await client.tools();
    const answer = await tools.meerkat_run?.execute?.(call.arguments, { toolCallId: "c1", messages: [], context: {} });
    await client.close();
    return { names: Object.keys(tools), answer };
  },
  "@openai/agents": async () => {
    const server = new MCPServerStreamableHttp({ url: url.href });
    await server.connect();
    const tools = await server.listTools();
    const answer = await server.callTool(call.name, call.arguments);
    await server.close();
    return { names: tools.map(({ name }) => name), answer };
  },
};

describe("a client of the MCP server", () => {
  it.each(Object.keys(CLIENTS))("[T1] lists the tools and calls one: %s", async (name) => {
    const { names, answer } = (await CLIENTS[name]?.()) ?? { names: [] };
    expect(names).toContain("meerkat_run");
    expect(names.length).toBeLessThanOrEqual(30);
    expect(JSON.stringify(answer)).toContain("5");
    expect(JSON.stringify(answer)).toContain("session_id");
  });

  it("[T1] reads tasks by the schemas of the extension", async () => {
    const { call: run, ask, close: end } = serveAlone();
    const declared = { capabilities: WITH_TASKS };
    const { result: created } = await run(call.name, call.arguments, declared);
    expect(isCreateTaskResultV2(created)).toBe(true);
    const get = async () => (await ask("tasks/get", { taskId: created.taskId }, declared)).result;
    await expect.poll(async () => (await get()).status).toBe("completed");
    expect(isDetailedTaskV2(await get())).toBe(true);
    await end();
  });
});
