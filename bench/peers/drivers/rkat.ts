import {
  createRuntime,
  defaultConfig,
  defineTool,
  type EventStream,
  openRuntime,
  type Runtime,
  type RuntimeError,
} from "@rkat/node";
import type { Open } from "../driver.ts";

export const open: Open = async ({ baseUrl, model, systemPrompt, tools, folder, embeddings, windowTokens }) => {
  const defaults = defaultConfig();
  const vectors = embeddings && {
    embedder: "remote" as const,
    embedding_model: `openai/${embeddings.model}`,
    embedding_dimensions: embeddings.dimensions,
  };
  const options = {
    model: `openai/${model}`,
    env: { OPENAI_BASE_URL: baseUrl },
    ...((vectors || windowTokens) && {
      config: {
        ...defaults,
        memory: { ...defaults.memory, ...vectors },
        ...(windowTokens && { models: { [model]: { context_window: windowTokens } } }),
      },
    }),
    ...(windowTokens && { compaction: true as const }),
    systemPrompt,
    tools: tools.map(({ name, description, fields, effects, run }) =>
      defineTool({
        name,
        description,
        input: {
          type: "object",
          properties: Object.fromEntries(Object.entries(fields).map(([field, type]) => [field, { type }])),
          required: Object.keys(fields),
          additionalProperties: false,
        },
        effects,
        run: (args, { effectId }) => run(args, effectId),
      }),
    ),
  };
  const start = async (): Promise<Runtime> =>
    folder === undefined
      ? createRuntime(options)
      : await openRuntime({ ...options, stateFolder: folder, resumeTurns: true });
  let runtime = await start();
  return {
    begin: async () => (await runtime.createSession()).id,
    turn: (session, prompt) => listen(runtime.session(session).stream(prompt)),
    kept: async (session) => JSON.stringify(await runtime.session(session).history()),
    recover: async (session) => {
      // The runtime continues the turn by itself; until it has, the session is busy.
      for (;;) {
        const code = await runtime
          .session(session)
          .finishTurn()
          .then(
            () => "SESSION_NOT_RUNNING",
            (error) => (error as RuntimeError).code, // What its methods reject with.
          );
        if (code === "SESSION_NOT_RUNNING") return undefined;
        if (code !== "SESSION_BUSY") return code;
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      }
    },
    learn: async (talks) => {
      const created_at = new Date().toISOString();
      for (const talk of talks) {
        const history = talk.map(({ role, text }) =>
          role === "user"
            ? { role, content: text, created_at }
            : {
                role: "block_assistant",
                blocks: [{ block_type: "text", data: { text } }],
                stop_reason: "end_turn",
                created_at,
              },
        );
        await runtime.dispatch("createSession", { history, initial_turn: "deferred" });
      }
      // Sessions in use get their vectors when they rest.
      await runtime.close();
      runtime = await start();
      await runtime.searchMemory("anything", { everything: true });
      while ((await runtime.readMemoryStatus()).pending > 0)
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    },
    find: async (question, limit) => {
      const { results } = await runtime.searchMemory(question, {
        everything: true,
        ...(limit !== undefined && { limit }),
      });
      const texts = results.map(({ content }) => content);
      return limit !== undefined
        ? texts
        : [...texts, ...results.flatMap(({ around = [] }) => around.map(({ content }) => content))];
    },
    close: () => runtime.close(),
  };
};

const LOOK_MS = 50;

async function listen(events: EventStream): Promise<string> {
  let text = "";
  for await (const event of events) if (event.type === "text_delta") text += event.delta;
  return text;
}
