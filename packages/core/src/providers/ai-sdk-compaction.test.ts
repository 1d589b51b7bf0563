import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { describe, expect, it } from "vitest";
import type { Message } from "../contract/message.ts";
import type { JsonObject } from "../contract/session.ts";
import type { ModelPart, NativeSummary } from "../ports/model.ts";
import { createAiSdkModel } from "./ai-sdk.ts";

const created_at = "2026-01-01T00:00:00Z";
const summary: Message = { role: "user", content: "OUR SUMMARY", created_at, compaction_id: "c1" };
const hi: Message = { role: "user", content: "hi", created_at };
const FINISH = { type: "finish", finishReason: { unified: "other", raw: "compaction" }, usage: {} } as const;

const ANTHROPIC = {
  provider: "anthropic.messages",
  item: { type: "compaction", content: "all of it", signature: "s" },
};
const OPENAI = { provider: "openai.responses", item: { type: "compaction", id: "cmp_1", encrypted_content: "e" } };
const AZURE = { ...OPENAI, provider: "azure.responses" };

/** A model of a package that plays back parts, and notes how it was called. */
function play(provider: string, parts: readonly unknown[] = [FINISH], version: "v3" | "v4" = "v4") {
  const calls: LanguageModelV4CallOptions[] = [];
  const doStream = async (options: LanguageModelV4CallOptions) => {
    calls.push(options);
    return { stream: ReadableStream.from(parts as LanguageModelV4StreamPart[]) };
  };
  // Only what a client uses of a model is there.
  const model = { specificationVersion: version, provider, modelId: "m", doStream } as unknown as LanguageModelV4;
  return { client: createAiSdkModel(model), calls };
}

const signal = new AbortController().signal;

async function gather(stream: AsyncIterable<ModelPart> | undefined): Promise<ModelPart[]> {
  const parts: ModelPart[] = [];
  for await (const part of stream ?? []) parts.push(part);
  return parts;
}

async function sentBy(provider: string, native: NativeSummary, providerParams: JsonObject = {}): Promise<string> {
  const { client, calls } = play(provider);
  await gather(client.stream({ messages: [summary, hi], tools: [], native, providerParams }, signal));
  return JSON.stringify(calls[0]?.prompt);
}

const nativeOf = (item: JsonObject): NativeSummary => ({ compactionId: "c1", item, following: "RULES" });

describe("a provider's own compaction, sent back", () => {
  it.each([ANTHROPIC, OPENAI, AZURE])(
    "[C6] stands for the summary, with the rules behind it: $provider",
    async (of) => {
      const sent = await sentBy(of.provider, nativeOf(of.item));
      expect(sent).not.toContain("OUR SUMMARY");
      expect(sent.indexOf("RULES")).toBeGreaterThan(sent.indexOf(of === ANTHROPIC ? "all of it" : "cmp_1"));
      expect(sent.indexOf("hi")).toBeGreaterThan(sent.indexOf("RULES"));
    },
  );

  it.each([
    ["openai.chat", OPENAI.item, {}],
    ["google.generative-ai", OPENAI.item, {}],
    ["anthropic.messages", OPENAI.item, {}],
    ["openai.responses", ANTHROPIC.item, {}],
    ["anthropic.messages", {}, {}],
    ["anthropic.messages", { ...ANTHROPIC.item, content: " " }, {}],
    ["anthropic.messages", { ...ANTHROPIC.item, signature: 7 }, {}],
    ["anthropic.messages", { ...ANTHROPIC.item, content: ["all of it"] }, {}],
    ["openai.responses", { ...OPENAI.item, encrypted_content: null }, {}],
    ["openai.responses", OPENAI.item, { store: true }],
    ["openai.responses", OPENAI.item, { previous_response_id: "resp_1" }],
    ["openai.responses", OPENAI.item, { conversation: "conv_1" }],
    ["anthropic.messages", ANTHROPIC.item, { context_management: { edits: [{ type: "compact_20260112" }] } }],
    ["anthropic.messages", ANTHROPIC.item, { task_budget: { type: "tokens", total: 20_000, remaining: 1 } }],
  ])("[C6] where %s cannot be sent %j with %j, the summary is", async (provider, item, params) => {
    const sent = await sentBy(provider, nativeOf(item), params);
    expect(sent).toContain("OUR SUMMARY");
    expect(sent).not.toContain("RULES");
  });

  it("[C10] is not repeated by whoever tells why it was refused", async () => {
    const item = { ...OPENAI.item, encrypted_content: "Z".repeat(64) };
    const failing = { type: "error", error: new Error(`cannot read ${item.encrypted_content}, sorry`) };
    const { client } = play(OPENAI.provider, [failing]);
    const parts = await gather(client.stream({ messages: [summary], tools: [], native: nativeOf(item) }, signal));
    expect(parts).toMatchObject([
      { type: "failed", failure: { message: expect.stringContaining("[redacted], sorry") } },
    ]);
  });
});

