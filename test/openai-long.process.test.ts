import { defaultConfig } from "@rkat/core/config/settings";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { estimateTokens } from "@rkat/core/turn/tokens";
import OpenAI from "openai";
import { expect, it } from "vitest";
import { openChatServer } from "./support/chat-server.ts";
import { byEffort } from "./support/effort.ts";

const WINDOW = 8_000;
const MESSAGES = byEffort({ quick: 600, usual: 600, full: 2_000 });
const LINE = "The heron stands in the reeds and looks at the water for a long while. ";

it("[K1] [C1] a stateless conversation of any length never overflows, and what was said first is recalled by default", async () => {
  const isOverflowing: number[] = [];
  const model = createScriptedModel(
    ({ messages }) => {
      const tokens = estimateTokens(messages);
      if (tokens > WINDOW) isOverflowing.push(tokens);
      const last = messages.at(-1);
      if (last?.role === "tool_results") return { text: `It was: ${JSON.stringify(last.results[0]?.content)}` };
      const isQuestion = last?.role === "user" && last.content === "What is the colour of the gate?";
      if (isQuestion) return { calls: [{ id: "m1", name: "memory_search", args: { query: "colour of the gate" } }] };
      return { text: `${LINE.repeat(4)} (${messages.length})`, usage: { input_tokens: tokens, output_tokens: 80 } };
    },
    { contextWindow: WINDOW },
  );
  const store = createInMemoryStore();
  const runtime = createRuntime({ model, env: {}, store, compaction: true, memory: {} });
  const server = await openChatServer(runtime, { settings: defaultConfig().openai });
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
  try {
    const messages: OpenAI.ChatCompletionMessageParam[] = [];
    const sessions = new Set<string | null>();
    const bytes: number[] = [];
    const ask = async (content: string) => {
      messages.push({ role: "user", content });
      const asked = client.chat.completions.create({ model: "scripted", messages });
      const { data, response } = await asked.withResponse();
      const session = response.headers.get("x-rkat-session");
      sessions.add(session);
      const answer = data.choices[0]?.message.content ?? "";
      messages.push({ role: "assistant", content: answer });
      return { answer, session: session ?? "" };
    };
    const logBytes = async (session: string) => JSON.stringify(await store.log.read(session, 1, 1_000_000)).length;
    const { session } = await ask("The colour of the gate is vermilion; remember it.");
    while (messages.length < MESSAGES) {
      await ask(`${LINE.repeat(2)} Number ${messages.length}.`);
      if (messages.length % (MESSAGES / 4) === 0) bytes.push(await logBytes(session));
    }
    const { answer } = await ask("What is the colour of the gate?");
    expect(answer).toContain("vermilion");
    expect([...sessions]).toHaveLength(1);
    expect(isOverflowing).toEqual([]);
    // A quarter of the conversation costs what any other does: nothing of it is kept again with every turn.
    const grown = bytes.slice(1).map((now, at) => now - (bytes[at] ?? 0));
    expect(Math.max(...grown) / Math.min(...grown)).toBeLessThan(1.25);
  } finally {
    await server.close();
    await runtime.close();
  }
}, 600_000);
