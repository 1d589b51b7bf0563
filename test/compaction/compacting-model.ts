import { randomUUID } from "node:crypto";
import { COMPACTION_PROMPT } from "@rkat/core/compaction/shown-messages";
import type { ModelClient, ModelRequest } from "@rkat/core/ports/model";
import type { Tool } from "@rkat/core/ports/tool";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";

/** A model that says much, looks things up in every third turn, and sums up when it is asked to. */
export function createCompactingModel(beforeSummary: (number: number) => Promise<void>): ModelClient {
  let summaries = 0;
  const scripted = createScriptedModel(answerTo);
  return {
    ...scripted,
    stream: async function* (request, signal) {
      if (isForSummary(request)) await beforeSummary(++summaries);
      yield* scripted.stream(request, signal);
    },
  };
}

const SAID = "the parser reads one line after another and keeps what it has read ";

function answerTo(request: ModelRequest, index: number): ScriptedStep {
  if (isForSummary(request))
    return { text: `The parser reads one line after another. They went on ${index % 9} times.` };
  const last = request.messages.at(-1);
  if (last?.role === "tool_results" || index % 3 > 0) return { text: `${index}: ${SAID.repeat(4 + (index % 7))}` };
  const calls = Array.from({ length: 1 + (index % 2) }, () => ({
    id: randomUUID(),
    name: "look",
    args: { at: index },
  }));
  return { reasoning: { text: "they want a parser" }, text: "I will look.", calls };
}

function isForSummary({ messages }: ModelRequest): boolean {
  const last = messages.at(-1);
  return last?.role === "user" && last.content === COMPACTION_PROMPT;
}

/** Some of what it finds is large. */
export const look: Tool = {
  name: "look",
  description: "Looks something up.",
  inputSchema: { type: "object", properties: { at: { type: "number" } } },
  execute: async (args) => {
    const { at } = args as { at: number };
    return at % 10 === 0 ? "a line of the file\n".repeat(600) : `found at ${at}`;
  },
};

/** Small enough for a compaction every few turns. */
export const OFTEN = {
  autoCompactThreshold: 3_000,
  recentTurnBudget: 3,
  maxSummaryTokens: 100,
  minTurnsBetweenCompactions: 3,
} as const;

/** The same, made behind turns. */
export const PREPARED = { ...OFTEN, prepare: true, prepareAt: 0.5, minTurnsBetweenCompactions: 1 } as const;
