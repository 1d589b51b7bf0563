import { createInMemoryStore, type RuntimeOptions } from "@rkat/core/create-runtime";
import type { ScriptedStep } from "@rkat/core/providers/scripted";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { serveRuntime } from "../../../../test/support/rest-server.ts";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import { mountOpenAi } from "./mount.ts";
import type { OpenAiSettings } from "./turn-route.ts";

const LOOK = {
  type: "function" as const,
  name: "look",
  description: "Looks.",
  parameters: { type: "object", properties: { at: { type: "string" } } },
  strict: false,
};
const CALL: ScriptedStep = { calls: [{ id: "c1", name: "look", args: { at: "pond" } }] };

async function setUp(steps: ScriptedStep[], settings: Partial<OpenAiSettings> = {}, options: RuntimeOptions = {}) {
  const clock = createSystemClock();
  const { runtime, model } = scriptedRuntime(steps, { store: createInMemoryStore(), clock, ...options });
  const all: OpenAiSettings = { memory: "session", tools: "none", ...settings };
  const served = await serveRuntime(runtime, { mounts: [(parts) => mountOpenAi(all, parts)] });
  const client = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: "none", maxRetries: 0 });
  return { ...served, model, client };
}

const saidBy = (messages: readonly { role: string }[] = []) => messages.map(({ role }) => role);