const textParts = (metadata: object, ...deltas: readonly string[]) => [
  { type: "text-start", id: "0", providerMetadata: { anthropic: metadata } },
  ...deltas.map((delta) => ({ type: "text-delta", id: "0", delta })),
  { type: "text-end", id: "0" },
];
const custom = (values: object) => ({
  type: "custom",
  kind: "openai.compaction",
  providerMetadata: { openai: { type: "compaction", ...values } },
});
const OF_OPENAI = custom({ itemId: "cmp_1", encryptedContent: "e" });

async function made(provider: string, parts: readonly unknown[]) {
  const { client, calls } = play(provider, parts);
  const reported = await gather(client.compaction?.stream({ messages: [hi], tools: [], maxOutputTokens: 200 }, signal));
  const blocks = reported.flatMap((part) => (part.type === "block" ? [part.block] : []));
  return { reported, blocks, options: calls[0] };
}

describe("a provider asked for its own compaction", () => {
  it("[C6] of Anthropic is one signed block; nothing of it is told before it is whole", async () => {
    const signed = { type: "compaction", signature: "s" };
    const { reported, blocks, options } = await made(ANTHROPIC.provider, [
      ...textParts(signed, "all ", "of it"),
      FINISH,
    ]);
    expect(blocks).toEqual([
      { block_type: "server_tool_content", data: { name: "compaction", content: ANTHROPIC.item } },
    ]);
    expect(reported.filter((part) => part.type === "text_delta" && part.delta !== "")).toEqual([]);
    expect(options).toMatchObject({
      maxOutputTokens: 200,
      providerOptions: { anthropic: { compaction: { type: "summarize" } } },
    });
  });

  it("[C6] of OpenAI is one item; no limit is set, since reasoning would use it up", async () => {
    const { blocks, options } = await made(OPENAI.provider, [OF_OPENAI, FINISH]);
    expect(blocks).toMatchObject([{ data: { content: OPENAI.item } }]);
    expect(options).toMatchObject({ providerOptions: { openai: { compactionTrigger: true, store: false } } });
    expect(options).not.toHaveProperty("maxOutputTokens");
  });

  it.each([
    ["of nothing", ANTHROPIC.provider, [FINISH]],
    ["of an unsigned block", ANTHROPIC.provider, [...textParts({ type: "compaction" }, "all of it"), FINISH]],
    ["of an empty block", ANTHROPIC.provider, [...textParts({ type: "compaction", signature: "s" }), FINISH]],
    ["of a plain text", ANTHROPIC.provider, [...textParts({}, "Hello!"), FINISH]],
    ["of two items", OPENAI.provider, [OF_OPENAI, OF_OPENAI, FINISH]],
    ["of an item without what it is about", OPENAI.provider, [custom({ itemId: "cmp_1" }), FINISH]],
  ])("[C10] an answer %s gives none", async (_what, provider, parts) => {
    const { reported, blocks } = await made(provider, parts);
    expect(blocks).toEqual([]);
    expect(reported.at(-1)).toMatchObject({ type: "finish" });
  });

  it("[C10] that does not end is broken off", async () => {
    const deltas = Array.from({ length: 5 }, () => "x".repeat(1_024 * 1_024));
    const { reported } = await made(ANTHROPIC.provider, textParts({ type: "compaction", signature: "s" }, ...deltas));
    expect(reported.at(-1)).toMatchObject({ type: "failed", failure: { kind: "answer_too_long" } });
  });

  it.each([
    ["openai.chat", "v4"],
    ["google.generative-ai", "v4"],
    ["anthropic.messages", "v3"],
  ] as const)("[C10] %s of %s has none", (provider, version) => {
    expect(play(provider, [], version).client.compaction).toBeUndefined();
  });
});
