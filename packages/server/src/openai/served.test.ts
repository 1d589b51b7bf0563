import { defaultConfig } from "@rkat/core/config/settings";
import { createInMemoryStore, type RuntimeOptions } from "@rkat/core/create-runtime";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { serveRuntime } from "../../../../test/support/rest-server.ts";
import { configWith, scriptedRuntime } from "../../../../test/support/runtime.ts";
import { tokenFolder } from "../../../../test/support/tokens.ts";
import type { RestService } from "../rest/serve.ts";
import { loadMounts, mountOpenAi } from "./mount.ts";
import type { OpenAiSettings } from "./turn-route.ts";

type Script = Parameters<typeof scriptedRuntime>[0];

type Served = RuntimeOptions & { readonly settings?: Partial<OpenAiSettings> };

async function setUp(script: Script, { settings = {}, ...options }: Served = {}, service: Partial<RestService> = {}) {
  const clock = createSystemClock();
  const { runtime, model } = scriptedRuntime(script, { store: createInMemoryStore(), clock, ...options });
  const all: OpenAiSettings = { memory: "session", tools: "none", ...settings };
  const served = await serveRuntime(runtime, { mounts: [(parts) => mountOpenAi(all, parts)], ...service });
  const client = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: "none", maxRetries: 0 });
  return { ...served, model, client };
}

const post = (url: string, body: object, headers: Readonly<Record<string, string>> = {}) =>
  fetch(`${url}/v1/responses`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "scripted", ...body }),
  });

