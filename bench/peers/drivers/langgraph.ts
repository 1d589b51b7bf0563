import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { AIMessageChunk } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { InMemoryStore, MemorySaver } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { createAgent, summarizationMiddleware } from "langchain";
import type { Open } from "../driver.ts";

export const open: Open = async ({
  baseUrl,
  model,
  systemPrompt,
  tools,
  folder,
  survives,
  embeddings,
  windowTokens,
}) => {
  if (folder !== undefined) await mkdir(folder, { recursive: true });
  const checkpointer =
    folder === undefined ? new MemorySaver() : SqliteSaver.fromConnString(join(folder, "checkpoints.db"));
  const index = embeddings && {
    dims: embeddings.dimensions,
    fields: ["text"],
    embeddings: new OpenAIEmbeddings({
      model: embeddings.model,
      apiKey: "none",
      configuration: { baseURL: embeddings.baseUrl },
    }),
  };
  const store = new InMemoryStore({ index });
  const chat = new ChatOpenAI({ model, apiKey: "none", configuration: { baseURL: baseUrl }, streaming: true });
  const trigger = { tokens: COMPACTED_FROM * (windowTokens ?? 0) };
  const agent = createAgent({
    model: chat,
    middleware: windowTokens === undefined ? [] : [summarizationMiddleware({ model: chat, trigger })],
    systemPrompt,
    checkpointer,
    tools: tools.map(({ name, description, fields, run }) =>
      tool(async (args, { toolCall }) => run(args as Readonly<Record<string, unknown>>, toolCall?.id), {
        name,
        description,
        schema: {
          type: "object",
          properties: Object.fromEntries(Object.entries(fields).map(([field, type]) => [field, { type }])),
          required: Object.keys(fields),
          additionalProperties: false,
        },
      }),
    ),
  });
  // The mode that its guide on durable execution gives for turns that must survive a crash.
  const durability = survives ? ({ durability: "sync" } as const) : {};
  const config = (thread_id: string) => ({ configurable: { thread_id }, ...durability });
  const listen = async (input: object | null, session: string): Promise<string> => {
    let text = "";
    for await (const [message] of await agent.stream(input, { ...config(session), streamMode: "messages" }))
      if (message instanceof AIMessageChunk) text += message.text;
    return text;
  };
  return {
    begin: async () => crypto.randomUUID(),
    turn: (session, prompt) => listen({ messages: [{ role: "user", content: prompt }] }, session),
    kept: async (session) => {
      const { values } = await agent.graph.getState(config(session));
      return JSON.stringify(values?.messages ?? []);
    },
    recover: async (session) => {
      const { next } = await agent.graph.getState(config(session));
      if (next.length > 0) await listen(null, session);
      return undefined;
    },
    learn: async (talks) => {
      for (const [at, talk] of talks.entries())
        for (const [index, { text }] of talk.entries()) await store.put(NAMESPACE, `${at}-${index}`, { text });
    },
    find: async (query, limit) => {
      const items: readonly Item[] = await store.search(NAMESPACE, { query, ...(limit !== undefined && { limit }) });
      return items.map(({ value }) => value.text);
    },
    close: async () => {
      if ("db" in checkpointer) checkpointer.db.close();
    },
  };
};

const COMPACTED_FROM = 0.75;
const NAMESPACE = ["talks"];

interface Item {
  readonly value: { readonly text: string };
}
