import { createOpenAI } from "@ai-sdk/openai";
import {
  Agent,
  tool as agentTool,
  type ModelSettings,
  OpenAIChatCompletionsModel,
  OpenAIResponsesModel,
  Runner,
  setTracingDisabled,
} from "@openai/agents";
import { generateText, jsonSchema, Output, stepCountIs, tool } from "ai";
import type OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { calls, chatTools, LOOK, MODEL, openClientServer, says } from "./support/client-server.ts";

setTracingDisabled(true);

let served: Awaited<ReturnType<typeof openClientServer>>;
beforeAll(async () => {
  served = await openClientServer();
});
afterAll(() => served.close());

let asked: string;
beforeEach(async () => {
  asked = await served.begin();
});

const responseTools = chatTools.map(({ function: f }) => ({ type: "function" as const, strict: false, ...f }));
const named = { type: "function", function: { name: "look" } };
const chat = (more: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming>) =>
  served.openai().chat.completions.create({ model: MODEL, messages: [{ role: "user", content: asked }], ...more });
const respond = (more: Partial<OpenAI.Responses.ResponseCreateParamsNonStreaming>) =>
  served.openai().responses.create({ model: MODEL, input: asked, ...more });

describe("the official client, chat completions", () => {
  it("[K1] tool_choice required", async () => {
    served.provider.reply(calls("look", { at: "pond" }));
    const { choices } = await chat({ tools: chatTools, tool_choice: "required" });
    expect(choices[0]?.message.tool_calls).toHaveLength(1);
    expect(served.firstCall()).toMatchObject({ tool_choice: "required" });
  });

  it("[K1] tool_choice of a function, and its result without one", async () => {
    served.provider.reply(calls("look", { at: "pond" }), says("A heron."));
    const { choices } = await chat({ tools: chatTools, tool_choice: { type: "function", function: { name: "look" } } });
    expect(served.firstCall()).toMatchObject({ tool_choice: named });
    const message = choices[0]?.message ?? { role: "assistant" as const, content: "" };
    const id = choices[0]?.message.tool_calls?.[0]?.id ?? "";
    const more = [{ role: "user" as const, content: asked }, message];
    const second = await chat({
      tools: chatTools,
      messages: [...more, { role: "tool", tool_call_id: id, content: "a heron" }],
    });
    expect(second.choices[0]?.message.content).toBe("A heron.");
    expect(served.provider.requests.at(-1)?.body).not.toHaveProperty("tool_choice");
    expect(await served.cost()).toEqual({ calls: 2, sessions: 1 });
  });

  it("[K1] tool_choice streamed", async () => {
    served.provider.reply(calls("look", { at: "pond" }));
    const messages = [{ role: "user" as const, content: asked }];
    const stream = served.openai().chat.completions.stream({
      model: MODEL,
      messages,
      tools: chatTools,
      tool_choice: "required",
    });
    expect((await stream.finalMessage()).tool_calls).toHaveLength(1);
  });

  it("[K1] tool_choice none", async () => {
    served.provider.reply(says("No."));
    expect((await chat({ tools: chatTools, tool_choice: "none" })).choices[0]?.message.content).toBe("No.");
    expect(served.firstCall()).not.toHaveProperty("tools");
  });

  it("[K1] parallel_tool_calls false", async () => {
    served.provider.reply(calls("look", { at: "pond" }));
    await chat({ tools: chatTools, parallel_tool_calls: false });
    expect(served.firstCall()).toMatchObject({ parallel_tool_calls: false });
  });

  it("[K1] parallel_tool_calls false without tools", async () => {
    served.provider.reply(says("No."));
    await chat({ parallel_tool_calls: false });
    expect(served.firstCall()).not.toHaveProperty("parallel_tool_calls");
  });

  it("[K1] an empty logit_bias", async () => {
    served.provider.reply(says("Fine."));
    expect((await chat({ logit_bias: {} })).choices[0]?.message.content).toBe("Fine.");
  });

  it("[K1] empty functions", async () => {
    served.provider.reply(says("Fine."));
    expect((await chat({ functions: [] })).choices[0]?.message.content).toBe("Fine.");
  });

  it("[K1] a function that is not among the tools is refused by its name", async () => {
    const choice = { type: "function" as const, function: { name: "fly" } };
    await expect(chat({ tools: chatTools, tool_choice: choice })).rejects.toMatchObject({
      status: 400,
      param: "tool_choice",
      message: expect.stringContaining("no function of tools is called fly"),
    });
    await expect(chat({ tool_choice: "required" })).rejects.toMatchObject({ status: 400, param: "tool_choice" });
    expect(await served.cost()).toEqual({ calls: 0, sessions: 0 });
  });

  it("[K1] an unknown model", async () => {
    await expect(chat({ model: "no-such-model" })).rejects.toMatchObject({ status: 404, code: "model_not_found" });
    await expect(served.openai().models.retrieve("no-such")).rejects.toMatchObject({
      status: 404,
      code: "model_not_found",
    });
    expect(await served.cost()).toEqual({ calls: 0, sessions: 0 });
  });

  it("[K1] a model that the provider does not have", async () => {
    served.provider.reply({ kind: "refuse", refusal: "model_not_found" });
    await expect(chat({})).rejects.toMatchObject({ status: 404, code: "model_not_found" });
  });
});

