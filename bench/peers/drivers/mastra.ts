import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Agent } from "@mastra/core/agent";
import { createDurableAgent } from "@mastra/core/agent/durable";
import { ModelRouterEmbeddingModel } from "@mastra/core/llm";
import { Mastra } from "@mastra/core/mastra";
import { createTool } from "@mastra/core/tools";
import { LibSQLStore, LibSQLVector } from "@mastra/libsql";
import { Memory } from "@mastra/memory";
import { z } from "zod";
import type { Open } from "../driver.ts";

const RESOURCE = "bench";
/** The guide's figure for all messages: with its default of ten, the requests of others could not be compared with its. */
const LAST_MESSAGES = Number.MAX_SAFE_INTEGER;

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
  const url = folder === undefined ? ":memory:" : `file:${join(folder, "mastra.db")}`;
  const storage = new LibSQLStore({ id: "bench", url });
  const searched = embeddings && {
    vector: new LibSQLVector({ id: "vectors", url }),
    embedder: new ModelRouterEmbeddingModel({
      providerId: "local",
      modelId: embeddings.model,
      url: embeddings.baseUrl,
      apiKey: "none",
    }),
  };
  const semanticRecall = embeddings !== undefined && { topK: 4, messageRange: 1, scope: "resource" };
  const chat = { id: `local/${model}` as const, url: baseUrl, apiKey: "none" };
  const observationalMemory = windowTokens !== undefined && { model: chat };
  const options = { lastMessages: LAST_MESSAGES, semanticRecall, observationalMemory };
  const memory = new Memory({ storage, ...searched, options });
  const agent = new Agent({
    id: "ledger",
    name: "Ledger",
    instructions: systemPrompt,
    model: chat,
    tools: Object.fromEntries(
      tools.map(({ name, description, fields, run }) => [
        name,
        createTool({
          id: name,
          description,
          inputSchema: z.object(
            Object.fromEntries(
              Object.entries(fields).map(([field, type]) => [field, type === "string" ? z.string() : z.number()]),
            ),
          ),
          execute: async (args: Readonly<Record<string, unknown>>, context: CallContext) =>
            run(args, context.agent?.toolCallId),
        }),
      ]),
    ),
    memory,
  });
  const ledger = survives ? createDurableAgent({ agent }) : agent;
  const recovery = { durableAgents: "auto" };
  const mastra = new Mastra({ agents: { ledger }, storage, logger: false, ...(survives && { recovery }) });
  return {
    begin: async () => {
      const thread = await memory.createThread({ resourceId: RESOURCE });
      return thread.id;
    },
    turn: async (thread, prompt) => {
      const stream = await ledger.stream(prompt, { memory: { thread, resource: RESOURCE } });
      let text = "";
      for await (const delta of (stream.output ?? stream).textStream) text += delta;
      stream.cleanup?.();
      return text;
    },
    kept: async (threadId) => {
      const { messages } = await memory.recall({ threadId, resourceId: RESOURCE, perPage: false });
      return JSON.stringify(messages);
    },
    recover: async () => {
      const { recovered } = await ledger.recoverActiveRuns();
      return recovered.find(({ error }: Recovered) => error !== undefined)?.error.message;
    },
    learn: async (talks) => {
      for (const talk of talks) {
        const { id: threadId } = await memory.createThread({ resourceId: RESOURCE });
        const messages = talk.map(({ role, text }, at) => ({
          id: crypto.randomUUID(),
          role,
          threadId,
          resourceId: RESOURCE,
          createdAt: new Date(Date.now() + at),
          content: { format: 2, parts: [{ type: "text", text }] },
        }));
        await memory.saveMessages({ messages });
      }
    },
    find: async (vectorSearchString, topK) => {
      const { id: threadId } = await memory.createThread({ resourceId: RESOURCE });
      const { messages } = await memory.recall({
        threadId,
        resourceId: RESOURCE,
        vectorSearchString,
        ...(topK !== undefined && {
          threadConfig: { semanticRecall: { topK, messageRange: 0, scope: "resource" } },
        }),
      });
      return messages.map(({ content }: Recalled) => content.parts.map(({ text = "" }) => text).join(""));
    },
    close: async () => {
      await mastra.shutdown?.();
    },
  };
};

interface CallContext {
  readonly agent?: { readonly toolCallId?: string };
}

interface Recalled {
  readonly content: { readonly parts: readonly { readonly text?: string }[] };
}

interface Recovered {
  readonly error?: Error;
}
