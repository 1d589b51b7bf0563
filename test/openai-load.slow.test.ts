import { request } from "node:http";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import { afterEach, describe, expect, it } from "vitest";
import { openChatServer } from "./support/chat-server.ts";
import { scriptedRuntime } from "./support/runtime.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function serve(script: Parameters<typeof scriptedRuntime>[0]) {
  const { runtime, model } = scriptedRuntime(script, { store: createInMemoryStore() });
  const server = await openChatServer(runtime);
  closing.push(() => runtime.close(), server.close);
  return { url: server.url, runtime, model };
}

const post = (url: string, path: string, body: object, signal?: AbortSignal) =>
  fetch(`${url}/v1/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "scripted", ...body }),
    ...(signal === undefined ? {} : { signal }),
  });
const PIECES = Array.from({ length: 40 }, (_, index) => `piece ${index} `);
const ENDPOINTS = [
  ["responses", { input: "A", stream: true }],
  ["chat/completions", { messages: [{ role: "user", content: "A" }], stream: true }],
] as const;

describe.each(ENDPOINTS)("under load, %s", (path, body) => {
  it("[K1] 200 streams at a time are each told whole", async () => {
    const { url } = await serve(() => ({ text: PIECES }));
    const texts = await Promise.all(Array.from({ length: 200 }, async () => (await post(url, path, body)).text()));
    for (const text of texts) {
      expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
      expect(text).toContain("piece 39");
    }
  });

  it("[K1] a client that leaves after any number of events leaves nothing behind that is busy", async () => {
    const { url, runtime } = await serve(() => ({ text: PIECES }));
    for (let events = 0; events < 20; events += 1) {
      const leaving = new AbortController();
      const answer = await post(url, path, body, leaving.signal);
      const reader = answer.body?.getReader();
      for (let read = 0; read < events; read += 1) if ((await reader?.read())?.done !== false) break;
      leaving.abort();
    }
    // The server is asked again, and every turn that was left has ended.
    expect((await (await post(url, path, body)).text()).endsWith("data: [DONE]\n\n")).toBe(true);
    await expect
      .poll(async () => (await runtime.listSessions()).filter(({ isActive: is_active }) => is_active))
      .toEqual([]);
  });

  it("[K1] a reader that waits is told everything when it reads on", async () => {
    const large = Array.from({ length: 400 }, () => "x".repeat(10_000));
    const { url } = await serve(() => ({ text: large }));
    const warnings: string[] = [];
    const warn = ({ message }: Error): void => void warnings.push(message);
    process.on("warning", warn);
    closing.push(async () => void process.off("warning", warn));
    const text = await new Promise<string>((resolve, reject) => {
      const asking = request(`${url}/v1/${path}`, { method: "POST", headers: { "content-type": "application/json" } });
      asking.on("error", reject);
      asking.on("response", (answer) => {
        answer.pause();
        setImmediate(() => setImmediate(() => answer.resume()));
        let received = "";
        answer.setEncoding("utf8").on("data", (piece) => {
          received += piece;
        });
        answer.on("end", () => resolve(received));
      });
      asking.end(JSON.stringify({ model: "scripted", ...body }));
    });
    expect(text.match(/x{10000}/g)?.length).toBeGreaterThanOrEqual(400);
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
    // Each time it was waited for, something was left that listens to its connection.
    expect(warnings).toEqual([]);
  });

  it("[K1] arguments of a megabyte are told whole", async () => {
    const at = "y".repeat(1_000_000);
    const { url } = await serve(() => ({ calls: [{ id: "c1", name: "look", args: { at } }] }));
    const flat = { type: "function", name: "look" };
    const tools = path === "responses" ? [flat] : [{ type: "function", function: { name: "look" } }];
    const text = await (await post(url, path, { ...body, tools })).text();
    expect(text).toContain(at);
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
  });
});

it("[K1] 10,000 messages are taken", async () => {
  const { url, model } = await serve(() => ({ text: "Yes." }));
  const messages = Array.from({ length: 9_999 }, (_, index) => ({
    role: index % 2 === 0 ? "user" : "assistant",
    content: `message ${index}`,
  }));
  expect((await post(url, "chat/completions", { messages })).status).toBe(200);
  expect((await post(url, "responses", { input: messages })).status).toBe(200);
  expect(model.requests.map((asked) => asked.messages.length)).toEqual([9_999, 9_999]);
});
