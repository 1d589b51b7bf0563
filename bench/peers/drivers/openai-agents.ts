import { Agent, MemorySession, OpenAIProvider, Runner, setTracingDisabled, tool } from "@openai/agents";
import type { Open } from "../driver.ts";

export const open: Open = async ({ baseUrl, model, systemPrompt, tools }) => {
  setTracingDisabled(true);
  const modelProvider = new OpenAIProvider({ apiKey: "none", baseURL: baseUrl, useResponses: false });
  const runner = new Runner({ modelProvider, tracingDisabled: true });
  const agent = new Agent({
    name: "Ledger",
    instructions: systemPrompt,
    model,
    tools: tools.map(({ name, description, fields, run }) =>
      tool({
        name,
        description,
        strict: true,
        parameters: {
          type: "object",
          properties: Object.fromEntries(Object.entries(fields).map(([field, type]) => [field, { type }])),
          required: Object.keys(fields),
          additionalProperties: false,
        },
        execute: async (args: unknown) => run(args as Readonly<Record<string, unknown>>), // The schema is of an object.
      }),
    ),
  });
  const sessions = new Map<string, MemorySession>();
  const sessionOf = (id: string): MemorySession => {
    const known = sessions.get(id) ?? new MemorySession({ sessionId: id });
    sessions.set(id, known);
    return known;
  };
  return {
    begin: async () => crypto.randomUUID(),
    turn: async (id, prompt) => {
      const result = await runner.run(agent, prompt, { session: sessionOf(id), stream: true });
      let text = "";
      for await (const delta of result.toTextStream()) text += delta;
      await result.completed;
      return text;
    },
    kept: async (id) => JSON.stringify(await sessionOf(id).getItems()),
    close: async () => {},
  };
};
