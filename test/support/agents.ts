import { foldAgent, type Windows } from "../../src/core/agent/tiers.ts";
import type { AgentStore } from "../../src/service/agent/agent-log.ts";
import { type Agents, createAgents } from "../../src/service/agent/agents.ts";
import type { SummariseTexts } from "../../src/service/agent/tier-summariser.ts";
import { createSystemClock } from "../../src/service/system-clock.ts";
import { createStoreInMemory } from "../../src/stores/in-memory.ts";

/** A summariser that says how many texts it read and how the first and the last of them begin, and keeps count. */
export function countingSummariser() {
  const calls: string[][] = [];
  const summarise: SummariseTexts = async (texts) => {
    calls.push([...texts]);
    return { summary: summaryOf(texts), by: "model" };
  };
  return { calls, summarise };
}

function summaryOf(texts: readonly string[]): string {
  return `${texts.length} texts, from "${texts[0]?.slice(0, 24)}" to "${texts.at(-1)?.slice(0, 24)}".`;
}

/** Agents in this process. */
export function agentsWith(options: {
  summarise: SummariseTexts;
  windows?: Windows;
  store?: AgentStore;
  lines?: string[];
}): Agents {
  return createAgents({
    store: options.store ?? createStoreInMemory({ foldRow: foldAgent }),
    vault: undefined,
    clock: createSystemClock(),
    windows: options.windows ?? { immediate: 64, recent: 64 },
    summarise: options.summarise,
    tell: (line) => options.lines?.push(line),
    grown: () => {},
  });
}
