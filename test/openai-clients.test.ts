import { createOpenAI } from "@ai-sdk/openai";
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import OpenAI from "openai";
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
  return { baseURL: `${server.url}/v1`, runtime, model };
}

const PARAMETERS = { type: "object" as const, properties: { at: { type: "string" as const } }, required: ["at"] };
const LOOK = { calls: [{ id: "c1", name: "look", args: { at: "pond" } }] };
/** What a session is that was asked, called a tool of the client's, was told what it gave, and was asked again. */
const WHOLE = ["user", "block_assistant", "tool_results", "block_assistant", "user", "block_assistant"];

describe("clients of OpenAI's chat completions", () => {
  it("[K1] the official client: text, streams, tools, a format, errors", async () => {
    const { baseURL, runtime } = await serve([LOOK, { text: ["A ", "heron."] }, { text: '{"legs":2}' }]);
    const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
    const tools = [{ type: "function" as const, function: { name: "look", parameters: PARAMETERS } }];
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Look." }];
    const first = client.chat.completions.stream({ model: "scripted", messages, tools });
    const called = await first.finalMessage();
    expect(called.tool_calls?.[0]).toMatchObject({ id: "c1", function: { name: "look", arguments: '{"at":"pond"}' } });
    messages.push(called, { role: "tool", tool_call_id: "c1", content: "a heron" });
    const include_usage = { stream_options: { include_usage: true } };
    const second = client.chat.completions.stream({ model: "scripted", messages, tools, ...include_usage });
    const deltas: string[] = [];
    second.on("content", (delta) => deltas.push(delta));
    const completion = await second.finalChatCompletion();
    expect(deltas).toEqual(["A ", "heron."]);
    expect(completion).toMatchObject({
      choices: [{ finish_reason: "stop" }],
      usage: { total_tokens: expect.any(Number) },
    });
    messages.push(completion.choices[0]?.message ?? { role: "assistant" }, { role: "user", content: "Legs?" });
    const schema = { type: "object", properties: { legs: { type: "integer" } }, required: ["legs"] };
    const third = await client.chat.completions
      .create({
        model: "scripted",
        messages,
        tools,
        response_format: { type: "json_schema", json_schema: { name: "heron", schema } },
      })
      .withResponse();
    expect(third.data.choices[0]?.message.content).toBe('{"legs":2}');
    const session = runtime.session(third.response.headers.get("x-rkat-session") ?? "");
    expect((await session.history()).messages.map(({ role }) => role)).toEqual(WHOLE);
    expect(
      await client.chat.completions.create({ model: "scripted", messages: [] }).catch((error) => error),
    ).toMatchObject({
      status: 400,
      type: "invalid_request_error",
      code: "INVALID_PARAMS",
    });
    expect((await client.models.list()).data.length).toBeGreaterThan(0);
  });

  it("[K1] LangChain's ChatOpenAI: one session, with tools, streamed and not", async () => {
    const { baseURL, runtime } = await serve([LOOK, { text: "A heron." }, { text: ["Ye", "s."] }]);
    const chat = new ChatOpenAI({ model: "scripted", apiKey: "none", maxRetries: 0, configuration: { baseURL } });
    const bound = chat.bindTools([{ type: "function", function: { name: "look", parameters: PARAMETERS } }]);
    const said = [new SystemMessage("Be short."), new HumanMessage("Look.")];
    const called = await bound.invoke(said);
    expect(called.tool_calls).toMatchObject([{ id: "c1", name: "look", args: { at: "pond" } }]);
    const after = [...said, called, new ToolMessage({ tool_call_id: "c1", content: "a heron" })];
    const answer = await bound.invoke(after);
    expect(answer.text).toBe("A heron.");
    let streamed = "";
    for await (const piece of await bound.stream([...after, new AIMessage(answer.text), new HumanMessage("Sure?")])) {
      streamed += piece.text;
    }
    expect(streamed).toBe("Yes.");
    const sessions = await runtime.listSessions();
    expect(sessions).toHaveLength(1);
    const { messages } = await runtime.session(sessions[0]?.sessionId ?? "").history();
    expect(messages.map(({ role }) => role)).toEqual(["system", ...WHOLE]);
  });

  it("[K1] the AI SDK's chat model: one session, with tools, streamed and not", async () => {
    const { baseURL, runtime } = await serve([LOOK, { text: "A heron." }, { text: ["Ye", "s."] }]);
    const model = createOpenAI({ baseURL, apiKey: "none" }).chat("scripted");
    const tools = [{ type: "function" as const, name: "look", inputSchema: PARAMETERS }];
    type Prompt = Parameters<typeof model.doGenerate>[0]["prompt"];
    const prompt: Prompt = [{ role: "user", content: [{ type: "text", text: "Look." }] }];
    const called = await model.doGenerate({ prompt, tools });
    expect(called.content).toMatchObject([{ type: "tool-call", toolCallId: "c1", input: '{"at":"pond"}' }]);
    const input = { at: "pond" };
    const output = { type: "text" as const, value: "a heron" };
    const after: Prompt = [
      ...prompt,
      { role: "assistant", content: [{ type: "tool-call", toolCallId: "c1", toolName: "look", input }] },
      { role: "tool", content: [{ type: "tool-result", toolCallId: "c1", toolName: "look", output }] },
    ];
    expect((await model.doGenerate({ prompt: after, tools })).content).toMatchObject([{ text: "A heron." }]);
    const more: Prompt = [
      ...after,
      { role: "assistant", content: [{ type: "text", text: "A heron." }] },
      { role: "user", content: [{ type: "text", text: "Sure?" }] },
    ];
    const { stream } = await model.doStream({ prompt: more, tools });
    let streamed = "";
    for await (const part of stream) if (part.type === "text-delta") streamed += part.delta;
    expect(streamed).toBe("Yes.");
    const sessions = await runtime.listSessions();
    expect(sessions).toHaveLength(1);
    const { messages } = await runtime.session(sessions[0]?.sessionId ?? "").history();
    expect(messages.map(({ role }) => role)).toEqual(WHOLE);
  });
});