describe("the official client, responses", () => {
  it("[K1] tool_choice required", async () => {
    served.provider.reply(calls("look", { at: "pond" }));
    const response = await respond({ tools: responseTools, tool_choice: "required" });
    expect(response).toMatchObject({ tool_choice: "required", output: [{ type: "function_call", name: "look" }] });
    expect(served.firstCall()).toMatchObject({ tool_choice: "required" });
  });

  it("[K1] tool_choice of a function", async () => {
    served.provider.reply(calls("look", { at: "pond" }));
    await respond({ tools: responseTools, tool_choice: { type: "function", name: "look" } });
    expect(served.firstCall()).toMatchObject({ tool_choice: named });
  });

  it("[K1] parallel_tool_calls false", async () => {
    served.provider.reply(calls("look", { at: "pond" }));
    const response = await respond({ tools: responseTools, parallel_tool_calls: false });
    expect(response.parallel_tool_calls).toBe(false);
    expect(served.firstCall()).toMatchObject({ parallel_tool_calls: false });
  });

  it("[K1] an unknown model", async () => {
    await expect(respond({ model: "no-such-model" })).rejects.toMatchObject({ status: 404, code: "model_not_found" });
  });

  it("[K1] compact with an input, and going on from what it answers", async () => {
    const input = Array.from({ length: 12 }, (_, turn) => [
      { role: "user" as const, content: `${asked} It is hour ${turn}.` },
      {
        role: "assistant" as const,
        content: `There is a heron at hour ${turn}. ${"It stands in the reeds. ".repeat(20)}`,
      },
    ]).flat();
    served.provider.reply(says("The user asked, and a heron was seen."), says("Two legs."), says("One beak."));
    const compaction = await served.openai().responses.compact({ model: MODEL, input });
    expect(compaction).toMatchObject({ compacted: true, output: [{ type: "compaction" }] });
    // What is compacted may be used more than once.
    for (const [question, text] of [
      ["Legs?", "Two legs."],
      ["Beaks?", "One beak."],
    ] as const) {
      const items = [...compaction.output, { role: "user" as const, content: question }];
      const next = await respond({ input: items as OpenAI.Responses.ResponseInput });
      expect(next.output_text).toBe(text);
      expect(JSON.stringify(served.provider.requests.at(-1)?.body.messages)).toContain("heron");
    }
    expect(JSON.stringify(served.provider.requests.at(-1)?.body.messages)).not.toContain("Two legs.");
  });

  it("[K1] streams a response again, from the middle on", async () => {
    served.provider.reply(says("A ", "gray ", "heron."));
    const stream = await served.openai().responses.create({ model: MODEL, input: asked, stream: true });
    const events: OpenAI.Responses.ResponseStreamEvent[] = [];
    for await (const event of stream) events.push(event);
    const [created] = events;
    const id = created?.type === "response.created" ? created.response.id : "";
    const again: unknown[] = [];
    for await (const event of await served.openai().responses.retrieve(id, { stream: true, starting_after: 4 })) {
      again.push(event);
    }
    expect(again).toEqual(events.slice(5));
  });

  it("[K1] streams a response that was not streamed at first", async () => {
    served.provider.reply(says("A heron."));
    const { id } = await respond({});
    const types: string[] = [];
    let text = "";
    for await (const event of await served.openai().responses.retrieve(id, { stream: true })) {
      types.push(event.type);
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    expect({ text, last: types.at(-1) }).toEqual({ text: "A heron.", last: "response.completed" });
    await expect(served.openai().responses.retrieve(id, { stream: true, starting_after: 2 })).rejects.toMatchObject({
      status: 400,
      param: "starting_after",
    });
  });

  it("[K1] follows a background response, and cancels it", async () => {
    served.provider.reply({ kind: "break", scenario: { text: ["A ", "heron."] }, frames: 2, by: "stall" });
    const { id } = await respond({ background: true });
    const types: string[] = [];
    const following = (async () => {
      for await (const event of await served.openai().responses.retrieve(id, { stream: true })) types.push(event.type);
    })();
    await expect.poll(async () => (await served.cost()).calls).toBe(1);
    expect(await served.openai().responses.cancel(id)).toMatchObject({ id, status: "cancelled" });
    await following;
    expect(types.slice(0, 2)).toEqual(["response.created", "response.in_progress"]);
    expect(types.at(-1)).toBe("response.incomplete");
    expect(await served.openai().responses.retrieve(id)).toMatchObject({ status: "cancelled" });
  });
});

const Heron = z.object({ legs: z.number() });
describe("LangChain", () => {
  for (const useResponsesApi of [false, true]) {
    const api = useResponsesApi ? "responses" : "chat";
    it(`[K1] withStructuredOutput by a function, ${api}`, async () => {
      served.provider.reply(calls("heron", { legs: 2 }));
      const model = served.langchain({ useResponsesApi }).withStructuredOutput(Heron, {
        name: "heron",
        method: "functionCalling",
      });
      expect(await model.invoke(asked)).toEqual({ legs: 2 });
    });

    it(`[K1] withStructuredOutput by a schema, ${api}`, async () => {
      served.provider.reply(says('{"legs":2}'), says('{"legs":2}'));
      const model = served
        .langchain({ useResponsesApi })
        .withStructuredOutput(Heron, { name: "heron", method: "jsonSchema" });
      expect(await model.invoke(asked)).toEqual({ legs: 2 });
    });

    it(`[K1] bindTools with tool_choice any and no parallel calls, ${api}`, async () => {
      served.provider.reply(calls("look", { at: "pond" }));
      const bound = served.langchain({ useResponsesApi }).bindTools(chatTools, {
        tool_choice: "any",
        parallel_tool_calls: false,
      });
      expect((await bound.invoke(asked)).tool_calls).toMatchObject([{ name: "look" }]);
      // To responses LangChain sends no word for "any".
      const choice = useResponsesApi ? {} : { tool_choice: "required" };
      expect(served.firstCall()).toMatchObject({ ...choice, parallel_tool_calls: false });
    });

    it(`[K1] bindTools with the name of a tool, ${api}`, async () => {
      served.provider.reply(calls("look", { at: "pond" }));
      const bound = served.langchain({ useResponsesApi }).bindTools(chatTools, { tool_choice: "look" });
      expect((await bound.invoke(asked)).tool_calls).toMatchObject([{ name: "look" }]);
      expect(served.firstCall()).toMatchObject({ tool_choice: named });
    });
  }
});

describe("the AI SDK", () => {
  const tools = {
    look: tool({ inputSchema: jsonSchema<{ at: string }>(LOOK), execute: ({ at }) => `a heron, ${at}` }),
  };
  for (const api of ["chat", "responses"] as const) {
    const model = () => createOpenAI({ baseURL: served.baseURL, apiKey: "none" })[api](MODEL);

    it(`[K1] toolChoice required, ${api}`, async () => {
      served.provider.reply(calls("look", { at: "pond" }));
      const result = await generateText({
        model: model(),
        prompt: asked,
        tools,
        toolChoice: "required",
        maxRetries: 0,
      });
      expect(result.toolCalls).toMatchObject([{ toolName: "look" }]);
      expect(served.firstCall()).toMatchObject({ tool_choice: "required" });
    });

    it(`[K1] toolChoice of a tool in the first of two steps, ${api}`, async () => {
      served.provider.reply(calls("look", { at: "pond" }), says("A heron."));
      const result = await generateText({
        model: model(),
        prompt: asked,
        tools,
        stopWhen: stepCountIs(2),
        prepareStep: ({ stepNumber }) => ({
          toolChoice: stepNumber === 0 ? { type: "tool", toolName: "look" } : "auto",
        }),
        maxRetries: 0,
      });
      expect(result.text).toBe("A heron.");
      expect(served.firstCall()).toMatchObject({ tool_choice: named });
    });

    it(`[K1] parallelToolCalls false, ${api}`, async () => {
      served.provider.reply(calls("look", { at: "pond" }));
      const providerOptions = { openai: { parallelToolCalls: false } };
      await generateText({ model: model(), prompt: asked, tools, providerOptions, maxRetries: 0 });
      expect(served.firstCall()).toMatchObject({ parallel_tool_calls: false });
    });

    it(`[K1] an output of a schema, ${api}`, async () => {
      served.provider.reply(says('{"legs":2}'), says('{"legs":2}'));
      const output = Output.object({ schema: Heron });
      const result = await generateText({ model: model(), prompt: asked, output, maxRetries: 0 });
      expect(result.output).toEqual({ legs: 2 });
    });
  }
});

describe("OpenAI Agents", () => {
  const look = agentTool({
    name: "look",
    description: "Looks.",
    parameters: z.object({ at: z.string() }),
    execute: ({ at }) => `a heron, ${at}`,
  });
  const agentWith = (modelSettings: ModelSettings, api: "chat" | "responses") =>
    new Agent({
      name: "Looker",
      tools: [look],
      modelSettings,
      model:
        api === "chat"
          ? new OpenAIChatCompletionsModel(served.openai(), MODEL)
          : new OpenAIResponsesModel(served.openai() as never, MODEL),
    });
  for (const api of ["chat", "responses"] as const) {
    it.each<{ name: string; settings: ModelSettings; wire: object }>([
      { name: "toolChoice required", settings: { toolChoice: "required" }, wire: { tool_choice: "required" } },
      { name: "toolChoice of a tool", settings: { toolChoice: "look" }, wire: { tool_choice: named } },
      {
        name: "parallelToolCalls false",
        settings: { parallelToolCalls: false },
        wire: { parallel_tool_calls: false },
      },
    ])(`[K1] $name, ${api}`, async ({ settings, wire }) => {
      served.provider.reply(calls("look", { at: "pond" }), says("A heron."));
      const result = await new Runner().run(agentWith(settings, api), asked);
      expect(result.finalOutput).toBe("A heron.");
      expect(served.firstCall()).toMatchObject(wire);
    });
  }
});
