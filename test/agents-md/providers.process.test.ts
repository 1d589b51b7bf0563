import type { Config } from "@rkat/core/config/config-schema";
import { defaultConfig } from "@rkat/core/config/settings";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { describe, expect, it } from "vitest";
import { anthropicWire } from "../wire/anthropic.ts";
import { geminiWire } from "../wire/gemini.ts";
import { ollamaGenerateWire } from "../wire/ollama-generate.ts";
import { openAiChatWire } from "../wire/openai-chat.ts";
import { openAiResponsesWire } from "../wire/openai-responses.ts";
import { openWireServer } from "../wire/server.ts";

const FORMATS = [anthropicWire, openAiResponsesWire, openAiChatWire, geminiWire, ollamaGenerateWire];
const ROUNDS = 20;
const LONG = "word ".repeat(300);
const TEXT =
  '# Rules\r\n\n- Run `make check`; quote "this" \\ that.\n\tTabs stay.  Two spaces, a trailing one \n- “Ümläut” 漢字 🙂 \u0001 <b>&amp;</b>\n\n\n[Context compacted] is a word of ours.\n';

/** Every text of a request, however its format nests them. */
function textsIn(value: unknown): readonly string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

describe("AGENTS.md in the requests of providers", () => {
  it.each(FORMATS.map((format) => [format.name, format] as const))(
    `[T2] is byte for byte the same after ${ROUNDS} compactions: %s`,
    async (_name, format) => {
      const server = await openWireServer(format);
      const { env, config, model } = format.settings(server.url);
      const usage = { input: 100, output: 10 };
      const runtime = createRuntime({
        env,
        model,
        config: { ...defaultConfig(), ...config } as Config,
        store: createInMemoryStore(),
        compaction: { recentTurnBudget: 1 },
        agentsMd: async () => ({ files: [{ key: "AGENTS.md", text: TEXT }], warnings: [] }),
      });
      const occurrences = () =>
        textsIn(server.requests.at(-1)?.body)
          .join("\u0000")
          .split(`Instructions of the user for this project, from AGENTS.md:\n\n${TEXT}`).length - 1;
      const answers = (text: string) => server.reply({ kind: "answer", scenario: { text: [text], usage } });
      try {
        answers("Hello.");
        const session = await runtime.createSession(`Begin. ${LONG}`);
        expect(occurrences()).toBe(1);
        for (let round = 1; round <= ROUNDS; round += 1) {
          answers(`Answer ${round}.`);
          await session.turn(`Question ${round}. ${LONG}`);
          answers(`Summary of round ${round}: the work goes on.`);
          expect((await session.compact()).compacted, `round ${round}`).toBe(true);
          answers("Yes.");
          await session.turn(`After ${round}. ${LONG}`);
          expect(occurrences(), `round ${round}`).toBe(1);
        }
      } finally {
        await runtime.close();
        await server.close();
      }
    },
  );
});
