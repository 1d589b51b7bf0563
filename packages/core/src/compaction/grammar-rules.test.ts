import { describe, expect, it } from "vitest";
import { createRandom } from "../../../../test/crash/random.ts";
import { PLANTED } from "../../../../test/support/planted-histories.ts";
import { randomHistory } from "../../../../test/support/random-history.ts";
import { type AiSdkModel, dialectOf } from "../providers/ai-sdk-dialect.ts";
import { buildPrompt } from "../providers/ai-sdk-prompt.ts";
import { isSent, type Reader } from "./grammar.ts";

const PROVIDERS: readonly { readonly reader: Reader; readonly provider: string }[] = [
  { reader: "anthropic", provider: "anthropic.messages" },
  { reader: "openai", provider: "openai.responses" },
  { reader: "google", provider: "google.generative-ai" },
];

const histories = [
  ...PLANTED.map((planted) => planted.messages),
  ...Array.from({ length: 500 }, (_, seed) => randomHistory(createRandom(seed))),
];
// The adapter needs the answer before them to send results at all; whether they fit it is for the pairs to judge.
const messages = histories.flat().filter((message) => message.role !== "tool_results");

describe("what is sent", () => {
  it.each(PROVIDERS)("[C14] to $provider is what the validators take for sent", ({ reader, provider }) => {
    // A dialect is found by these two names alone.
    const dialect = dialectOf({ specificationVersion: "v4", provider } as AiSdkModel);
    const wrong = messages.filter((message) => isSent(message, reader) !== buildPrompt([message], dialect).length > 0);
    expect(wrong).toEqual([]);
  });
});
