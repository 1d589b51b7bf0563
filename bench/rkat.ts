import { createRuntime, type EventStream, type HookOptions, type Session, type Store } from "@rkat/node";
import { type Contender, SYSTEM_PROMPT, TOOL } from "./conversation.ts";
import { MODEL } from "./model-server.ts";

/** rkat as a program uses it: the model found by its name, every event of a turn listened to. Without a store, in memory. */
export function createRkat(
  baseUrl: string,
  { name = "rkat", store, hooks }: { name?: string; store?: Store; hooks?: readonly HookOptions[] } = {},
): Contender {
  const runtime = createRuntime({
    model: `openai/${MODEL}`,
    env: { OPENAI_BASE_URL: baseUrl },
    systemPrompt: SYSTEM_PROMPT,
    tools: [TOOL],
    ...(store && { store }),
    ...(hooks && { hooks }),
  });
  return {
    name,
    open: () => {
      let session: Session | undefined;
      return async (prompt) => {
        if (session !== undefined) return listen(session.stream(prompt));
        const first = runtime.createSessionStreaming(prompt);
        const text = await listen(first);
        session = await first.session;
        return text;
      };
    },
  };
}

async function listen(events: EventStream): Promise<string> {
  let text = "";
  for await (const event of events) if (event.type === "text_delta") text += event.delta;
  return text;
}
