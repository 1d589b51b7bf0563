import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { createRuntime } from "@rkat/core/create-runtime";
import type { McpServerConfig } from "@rkat/core/ports/tool";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openHttpServer, runtimeWith } from "../support/mcp-servers.ts";

let server: Awaited<ReturnType<typeof openHttpServer>>;
let received: (word: string) => void;
beforeEach(async () => {
  server = await openHttpServer("token", (word) => received(word));
});
afterEach(() => server.close());

const call = (name: string) => ({ calls: [{ name: `mcp__t__${name}`, args: { text: "again" } }] });
const STREAM = { "content-type": "text/event-stream" };
const ADVICE = "; the call may or may not have taken effect, and the next one reconnects";

/** Calls a tool while something happens to the server, and then another; what the model was shown of both. */
async function callTwice(transport: "streamable-http" | "sse", tool: string, happens: () => void) {
  const path = transport === "sse" ? "sse" : "mcp";
  const address = { name: "t", url: `${server.url}/${path}`, headers: { Authorization: "Bearer token" } };
  const mcpServers: McpServerConfig[] = [transport === "sse" ? { ...address, transport } : address];
  const { runtime, warnings } = runtimeWith([{ text: "hi" }, call(tool), call("echo"), { text: "ok" }], { mcpServers });
  const session = await runtime.createSession("Hello."); // It has connected.
  happens();
  await session.turn("Go.");
  const { messages } = await session.history();
  await runtime.close();
  const results = messages.flatMap((message) => (message.role === "tool_results" ? message.results : []));
  return { results: results.map(({ content, is_error }) => ({ content, is_error })), warnings: warnings.length };
}

const again = { content: "You said: again", is_error: false };

describe("an MCP server at an address, in the middle of a call", () => {
  it.each(["streamable-http", "sse"] as const)(
    "[G9] [A5] that dies is an error at once over %s, and the next call connects anew",
    async (transport) => {
      const { results } = await callTwice(transport, "wait", () => {
        received = (word) => word === "waiting" && server.die();
      });
      const broken = expect.stringMatching(
        /^MCP server t failed during the call: it(?:s .* broke off| could not be reached): /,
      );
      expect(results).toEqual([{ content: broken, is_error: true }, again]);
      expect(results[0]?.content).toContain(ADVICE);
    },
  );

  it.each<[string, (response: ServerResponse) => void, RegExp]>([
    [
      "ends its stream",
      (response) => response.writeHead(200, STREAM).end(),
      /it ended the stream of its answer before/,
    ],
    [
      "ends its stream with garbage in it",
      (response) => response.writeHead(200, STREAM).end("data: {heron\n\ndata: 7\n\nheron"),
      /it ended the stream of its answer before/,
    ],
    [
      "breaks its stream off",
      (response) => response.writeHead(200, STREAM).write(": hold on\n\n", () => response.destroy()),
      /its answer broke off: /,
    ],
    ["takes the request and says nothing", (response) => response.writeHead(202).end(), /sent no answer/],
    [
      "answers what was not asked",
      (response) =>
        response.writeHead(200, { "content-type": "application/json" }).end('{"jsonrpc":"2.0","id":99,"result":{}}'),
      /sent no answer/,
    ],
    [
      "answers garbage",
      (response) => response.writeHead(200, { "content-type": "application/json" }).end("{heron"),
      /it could not be reached: .*JSON/,
    ],
    [
      "answers a page",
      (response) => response.writeHead(200, { "content-type": "text/html" }).end("<p>"),
      /content type/,
    ],
    ["fails", (response) => response.writeHead(500).end("no"), /it could not be reached: .*no/],
    [
      "promises to go on with its stream, and does not",
      (response) => {
        server.forget();
        response.writeHead(200, STREAM).end("id: 1\nretry: 10\ndata:\n\n");
      },
      /its answer broke off and could not be resumed/,
    ],
  ])("[G9] [A5] that %s is an error at once, and the next call is answered", async (_, spoil, sentence) => {
    received = () => {};
    const { results } = await callTwice("streamable-http", "echo", () => server.spoilNext(spoil));
    expect(results).toEqual([{ content: expect.stringMatching(sentence), is_error: true }, again]);
    expect(results[0]?.content).toContain(ADVICE);
  });
});

it("[G9] a server that cannot be reached is a warning of Node where no warn is given", async () => {
  const runtime = createRuntime({ model: "offline", mcpServers: [{ name: "gone", url: "http://127.0.0.1:9/mcp" }] });
  const warned = once(process, "warning");
  await runtime.createSession("Hello.", { toolPreset: "safe" });
  const [warning] = await warned;
  expect(warning).toMatchObject({ name: "RkatWarning", message: expect.stringContaining("MCP server gone") });
  await runtime.close();
});
