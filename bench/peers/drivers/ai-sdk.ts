import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { jsonSchema, type ModelMessage, pruneMessages, stepCountIs, streamText, tool } from "ai";
import type { Open } from "../driver.ts";

export const open: Open = async ({ baseUrl, model, systemPrompt, tools, folder, windowTokens }) => {
  const provider = createOpenAICompatible({ name: "local", baseURL: baseUrl, apiKey: "none", includeUsage: true });
  const sessions = new Map<string, ModelMessage[]>();
  const path = (session: string): string => join(folder ?? "", `${session}.json`);
  const load = async (session: string): Promise<ModelMessage[]> => {
    if (folder === undefined) return sessions.get(session) ?? [];
    return JSON.parse(await readFile(path(session), "utf8"));
  };
  const save = async (session: string, messages: ModelMessage[]): Promise<void> => {
    if (folder === undefined) sessions.set(session, messages);
    else await writeFile(path(session), JSON.stringify(messages, null, 2));
  };
  const toolSet = Object.fromEntries(
    tools.map(({ name, description, fields, run }) => {
      const properties = Object.fromEntries(Object.entries(fields).map(([field, type]) => [field, { type }]));
      const inputSchema = jsonSchema<Record<string, unknown>>({
        type: "object",
        properties,
        required: Object.keys(fields),
        additionalProperties: false,
      });
      return [name, tool({ description, inputSchema, execute: (args) => run(args) })];
    }),
  );
  return {
    begin: async () => {
      const session = crypto.randomUUID();
      if (folder !== undefined) await mkdir(folder, { recursive: true });
      await save(session, []);
      return session;
    },
    turn: async (session, prompt) => {
      const messages: ModelMessage[] = [...(await load(session)), { role: "user", content: prompt }];
      const result = streamText({
        model: provider(model),
        system: systemPrompt,
        messages,
        tools: toolSet,
        stopWhen: stepCountIs(10),
        prepareStep: ({ messages }) => {
          const tokens = JSON.stringify(messages).length / CHARS_PER_TOKEN;
          if (windowTokens === undefined || tokens < COMPACTED_FROM * windowTokens) return {};
          const options = { reasoning: "all", toolCalls: "before-last-3-messages", emptyMessages: "remove" } as const;
          return { messages: pruneMessages({ messages, ...options }) };
        },
      });
      let text = "";
      for await (const delta of result.textStream) text += delta;
      const added = await result.responseMessages;
      await save(session, [...messages, ...added]);
      return text;
    },
    kept: async (session) => JSON.stringify(await load(session)),
    close: async () => {},
  };
};

const CHARS_PER_TOKEN = 4;
const COMPACTED_FROM = 0.75;
