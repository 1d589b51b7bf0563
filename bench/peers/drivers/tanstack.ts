import { chat, maxIterations, StreamProcessor, toolDefinition } from "@tanstack/ai";
import { openaiCompatibleText } from "@tanstack/ai-openai/compatible";
import { z } from "zod";
import type { Open } from "../driver.ts";

export const open: Open = async ({ baseUrl, model, systemPrompt, tools }) => {
  const adapter = openaiCompatibleText(model, { name: "local", baseURL: baseUrl, apiKey: "none" });
  const serverTools = tools.map(({ name, description, fields, run }) =>
    toolDefinition({
      name,
      description,
      inputSchema: z.object(
        Object.fromEntries(
          Object.entries(fields).map(([field, type]) => [field, type === "string" ? z.string() : z.number()]),
        ),
      ),
    }).server(async (args: Readonly<Record<string, unknown>>) => run(args)),
  );
  const sessions = new Map<string, InstanceType<typeof StreamProcessor>>();
  const sessionOf = (id: string): InstanceType<typeof StreamProcessor> => {
    const known = sessions.get(id) ?? new StreamProcessor();
    sessions.set(id, known);
    return known;
  };
  return {
    begin: async () => crypto.randomUUID(),
    turn: async (id, prompt) => {
      const processor = sessionOf(id);
      processor.addUserMessage(prompt);
      const stream = chat({
        adapter,
        messages: processor.toModelMessages(),
        systemPrompts: [systemPrompt],
        tools: serverTools,
        agentLoopStrategy: maxIterations(10),
      });
      const { content } = await processor.process(stream);
      return content;
    },
    kept: async (id) => JSON.stringify(sessionOf(id).getMessages()),
    close: async () => {},
  };
};
