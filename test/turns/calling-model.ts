import type { Runtime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { contentText } from "@rkat/core/turn/tokens";
import { listen } from "../support/runtime.ts";

/** A model that calls the tool that a prompt names, as JSON. */
export function createCallingModel() {
  return createScriptedModel(({ messages }) => {
    const asked = messages.findLast(({ role }) => role === "user" || role === "tool_results");
    return asked?.role === "user" ? { calls: [JSON.parse(contentText(asked.content))] } : { text: "Done." };
  });
}

/** Calls a tool in a turn of a session; rejects with the text of an error result. */
export async function callTool(runtime: Pick<Runtime, "session">, id: string, name: string, args: object) {
  const { events } = await listen(runtime.session(id).stream(JSON.stringify({ name, args })));
  const done = events.find((event) => event.type === "tool_execution_completed");
  if (done === undefined || done.is_error) throw new Error(done?.result ?? JSON.stringify(events.at(-1)));
  return JSON.parse(done.result);
}
