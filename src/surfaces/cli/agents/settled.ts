import { setTimeout as sleep } from "node:timers/promises";
import type { Opened } from "../open-runtime.ts";

const LOOK_MS = 100;

/**
 * Resolves when no compaction of the agent runs, or when the signal aborts. A runtime that closes waits half a minute
 * for one: with a slow model it would be cut off there, and begun anew by the next memory, for ever.
 */
export async function compactionSettled({ runtime }: Opened, agent: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const { compaction_running } = await runtime.dispatch("readAgentStatus", { agent });
    if (!compaction_running) return;
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {});
  }
}
