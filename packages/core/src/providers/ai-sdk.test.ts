import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { describe, expect, it } from "vitest";
import type { AssistantBlock, Message } from "../contract/message.ts";
import type { ModelPart, ModelRequest } from "../ports/model.ts";
import { createAiSdkModel } from "./ai-sdk.ts";
import type { AiSdkModel } from "./ai-sdk-dialect.ts";

const created_at = "2026-01-01T00:00:00Z";
const hi: Message = { role: "user", content: "hi", created_at };
const FINISH = { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage: {} } as const;

interface Played {
  readonly model: AiSdkModel;
  readonly calls: LanguageModelV4CallOptions[];
}

/** An AI SDK model that plays back parts, and notes how it was called. */
function play(parts: readonly unknown[], about: { provider?: string; version?: "v2" | "v3" | "v4" } = {}): Played {
  const calls: LanguageModelV4CallOptions[] = [];
  const model = {
    specificationVersion: about.version ?? "v4",
    provider: about.provider ?? "anthropic.messages",
    modelId: "m",
    doStream: async (options: LanguageModelV4CallOptions) => {
      calls.push(options);
      return { stream: ReadableStream.from(parts as LanguageModelV4StreamPart[]) };
    },
  };
  // Only what a client uses of a model is there.
  return { model: model as unknown as LanguageModelV4, calls };
}

async function ask(played: Played, request: Partial<ModelRequest> = {}): Promise<ModelPart[]> {
  const parts: ModelPart[] = [];
  const client = createAiSdkModel(played.model);
  const asked = { messages: [hi], tools: [], ...request };
  for await (const part of client.stream(asked, new AbortController().signal)) parts.push(part);
  return parts;
}

async function promptFor(messages: readonly Message[], about: Parameters<typeof play>[1]) {
  const played = play([FINISH], about);
  await ask(played, { messages });
  return played.calls[0]?.prompt;
}

function blocksOf(parts: readonly ModelPart[]): AssistantBlock[] {
  return parts.flatMap((part) => (part.type === "block" ? [part.block] : []));
}

function assistant(...blocks: AssistantBlock[]): Message {
  return { role: "block_assistant", blocks, stop_reason: "end_turn", created_at };
}

const image = { type: "image", media_type: "image/png", source: "inline", data: "aGk=" } as const;
const call: AssistantBlock = { block_type: "tool_use", data: { id: "t:1", name: "look", args: { at: "sky" } } };
const looked: Message = {
  role: "tool_results",
  results: [{ tool_use_id: "t:1", content: [{ type: "text", text: "blue" }, image], is_error: false }],
  created_at,
};

