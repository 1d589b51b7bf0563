import { Client, type ClientOptions, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "@rkat/core/create-runtime";
import { createHandler } from "@rkat/server";

const TOKEN = "a-token-of-the-test";
export const VERSION = "2026-07-28";
export const TASKS = "io.modelcontextprotocol/tasks";
export const WITH_TASKS = { extensions: { [TASKS]: {} } };
export const WITH_FORMS = { elicitation: { form: {} } };

/** MCP of 2026-07-28 at the handler of a runtime: requests by hand, and clients of the SDK. */
export function serveAlone(
  options: RuntimeOptions = {},
  store: RuntimeOptions["store"] | null = createInMemoryStore(),
) {
  const stored = store == null ? {} : { store };
  const runtime = createRuntime({ model: "offline", env: {}, ...stored, memory: {}, ...options });
  const handler = createHandler(runtime, {
    tokens: [{ name: "test", secret: TOKEN, scopes: ["read", "run", "tools", "approve"] }],
  });
  const url = "http://127.0.0.1/mcp";
  const authorization = `Bearer ${TOKEN}`;

  /** One request, which stands for itself; the response as JSON, or the last message of its stream. */
  const ask = async (
    method: string,
    params: Readonly<Record<string, unknown>> = {},
    { capabilities = {}, headers = {}, meta = {} }: Asked = {},
  ) => {
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": VERSION,
      "io.modelcontextprotocol/clientCapabilities": capabilities,
      ...meta,
    };
    const name = params.name ?? params.taskId;
    const response = await handler(
      new Request(url, {
        method: "POST",
        headers: {
          ...{ authorization, "content-type": "application/json", accept: "application/json, text/event-stream" },
          ...{ "mcp-protocol-version": VERSION, "mcp-method": method },
          ...(name === undefined ? {} : { "mcp-name": String(name) }),
          ...headers,
        },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } }),
      }),
    );
    const text = await response.text();
    const lines = text.split("\n").flatMap((line) => (line.startsWith("data: ") ? [line.slice(6)] : []));
    const messages: readonly ReturnType<typeof JSON.parse>[] = (lines.length === 0 ? [text] : lines).map((line) =>
      JSON.parse(line),
    );
    return { status: response.status, headers: response.headers, messages, ...messages.at(-1) };
  };
  const call = (name: string, args: object, asked?: Asked, again: object = {}) =>
    ask("tools/call", { name, arguments: args, ...again }, asked);
  const connect = async (clientOptions: ClientOptions = {}) => {
    const client = new Client(
      { name: "test", version: "1" },
      { versionNegotiation: { mode: { pin: VERSION } }, ...clientOptions },
    );
    const fetch = (to: string | URL, init?: RequestInit) => handler(new Request(to, init));
    const requestInit = { headers: { authorization } };
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { fetch, requestInit }));
    return client;
  };
  const close = async (): Promise<void> => {
    await handler.close(0);
    await runtime.close();
  };
  return { runtime, handler, store, ask, call, connect, close };
}

interface Asked {
  readonly capabilities?: object;
  readonly headers?: Readonly<Record<string, string>>;
  readonly meta?: object;
}