describe("OpenAI's endpoints as they are served", () => {
  it("[K1] are off where the configuration says so, and say so", async () => {
    const openai = { enabled: false, memory: "session" as const, tools: "none" as const };
    const ui = { ...openai };
    const { client } = await setUp([], {}, { mounts: [...(await loadMounts({ openai, ui }, "127.0.0.1"))] });
    await expect(client.responses.create({ input: "A" })).rejects.toMatchObject({
      status: 404,
      code: "METHOD_NOT_FOUND",
      message: expect.stringContaining("set enabled = true under [openai]"),
    });
  });

  it("[K1] offer the tools that a header asks for, and refuse a word that names none", async () => {
    const { url, model } = await setUp([{ text: "1." }, { text: "2." }]);
    await post(url, { input: "A" }, { "x-rkat-tools": "safe" });
    expect(model.requests.at(0)?.tools.map(({ name }) => name)).toContain("datetime");
    await post(url, { input: "A", tool_choice: "none" }, { "x-rkat-tools": "safe" });
    expect(model.requests.at(1)?.tools).toEqual([]);
    const wrong = await post(url, { input: "A" }, { "x-rkat-tools": "every" });
    expect([wrong.status, await wrong.json()]).toMatchObject([400, { error: { param: "x-rkat-tools" } }]);
  });

  it("[K1] offer memory to a request without tools; one with tools, or that wants none, has control", async () => {
    const { openai } = defaultConfig();
    const tool = { type: "function", name: "look", parameters: { type: "object" }, strict: false };
    const offered = async (options: Served, body: object = {}, headers = {}) => {
      const { url, model } = await setUp(() => ({ text: "1." }), { settings: openai, ...options });
      const { status } = await post(url, { input: "A", ...body }, headers);
      return [status, ...(model.requests[0]?.tools ?? []).map(({ name }) => name).sort()];
    };
    const memory = { memory: {} };
    const all = [200, "memory_search", "search_project_history"];
    expect(await offered(memory)).toEqual(all);
    expect(await offered(memory, { tools: [] })).toEqual(all);
    expect(await offered(memory, { tools: [tool] })).toEqual([200, "look"]);
    expect(await offered(memory, { tool_choice: "none" })).toEqual([200]);
    expect(await offered(memory, {}, { "x-rkat-tools": "none" })).toEqual([200]);
    expect(await offered({ ...memory, settings: { ...openai, tools: "none" } })).toEqual([200]);
    // Where there is no memory, or the server gives no tools, the request is served without.
    expect(await offered({})).toEqual([200]);
    expect(await offered({ ...memory, ceiling: "none" })).toEqual([200]);
    expect(await offered({ ...memory, config: configWith({ tools: { memory: false } }) })).toEqual([200]);
  });

  it("[T2] [K1] give AGENTS.md to conversations without a system message, which are found again when it changes", async () => {
    let text = "First.";
    const agentsMd = async () => ({ files: [{ key: "AGENTS.md", text }], warnings: [] });
    const { client, model } = await setUp(({ messages }) => ({ text: `${messages.length}` }), { agentsMd });
    const messages: OpenAI.ChatCompletionMessageParam[] = [];
    const sessions = new Set<string | null>();
    for (const content of ["One?", "Two?", "Three?"]) {
      messages.push({ role: "user", content });
      const { data, response } = await client.chat.completions.create({ model: "scripted", messages }).withResponse();
      messages.push({ role: "assistant", content: data.choices[0]?.message.content ?? "" });
      sessions.add(response.headers.get("x-rkat-session"));
      text = "Second.";
    }
    expect(sessions.size).toBe(1);
    expect(model.requests.at(-1)?.messages.filter(({ role }) => role === "system_notice")).toHaveLength(2);
    const own: OpenAI.ChatCompletionMessageParam[] = [
      { role: "system", content: "Be brief." },
      ...messages.slice(0, 1),
    ];
    await client.chat.completions.create({ model: "scripted", messages: own });
    expect(model.requests.at(-1)?.messages.map(({ role }) => role)).toEqual(["system", "user"]);
  });

  it("[K1] answer a stream that is asked for again with the same response, and run no second turn", async () => {
    const { url, model } = await setUp([{ text: ["A ", "heron."] }]);
    const ask = async () => {
      const headers = { "idempotency-key": "k1" };
      const text = await (await post(url, { input: "A", stream: true }, headers)).text();
      const frames = text.split("\n\n").filter((frame) => frame.includes("data: {"));
      return {
        text,
        last: JSON.parse(
          frames
            .at(-1)
            ?.replace(/^event: .*\n/, "")
            .replace("data: ", "") ?? "",
        ),
      };
    };
    const [first, second] = [await ask(), await ask()];
    expect(second.last).toMatchObject({ type: "response.completed", response: first.last.response });
    expect(second.text).toMatch(/data: \[DONE\]\n\n$/);
    expect(model.requests).toHaveLength(1);
  });

  it("[K1] do not let one conversation find what was said in another", async () => {
    const searching: Script = ({ messages }) => {
      const last = messages.at(-1);
      if (last?.role === "tool_results") return { text: JSON.stringify(last.results) };
      if (last?.role === "user" && last.content === "Where?") {
        return { calls: [{ id: "m1", name: "search_project_history", args: { query: "where is the key" } }] };
      }
      return { text: "Noted." };
    };
    const { client, runtime } = await setUp(searching, { memory: {}, compaction: true, settings: { tools: "memory" } });
    const reported = await client.responses.create({
      model: "scripted",
      input: "The key lies under the third flowerpot.",
    });
    await runtime.searchHistory("where is the key");
    const other = await client.responses.create({ model: "scripted", input: "Where?" });
    expect(other.output_text).not.toContain("flowerpot");
    const own = await client.responses.create({
      model: "scripted",
      input: "Where?",
      previous_response_id: reported.id,
    });
    expect(own.output_text).toContain("flowerpot");
  });

  it("[K1] compact what a response stands on, and go on from the item that says so", async () => {
    const { client, url, runtime } = await setUp(
      ({ messages }) => ({ text: `${messages.length} ${"word ".repeat(300)}` }),
      {
        compaction: true,
      },
    );
    let previous: string | undefined;
    let session = "";
    for (let turn = 0; turn < 8; turn += 1) {
      const more = previous === undefined ? {} : { previous_response_id: previous };
      const asked = client.responses.create({
        model: "scripted",
        input: `Question ${turn}. ${"more ".repeat(300)}`,
        ...more,
      });
      const { data, response } = await asked.withResponse();
      previous = data.id;
      session = response.headers.get("x-rkat-session") ?? "";
    }
    const compacted = await client.responses.compact({ model: "scripted", previous_response_id: previous ?? null });
    expect(compacted).toMatchObject({
      id: previous,
      object: "response.compaction",
      created_at: expect.any(Number),
      output: [{ type: "compaction", encrypted_content: previous }],
      usage: { total_tokens: expect.any(Number) },
      compacted: true,
    });
    const further = await post(url, { input: [...compacted.output, { role: "user", content: "And now?" }] });
    expect(further.headers.get("x-rkat-session")).toBe(session);
    expect((await runtime.session(session).history()).messages).toHaveLength(18);
    await expect(client.responses.compact({ model: "scripted" })).rejects.toMatchObject({
      status: 400,
      param: "previous_response_id",
    });
  });

  it("[K1] tell metadata and instructions of what another process answered", async () => {
    const store = createInMemoryStore();
    const metadata = { topic: "birds" };
    const before = await setUp([{ text: "1." }], { store });
    const asked = { model: "scripted", instructions: "Be brief.", input: "A", metadata };
    const first = await before.client.responses.create(asked);
    const made = await before.client.conversations.create({ metadata });
    const { client } = await setUp([{ text: "2." }], { store });
    expect(await client.responses.retrieve(first.id)).toEqual(first);
    expect(await client.conversations.retrieve(made.id)).toMatchObject({ metadata });
    const next = { model: "scripted", input: "B", previous_response_id: first.id, metadata: { topic: "fish" } };
    expect((await client.responses.create(next)).metadata).toEqual({ topic: "fish" });
    expect((await client.responses.retrieve(first.id)).metadata).toEqual(metadata);
    await expect(client.conversations.update(made.id, { metadata: {} })).rejects.toMatchObject({
      status: 501,
      param: "metadata",
    });
  });

  it("[K1] tell tokens of thought, and a limit of the session's by its own name", async () => {
    const usage = { input_tokens: 7, output_tokens: 50, reasoning_tokens: 40 };
    const { client } = await setUp(
      [
        { text: "1.", usage },
        { text: "2.", usage },
      ],
      {
        config: configWith({ budget: { max_tokens: 100 } }),
      },
    );
    const first = await client.responses.create({ model: "scripted", input: "A" });
    expect(first.usage?.output_tokens_details).toEqual({ reasoning_tokens: 40 });
    const previous_response_id = first.id;
    const second = await client.responses.create({ model: "scripted", input: "B", previous_response_id });
    expect(second).toMatchObject({ status: "incomplete", incomplete_details: { reason: "budget_exhausted" } });
  });

  it("[K1] items of a conversation are added, read and taken away", async () => {
    const { client, model } = await setUp([{ text: "Ada." }]);
    const { id } = await client.conversations.create();
    const items = [
      { type: "message" as const, role: "user" as const, content: "I am Ada." },
      { type: "message" as const, role: "assistant" as const, content: "Hello." },
      { type: "message" as const, role: "user" as const, content: "I am Bob." },
    ];
    const { data } = await client.conversations.items.create(id, { items });
    expect(data).toHaveLength(3);
    const last = data.at(-1)?.id ?? "";
    expect(await client.conversations.items.retrieve(last, { conversation_id: id })).toMatchObject({ id: last });
    await client.conversations.items.delete(last, { conversation_id: id });
    await client.responses.create({ model: "scripted", conversation: id, input: "Who am I?" });
    expect(model.requests.at(0)?.messages).toMatchObject([
      { content: "I am Ada." },
      { role: "block_assistant" },
      { content: "Who am I?" },
    ]);
    await expect(client.conversations.items.delete("msg_9", { conversation_id: id })).rejects.toThrow(
      '404 there is no item "msg_9"',
    );
  });

  it("[K1] what two access tokens say alike are two conversations", async () => {
    const { tokens, create } = tokenFolder();
    const scopes = ["read" as const, "run" as const];
    const [ann, bob] = [await create("ann", { scopes }), await create("bob", { scopes })];
    const { url } = await setUp(({ messages }) => ({ text: `${messages.length}` }), {}, { tokens });
    const ask = async (bearer: typeof ann, messages: readonly object[]) => {
      const headers = { "content-type": "application/json", ...bearer };
      const body = JSON.stringify({ model: "scripted", messages, user: "same", prompt_cache_key: "same" });
      const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
      expect(answer.status).toBe(200);
      return answer.headers.get("x-rkat-session");
    };
    const first = [{ role: "user", content: "Hi." }];
    const second = [...first, { role: "assistant", content: "1" }, { role: "user", content: "More." }];
    const anns = await ask(ann, first);
    expect(await ask(bob, second)).not.toBe(anns);
    expect(await ask(ann, second)).toBe(anns);
  });

  it("[K1] an item that is referred to is one of a response, or there is none", async () => {
    const { client, model } = await setUp([{ text: "One." }, { text: "Two." }, { text: "Three." }]);
    const first = await client.responses.create({ model: "scripted", input: "A" });
    const reference = { type: "item_reference" as const, id: first.output[0]?.id ?? "" };
    const input = [{ role: "user" as const, content: "A" }, reference, { role: "user" as const, content: "B" }];
    const second = await client.responses.create({ model: "scripted", input });
    expect(model.requests.at(1)?.messages).toMatchObject([
      { content: "A" },
      { blocks: [{ data: { text: "One." } }] },
      { content: "B" },
    ]);
    // Where the conversation is known, so are its items.
    const known = [
      { type: "item_reference" as const, id: second.output[0]?.id ?? "" },
      { role: "user" as const, content: "C" },
    ];
    await client.responses.create({ model: "scripted", input: known, previous_response_id: second.id });
    expect(model.requests.at(2)?.messages).toHaveLength(5);
    for (const id of ["msg_1", "rs_x", `${reference.id}9`, reference.id.replace(/^msg/, "fc")]) {
      const wrong = client.responses.create({ model: "scripted", input: [{ type: "item_reference", id }] });
      await expect(wrong).rejects.toThrow(`404 there is no item "${id}"`);
    }
  });
});
