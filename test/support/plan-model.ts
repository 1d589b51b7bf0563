import type { Message } from "@rkat/core/contract/message";
import type { ModelRequest } from "@rkat/core/ports/model";
import { createScriptedModel, type ScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";

/** What a model is to do, written into the prompt: an answer after the other. Tasks of sub-agents are plans as well. */
export type Plan = readonly ScriptedStep[];

export function planned(steps: Plan): string {
  return JSON.stringify(steps);
}

/** A call that hands a plan to a sub-agent. */
export function handing(steps: Plan, more: { readonly agent?: string; readonly session_id?: string } = {}) {
  return { name: "agent", args: { task: planned(steps), ...more } };
}

/** A model that does what its session's newest prompt says. */
export function createPlanModel(options: { readonly contextWindow?: number } = {}): ScriptedModel {
  return createScriptedModel(stepOf, options);
}

function stepOf({ messages }: ModelRequest): ScriptedStep {
  const from = messages.findLastIndex(({ role }) => role === "user");
  const done = messages.slice(from).filter(({ role }) => role === "block_assistant").length;
  const plan = JSON.parse(textOf(messages[from])) as Plan; // What `planned` wrote.
  return plan[done] ?? { text: "Nothing more is planned." };
}

function textOf(message: Message | undefined): string {
  if (message?.role !== "user") return "[]";
  const { content } = message;
  return typeof content === "string" ? content : content.map((block) => ("text" in block ? block.text : "")).join("");
}
