import { foldAgent, type Windows } from "@rkat/core/agent-memory/tiers";
import type { AgentStore } from "@rkat/core/agents/agent-log";
import { type Agents, createAgents } from "@rkat/core/agents/agents";
import type { SummariseTexts } from "@rkat/core/agents/tier-summariser";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { createStoreInMemory } from "@rkat/core/stores/in-memory";

/** A summariser that says the first sentence and the last of what it reads, and keeps count. */
export function countingSummariser() {
  const calls: string[][] = [];
  const summarise: SummariseTexts = async (texts) => {
    calls.push([...texts]);
    return { summary: summaryOf(texts), by: "model" };
  };
  return { calls, summarise };
}

function summaryOf(texts: readonly string[]): string {
  const sentences = (text: string | undefined): readonly string[] => text?.split(/(?<=\.) /) ?? [];
  return [...new Set([sentences(texts[0])[0], sentences(texts.at(-1)).at(-1)])].join(" ");
}

/** Agents in this process. */
export function agentsWith(options: {
  summarise: SummariseTexts;
  windows?: Windows;
  store?: AgentStore;
  lines?: string[];
  roomBytes?: number;
  cutsInvented?: boolean;
  spentToday?: number;
}): Agents {
  return createAgents({
    store: options.store ?? createStoreInMemory({ foldRow: foldAgent }),
    vault: undefined,
    clock: createSystemClock(),
    windows: options.windows ?? { immediate: 64, recent: 64 },
    summarise: options.summarise,
    roomBytes: async () => options.roomBytes ?? Number.POSITIVE_INFINITY,
    cutsInvented: () => options.cutsInvented ?? true,
    spentToday: async () => options.spentToday ?? 0,
    report: (line) => options.lines?.push(line),
    grown: () => {},
  });
}
