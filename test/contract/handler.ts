import { request } from "node:http";
import { Readable } from "node:stream";
import type { ReadableStream as WebStream } from "node:stream/web";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { defaultConfig } from "@rkat/core/config/settings";
import { OPERATION_NAMES } from "@rkat/core/contract/operations";
import { createRuntime } from "@rkat/core/create-runtime";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import type { OpenMount } from "@rkat/server/http/router";
import { mountMcp } from "@rkat/server/mcp/mount";
import { mountOpenAi, mountUi } from "@rkat/server/openai/mount";
import { createSurface } from "@rkat/server/rest/serve";
import { afterEach, describe, expect, it } from "vitest";
import { type PausedModel, usePausedModel } from "../support/paused-model.ts";

/** A handler somewhere in an application at `/api/agent`; its caller sends `Authorization: Bearer SECRET`. */
export interface PlacedHandler {
  fetch(request: Request): Promise<Response>;
  /** What its requests' addresses begin with, the path of the application included. */
  readonly url: string;
  close(): Promise<void>;
}

export const BASE_PATH = "/api/agent";
export const SECRET = "a-secret-of-the-test";

/** Every route that a handler has, those of the operator and one that is not there included. */
function everyRoute(): readonly string[] {
  const { openai, ui } = defaultConfig();
  const runtime = createRuntime({ env: {} });
  const mounts: OpenMount[] = [(parts) => mountOpenAi(openai, parts), (parts) => mountUi(ui, parts), mountMcp];
  const place = { host: "127.0.0.1", allowedHosts: [], token: undefined, about: { realm: "test" }, version: "0" };
  const { routes } = createSurface({
    ...place,
    runtime,
    mounts,
    clock: createSystemClock(),
    log: () => {},
    console: true,
  });
  const found = routes.map(({ method, path }) => `${method} ${path.replaceAll(/\{\w+\}/g, "x")}`);
  return [...new Set([...found, "GET /assets/x.js", "GET /docs", "GET /ready", "GET /metrics", "GET /nothing"])];
}

const JSON_TYPE = { "content-type": "application/json" };
const LARGE_BYTES = 17 * 1_024 * 1_024;

