import { createInMemoryStore, createRuntime, type RuntimeOptions } from "@rkat/core/create-runtime";
import type { Store } from "@rkat/core/ports/store";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { onTestFinished } from "vitest";
import { createFastClock } from "./fast-clock.ts";
import { killableStore } from "./killable-store.ts";

/** Processes that share a store and a clock; those that the test has not killed are closed with it. */
export function createRealm(clock = createFastClock(), shared: Store = createInMemoryStore({ now: clock.now })) {
  const start = (script: Parameters<typeof createScriptedModel>[0], options: RuntimeOptions = {}) => {
    const { store, kill, pause } = killableStore(shared);
    const model = createScriptedModel(script);
    const warnings: string[] = [];
    const warn = (sentence: string) => void warnings.push(sentence);
    const runtime = createRuntime({ model, clock, env: {}, store, warn, resumeTurns: true, ...options });
    let isKilled = false;
    onTestFinished(async () => {
      if (!isKilled) await runtime.close();
    });
    return {
      runtime,
      model,
      warnings,
      pause,
      kill: () => {
        isKilled = true;
        return kill();
      },
    };
  };
  return { clock, shared, start };
}
