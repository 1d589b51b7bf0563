import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createOpenAI } from "@ai-sdk/openai";
import { ChatOpenAI } from "@langchain/openai";
import {
  Agent,
  tool as agentTool,
  type ModelSettings,
  OpenAIChatCompletionsModel,
  OpenAIResponsesModel,
  Runner,
  setTracingDisabled,
} from "@openai/agents";
import { APICallError, generateText, jsonSchema, Output, RetryError, stepCountIs, tool } from "ai";
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { type Started, startRkat } from "./support/rkat-process.ts";
import { openAiBaseUrlWire } from "./wire/openai-chat.ts";
import type { Scenario } from "./wire/scenario.ts";
import { openWireServer, type Reply, type WireServer } from "./wire/server.ts";

setTracingDisabled(true);

const MODEL = "gpt-4.1";
let folder: string;
let provider: WireServer;
let server: Started;
let url: string;
let baseURL: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "rkat-matrix-"));
  mkdirSync(join(folder, ".rkat"));
  writeFileSync(join(folder, ".rkat/config.toml"), '[retry]\ninitial_delay = "1ms"\nmax_delay = "1ms"\n');
  provider = await openWireServer(openAiBaseUrlWire);
  const env = { OPENAI_API_KEY: "k", OPENAI_BASE_URL: `${provider.url}/v1`, RKAT_TRUST: "1" };
  server = startRkat(folder, ["serve", "--port", "0", "--json"], { env });
  await server.saw("\n");
  ({ url } = JSON.parse(server.said()));
  baseURL = `${url}/v1`;
});
afterAll(async () => {
  server.child.kill();
  await server.ended;
  await provider.close();
  rmSync(folder, { recursive: true });
});

/** Each case says something of its own, so that none goes on with the session of another. */
let place = 0;
let asked: string;
let callsBefore: number;
let sessionsBefore: number;
beforeEach(async () => {
  provider.takeBack();
  place += 1;
  asked = `Look at place ${place}.`;
  callsBefore = provider.requests.length;
  sessionsBefore = await countSessions();
});

async function countSessions(): Promise<number> {
  const response = await fetch(`${url}/sessions?limit=200`);
  const { sessions } = (await response.json()) as { sessions: readonly unknown[] };
  return sessions.length;
}

/** What a case has cost: calls of the provider, and sessions made. */
async function cost() {
  return { calls: provider.requests.length - callsBefore, sessions: (await countSessions()) - sessionsBefore };
}

/** What the provider was sent in the first call of the case, and in its last. */
const firstCall = () => provider.requests[callsBefore]?.body;
const answer = (scenario: Scenario): Reply => ({ kind: "answer", scenario });
const says = (...text: string[]): Reply => answer({ text });
const calls = (name: string, args: object): Reply =>
  answer({ toolCalls: [{ id: `call_${place}_${provider.requests.length}`, name, args: JSON.stringify(args) }] });
const refusals = (refusal: "rate_limited" | "auth" | "overloaded" | "server_error", times: number): Reply[] =>
  Array.from({ length: times }, () => ({ kind: "refuse", refusal, headers: { "retry-after": "0" } }));
const rejection = (status: number, code: string): Reply => ({
  kind: "reject",
  status,
  body: { error: { message: `it says ${code}`, type: "invalid_request_error", code, param: null } },
});

const LOOK = { type: "object" as const, properties: { at: { type: "string" as const } }, required: ["at"] };
const chatTools = [
  { type: "function" as const, function: { name: "look", parameters: LOOK } },
  { type: "function" as const, function: { name: "hear", parameters: LOOK } },
];
const responseTools = chatTools.map(({ function: f }) => ({ type: "function" as const, strict: false, ...f }));
const named = { type: "function", function: { name: "look" } };
const openai = (options: { maxRetries?: number } = { maxRetries: 0 }) =>
  new OpenAI({ baseURL, apiKey: "none", ...options });
const chat = (more: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming>) =>
  openai().chat.completions.create({ model: MODEL, messages: [{ role: "user", content: asked }], ...more });
const respond = (more: Partial<OpenAI.Responses.ResponseCreateParamsNonStreaming>) =>
  openai().responses.create({ model: MODEL, input: asked, ...more });

