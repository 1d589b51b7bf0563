import type { Usage } from "../contract/event.ts";
import type { BlockMeta, StopReason } from "../contract/message.ts";
import type { ModelClient, ModelFailure, ModelPart, ModelRequest } from "../ports/model.ts";

/** One answer, played in the order of these fields. */
export interface ScriptedStep {
  readonly reasoning?: { readonly text: string; readonly meta?: BlockMeta };
  /** Each string is one delta. */
  readonly text?: string | readonly string[];
  readonly calls?: readonly { readonly id?: string; readonly name: string; readonly args?: Record<string, unknown> }[];
  readonly usage?: Usage;
  readonly stopReason?: StopReason;
  /** Instead of finishing: a failure, an exception, silence until aborted, or no end at all. */
  readonly ends?: { readonly failure: ModelFailure } | { readonly throws: Error } | "silent" | "cut";
}

export interface ScriptedModel extends ModelClient {
  readonly requests: readonly ModelRequest[];
}

type Script = readonly ScriptedStep[] | ((request: ModelRequest, index: number) => ScriptedStep);

/** A model for tests: a list of answers, or a function of the request. */
export function createScriptedModel(script: Script, options: { contextWindow?: number } = {}): ScriptedModel {
  const requests: ModelRequest[] = [];
  return {
    provider: "scripted",
    modelId: "scripted",
    contextWindow: options.contextWindow,
    requests,
    async *stream(request, signal) {
      const index = requests.push(request) - 1;
      const step = typeof script === "function" ? script(request, index) : script[index];
      if (step === undefined) {
        yield failed({ kind: "invalid_request", message: `the script has no answer number ${index + 1}` });
        return;
      }
      yield* play(step, index, signal);
    },
  };
}

async function* play(step: ScriptedStep, index: number, signal: AbortSignal): AsyncGenerator<ModelPart> {
  if (step.reasoning !== undefined) {
    const { text, meta } = step.reasoning;
    yield { type: "reasoning_delta", delta: text };
    yield {
      type: "block",
      block: { block_type: "reasoning", data: { text, ...(meta === undefined ? {} : { meta }) } },
    };
  }
  const deltas = step.text === undefined ? [] : typeof step.text === "string" ? [step.text] : step.text;
  for (const delta of deltas) {
    if (signal.aborted) return;
    yield { type: "text_delta", delta };
  }
  if (step.ends === "silent") await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
  if (step.ends === "silent" || step.ends === "cut") return;
  if (step.ends !== undefined && "throws" in step.ends) throw step.ends.throws;
  if (step.ends !== undefined) {
    yield failed(step.ends.failure);
    return;
  }
  if (deltas.length > 0) yield { type: "block", block: { block_type: "text", data: { text: deltas.join("") } } };
  const calls = step.calls ?? [];
  for (const [position, { id = `call-${index + 1}-${position + 1}`, name, args = {} }] of calls.entries()) {
    yield { type: "block", block: { block_type: "tool_use", data: { id, name, args } } };
  }
  const stopReason = step.stopReason ?? (calls.length > 0 ? "tool_use" : "end_turn");
  yield { type: "finish", stopReason, usage: step.usage ?? { input_tokens: 10, output_tokens: 5 } };
}

function failed(failure: ModelFailure): ModelPart {
  return { type: "failed", failure };
}
