// What offering memory to OpenAI's clients costs where it is not used: tokens of a request, and CPU of a turn over that
// of a turn without tools, in the same run.

import { estimateTokens, toolTokens } from "@rkat/core/turn/tokens";
import { createInMemoryStore, createRuntime, createScriptedModel } from "@rkat/node";
import { readTalk } from "@rkat/server/openai/chat-messages";
import { runChat } from "@rkat/server/openai/chat-routes";
import { createConversations } from "@rkat/server/openai/conversations";
import { publish } from "./report.ts";

const TURNS = 150;
const ROUNDS = 8;
const TOKENS_MAX = 1_000;
const RATIO_MAX = 1.15;
const TEXT = "The heron stands in the reeds and looks at the water for a long while. ".repeat(3);

/** One stateless conversation; the CPU of a turn in milliseconds, and the tokens of its first request. */
async function converse(offersMemory: boolean): Promise<{ readonly ms: number; readonly tokens: number }> {
  const model = createScriptedModel(({ messages }) => ({ text: `${TEXT} ${messages.length}` }), {
    contextWindow: 32_000,
  });
  const runtime = createRuntime({ model, env: {}, store: createInMemoryStore(), compaction: true, memory: {} });
  const conversations = createConversations();
  const party = { caller: "bench", system: undefined, marks: [] };
  const messages: { role: "user" | "assistant"; content: string }[] = [];
  const settings = { tool_preset: "none" };
  const before = process.cpuUsage();
  for (let turn = 0; turn < TURNS; turn += 1) {
    messages.push({ role: "user", content: `${TEXT} ${turn}` });
    const chat = {
      talk: readTalk(messages),
      party,
      named: undefined,
      creation: { ...settings, memory_scope: "session", labels: {} },
      continuation: { change_settings: settings },
    };
    const { text } = await runChat(runtime, conversations, chat, { found: () => {}, offersMemory });
    messages.push({ role: "assistant", content: text });
  }
  const { user, system } = process.cpuUsage(before);
  await runtime.close();
  const [first] = model.requests;
  if (first === undefined) throw new Error("no model was called");
  return { ms: (user + system) / 1_000 / TURNS, tokens: estimateTokens(first.messages) + toolTokens(first.tools) };
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
await converse(true);
await converse(false);
const runs = { none: [] as number[], memory: [] as number[] };
let tokens = 0;
for (let round = 0; round < ROUNDS; round += 1) {
  const [none, memory] = [await converse(false), await converse(true)];
  runs.none.push(none.ms);
  runs.memory.push(memory.ms);
  tokens = memory.tokens - none.tokens;
}
const [none, memory] = [median(runs.none), median(runs.memory)];
await publish({
  name: "openai-memory",
  tables: [
    [
      ["tools", "CPU of a turn, ms", "further tokens of a request"],
      ["none", none.toFixed(2), "0"],
      ["memory", memory.toFixed(2), String(tokens)],
    ],
  ],
  targets: [
    { what: "further tokens of a request", value: tokens, max: TOKENS_MAX },
    { what: "CPU of a turn with memory over one without", value: memory / none, max: RATIO_MAX },
  ],
  measured: { ...runs, tokens },
});