describe("the official client, chat completions", () => {
  it("[K1] tool_choice required", async () => {
    provider.reply(calls("look", { at: "pond" }));
    const { choices } = await chat({ tools: chatTools, tool_choice: "required" });
    expect(choices[0]?.message.tool_calls).toHaveLength(1);
    expect(firstCall()).toMatchObject({ tool_choice: "required" });
  });

  it("[K1] tool_choice of a function, and its result without one", async () => {
    provider.reply(calls("look", { at: "pond" }), says("A heron."));
    const { choices } = await chat({ tools: chatTools, tool_choice: { type: "function", function: { name: "look" } } });
    expect(firstCall()).toMatchObject({ tool_choice: named });
    const message = choices[0]?.message ?? { role: "assistant" as const, content: "" };
    const id = choices[0]?.message.tool_calls?.[0]?.id ?? "";
    const more = [{ role: "user" as const, content: asked }, message];
    const second = await chat({
      tools: chatTools,
      messages: [...more, { role: "tool", tool_call_id: id, content: "a heron" }],
    });
    expect(second.choices[0]?.message.content).toBe("A heron.");
    expect(provider.requests.at(-1)?.body).not.toHaveProperty("tool_choice");
    expect(await cost()).toEqual({ calls: 2, sessions: 1 });
  });

  it("[K1] tool_choice streamed", async () => {
    provider.reply(calls("look", { at: "pond" }));
    const messages = [{ role: "user" as const, content: asked }];
    const stream = openai().chat.completions.stream({
      model: MODEL,
      messages,
      tools: chatTools,
      tool_choice: "required",
    });
    expect((await stream.finalMessage()).tool_calls).toHaveLength(1);
  });

  it("[K1] tool_choice none", async () => {
    provider.reply(says("No."));
    expect((await chat({ tools: chatTools, tool_choice: "none" })).choices[0]?.message.content).toBe("No.");
    expect(firstCall()).not.toHaveProperty("tools");
  });

  it("[K1] parallel_tool_calls false", async () => {
    provider.reply(calls("look", { at: "pond" }));
    await chat({ tools: chatTools, parallel_tool_calls: false });
    expect(firstCall()).toMatchObject({ parallel_tool_calls: false });
  });

  it("[K1] parallel_tool_calls false without tools", async () => {
    provider.reply(says("No."));
    await chat({ parallel_tool_calls: false });
    expect(firstCall()).not.toHaveProperty("parallel_tool_calls");
  });

  it("[K1] an empty logit_bias", async () => {
    provider.reply(says("Fine."));
    expect((await chat({ logit_bias: {} })).choices[0]?.message.content).toBe("Fine.");
  });

  it("[K1] empty functions", async () => {
    provider.reply(says("Fine."));
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
    expect(await cost()).toEqual({ calls: 0, sessions: 0 });
  });

  it("[K1] an unknown model", async () => {
    await expect(chat({ model: "no-such-model" })).rejects.toMatchObject({ status: 404, code: "model_not_found" });
    await expect(openai().models.retrieve("no-such")).rejects.toMatchObject({ status: 404, code: "model_not_found" });
    expect(await cost()).toEqual({ calls: 0, sessions: 0 });
  });

  it("[K1] a model that the provider does not have", async () => {
    provider.reply({ kind: "refuse", refusal: "model_not_found" });
    await expect(chat({})).rejects.toMatchObject({ status: 404, code: "model_not_found" });
  });
});

