import { request } from "node:http";
import { connect as connectTo } from "node:net";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { type JSONRPCMessage, LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { afterEach, describe, expect, it } from "vitest";
import { caller, createClient } from "../../../../test/support/mcp-connection.ts";
import { createSentMessages, listenHttp } from "./serve-http.ts";
import { createServers } from "./server.ts";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function serve(given: { token?: string; allowedOrigins?: string[]; options?: RuntimeOptions } = {}) {
  const runtime = createRuntime({ model: "offline", env: {}, store: createInMemoryStore(), ...given.options });
  closing.push(() => runtime.close());
  const clock = createSystemClock();
  const parts = { runtime, realm: "r", version: "1", memoryOnly: false, clock };
  const allowedOrigins = given.allowedOrigins ?? [];
  const place = {
    host: "127.0.0.1",
    port: 0,
    token: given.token,
    allowedHosts: [],
    allowedOrigins,
    clock,
    log: () => {},
  };
  const listener = await listenHttp({ ...place, createServer: createServers(parts) });
  closing.push(() => listener.close());
  const connect = async (headers: Record<string, string> = {}) => {
    const client = createClient();
    const transport = new StreamableHTTPClientTransport(new URL(listener.url), { requestInit: { headers } });
    // The SDK's own class, whose optional fields are written in another way than its interface's.
    await client.connect(transport as Parameters<typeof client.connect>[0]);
    closing.push(() => client.close());
    return { client, call: caller(client), transport };
  };
  return { runtime, url: listener.url, connect };
}

interface Sent {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer;
}

/** A request with whatever headers, which `fetch` would not send. */
function send(url: string, { method = "POST", path = "/mcp", headers = {}, body = "" }: Sent = {}) {
  return new Promise<{ status: number | undefined; text: string; connection: string }>((resolve, reject) => {
    const accept = { accept: "application/json, text/event-stream", "content-type": "application/json" };
    const sent = request(new URL(path, url), { method, headers: { ...accept, ...headers } }, (response) => {
      let text = "";
      response.on("data", (data) => {
        text += data;
      });
      const connection = String(response.headers["mcp-session-id"]);
      response.on("end", () => resolve({ status: response.statusCode, text, connection }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

const clientInfo = { name: "t", version: "1" };
const greeting = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo },
});

describe("MCP over streamable HTTP", () => {
  it("[G4] serves clients side by side, with progress and events on their own streams", async () => {
    const { connect } = await serve();
    const [one, two] = [await connect(), await connect()];
    const received: unknown[] = [];
    two.client.setNotificationHandler(LoggingMessageNotificationSchema, (notice) => void received.push(notice));
    const events: unknown[] = [];
    one.client.setNotificationHandler(LoggingMessageNotificationSchema, (notice) => void events.push(notice));
    const { payload } = await one.call("meerkat_run", { prompt: "What is 2 + 3?", stream: true });
    expect(payload.content[0].text).toContain("5");
    expect(events.length).toBeGreaterThan(3);
    expect(received).toEqual([]);
    const steps: unknown[] = [];
    const args = { session_id: payload.session_id, prompt: "and 4 + 4?" };
    await two.client.callTool({ name: "meerkat_resume", arguments: args }, undefined, {
      onprogress: ({ message }) => steps.push(message),
    });
    expect(steps).toEqual(["model call 1"]);
    expect((await two.call("meerkat_sessions")).payload.sessions).toHaveLength(1);
  });

  it("[G4] [H5] refuses an id that another request still has, and answers both ids' owners", async () => {
    const { url } = await serve();
    const { connection } = await send(url, { body: greeting });
    const call = { jsonrpc: "2.0", id: 7, method: "tools/call", params: { name: "meerkat_sessions", arguments: {} } };
    const post = (message: unknown) =>
      send(url, { headers: { "mcp-session-id": connection }, body: JSON.stringify(message) });
    const answers = await Promise.all([post(call), post(call), post([call, call])]);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 400, 400]);
    const refused = answers.find(({ status }) => status === 400);
    expect(refused?.text).toContain("id: 7 belongs to a request that has no answer yet; give each request its own id");
    expect((await post(call)).status).toBe(200);
  });

  it("[H5] refuses a message nested too deeply, and goes on", async () => {
    const { url } = await serve();
    const { connection } = await send(url, { body: greeting });
    const say = async (args: string) => {
      const body = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"meerkat_run","arguments":${args}}}`;
      return (await send(url, { headers: { "mcp-session-id": connection }, body })).text;
    };
    const nested = (open: string, close: string) => `${open.repeat(20_000)}0${close.repeat(20_000)}`;
    expect(await say(`{"prompt":"hi","app_context":${nested("[", "]")}}`)).toContain("deeper than 128");
    expect(await say(`{"prompt":"hi","scope":${nested('{"scope":', "}")}}`)).toContain("deeper than 128");
    expect(await say('{"prompt":"What is 2 + 3?"}')).toContain("5");
  });

  it("[H5] lets go of a client that leaves, also one that sent a body with its request for notices", async () => {
    const { url } = await serve();
    const { connection } = await send(url, { body: greeting });
    const socket = connectTo({ port: Number(new URL(url).port), host: "127.0.0.1" });
    const closed = new Promise((resolve) => socket.on("close", resolve));
    socket.on("error", () => {}); // However it closes.
    const head = ["GET /mcp HTTP/1.1", "Host: 127.0.0.1", "Accept: text/event-stream", `Mcp-Session-Id: ${connection}`];
    socket.write(`${head.join("\r\n")}\r\nContent-Length: 1000000\r\n\r\n${"x".repeat(1_000_000)}`);
    socket.once("data", () => socket.end());
    await closed;
  });

  it("[G4] interrupts a turn whose request is cancelled, and every turn of a client that says goodbye", async () => {
    const model = createScriptedModel(() => ({ text: "half", ends: "silent" }));
    const { connect, runtime } = await serve({ options: { model } });
    const { client, transport } = await connect();
    const states = async () => (await runtime.listSessions()).map(({ state }) => state);
    const cancel = new AbortController();
    const wait = { name: "meerkat_run", arguments: { prompt: "wait" } };
    const first = client.callTool(wait, undefined, { signal: cancel.signal });
    await expect.poll(states).toEqual(["running"]);
    cancel.abort("enough");
    await expect(first).rejects.toThrow(/enough/);
    await expect.poll(states).toEqual(["idle"]);

    const second = client.callTool(wait).catch(() => "gone");
    await expect.poll(states).toContain("running");
    await transport.terminateSession();
    await client.close();
    expect(await second).toBe("gone");
    await expect.poll(states).toEqual(["idle", "idle"]);
  });

  it("[G4] sends a client whose stream broke within a turn the rest of it", async () => {
    const { connect, url } = await serve();
    const { client, transport } = await connect();
    const headers = { "mcp-session-id": transport.sessionId ?? "", "mcp-protocol-version": "2025-11-25" };
    const args = { prompt: "What is 2 + 3?", stream: true };
    const call = { jsonrpc: "2.0", id: 99, method: "tools/call", params: { name: "meerkat_run", arguments: args } };
    const whole = await send(url, { body: JSON.stringify(call), headers });
    const [first = ""] = [...whole.text.matchAll(/^id: (\S+)$/gm)].map(([, id]) => id);
    const rest = await fetch(url, { headers: { ...headers, accept: "text/event-stream", "last-event-id": first } });
    const reader = rest.body?.getReader();
    let text = "";
    while (!text.includes('"id":99')) text += Buffer.from((await reader?.read())?.value ?? "").toString();
    await reader?.cancel();
    expect(text.match(/"type":"run_\w+"/g)).toEqual(['"type":"run_started"', '"type":"run_completed"']);
    expect(await client.ping()).toEqual({});
  });

  it("[H1] refuses what is no greeting, an unknown connection, another path and another method", async () => {
    const { url } = await serve();
    const ping = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
    expect(await send(url, { body: ping })).toMatchObject({ status: 400 });
    expect(await send(url, { body: "{not json" })).toMatchObject({
      status: 400,
      text: expect.stringContaining("-32700"),
    });
    expect(await send(url, { body: ping, headers: { "mcp-session-id": "nope" } })).toMatchObject({ status: 404 });
    expect(await send(url, { path: "/" })).toMatchObject({ status: 404 });
    expect(await send(url, { method: "PUT" })).toMatchObject({ status: 405 });
    expect(await send(url, { method: "GET", path: "/health" })).toMatchObject({ status: 200, text: "ok" });
    expect(await send(url, { body: greeting })).toMatchObject({ status: 200 });
  });

  it("[H5] refuses a body over 16 MiB and goes on", async () => {
    const { url, connect } = await serve();
    const body = Buffer.alloc(16 * 1_024 * 1_024 + 1, " ");
    expect(await send(url, { body }).catch(() => ({ status: 413 }))).toMatchObject({ status: 413 });
    const { client } = await connect();
    expect(await client.ping()).toEqual({});
  });

  it("[H5] refuses a body of more values than may be held, before they are made", async () => {
    const { url, connect } = await serve();
    const body = `{"jsonrpc":"2.0","id":1,"method":"ping","params":[${"[],".repeat(300_000)}[]]}`;
    expect(await send(url, { body })).toMatchObject({
      status: 400,
      text: expect.stringContaining("the body holds more than 250000 values"),
    });
    expect(await send(url, { body: "" })).toMatchObject({ status: 400, text: expect.stringContaining("-32700") });
    const { client } = await connect();
    expect(await client.ping()).toEqual({});
  });

  it("[H5] makes room for a new client by closing the quietest that has no stream open", async () => {
    const { url, connect } = await serve();
    const { client } = await connect();
    const { connection } = await send(url, { body: greeting });
    for (let clients = 0; clients < 256; clients += 1) await send(url, { body: greeting });
    const headers = { "mcp-session-id": connection };
    expect(await send(url, { body: greeting, headers })).toMatchObject({ status: 404 });
    expect(await client.ping()).toEqual({});
  });
});

describe("who is let in", () => {
  it("is nobody from another site", async () => {
    const { url } = await serve();
    const forbidden = { status: 403, text: expect.stringContaining("FORBIDDEN_ORIGIN") };
    expect(await send(url, { body: greeting, headers: { host: "evil.test" } })).toMatchObject(forbidden);
    expect(await send(url, { body: greeting, headers: { origin: "http://evil.test" } })).toMatchObject(forbidden);
    expect(await send(url, { body: greeting, headers: { origin: "null" } })).toMatchObject(forbidden);
    expect(await send(url, { body: greeting, headers: { origin: "http://localhost:5173" } })).toMatchObject(forbidden);
    expect(await send(url, { method: "GET", path: "/health", headers: { host: "evil.test" } })).toMatchObject(
      forbidden,
    );
    const { origin } = new URL(url);
    expect(await send(url, { body: greeting, headers: { origin } })).toMatchObject({ status: 200 });
  });

  it("is a page whose origin was allowed, and which is told so before it sends", async () => {
    const origin = "http://localhost:5173";
    const { url } = await serve({ allowedOrigins: [origin], token: "s3cret" });
    const asks = { origin, "access-control-request-method": "POST", "sec-fetch-site": "same-site" };
    const preflight = await fetch(url, { method: "OPTIONS", headers: asks });
    expect(preflight.status).toBe(200);
    expect(preflight.headers.get("access-control-allow-origin")).toBe(origin);
    expect(preflight.headers.get("access-control-allow-headers")).toContain("Mcp-Session-Id");
    expect(await send(url, { body: greeting, headers: { origin } })).toMatchObject({ status: 401 });
    const authorization = "Bearer s3cret";
    expect(await send(url, { body: greeting, headers: { origin, authorization } })).toMatchObject({ status: 200 });
  });

  it("is who brings the token, when there is one", async () => {
    const { url, connect } = await serve({ token: "s3cret" });
    const refused = { status: 401, text: expect.stringContaining("UNAUTHORIZED") };
    expect(await send(url, { body: greeting })).toMatchObject(refused);
    expect(await send(url, { body: greeting, headers: { authorization: "Bearer s3cre" } })).toMatchObject(refused);
    expect((await send(url, { body: greeting })).text).not.toContain("s3cret");
    const { client } = await connect({ authorization: "Bearer s3cret" });
    expect(await client.ping()).toEqual({});
  });
});

const note = (method: string): JSONRPCMessage => ({ jsonrpc: "2.0", method });

it("sends again what a stream carried after a message, and nothing of another", async () => {
  const messages = createSentMessages();
  const first = await messages.storeEvent("a", note("1"));
  await messages.storeEvent("b", note("2"));
  const third = await messages.storeEvent("a", note("3"));
  expect(await messages.getStreamIdForEventId?.(first)).toBe("a");
  const again: unknown[] = [];
  const send = async (...one: unknown[]) => {
    again.push(one);
  };
  expect(await messages.replayEventsAfter(first, { send })).toBe("a");
  expect(again).toEqual([[third, note("3")]]);
});

it("[H5] lets the oldest go at its bounds, and keeps the newest whatever its size", async () => {
  const messages = createSentMessages({ messagesMax: 2, charsMax: 100 });
  const ids: string[] = [];
  for (const method of ["1", "2", "3"]) ids.push(await messages.storeEvent("a", note(method)));
  const known = () => Promise.all(ids.map((id) => messages.getStreamIdForEventId?.(id)));
  expect(await known()).toEqual([undefined, "a", "a"]);
  ids.push(await messages.storeEvent("a", note("x".repeat(1_000))));
  expect(await known()).toEqual([undefined, undefined, undefined, "a"]);
});
