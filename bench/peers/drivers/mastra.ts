import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Agent } from "@mastra/core/agent";
import { createDurableAgent } from "@mastra/core/agent/durable";
import { Mastra } from "@mastra/core/mastra";
import { createTool } from "@mastra/core/tools";
import { LibSQLStore } from "@mastra/libsql";
import { Memory } from "@mastra/memory";
import { z } from "zod";
import type { Open } from "../driver.ts";

const RESOURCE = "bench";
/** The guide's figure for all messages: with its default of ten, the requests of others could not be compared with its. */
const LAST_MESSAGES = Number.MAX_SAFE_INTEGER;

export const open: Open = async ({ baseUrl, model, systemPrompt, tools, folder, survives }) => {
  if (folder !== undefined) await mkdir(folder, { recursive: true });
  const url = folder === undefined ? ":memory:" : `file:${join(folder, "mastra.db")}`;
  const storage = new LibSQLStore({ id: "bench", url });
  const memory = new Memory({ storage, options: { lastMessages: LAST_MESSAGES } });
  const agent = new Agent({
    id: "ledger",
    name: "Ledger",
    instructions: systemPrompt,
    model: { id: `local/${model}`, url: baseUrl, apiKey: "none" },
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
    close: async () => {
      await mastra.shutdown?.();
    },
  };
};

interface CallContext {
  readonly agent?: { readonly toolCallId?: string };
}

interface Recovered {
  readonly error?: Error;
}
