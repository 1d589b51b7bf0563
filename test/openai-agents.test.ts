import { createOpenAI } from "@ai-sdk/openai";
import {
  Agent,
  MemorySession,
  OpenAIConversationsSession,
  OpenAIResponsesModel,
  Runner,
  setTracingDisabled,
  tool,
} from "@openai/agents";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import OpenAI from "openai";
import { afterEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { openChatServer } from "./support/chat-server.ts";
import { scriptedRuntime } from "./support/runtime.ts";

setTracingDisabled(true);

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function serve(script: Parameters<typeof scriptedRuntime>[0]) {
  const { runtime, model } = scriptedRuntime(script, { store: createInMemoryStore() });
  const server = await openChatServer(runtime);
  closing.push(() => runtime.close(), server.close);
  const baseURL = `${server.url}/v1`;
  const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
  return { baseURL, client, runtime, model };
}

/** An agent that can look at places, and what it looked at. */
function createLooker(client: OpenAI, more: Partial<ConstructorParameters<typeof Agent>[0]> = {}) {
  const looked: string[] = [];
  const look = tool({
    name: "look",
    description: "Looks at a place.",
    parameters: z.object({ at: z.string() }),
    execute: ({ at }) => {
      looked.push(at);
      return `a heron at the ${at}`;
    },
  });
  const agent = new Agent({
    name: "Looker",
    instructions: "Be brief.",
    model: new OpenAIResponsesModel(client, "scripted"),
    tools: [look],
    ...more,
  });
  return { agent, looked };
}

const lookAt = (id: string, at: string) => ({ calls: [{ id, name: "look", args: { at } }] });
const rolesIn = (messages: readonly { role: string }[] = []) => messages.map(({ role }) => role);

describe("the OpenAI Agents SDK over /v1/responses", () => {
  it("[K1] runs an agent with tools over several turns", async () => {
    const { client, model } = await serve([
      { calls: [...lookAt("c1", "pond").calls, ...lookAt("c2", "lake").calls] },
      lookAt("c3", "sea"),
      { text: "Herons." },
      { text: "Three." },
    ]);
    const { agent, looked } = createLooker(client);
    const first = await new Runner().run(agent, "Look around.");
    expect(first.finalOutput).toBe("Herons.");
    expect(looked).toEqual(["pond", "lake", "sea"]);
    const second = await new Runner().run(agent, [...first.history, { role: "user", content: "How many?" }]);
    expect(second.finalOutput).toBe("Three.");
    expect(rolesIn(model.requests.at(-1)?.messages)).toEqual([
      "system",
      "user",
      "block_assistant",
      "tool_results",
      "block_assistant",
      "tool_results",
      "block_assistant",
      "user",
    ]);
  });

  it("[K1] goes on from responses, and in conversations, in one session", async () => {
    const { client, runtime } = await serve([
      lookAt("c1", "pond"),
      { text: "A heron." },
      { text: "Sure." },
      lookAt("c4", "sea"),
      { text: "Another." },
    ]);
    const { agent } = createLooker(client);
    const first = await new Runner().run(agent, "Look.");
    const previousResponseId = first.lastResponseId ?? "";
    expect((await new Runner().run(agent, "Sure?", { previousResponseId })).finalOutput).toBe("Sure.");
    const { id } = await client.conversations.create();
    const { finalOutput } = await new Runner().run(agent, "Look.", { conversationId: id });
    expect(finalOutput).toBe("Another.");
    const { data } = await client.conversations.items.list(id, { order: "asc" });
    expect(data.map(({ type }) => type)).toEqual(["message", "function_call", "function_call_output", "message"]);
    expect((await runtime.listSessions()).length).toBeGreaterThan(0);
  });

  it("[K1] streams an agent's turns", async () => {
    const { client } = await serve([lookAt("c1", "pond"), { reasoning: { text: "Hm." }, text: ["A ", "heron."] }]);
    const { agent, looked } = createLooker(client);
    const result = await new Runner().run(agent, "Look.", { stream: true });
    let text = "";
    for await (const event of result) {
      if (event.type === "raw_model_stream_event" && event.data.type === "output_text_delta") text += event.data.delta;
    }
    await result.completed;
    expect({ text, looked, final: result.finalOutput }).toEqual({
      text: "A heron.",
      looked: ["pond"],
      final: "A heron.",
    });
  });

  it("[K1] gives output of a type, and hands over to another agent", async () => {
    const { client } = await serve([
      { calls: [{ id: "h1", name: "transfer_to_Counter", args: {} }] },
      { text: '{"legs":2}' },
    ]);
    const model = new OpenAIResponsesModel(client, "scripted");
    const counter = new Agent({ name: "Counter", model, outputType: z.object({ legs: z.number() }) });
    const { agent } = createLooker(client, { handoffs: [counter] });
    const result = await new Runner().run(agent, "How many legs?");
    expect(result.finalOutput).toEqual({ legs: 2 });
    expect(result.lastAgent?.name).toBe("Counter");
  });

  it("[K1] keeps a session of its own, in memory or as a conversation here", async () => {
    const steps = [lookAt("c1", "pond"), { text: "A heron." }, { text: "At the pond." }];
    const { client, model } = await serve([...steps, ...steps]);
    const { agent } = createLooker(client);
    const shown = [];
    for (const session of [new MemorySession(), new OpenAIConversationsSession({ client })]) {
      await new Runner().run(agent, "Look.", { session });
      expect((await new Runner().run(agent, "Where?", { session })).finalOutput).toBe("At the pond.");
      shown.push(rolesIn(model.requests.at(-1)?.messages));
      expect((await session.getItems()).map(({ type }) => type)).toEqual([
        "message",
        "function_call",
        "function_call_result",
        "message",
        "message",
        "message",
      ]);
      expect(await session.popItem()).toMatchObject({ role: "assistant" });
      expect(await session.getItems()).toHaveLength(5);
    }
    const WHOLE = ["system", "user", "block_assistant", "tool_results", "block_assistant", "user"];
    expect(shown).toEqual([WHOLE, WHOLE]);
  });
});

describe("the AI SDK's responses model over /v1/responses", () => {
  const PARAMETERS = { type: "object" as const, properties: { at: { type: "string" as const } }, required: ["at"] };
  const tools = [{ type: "function" as const, name: "look", inputSchema: PARAMETERS }];

  it("[K1] takes several steps with tools, and names what it was told by its ids", async () => {
    const { baseURL, model: asked } = await serve([
      { text: "Let me look.", ...lookAt("c1", "pond") },
      { reasoning: { text: "Hm." }, text: ["A ", "heron."] },
      { text: "Yes." },
    ]);
    const model = createOpenAI({ baseURL, apiKey: "none" }).responses("scripted");
    type Prompt = Parameters<typeof model.doGenerate>[0]["prompt"];
    const prompt: Prompt = [{ role: "user", content: [{ type: "text", text: "Look." }] }];
    const called = await model.doGenerate({ prompt, tools });
    expect(called.finishReason.unified).toBe("tool-calls");
    type Said = Extract<Prompt[number], { role: "assistant" }>["content"];
    const replied = called.content.flatMap((part): Said => {
      const providerOptions = "providerMetadata" in part ? part.providerMetadata : undefined;
      const options = providerOptions === undefined ? {} : { providerOptions };
      if (part.type === "text") return [{ type: part.type, text: part.text, ...options }];
      if (part.type !== "tool-call") return [];
      const { toolCallId, toolName } = part;
      return [{ type: part.type, toolCallId, toolName, input: JSON.parse(part.input), ...options }];
    });
    prompt.push(
      { role: "assistant", content: replied },
      {
        role: "tool",
        content: [
          { type: "tool-result", toolCallId: "c1", toolName: "look", output: { type: "text", value: "a heron" } },
        ],
      },
    );
    const { stream } = await model.doStream({ prompt, tools });
    const reported = [];
    let text = "";
    let metadata: Parameters<typeof prompt.push>[0]["providerOptions"];
    for await (const part of stream) {
      reported.push(part.type);
      if (part.type === "text-delta") text += part.delta;
      if (part.type === "text-end") metadata = part.providerMetadata;
    }
    expect(text).toBe("A heron.");
    expect(reported).toContain("reasoning-start");
    prompt.push(
      { role: "assistant", content: [{ type: "text", text, ...(metadata && { providerOptions: metadata }) }] },
      { role: "user", content: [{ type: "text", text: "Sure?" }] },
    );
    const last = await model.doGenerate({ prompt, tools });
    expect(JSON.stringify(last.request?.body)).toContain("item_reference");
    expect(last.content).toMatchObject([{ type: "text", text: "Yes." }]);
    expect(asked.requests.at(-1)?.messages).toMatchObject([
      { role: "user" },
      { blocks: [{ data: { text: "Let me look." } }, { data: { id: "c1" } }] },
      { results: [{ content: "a heron" }] },
      { blocks: [{ data: { text: "A heron." } }] },
      { role: "user" },
    ]);
  });

  it("[K1] is given JSON of a schema, streamed or not", async () => {
    const { baseURL } = await serve([{ text: '{"legs":2}' }, { text: '{"legs":2}' }]);
    const model = createOpenAI({ baseURL, apiKey: "none" }).responses("scripted");
    const schema = { type: "object" as const, properties: { legs: { type: "integer" as const } }, required: ["legs"] };
    const asks = {
      prompt: [{ role: "user" as const, content: [{ type: "text" as const, text: "Legs?" }] }],
      responseFormat: { type: "json" as const, schema },
    };
    expect((await model.doGenerate(asks)).content).toMatchObject([{ type: "text", text: '{"legs":2}' }]);
    let text = "";
    for await (const part of (await model.doStream(asks)).stream) if (part.type === "text-delta") text += part.delta;
    expect(text).toBe('{"legs":2}');
  });
});
