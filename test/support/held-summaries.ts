import { COMPACTION_PROMPT } from "@rkat/core/compaction/shown-messages";
import type { ModelClient, ModelRequest } from "@rkat/core/ports/model";
import { createScriptedModel, type ScriptedModel } from "@rkat/core/providers/scripted";

export const SAID = "All of this was said while the kettle boiled and the rain went on. ".repeat(4);
export const SUMMARY = "All of this was said while the kettle boiled and the rain went on.";
/** What a summary takes; answers take 10 and 5. */
export const SUMMARY_USAGE = { input_tokens: 1_000, output_tokens: 100 };

export interface HeldModel extends ModelClient {
  readonly requests: ScriptedModel["requests"];
  /** Summaries that were asked for. */
  readonly asked: () => number;
  /** From now on summaries are written when `release` says so. */
  hold(): void;
  release(): void;
}

/** A model whose summaries can be held back, so that a test decides what happens meanwhile. */
export function createHeldModel(options: Partial<ModelClient> & { summary?: string } = {}): HeldModel {
  const { summary = SUMMARY, ...more } = options;
  const scripted = createScriptedModel((request) =>
    isForSummary(request) ? { text: summary, usage: SUMMARY_USAGE } : { text: `Noted. ${SAID}` },
  );
  let asked = 0;
  let gate = Promise.withResolvers<void>();
  gate.resolve();
  return {
    ...scripted,
    ...more,
    asked: () => asked,
    hold: () => {
      gate = Promise.withResolvers<void>();
    },
    release: () => gate.resolve(),
    stream: async function* (request, signal) {
      if (isForSummary(request)) {
        asked += 1;
        const aborted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        await Promise.race([gate.promise, aborted]);
      }
      yield* scripted.stream(request, signal);
    },
  };
}

function isForSummary({ messages }: ModelRequest): boolean {
  const last = messages.at(-1);
  return last?.role === "user" && String(last.content).startsWith(COMPACTION_PROMPT);
}