/** What a handler does wherever it is mounted; the model of its runtime is handed in by its environment. */
export function describeHandler(
  name: string,
  open: (env: ReturnType<PausedModel["env"]>) => Promise<PlacedHandler>,
): void {
  describe(name, () => {
    const model = usePausedModel();
    const opened: PlacedHandler[] = [];
    afterEach(async () => {
      model.finish();
      await Promise.all(opened.splice(0).map((one) => one.close()));
    });
    const place = async () => {
      const placed = await open(model.env());
      opened.push(placed);
      const ask = (route: string, { body, headers = {}, ...init }: RequestInit = {}, secret = SECRET) => {
        const [method = "", path = ""] = route.split(" ");
        const type = body === undefined ? {} : JSON_TYPE;
        const authorization = secret === "" ? {} : { authorization: `Bearer ${secret}` };
        const sent = { ...init, method, headers: { ...authorization, ...type, ...headers } };
        return placed.fetch(new Request(`${placed.url}${path}`, body === undefined ? sent : { ...sent, body }));
      };
      return { ...placed, ask };
    };
    const chat = (text: string) =>
      JSON.stringify({
        id: "c1",
        trigger: "submit-message",
        messages: [{ id: "m1", role: "user", parts: [{ type: "text", text }] }],
      });

    it("[S1] answers no route to a request without a caller", async () => {
      const { ask } = await place();
      const routes = everyRoute();
      expect(routes.length).toBeGreaterThan(OPERATION_NAMES.length);
      for (const route of routes) {
        for (const secret of ["", "another-secret-of-16"]) {
          const { status } = await ask(route, {}, secret);
          expect({ route, status }).toEqual({ route, status: 401 });
        }
      }
      expect((await ask("GET /sessions")).status).toBe(200);
    });

    it("[S1] streams a turn as it happens, and a page that is loaded again gets it from its beginning", async () => {
      const { ask } = await place();
      const leaving = new AbortController();
      const first = await ask("POST /ui/chat", { body: chat("Tell me a story."), signal: leaving.signal });
      expect(first.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
      expect(first.headers.get("x-vercel-ai-ui-message-stream")).toBe("v1");
      await readUntil(first, "Once upon");
      leaving.abort();
      const again = await ask("GET /ui/chat/c1/stream");
      await readUntil(again, "Once upon", (rest) => {
        model.finish();
        return readUntil(rest, "[DONE]");
      });
      const { messages } = await json(await ask("GET /ui/chat/c1"));
      expect(JSON.stringify(messages)).toContain("Once upon a time.");
    });

    it("[S1] a client that aborts ends the stream of its turn, and the turn", async () => {
      const { ask } = await place();
      const leaving = new AbortController();
      const body = JSON.stringify({ model: "openai/m", stream: true, messages: [{ role: "user", content: "Go." }] });
      const streamed = await ask("POST /v1/chat/completions", { body, signal: leaving.signal });
      await readUntil(streamed, "Once upon");
      leaving.abort();
      await new Promise((resolve) => model.asked[0]?.once("close", resolve));
      // It ends, or breaks off where a connection lies between.
      await streamed.text().catch(() => {});
    });

    it("[S1] runs a turn, lists its session, and gives HEAD no body", async () => {
      const { ask } = await place();
      model.finish();
      const run = await ask("POST /sessions", { body: JSON.stringify({ prompt: "Tell me a story." }) });
      expect(await json(run)).toMatchObject({ text: "Once upon a time." });
      expect(await json(await ask("GET /sessions"))).toMatchObject({ sessions: [{ message_count: 2 }] });
      const head = await ask("HEAD /sessions");
      expect([head.status, await head.text()]).toEqual([200, ""]);
      const { servers } = await json(await ask("GET /openapi.json"));
      expect(servers).toEqual([{ url: expect.stringMatching(new RegExp(`^http://.*${BASE_PATH}$`)) }]);
    });

    it("[S1] serves MCP to its client", async () => {
      const { fetch, url } = await place();
      const client = new Client({ name: "test", version: "0" });
      const requestInit = { headers: { authorization: `Bearer ${SECRET}` } };
      const asked = (to: string | URL, init?: RequestInit) => fetch(new Request(to, init));
      const transport = new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit, fetch: asked });
      await client.connect(transport as Transport); // Its accessors may answer undefined.
      const { tools } = await client.listTools();
      expect(tools.map((tool) => tool.name)).toContain("meerkat_run");
      await client.close();
    });

    it("[S1] refuses another Host, another Origin and a body that is too large, as rkat serve does", async () => {
      const { ask, fetch, url } = await place();
      const refused = { status: 403, code: "FORBIDDEN_ORIGIN" };
      const told = async (response: Response) => ({ status: response.status, code: (await json(response)).code });
      expect(await told(await ask("GET /sessions", { headers: { origin: "https://evil.example" } }))).toEqual(refused);
      expect(await told(await ask("GET /sessions", { headers: { "sec-fetch-site": "cross-site" } }))).toEqual(refused);
      const elsewhere = new URL(url);
      const headers = { authorization: `Bearer ${SECRET}`, host: "evil.example" };
      expect(await told(await fetch(new Request(`${elsewhere}/sessions`, { headers })))).toEqual(refused);
      const body = JSON.stringify({ prompt: "x".repeat(LARGE_BYTES) });
      const tooLarge = { status: 413, code: "PAYLOAD_TOO_LARGE" };
      expect(await told(await ask("POST /sessions", { body }))).toEqual(tooLarge);
      expect((await ask("POST /sessions", { body: "{}", headers: { "content-type": "text/plain" } })).status).toBe(400);
      expect((await ask("PUT /sessions")).status).toBe(405);
      expect((await fetch(new Request(new URL("/elsewhere", url)))).status).toBe(404);
    });
  });
}

async function json(response: Response): Promise<Record<string, unknown>> {
  return (await response.json()) as Record<string, unknown>; // The tests say what they expect of it.
}

/** Reads until the text has come, and leaves the rest to `then`. */
async function readUntil(
  { body }: { readonly body: ReadableStream<Uint8Array> | null },
  text: string,
  then?: (rest: { readonly body: ReadableStream<Uint8Array> }) => Promise<void>,
): Promise<void> {
  if (body === null) throw new Error("there is nothing to read");
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let said = "";
  while (!said.includes(text)) {
    const { done, value } = await reader.read();
    if (done) throw new Error(`it ended before it said ${text}: ${said}`);
    said += decoder.decode(value, { stream: true });
  }
  reader.releaseLock();
  await then?.({ body });
}

/** `fetch` over a connection, which also lets a Host through. */
export function fetchOver(asked: Request): Promise<Response> {
  return new Promise((resolve, reject) => {
    const { method, headers, signal } = asked;
    const sent = request(asked.url, { method, headers: Object.fromEntries(headers), signal }, (response) => {
      const isBare = method === "HEAD" || response.statusCode === 204;
      const body = isBare ? null : (Readable.toWeb(response) as ReadableStream<Uint8Array>); // The same streams.
      const pairs = Object.entries(response.headers).map(([name, value]): [string, string] => [name, String(value)]);
      resolve(new Response(body, { status: response.statusCode ?? 0, headers: pairs }));
    });
    sent.on("error", reject);
    if (asked.body === null) sent.end();
    else Readable.fromWeb(asked.body as WebStream).pipe(sent);
  });
}
