import { createRuntime } from "@rkat/core/create-runtime";
import { describe, expect, it } from "vitest";
import { configWith } from "./support/runtime.ts";
import { anthropicWire } from "./wire/anthropic.ts";
import { geminiWire } from "./wire/gemini.ts";
import { ollamaGenerateWire } from "./wire/ollama-generate.ts";
import { openAiBaseUrlWire, openAiChatWire } from "./wire/openai-chat.ts";
import { openAiResponsesWire } from "./wire/openai-responses.ts";
import type { WireFormat } from "./wire/scenario.ts";
import { openWireServer } from "./wire/server.ts";

const PRICE = { input: 3, cached_input: 0.3, cache_write: 3.75, output: 15, as_of: "2026-11-16" };
const USAGE = { input: 1_000, output: 100, cacheRead: 700, cacheWrite: 200 };

/** In US dollars, by what each format can tell of its cache. */
const COST: Readonly<Record<WireFormat["countsCache"], number>> = {
  "reads and writes": 0.000_3 + 0.000_21 + 0.000_75 + 0.001_5,
  reads: 0.000_9 + 0.000_21 + 0.001_5,
  nothing: 0.003 + 0.001_5,
};

const formats = [anthropicWire, openAiResponsesWire, openAiChatWire, openAiBaseUrlWire, geminiWire, ollamaGenerateWire];

describe("what a turn costs, by what its provider says it took", () => {
  for (const format of formats) {
    it(`[I7] of ${format.name}`, async () => {
      const server = await openWireServer(format);
      const { env, config, model } = format.settings(server.url);
      const { defaultModel: _, defaultProvider: _none, prices: _nobody, ...sections } = config;
      const settled = configWith({ ...sections, prices: { [model]: PRICE } } as Parameters<typeof configWith>[0]);
      const runtime = createRuntime({ env, config: settled, model });
      try {
        server.reply({ kind: "answer", scenario: { text: ["Hello."], usage: USAGE } });
        const session = await runtime.createSession("Hello?");
        const cost = { amount: Number(COST[format.countsCache].toFixed(9)), currency: "USD" };
        expect(session.lastResult).toMatchObject({ usage: { cost }, turnCost: cost });
      } finally {
        await runtime.close();
        await server.close();
      }
    });
  }

  it("[I7] is not told at an address that is not the provider's own, unless its price is configured", async () => {
    const server = await openWireServer(anthropicWire);
    const { env, model } = anthropicWire.settings(server.url);
    const runtime = createRuntime({ env, model });
    try {
      server.reply({ kind: "answer", scenario: { text: ["Hello."], usage: USAGE } });
      const session = await runtime.createSession("Hello?");
      expect(session.lastResult).not.toHaveProperty("turn_cost");
      expect(session.lastResult?.usage).not.toHaveProperty("cost");
    } finally {
      await runtime.close();
      await server.close();
    }
  });
});
