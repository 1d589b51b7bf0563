import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Token } from "@rkat/core/contract/caller";
import { createInMemoryStore, createRuntime, type Runtime, type RuntimeOptions } from "@rkat/core/create-runtime";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { createToken, openTokenFiles, revokeToken } from "@rkat/server/http/token-files";
import { listenHttp } from "@rkat/server/mcp/serve-http";
import { createServers } from "@rkat/server/mcp/server";
import { onTestFinished } from "vitest";
import { caller, createClient } from "./mcp-connection.ts";
import { serveRuntime } from "./rest-server.ts";

/** A folder with tokens, gone after the test. */
export function tokenFolder() {
  const stateFolder = mkdtempSync(join(tmpdir(), "rkat-tokens-"));
  onTestFinished(() => rmSync(stateFolder, { recursive: true }));
  const tokens = openTokenFiles(stateFolder);
  const files = { revoke: (name: string) => revokeToken(tokens, name) };
  const create = async (name: string, given: Partial<Token> & Pick<Token, "scopes">): Promise<Bearer> => {
    const secret = await createToken(tokens, { name, labels: {}, created_at: new Date().toISOString(), ...given });
    return { authorization: `Bearer ${secret}` };
  };
  return { stateFolder, tokens, files, create };
}

export interface Bearer extends Record<string, string> {
  readonly authorization: string;
}

export function composedRuntime(options: RuntimeOptions = {}): Runtime {
  const parts = { store: createInMemoryStore(), memory: {}, compaction: true as const };
  return createRuntime({ model: "offline", env: {}, ...parts, ...options });
}

/** One runtime behind REST and MCP over HTTP, both with the tokens of one folder. */
export async function serveBoth(stateFolder: string, runtime = composedRuntime(), token?: string) {
  const tokens = openTokenFiles(stateFolder);
  const rest = await serveRuntime(runtime, { tokens, token });
  const clock = createSystemClock();
  const listener = await listenHttp({
    host: "127.0.0.1",
    port: 0,
    allowedHosts: [],
    token,
    tokens,
    clock,
    log: () => {},
    createServer: createServers({ runtime, realm: "test-realm", version: "1", memoryOnly: false, clock }),
  });
  onTestFinished(() => listener.close());
  const connect = async (headers: Record<string, string>) => {
    const client = createClient();
    const transport = new StreamableHTTPClientTransport(new URL(listener.url), { requestInit: { headers } });
    // The SDK's own class, whose optional fields are written in another way than its interface's.
    await client.connect(transport as Parameters<typeof client.connect>[0]);
    onTestFinished(() => client.close());
    return { client, transport, call: caller(client) };
  };
  return { runtime, rest, url: rest.url, call: rest.call, mcpUrl: listener.url, connect };
}
