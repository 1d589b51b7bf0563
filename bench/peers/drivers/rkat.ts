import { createRuntime, defineTool, type EventStream, openRuntime, type Runtime, type RuntimeError } from "@rkat/node";
import type { Open } from "../driver.ts";

export const open: Open = async ({ baseUrl, model, systemPrompt, tools, folder }) => {
  const options = {
    model: `openai/${model}`,
    env: { OPENAI_BASE_URL: baseUrl },
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
  const runtime: Runtime =
    folder === undefined
      ? createRuntime(options)
      : await openRuntime({ ...options, stateFolder: folder, resumeTurns: true });
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
    close: () => runtime.close(),
  };
};

const LOOK_MS = 50;

async function listen(events: EventStream): Promise<string> {
  let text = "";
  for await (const event of events) if (event.type === "text_delta") text += event.delta;
  return text;
}
