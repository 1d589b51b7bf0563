import { createInMemoryStore } from "@rkat/core/create-runtime";
import { afterEach, describe, expect, it } from "vitest";
import { openChatServer } from "../../../../test/support/chat-server.ts";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function serve(script: Parameters<typeof scriptedRuntime>[0]) {
  const { runtime } = scriptedRuntime(script, { store: createInMemoryStore() });
  const server = await openChatServer(runtime);
  closing.push(() => runtime.close(), server.close);
  return { url: server.url };
}

const user = (content: string) => ({ role: "user", content });
const LOOK = { type: "function", function: { name: "look", description: "Looks.", parameters: { type: "object" } } };

describe("a stream of a chat completion", () => {
  const read = async (url: string, body: object) => {
    const headers = { "content-type": "application/json" };
    const request = { method: "POST", headers, body: JSON.stringify({ model: "scripted", stream: true, ...body }) };
    const response = await fetch(`${url}/v1/chat/completions`, request);
    const lines = (await response.text()).split("\n").filter((line) => line !== "" && !line.startsWith(":"));
    const data = lines.map((line) => line.replace(/^data: /, ""));
    return { session: response.headers.get("x-rkat-session"), lines, data };
  };

  it("[K1] begins with the role, tells the text in pieces, and ends with why, what it took and [DONE]", async () => {
    const { url } = await serve([{ text: ["Hel", "lo."] }]);
    const { session, lines, data } = await read(url, {
      messages: [user("Hi.")],
      stream_options: { include_usage: true },
    });
    expect(session).toMatch(/^[0-9a-f-]{36}$/);
    expect(lines.every((line) => line.startsWith("data: "))).toBe(true);
    expect(data.at(-1)).toBe("[DONE]");
    const chunks = data.slice(0, -1).map((text) => JSON.parse(text));
    expect(chunks.map(({ choices: [choice] }) => choice && [choice.delta, choice.finish_reason])).toEqual([
      [{ role: "assistant", content: "", refusal: null }, null],
      [{ content: "Hel" }, null],
      [{ content: "lo." }, null],
      [{}, "stop"],
      undefined,
    ]);
    expect(chunks.map(({ usage }) => usage?.total_tokens ?? usage)).toEqual([
      null,
      null,
      null,
      null,
      expect.any(Number),
    ]);
    expect(new Set(chunks.map(({ id, object }) => `${id} ${object}`)).size).toBe(1);
  });

  it("[K1] tells calls with their places, and answers with tools of the server between them as one", async () => {
    const calls = [
      { id: "c1", name: "look", args: { at: "pond" } },
      { id: "c2", name: "look", args: {} },
    ];
    const { url } = await serve([{ text: "I look.", calls }]);
    const { data } = await read(url, { messages: [user("Look.")], tools: [LOOK] });
    const deltas = data.slice(0, -1).map((text) => JSON.parse(text).choices[0]);
    expect(deltas.slice(2)).toMatchObject([
      { delta: { tool_calls: [{ index: 0, id: "c1", type: "function", function: { arguments: '{"at":"pond"}' } }] } },
      { delta: { tool_calls: [{ index: 1, id: "c2" }] } },
      { finish_reason: "tool_calls" },
    ]);
  });

  it("[K1] a turn that fails after it began is told in the stream", async () => {
    const { url } = await serve([{ ends: { failure: { kind: "invalid_request", message: "no" } } }]);
    const { data } = await read(url, { messages: [user("Hi.")] });
    expect(JSON.parse(data.at(-2) ?? "")).toMatchObject({
      error: { code: "PROVIDER_ERROR", type: "invalid_request_error" },
    });
  });
});
