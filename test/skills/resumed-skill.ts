import type { Message } from "@rkat/core/contract/message";
import type { ModelRequest } from "@rkat/core/ports/model";
import type { ScriptedStep } from "@rkat/core/providers/scripted";

export const TEXT = "Word for word: the wombat signs last.";
export const SKILL = { name: "signing", description: "How releases are signed.", body: TEXT };

/** A model that loads the skill when it is asked to, and answers anything else. */
export function scriptFor({ messages }: Pick<ModelRequest, "messages">): ScriptedStep {
  const last = messages.at(-1);
  const isAsked = last?.role === "user" && last.content === "Load it.";
  return isAsked ? { calls: [{ name: "load_skill", args: { name: SKILL.name } }] } : { text: "Yes." };
}

/** How often a request holds the skill's text. */
export function timesIn(messages: readonly Message[] | undefined): number {
  return JSON.stringify(messages ?? []).split(TEXT).length - 1;
}
