import { hash } from "node:crypto";
import { foldAgent } from "@rkat/core/agent-memory/tiers";
import { type Agents, createAgents } from "@rkat/core/agents/agents";
import type { SummariseTexts } from "@rkat/core/agents/tier-summariser";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { createStoreInMemory } from "@rkat/core/stores/in-memory";
import { openStore } from "@rkat/node/log/open";
import { createVault } from "@rkat/node/projections/vault";

/** What a summary says follows from what it is of, and from nothing else. */
const summarise: SummariseTexts = async (texts) => {
  // Long enough for memories to be added meanwhile, and for a kill to fall into it.
  for (let turn = 0; turn < 200; turn += 1) await new Promise(setImmediate);
  const mark = Number.parseInt(hash("sha256", texts.join("\n")).slice(0, 8), 16);
  const one = texts[mark % texts.length] ?? "";
  return { summary: one.split(/(?<=\.) /)[mark % 3] ?? one, by: "model" };
};

/** Agents in a folder, with their files; without one, in this process. It loads little: a hundred processes do it. */
export function openRuntimeOf(folder?: string): Agents {
  const place =
    folder === undefined
      ? { store: createStoreInMemory({ foldRow: foldAgent }), vault: undefined }
      : {
          store: openStore({
            folder: `${folder}/agents`,
            foldRow: foldAgent,
            host: { pid: process.pid, isRunning: () => true },
          }),
          vault: createVault({ folder, warn: () => {} }),
        };
  const windows = { immediate: 64, recent: 64 };
  return createAgents({
    ...place,
    clock: createSystemClock(),
    windows,
    summarise,
    roomBytes: async () => Number.POSITIVE_INFINITY,
    cutsInvented: () => true,
    spentToday: async () => 0,
    report: () => {},
    grown: () => {},
  });
}
