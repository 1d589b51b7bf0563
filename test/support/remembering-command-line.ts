import type { ModelRequest } from "@rkat/core/ports/model";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import { openRuntime } from "@rkat/node/open-runtime";
import type { Parts } from "rkat/parts";

/** A configuration with which a few memories are worth compacting. */
export const SMALL_WINDOWS = "[agent_memory]\nimmediate_window = 2\nrecent_window = 2\n";

/** A model that answers every turn, and a request for a summary as it is told; what it was asked is kept. */
export function rememberingModel(summarise: () => ScriptedStep): { own: Partial<Parts>; asked: ModelRequest[] } {
  const asked: ModelRequest[] = [];
  const model = createScriptedModel((request) => {
    asked.push(request);
    const isSummary = JSON.stringify(request.messages.at(-1)).includes("Summarize these memories");
    return isSummary ? summarise() : { text: "Quite so." };
  });
  return { asked, own: { openRuntime: (options) => openRuntime({ ...options, model }) } };
}