describe("the official client, responses", () => {
  it("[K1] tool_choice required", async () => {
    provider.reply(calls("look", { at: "pond" }));
    const response = await respond({ tools: responseTools, tool_choice: "required" });
    expect(response).toMatchObject({ tool_choice: "required", output: [{ type: "function_call", name: "look" }] });
    expect(firstCall()).toMatchObject({ tool_choice: "required" });
  });

  it("[K1] tool_choice of a function", async () => {
    provider.reply(calls("look", { at: "pond" }));
    await respond({ tools: responseTools, tool_choice: { type: "function", name: "look" } });
    expect(firstCall()).toMatchObject({ tool_choice: named });
  });

  it("[K1] parallel_tool_calls false", async () => {
    provider.reply(calls("look", { at: "pond" }));
    const response = await respond({ tools: responseTools, parallel_tool_calls: false });
    expect(response.parallel_tool_calls).toBe(false);
    expect(firstCall()).toMatchObject({ parallel_tool_calls: false });
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
    provider.reply(says("The user asked, and a heron was seen."), says("Two legs."), says("One beak."));
    const compaction = await openai().responses.compact({ model: MODEL, input });
    expect(compaction).toMatchObject({ compacted: true, output: [{ type: "compaction" }] });
    // What is compacted may be used more than once.
    for (const [question, text] of [
      ["Legs?", "Two legs."],
      ["Beaks?", "One beak."],
    ] as const) {
      const items = [...compaction.output, { role: "user" as const, content: question }];
      const next = await respond({ input: items as OpenAI.Responses.ResponseInput });
      expect(next.output_text).toBe(text);
      expect(JSON.stringify(provider.requests.at(-1)?.body.messages)).toContain("heron");
    }
    expect(JSON.stringify(provider.requests.at(-1)?.body.messages)).not.toContain("Two legs.");
  });

  it("[K1] streams a response again, from the middle on", async () => {
    provider.reply(says("A ", "gray ", "heron."));
    const stream = await openai().responses.create({ model: MODEL, input: asked, stream: true });
    const events: OpenAI.Responses.ResponseStreamEvent[] = [];
    for await (const event of stream) events.push(event);
    const [created] = events;
    const id = created?.type === "response.created" ? created.response.id : "";
    const again: unknown[] = [];
    for await (const event of await openai().responses.retrieve(id, { stream: true, starting_after: 4 })) {
      again.push(event);
    }
    expect(again).toEqual(events.slice(5));
  });

  it("[K1] streams a response that was not streamed at first", async () => {
    provider.reply(says("A heron."));
    const { id } = await respond({});
    const types: string[] = [];
    let text = "";
    for await (const event of await openai().responses.retrieve(id, { stream: true })) {
      types.push(event.type);
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    expect({ text, last: types.at(-1) }).toEqual({ text: "A heron.", last: "response.completed" });
    await expect(openai().responses.retrieve(id, { stream: true, starting_after: 2 })).rejects.toMatchObject({
      status: 400,
      param: "starting_after",
    });
  });

  it("[K1] follows a background response, and cancels it", async () => {
    provider.reply({ kind: "break", scenario: { text: ["A ", "heron."] }, frames: 2, by: "stall" });
    const { id } = await respond({ background: true });
    const types: string[] = [];
    const following = (async () => {
      for await (const event of await openai().responses.retrieve(id, { stream: true })) types.push(event.type);
    })();
    await expect.poll(() => provider.requests.length).toBe(callsBefore + 1);
    expect(await openai().responses.cancel(id)).toMatchObject({ id, status: "cancelled" });
    await following;
    expect(types.slice(0, 2)).toEqual(["response.created", "response.in_progress"]);
    expect(types.at(-1)).toBe("response.incomplete");
    expect(await openai().responses.retrieve(id)).toMatchObject({ status: "cancelled" });
  });
});

const Heron = z.object({ legs: z.number() });
const langchain = (more: Partial<ConstructorParameters<typeof ChatOpenAI>[0]> = {}) =>
  new ChatOpenAI({ model: MODEL, apiKey: "none", maxRetries: 0, configuration: { baseURL }, ...more });

describe("LangChain", () => {
  for (const useResponsesApi of [false, true]) {
    const api = useResponsesApi ? "responses" : "chat";
    it(`[K1] withStructuredOutput by a function, ${api}`, async () => {
      provider.reply(calls("heron", { legs: 2 }));
      const model = langchain({ useResponsesApi }).withStructuredOutput(Heron, {
        name: "heron",
        method: "functionCalling",
      });
      expect(await model.invoke(asked)).toEqual({ legs: 2 });
    });

    it(`[K1] withStructuredOutput by a schema, ${api}`, async () => {
      provider.reply(says('{"legs":2}'), says('{"legs":2}'));
      const model = langchain({ useResponsesApi }).withStructuredOutput(Heron, { name: "heron", method: "jsonSchema" });
      expect(await model.invoke(asked)).toEqual({ legs: 2 });
    });

    it(`[K1] bindTools with tool_choice any and no parallel calls, ${api}`, async () => {
      provider.reply(calls("look", { at: "pond" }));
      const bound = langchain({ useResponsesApi }).bindTools(chatTools, {
        tool_choice: "any",
        parallel_tool_calls: false,
      });
      expect((await bound.invoke(asked)).tool_calls).toMatchObject([{ name: "look" }]);
      // To responses LangChain sends no word for "any".
      const choice = useResponsesApi ? {} : { tool_choice: "required" };
      expect(firstCall()).toMatchObject({ ...choice, parallel_tool_calls: false });
    });

    it(`[K1] bindTools with the name of a tool, ${api}`, async () => {
      provider.reply(calls("look", { at: "pond" }));
      const bound = langchain({ useResponsesApi }).bindTools(chatTools, { tool_choice: "look" });
      expect((await bound.invoke(asked)).tool_calls).toMatchObject([{ name: "look" }]);
      expect(firstCall()).toMatchObject({ tool_choice: named });
    });
  }
});

describe("the AI SDK", () => {
  const tools = {
    look: tool({ inputSchema: jsonSchema<{ at: string }>(LOOK), execute: ({ at }) => `a heron, ${at}` }),
  };
  for (const api of ["chat", "responses"] as const) {
    const model = () => createOpenAI({ baseURL, apiKey: "none" })[api](MODEL);

    it(`[K1] toolChoice required, ${api}`, async () => {
      provider.reply(calls("look", { at: "pond" }));
      const result = await generateText({
        model: model(),
        prompt: asked,
        tools,
        toolChoice: "required",
        maxRetries: 0,
      });
      expect(result.toolCalls).toMatchObject([{ toolName: "look" }]);
      expect(firstCall()).toMatchObject({ tool_choice: "required" });
    });

    it(`[K1] toolChoice of a tool in the first of two steps, ${api}`, async () => {
      provider.reply(calls("look", { at: "pond" }), says("A heron."));
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
      expect(firstCall()).toMatchObject({ tool_choice: named });
    });

    it(`[K1] parallelToolCalls false, ${api}`, async () => {
      provider.reply(calls("look", { at: "pond" }));
      const providerOptions = { openai: { parallelToolCalls: false } };
      await generateText({ model: model(), prompt: asked, tools, providerOptions, maxRetries: 0 });
      expect(firstCall()).toMatchObject({ parallel_tool_calls: false });
    });

    it(`[K1] an output of a schema, ${api}`, async () => {
      provider.reply(says('{"legs":2}'), says('{"legs":2}'));
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
          ? new OpenAIChatCompletionsModel(openai(), MODEL)
          : new OpenAIResponsesModel(openai() as never, MODEL),
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
      provider.reply(calls("look", { at: "pond" }), says("A heron."));
      const result = await new Runner().run(agentWith(settings, api), asked);
      expect(result.finalOutput).toBe("A heron.");
      expect(firstCall()).toMatchObject(wire);
    });
  }
});

/** The provider's refusals that each of our own calls is retried for. */
const OWN_CALLS = 4;

describe("clients with their default retries", () => {
  it.each([
    { status: 401, code: "invalid_api_key" },
    { status: 403, code: "forbidden" },
    { status: 400, code: "invalid_value" },
  ])("[K1] the official client is not made to retry a $status", async ({ status, code }) => {
    provider.reply(...Array.from({ length: 3 }, () => rejection(status, code)));
    const thrown = await openai({})
      .chat.completions.create({ model: MODEL, messages: [{ role: "user", content: asked }] })
      .catch((error: unknown) => error);
    expect(thrown).toMatchObject({ status, message: expect.stringContaining(code) });
    expect((thrown as InstanceType<typeof OpenAI.APIError>).headers?.get("x-should-retry")).toBe("false");
    expect(await cost()).toEqual({ calls: 1, sessions: 1 });
  });

  it.each([
    { refusal: "rate_limited" as const, status: 429 },
    { refusal: "overloaded" as const, status: 503 },
    { refusal: "server_error" as const, status: 502 },
  ])("[K1] the official client is told of $refusal, and retries in one session", async ({ refusal, status }) => {
    provider.reply(...refusals(refusal, 3 * OWN_CALLS));
    const thrown = await openai({})
      .responses.create({ model: MODEL, input: asked })
      .catch((error: unknown) => error);
    expect(thrown).toMatchObject({ status });
    const { headers } = thrown as InstanceType<typeof OpenAI.APIError>;
    expect(headers?.get("retry-after")).toBe(status === 502 ? null : "1");
    expect(await cost()).toEqual({ calls: 3 * OWN_CALLS, sessions: 1 });
  });

  it("[K1] a retry that succeeds is in the session of the failure, asked once, and goes on there", async () => {
    provider.reply(...refusals("server_error", OWN_CALLS), says("A heron."), says("Two."));
    const client = openai({});
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: asked }];
    const first = await client.chat.completions.create({ model: MODEL, messages }).withResponse();
    expect(first.data.choices[0]?.message.content).toBe("A heron.");
    expect(provider.requests.at(-1)?.body.messages).toEqual(messages);
    messages.push({ role: "assistant", content: "A heron." }, { role: "user", content: "Legs?" });
    const second = await client.chat.completions.create({ model: MODEL, messages }).withResponse();
    expect(second.response.headers.get("x-rkat-session")).toBe(first.response.headers.get("x-rkat-session"));
    expect(await cost()).toEqual({ calls: OWN_CALLS + 2, sessions: 1 });
  });

  it("[K1] a retry brings the results of calls once", async () => {
    provider.reply(calls("look", { at: "pond" }), ...refusals("server_error", OWN_CALLS), says("A heron."));
    const client = openai({});
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: asked }];
    const first = await client.chat.completions.create({ model: MODEL, messages, tools: chatTools });
    const message = first.choices[0]?.message ?? { role: "assistant" as const };
    messages.push(message, {
      role: "tool",
      tool_call_id: message.tool_calls?.[0]?.id ?? "",
      content: "a heron",
    });
    const second = await client.chat.completions.create({ model: MODEL, messages, tools: chatTools });
    expect(second.choices[0]?.message.content).toBe("A heron.");
    expect(provider.requests.at(-1)?.body.messages).toHaveLength(3);
    expect(await cost()).toEqual({ calls: 1 + OWN_CALLS + 1, sessions: 1 });
  });

  it("[K1] the same words again after an answer begin another session", async () => {
    provider.reply(says("One."), says("Two."));
    await chat({});
    expect((await chat({})).choices[0]?.message.content).toBe("Two.");
    expect(await cost()).toEqual({ calls: 2, sessions: 2 });
  });

  it("[K1] the AI SDK does not retry a 401, and retries a 429 in one session", async () => {
    const model = createOpenAI({ baseURL, apiKey: "none" })(MODEL);
    provider.reply(...refusals("auth", 1));
    await expect(generateText({ model, prompt: asked })).rejects.toSatisfy(
      (error) => APICallError.isInstance(error) && error.statusCode === 401,
    );
    expect(await cost()).toEqual({ calls: 1, sessions: 1 });
    provider.reply(...refusals("rate_limited", 3 * OWN_CALLS));
    await expect(generateText({ model, prompt: `${asked} Again.` })).rejects.toSatisfy(RetryError.isInstance);
    expect(await cost()).toEqual({ calls: 1 + 3 * OWN_CALLS, sessions: 2 });
  });

  it("[K1] LangChain does not retry a 401, and retries a 429 in one session", async () => {
    provider.reply(...refusals("auth", 1));
    await expect(langchain({ maxRetries: 1 }).invoke(asked)).rejects.toMatchObject({ status: 401 });
    expect(await cost()).toEqual({ calls: 1, sessions: 1 });
    provider.reply(...refusals("rate_limited", 2 * OWN_CALLS));
    await expect(langchain({ maxRetries: 1 }).invoke(`${asked} Again.`)).rejects.toMatchObject({ status: 429 });
    expect(await cost()).toEqual({ calls: 1 + 2 * OWN_CALLS, sessions: 2 });
  });
});
