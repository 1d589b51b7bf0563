import { describe, expect, it } from "vitest";
import type { Message } from "../contract/message.ts";
import type { ModelRequest } from "../ports/model.ts";
import { createOllamaGenerateModel } from "./ollama-generate.ts";

const created_at = "2026-01-01T00:00:00Z";

/** Asks a model behind a server that only notes the request. */
async function bodyFor(request: Partial<ModelRequest>, stop?: readonly string[]): Promise<Record<string, unknown>> {
  let body = "";
  const fetch: typeof globalThis.fetch = async (_, init) => {
    body = String(init?.body);
    return new Response('{"response":"","done":true}\n');
  };
  const client = createOllamaGenerateModel({ baseUrl: "http://box:11434", model: "comma", stop, fetch });
  const asked = { messages: [], tools: [], ...request };
  for await (const _ of client.stream(asked, new AbortController().signal));
  return JSON.parse(body);
}

describe("raw completion", () => {
  it("[A7] a single request is continued exactly as it is written", async () => {
    const prompt = "Summarize these memories in 2-3 sentences:\n\n- tea\n\nSUMMARY:\n";
    const messages: Message[] = [{ role: "user", content: prompt, created_at }];
    expect(await bodyFor({ messages, maxOutputTokens: 80, providerParams: { temperature: 0.2 } }, ["\n\n"])).toEqual({
      model: "comma",
      prompt,
      raw: true,
      stream: true,
      options: { temperature: 0.2, num_predict: 80, stop: ["\n\n"] },
    });
  });

  it("[A7] a conversation is a transcript, left open for the model", async () => {
    const messages: Message[] = [
      { role: "system", content: "A polite talk.", created_at },
      { role: "user", content: "Tea?", created_at },
      {
        role: "block_assistant",
        blocks: [{ block_type: "text", data: { text: "Yes." } }],
        stop_reason: "end_turn",
        created_at,
      },
      { role: "user", content: [{ type: "text", text: "Milk?" }], created_at },
    ];
    const { prompt } = await bodyFor({ messages, stopSequences: ["User:"] });
    expect(prompt).toBe("A polite talk.\n\nUser: Tea?\n\nAssistant: Yes.\n\nUser: Milk?\n\nAssistant:");
  });
});