describe("OpenAI's client at /v1/responses", () => {
  it("[K1] is answered, with usage and the session's name", async () => {
    const { client, runtime } = await setUp([{ text: "A heron.", usage: { input_tokens: 7, output_tokens: 3 } }]);
    const { data, response } = await client.responses
      .create({ model: "scripted", input: "What is it?" })
      .withResponse();
    expect(data).toMatchObject({
      object: "response",
      status: "completed",
      output_text: "A heron.",
      output: [{ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text" }] }],
      usage: { input_tokens: 7, output_tokens: 3, total_tokens: 10 },
      error: null,
    });
    const session = response.headers.get("x-rkat-session") ?? "";
    expect(data.id).toMatch(new RegExp(`^resp_${session.replaceAll("-", "")}_\\d+$`));
    expect((await runtime.session(session).history()).messages).toHaveLength(2);
    expect(await client.responses.retrieve(data.id)).toEqual(data);
    const { data: items } = await client.responses.inputItems.list(data.id);
    expect(items).toMatchObject([
      { type: "message", role: "user", content: [{ type: "input_text", text: "What is it?" }] },
    ]);
  });

  it("[K1] is told a turn as it happens, numbered from 0", async () => {
    const { client } = await setUp([{ text: "A heron." }]);
    const events = [];
    for await (const event of await client.responses.create({ model: "scripted", input: "Hi.", stream: true })) {
      events.push(event);
    }
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
    expect([...new Set(events.map(({ type }) => type))]).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
  });

  it("[K1] hears of a failure in the stream, or as an error, and can read it again", async () => {
    const { client } = await setUp([]);
    const failed = await client.responses.stream({ model: "scripted", input: "A" }).finalResponse();
    const error = { code: "server_error", message: "the script has no answer number 1" };
    expect(failed).toMatchObject({ status: "failed", error });
    expect(await client.responses.retrieve(failed.id)).toMatchObject({ status: "failed", error });
    const asked = client.responses.create({ model: "scripted", input: "A" });
    await expect(asked).rejects.toMatchObject({ status: 400, code: "PROVIDER_ERROR", type: "invalid_request_error" });
  });

  it("[K1] is told what was cut short, and what was thought", async () => {
    const { client } = await setUp([{ reasoning: { text: "A long thing." }, text: "A her", stopReason: "max_tokens" }]);
    const response = await client.responses.create({ model: "scripted", input: "A", max_output_tokens: 3 });
    expect(response).toMatchObject({ status: "incomplete", incomplete_details: { reason: "max_output_tokens" } });
    expect(response.output).toMatchObject([
      { type: "reasoning", content: [{ type: "reasoning_text", text: "A long thing." }] },
      { type: "message", content: [{ text: "A her" }] },
    ]);
  });

  it("[K1] may leave a turn behind, ask how it goes, and cancel it", async () => {
    const { client } = await setUp([{ text: "Slow.", ends: "silent" }]);
    const { id, status } = await client.responses.create({ model: "scripted", input: "A", background: true });
    expect(status).toBe("in_progress");
    expect(await client.responses.retrieve(id)).toMatchObject({ id, status: "in_progress" });
    expect(await client.responses.cancel(id)).toMatchObject({ id, status: "cancelled" });
  });

  it("[K1] gives instructions as the system's words, and each request's own", async () => {
    const { client, model } = await setUp([{ text: "One." }, { text: "Two." }, { text: "Three." }]);
    const one = await client.responses.create({ model: "scripted", input: "A", instructions: "Be brief." });
    const two = await client.responses.create({
      model: "scripted",
      input: [
        { role: "developer", content: "Be long." },
        { role: "user", content: "B" },
      ],
      previous_response_id: one.id,
    });
    await client.responses.create({ model: "scripted", input: "C", previous_response_id: two.id });
    const systems = model.requests.map(({ messages }) => messages.filter(({ role }) => role === "system"));
    expect(systems).toMatchObject([[{ content: "Be brief." }], [{ content: "Be long." }], []]);
  });

  it("[K1] runs its own functions, streamed or not", async () => {
    const { client, model } = await setUp([CALL, { text: "A heron." }, CALL]);
    const one = await client.responses.create({ model: "scripted", input: "Look.", tools: [LOOK] });
    expect(one.output).toMatchObject([
      { type: "function_call", name: "look", call_id: "c1", arguments: '{"at":"pond"}' },
    ]);
    expect(model.requests.at(0)?.tools.map(({ name }) => name)).toEqual(["look"]);
    expect(await client.responses.retrieve(one.id)).toEqual(one);
    const two = await client.responses.create({
      model: "scripted",
      previous_response_id: one.id,
      tools: [LOOK],
      input: [{ type: "function_call_output", call_id: "c1", output: "a bird" }],
    });
    expect(two.output_text).toBe("A heron.");
    const stream = client.responses.stream({ model: "scripted", input: "Look.", tools: [LOOK] });
    const types: string[] = [];
    stream.on("event", ({ type }) => types.push(type));
    const last = await stream.finalResponse();
    expect(last.output[0]).toMatchObject({ type: "function_call", arguments: '{"at":"pond"}' });
    expect(types).toContain("response.function_call_arguments.delta");
    expect(types).toContain("response.function_call_arguments.done");
  });

  it("[K1] may bring the whole conversation, also one that ends with results", async () => {
    const { client, model } = await setUp([{ text: "Two." }, { text: "A heron." }]);
    const before = [
      { role: "user" as const, content: "A" },
      { role: "assistant" as const, content: "One." },
    ];
    await client.responses.create({ model: "scripted", input: [...before, { role: "user", content: "B" }] });
    expect(saidBy(model.requests.at(0)?.messages)).toEqual(["user", "block_assistant", "user"]);
    const result = await client.responses.create({
      model: "scripted",
      tools: [LOOK],
      input: [
        { role: "user", content: "Look." },
        { type: "function_call", call_id: "c1", name: "look", arguments: "{}" },
        { type: "function_call_output", call_id: "c1", output: "a bird" },
      ],
    });
    expect(result.output_text).toBe("A heron.");
    expect(saidBy(model.requests.at(1)?.messages)).toEqual(["user", "block_assistant", "tool_results"]);
  });

  it("[K1] may bring a conversation whose calls are counted from zero in each answer", async () => {
    const { client, model } = await setUp([{ text: "Both." }]);
    const step = (output: string) => [
      { type: "function_call" as const, call_id: "call_0", name: "look", arguments: "{}" },
      { type: "function_call_output" as const, call_id: "call_0", output },
    ];
    const input = [{ role: "user" as const, content: "Look." }, ...step("1"), ...step("2")];
    const { output_text } = await client.responses.create({ model: "scripted", tools: [LOOK], input });
    expect(output_text).toBe("Both.");
    expect(model.requests.at(0)?.messages).toMatchObject([
      { role: "user" },
      { blocks: [{ data: { id: "call_0_1" } }] },
      { results: [{ tool_use_id: "call_0_1", content: "1" }] },
      { blocks: [{ data: { id: "call_0" } }] },
      { results: [{ tool_use_id: "call_0", content: "2" }] },
    ]);
  });

  it("[K1] goes on from the newest response in its session, and from an older one in a fork", async () => {
    const { client, runtime, model } = await setUp([{ text: "1." }, { text: "2." }, { text: "3." }]);
    const ask = (input: string, previous?: string) =>
      client.responses
        .create({ model: "scripted", input, ...(previous === undefined ? {} : { previous_response_id: previous }) })
        .withResponse();
    const one = await ask("A");
    const two = await ask("B", one.data.id);
    const other = await ask("C", one.data.id);
    const session = (answer: typeof one) => answer.response.headers.get("x-rkat-session") ?? "";
    expect(session(two)).toBe(session(one));
    expect(session(other)).not.toBe(session(one));
    expect(model.requests.at(-1)?.messages).toMatchObject([
      { content: "A" },
      { role: "block_assistant" },
      { content: "C" },
    ]);
    expect((await runtime.session(session(one)).history()).messages).toHaveLength(4);
    expect(other.data.previous_response_id).toBe(one.data.id);
  });

  it("[K1] has conversations, which are sessions", async () => {
    const { client, model } = await setUp([{ text: "1." }, { text: "2." }]);
    const { id } = await client.conversations.create({ metadata: { topic: "birds" } });
    await client.responses.create({ model: "scripted", input: "A", conversation: id });
    const two = await client.responses.create({ model: "scripted", input: "B", conversation: { id } });
    expect(two.conversation).toEqual({ id });
    expect(saidBy(model.requests.at(-1)?.messages)).toEqual(["user", "block_assistant", "user"]);
    const { data } = await client.conversations.items.list(id, { order: "asc" });
    expect(data.map(({ type }) => type)).toEqual(["message", "message", "message", "message"]);
    await client.conversations.delete(id);
    await expect(client.conversations.retrieve(id)).rejects.toThrow(`404 there is no conversation "${id}"`);
  });

  it("[K1] is given what its schema asks for", async () => {
    const { client } = await setUp([{ text: '{"bird":"heron"}' }, { text: '{"bird":"heron"}' }]);
    const schema = { type: "object", properties: { bird: { type: "string" } }, required: ["bird"] };
    const format = { type: "json_schema" as const, name: "bird", schema, strict: true };
    const { output_text } = await client.responses.create({ model: "scripted", input: "Which?", text: { format } });
    expect(JSON.parse(output_text)).toEqual({ bird: "heron" });
  });

  const PNG = "iVBORw0KGgo=";
  const PDF = Buffer.from("%PDF-1.7 nothing").toString("base64");
  const NOTE = Buffer.from("Remember the milk.").toString("base64");

  it("[K1] shows images by their bytes or their address, and files", async () => {
    const { client, model } = await setUp([{ text: "Red." }]);
    await client.responses.create({
      model: "scripted",
      input: [
        {
          role: "user",
          content: [
            { type: "input_text", text: "Which colour?" },
            { type: "input_image", image_url: `data:image/png;base64,${PNG}`, detail: "auto" },
            { type: "input_image", image_url: "https://example.com/a.png", detail: "auto" },
            { type: "input_file", filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` },
            { type: "input_file", filename: "note.txt", file_data: `data:text/plain;charset=utf-8;base64,${NOTE}` },
          ],
        },
      ],
    });
    expect(model.requests.at(0)?.messages.at(0)).toMatchObject({
      content: [
        { type: "text" },
        { type: "image", source: "inline", media_type: "image/png", data: PNG },
        { type: "image", source: "url", url: "https://example.com/a.png" },
        { type: "file", name: "a.pdf", media_type: "application/pdf", data: PDF },
        { type: "text", text: '<file name="note.txt">\nRemember the milk.\n</file>' },
      ],
    });
  });

  it.each([
    [{ type: "input_image", image_url: "ftp://example.com/a.png" }, "input[0].content[0]"],
    [{ type: "input_image", image_url: "data:text/plain;base64,YQ==" }, "input[0].content[0]"],
    [{ type: "input_image", file_id: "file-1" }, "input[0].content[0].file_id"],
    [{ type: "input_file", file_id: "file-1" }, "input[0].content[0].file_id"],
    [{ type: "input_file", file_url: "https://example.com/a.pdf" }, "input[0].content[0].file_url"],
    [{ type: "input_file", file_data: "YQ==" }, "input[0].content[0].file_data"],
    [{ type: "input_file", file_data: "data:application/zip;base64,YQ==" }, "prompt[0].media_type"],
    [{ type: "input_audio", input_audio: { data: "YQ==", format: "wav" } }, "input[0].content[0]"],
  ])("[K1] [H1] is told why %j is not read", async (part, param) => {
    const { call } = await setUp([]);
    const { status, body } = await call("POST /v1/responses", { input: [{ role: "user", content: [part] }] });
    expect({ status, body }).toMatchObject({ status: 400, body: { error: { param, code: "INVALID_PARAMS" } } });
  });

  it("[K1] is offered this server's tools only where it asks for them", async () => {
    const steps: ScriptedStep[] = [
      { text: "Hi." },
      { calls: [{ id: "d1", name: "datetime", args: {} }] },
      { text: "Noon." },
    ];
    const { client, model } = await setUp(steps);
    await client.responses.create({ model: "scripted", input: "Hi." });
    expect(model.requests.at(0)?.tools).toEqual([]);
    const { output } = await client.responses.create({
      model: "scripted",
      input: "When?",
      tools: [{ type: "mcp", server_label: "rkat", server_url: "http://localhost", allowed_tools: ["datetime"] }],
    });
    expect(model.requests.at(1)?.tools.map(({ name }) => name)).toEqual(["datetime"]);
    expect(output).toMatchObject([
      { type: "mcp_call", server_label: "rkat", name: "datetime", status: "completed", error: null },
      { type: "message" },
    ]);
  });

  it("[K1] keeps nothing to ask for with store: false, and nothing after a deletion", async () => {
    const { client } = await setUp([{ text: "1." }, { text: "2." }]);
    const { id } = await client.responses.create({ model: "scripted", input: "A", store: false });
    const gone = { status: 404, code: "SESSION_NOT_FOUND" };
    await expect(client.responses.retrieve(id)).rejects.toMatchObject(gone);
    await expect(client.responses.create({ input: "B", previous_response_id: id })).rejects.toMatchObject(gone);
    const kept = await client.responses.create({ model: "scripted", input: "C" });
    await client.responses.delete(kept.id);
    await expect(client.responses.retrieve(kept.id)).rejects.toMatchObject(gone);
  });

  it("[K1] closing the connection stops the turn", async () => {
    const { client, runtime } = await setUp([{ text: "Never ending.", ends: "silent" }]);
    const stream = await client.responses.create({ model: "scripted", input: "A", stream: true });
    let session = "";
    for await (const event of stream) {
      if (event.type !== "response.created") continue;
      session = event.response.id.slice(5, 37).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
      stream.controller.abort();
      break;
    }
    for await (const { event } of runtime.subscribe(session, { after: 0 })) {
      if (event.type !== "run_failed") continue;
      expect(event.error_class).toBe("cancelled");
      break;
    }
  });

  it.each([
    [{ input: "A", n: 2 }, "n"],
    [{ input: "A", top_logprobs: 3 }, "top_logprobs"],
    [{ input: "A", tool_choice: "required" }, "tool_choice"],
    [{ input: "A", max_output_tokens: 0 }, "max_output_tokens"],
    [{ input: "" }, "input"],
    [{}, "input"],
    [{ input: [{ type: "song" }] }, "input.0"],
    [
      {
        input: [
          { type: "function_call", call_id: "x", name: "y", arguments: "[" },
          { role: "user", content: "B" },
        ],
      },
      "input[0].arguments",
    ],
  ])("[K1] [H1] %j is refused in a sentence that names the field", async (body, param) => {
    const { call, runtime } = await setUp([{ text: "1." }]);
    const { status, body: reported } = await call("POST /v1/responses", body);
    expect({ status, reported }).toMatchObject({
      status: 400,
      reported: { error: { type: "invalid_request_error", param } },
    });
    expect(await runtime.listSessions()).toEqual([]);
  });
});