describe("AI SDK model", () => {
  it.each([
    ["", {}, undefined],
    ["{}", {}, undefined],
    ['{"a":1}', { a: 1 }, undefined],
    ["[1]", { raw_arguments: "[1]" }, "the arguments of look must be a JSON object"],
    ['{"a":', { raw_arguments: '{"a":' }, expect.stringMatching(/^the arguments of look are not valid JSON: /)],
  ])("[A5] tool arguments %j become %j", async (input, args, args_error) => {
    const parts = await ask(play([{ type: "tool-call", toolCallId: "t", toolName: "look", input }, FINISH]));
    const problem = args_error === undefined ? {} : { args_error };
    expect(blocksOf(parts)).toEqual([{ block_type: "tool_use", data: { id: "t", name: "look", args, ...problem } }]);
    expect(parts.at(-1)).toMatchObject({ type: "finish", stopReason: "tool_use" });
  });

  it("[A7] what was said before a tool call stays before it, though its text ends later", async () => {
    const parts = await ask(
      play([
        { type: "text-start", id: "0" },
        { type: "text-delta", id: "0", delta: "first" },
        { type: "tool-call", toolCallId: "t", toolName: "look", input: "{}" },
        { type: "text-delta", id: "0", delta: "then" },
        { type: "text-end", id: "0" },
        FINISH,
      ]),
    );
    expect(blocksOf(parts).map((block) => block.block_type)).toEqual(["text", "tool_use", "text"]);
  });

  it("[B5] a long tool input gives signs of life, so that it is not taken for a stall", async () => {
    const parts = await ask(
      play([
        { type: "tool-input-start", id: "t", toolName: "look" },
        { type: "tool-input-delta", id: "t", delta: "{" },
        { type: "tool-input-delta", id: "t", delta: "}" },
        { type: "ping" },
        FINISH,
      ]),
    );
    const life = { type: "text_delta", delta: "" };
    expect(parts.slice(0, -1)).toEqual([life, life, life, life]);
  });

  it("[A7] a tool the provider ran is no call of ours", async () => {
    const called = { type: "tool-call", toolCallId: "s", toolName: "web", input: '{"q":1}', providerExecuted: true };
    const parts = await ask(play([called, FINISH]));
    expect(blocksOf(parts)).toMatchObject([{ block_type: "server_tool_content", data: { id: "s", name: "web" } }]);
    expect(parts.at(-1)).toMatchObject({ stopReason: "end_turn" });
  });

  it.each([
    [{ anthropic: { signature: "s" } }, { provider: "anthropic", signature: "s" }],
    [{ anthropic: { redactedData: "r" } }, { provider: "anthropic_redacted", data: "r" }],
    [{ google: { thoughtSignature: "g" } }, { provider: "gemini", thoughtSignature: "g" }],
    [
      { googleVertex: { thoughtSignature: "g" }, vertex: { thoughtSignature: "g" } },
      { provider: "gemini", thoughtSignature: "g" },
    ],
    [{ openai: { itemId: "i", reasoningEncryptedContent: null } }, { provider: "open_ai", id: "i" }],
    [
      { openai: { itemId: "i", reasoningEncryptedContent: "e", phase: "final_answer" } },
      { provider: "open_ai", id: "i", encrypted_content: "e", phase: "final_answer" },
    ],
    [{ acme: { token: "t" } }, { provider: "unknown", metadata: { acme: { token: "t" } } }],
    [{ anthropic: { citations: [1] } }, { provider: "unknown", metadata: { anthropic: { citations: [1] } } }],
  ])("[A7] metadata %j is kept as %j", async (providerMetadata, meta) => {
    const parts = await ask(
      play([{ type: "reasoning-start", id: "r", providerMetadata }, { type: "reasoning-end", id: "r" }, FINISH]),
    );
    expect(blocksOf(parts)).toEqual([{ block_type: "reasoning", data: { text: "", meta } }]);
  });

  it.each([
    ["v2", "stop", { inputTokens: 3, outputTokens: 4, reasoningTokens: 2, totalTokens: 7, cachedInputTokens: 1 }],
    [
      "v3",
      { unified: "stop", raw: "x" },
      { inputTokens: { total: 3, cacheRead: 1 }, outputTokens: { total: 4, reasoning: 2 } },
    ],
    [
      "v4",
      { unified: "stop", raw: "x" },
      { inputTokens: { total: 3, cacheRead: 1 }, outputTokens: { total: 4, reasoning: 2 } },
    ],
  ] as const)("[A7] a model of %s finishes with its counts", async (version, finishReason, usage) => {
    const parts = await ask(play([{ type: "finish", finishReason, usage }], { version }));
    const counted = { input_tokens: 3, output_tokens: 4, reasoning_tokens: 2, cache_read_tokens: 1 };
    expect(parts).toEqual([{ type: "finish", stopReason: "end_turn", usage: counted }]);
  });

  it("[B5] what breaks after the finish is the end of the stream", async () => {
    async function* stream(): AsyncGenerator<unknown> {
      yield FINISH;
      throw new Error("late");
    }
    const model = {
      specificationVersion: "v4",
      provider: "x.chat",
      modelId: "m",
      doStream: async () => ({ stream: ReadableStream.from(stream()) }),
    };
    // Only what a client uses of a model is there.
    expect(await ask({ model: model as unknown as LanguageModelV4, calls: [] })).toMatchObject([{ type: "finish" }]);
  });

  it("[B5] a model that ignores its signal is left, at the opening too", async () => {
    const model = {
      specificationVersion: "v4",
      provider: "x.chat",
      modelId: "m",
      doStream: () => new Promise(() => {}),
    };
    // Only what a client uses of a model is there.
    const client = createAiSdkModel(model as unknown as LanguageModelV4);
    const abort = new AbortController();
    const parts = client.stream({ messages: [hi], tools: [] }, abort.signal)[Symbol.asyncIterator]();
    const first = parts.next();
    abort.abort();
    expect(await first).toMatchObject({ value: { type: "failed" } });
  });

  it("[A7] a message is converted once, and only the last is marked for Anthropic's cache", async () => {
    const played = play([FINISH]);
    const system: Message = { role: "system", content: "Be brief.", created_at };
    const more: Message = { role: "user", content: "more", created_at };
    await ask(played, { messages: [system, hi, assistant({ block_type: "text", data: { text: "yes" } })] });
    await ask(played, { messages: [system, hi, more] });
    const [first, second] = played.calls;
    expect(second?.prompt[1]).toBe(first?.prompt[1]);
    const providerOptions = { anthropic: { cacheControl: { type: "ephemeral" } } };
    expect(second?.prompt.map((message) => message.providerOptions)).toEqual([
      providerOptions,
      undefined,
      providerOptions,
    ]);
  });

  it("[A7] tool results carry images where the provider can see them", async () => {
    const output = async (provider: string, version: "v2" | "v3" | "v4" = "v4") =>
      (await promptFor([hi, assistant(call), looked], { provider, version }))?.[2]?.content[0];
    const text = { type: "text", text: "blue" };
    expect(await output("anthropic.messages")).toEqual({
      type: "tool-result",
      toolCallId: "t_1",
      toolName: "look",
      output: {
        type: "content",
        value: [text, { type: "file", mediaType: "image/png", data: { type: "data", data: "aGk=" } }],
      },
    });
    expect(await output("google.generative-ai", "v3")).toMatchObject({
      output: { value: [text, { type: "image-data", mediaType: "image/png", data: "aGk=" }] },
    });
    expect(await output("google.generative-ai", "v2")).toMatchObject({ output: { value: [text, { type: "media" }] } });
    expect(await output("local.chat")).toMatchObject({ output: { type: "text", value: "blue\n[image: image/png]" } });
  });

  it("[A5] a failed tool's result is marked as an error", async () => {
    const failed: Message = {
      role: "tool_results",
      results: [{ tool_use_id: "t:1", content: "no", is_error: true }],
      created_at,
    };
    const prompt = await promptFor([hi, assistant(call), failed], { provider: "openai.responses" });
    expect(prompt?.[2]?.content).toMatchObject([{ toolCallId: "t:1", output: { type: "error-text", value: "no" } }]);
  });

  it("[A7] a result without its call is left out, since providers refuse the whole request", async () => {
    expect(await promptFor([hi, looked], { provider: "anthropic.messages" })).toHaveLength(1);
  });

  it("[K1] files and images at an address are sent as the provider takes them, and named where it takes none", async () => {
    const pdf = { type: "file", media_type: "application/pdf", name: "a.pdf", source: "inline", data: "aGk=" } as const;
    const far = { type: "image", media_type: "image/*", source: "url", url: "https://example.test/heron.png" } as const;
    const said: Message = { role: "user", content: [pdf, far], created_at };
    const content = async (provider: string) => (await promptFor([said], { provider }))?.[0]?.content;
    const file = {
      type: "file",
      mediaType: "application/pdf",
      filename: "a.pdf",
      data: { type: "data", data: "aGk=" },
    };
    const named = { type: "text", text: "[image: image/*]" };
    const fetched = { type: "file", mediaType: "image/*", data: { type: "url", url: new URL(far.url) } };
    expect(await content("anthropic.messages")).toEqual([file, fetched]);
    expect(await content("openai.responses")).toEqual([file, fetched]);
    expect(await content("google.generative-ai")).toEqual([file, named]);
    expect(await content("local.chat")).toEqual([{ type: "text", text: "[file: application/pdf a.pdf]" }, named]);
  });

  it("[A7] notices are labelled, blobs are named, and a late system message is a notice", async () => {
    const prompt = await promptFor(
      [
        {
          role: "user",
          content: [{ type: "image", media_type: "image/png", source: "blob", blob_id: "b" }, image],
          created_at,
        },
        { role: "system_notice", kind: "resumed", body: "after a restart", created_at },
        { role: "system", content: "late", created_at },
      ],
      { provider: "openai.responses" },
    );
    expect(prompt).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "[image: image/png]" },
          { type: "file", mediaType: "image/png", data: { type: "data", data: "aGk=" } },
        ],
      },
      { role: "user", content: [{ type: "text", text: "[system notice: resumed]\nafter a restart" }] },
      { role: "user", content: [{ type: "text", text: "[system notice: system]\nlate" }] },
    ]);
  });

  it("[A7] reasoning that led to nothing, and text that says nothing, are not sent", async () => {
    const meta = { provider: "anthropic", signature: "s" } as const;
    const thought: AssistantBlock = { block_type: "reasoning", data: { text: "hm", meta } };
    const blank: AssistantBlock = { block_type: "text", data: { text: " \n" } };
    expect(await promptFor([hi, assistant(thought, blank)], { provider: "anthropic.messages" })).toHaveLength(1);
  });

  it("[A7] parameters are split between the standard ones and the provider's own", async () => {
    const providerParams = {
      temperature: 0.5,
      top_p: 0.9,
      top_k: 5,
      stop: "END",
      thinking: { type: "enabled", budget_tokens: 9 },
    };
    const anthropic = play([FINISH]);
    await ask(anthropic, { providerParams, maxOutputTokens: 7, outputSchema: { type: "object" } });
    expect(anthropic.calls[0]).toMatchObject({
      temperature: 0.5,
      topP: 0.9,
      topK: 5,
      stopSequences: ["END"],
      maxOutputTokens: 7,
      responseFormat: { type: "json", schema: { type: "object" } },
      providerOptions: { anthropic: { thinking: { type: "enabled", budgetTokens: 9 } } },
    });
    const local = play([FINISH], { provider: "local.chat" });
    await ask(local, { providerParams: { top_k: 5, chat_template_kwargs: { a_b: 1 } } });
    expect(local.calls[0]?.providerOptions).toEqual({
      local: { top_k: 5, chat_template_kwargs: { a_b: 1 }, strictJsonSchema: false },
    });
  });

  it.each([
    ["anthropic.messages", { anthropic: { thinking: { type: "enabled", budgetTokens: 2_048 } } }],
    ["google.generative-ai", { google: { thinkingConfig: { thinkingBudget: 2_048 } } }],
    ["local.chat", { local: { thinking_budget: 2_048 } }],
  ])("[A7] thinking_budget is what %s calls it", async (provider, options) => {
    const model = play([FINISH], { provider });
    await ask(model, { providerParams: { thinking_budget: 2_048 } });
    expect(model.calls[0]?.providerOptions).toMatchObject(options);
  });

  it.each([
    ["anthropic.messages", { made_up: 1 }, /^made_up: anthropic has no such parameter; it has temperature, .*thinking/],
    ["anthropic.messages", { seed: 1 }, /^seed: anthropic has no such/],
    ["anthropic.messages", { temperature: "hot" }, /^temperature: write a number$/],
    ["openai.responses", { thinking_budget: 1 }, /^thinking_budget: openai has no such .*reasoningEffort/],
    ["openai.chat", { top_k: 1 }, /^top_k: openai has no such/],
    ["google.generative-ai", { constructor: 1 }, /^constructor: google has no such/],
  ])("[H1] [A7] a parameter %s would pass over is refused: %j", (provider, params, why) => {
    const { refuseParams } = createAiSdkModel(play([FINISH], { provider }).model);
    expect(refuseParams?.(params)).toMatch(why);
  });

  it("[A7] what a provider hears, and all that a compatible server is given, is not refused", () => {
    const refused = (provider: string, params: object) =>
      createAiSdkModel(play([FINISH], { provider }).model).refuseParams?.({ ...params });
    expect(refused("anthropic.messages", { top_k: 5, stop: "END", thinking: {}, thinking_budget: 9 })).toBeUndefined();
    expect(refused("openai.responses", { reasoning_effort: "low", temperature: 0 })).toBeUndefined();
    expect(refused("google.generative-ai", { thinkingConfig: {}, seed: 1 })).toBeUndefined();
    expect(refused("local.chat", { whatever: 1 })).toBeUndefined();
  });

  it("[A7] a parameter named like what every object has is the provider's own", async () => {
    const anthropic = play([FINISH]);
    await ask(anthropic, { providerParams: { constructor: 5 } });
    expect(anthropic.calls[0]?.providerOptions).toEqual({ anthropic: { constructor: 5, includePings: true } });
  });

  it("[A7] OpenAI keeps no state for us, and changes no tool's schema", async () => {
    const openai = play([FINISH], { provider: "openai.responses" });
    const tool = { name: "look", description: "Looks.", inputSchema: { type: "object" } };
    await ask(openai, { tools: [tool], providerParams: { reasoning_effort: "low" } });
    expect(openai.calls[0]).toMatchObject({
      providerOptions: { openai: { store: false, reasoningEffort: "low" } },
      tools: [{ type: "function", strict: false }],
    });
  });
});
