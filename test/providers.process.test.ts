import { createModelResolver } from "@rkat/core/providers/resolve";
import { describeModelClient } from "./contract/model-client.ts";
import { anthropicWire } from "./wire/anthropic.ts";
import { geminiWire } from "./wire/gemini.ts";
import { ollamaGenerateWire } from "./wire/ollama-generate.ts";
import { openAiBaseUrlWire, openAiChatWire } from "./wire/openai-chat.ts";
import { openAiResponsesWire } from "./wire/openai-responses.ts";

const formats = [anthropicWire, openAiResponsesWire, openAiChatWire, openAiBaseUrlWire, geminiWire, ollamaGenerateWire];

for (const format of formats) {
  describeModelClient(format, (url) => {
    const { env, config, model } = format.settings(url);
    return createModelResolver({ env, config }).resolve(model, undefined);
  });
}
