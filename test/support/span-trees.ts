import type { RuntimeOptions } from "@rkat/core/create-runtime";
import type { ModelFailure } from "@rkat/core/ports/model";
import type { Tool } from "@rkat/core/ports/tool";
import type { ScriptedStep } from "@rkat/core/providers/scripted";
import { scriptedRuntime } from "./runtime.ts";
import { openTracing, type SpanTree } from "./tracing.ts";

export type Script = Parameters<typeof scriptedRuntime>[0];

/** A runtime on a scripted model whose spans are kept. */
export function traced(script: Script, options: RuntimeOptions = {}) {
  const tracing = openTracing();
  return { ...scriptedRuntime(script, { telemetry: { tracer: tracing.tracer }, ...options }), ...tracing };
}

/** The id of the first session on a virtual clock. */
const SESSION = "01900000-0000-7000-8000-000000000001";

export const turn = (attributes: SpanTree["attributes"], children: readonly SpanTree[], status = "ok"): SpanTree => ({
  name: "invoke_agent",
  kind: "INTERNAL",
  attributes: {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.conversation.id": SESSION,
    "gen_ai.provider.name": "scripted",
    "gen_ai.request.model": "scripted",
    ...attributes,
  },
  status,
  children,
});

export const chat = (attributes: SpanTree["attributes"], status = "ok"): SpanTree => ({
  name: "chat scripted",
  kind: "CLIENT",
  attributes: {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "scripted",
    "gen_ai.request.model": "scripted",
    "gen_ai.request.stream": true,
    "gen_ai.request.max_tokens": 16_384,
    "gen_ai.conversation.id": SESSION,
    ...attributes,
  },
  status,
  children: [],
});

export const answer = (reason: string, input = 10, output = 5): SpanTree["attributes"] => ({
  "gen_ai.response.finish_reasons": [reason],
  "gen_ai.usage.input_tokens": input,
  "gen_ai.usage.output_tokens": output,
});

export const tool = (name: string, id: string, more: Partial<SpanTree> = {}): SpanTree => ({
  name: `execute_tool ${name}`,
  kind: "INTERNAL",
  status: "ok",
  children: [],
  ...more,
  attributes: {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": name,
    "gen_ai.tool.type": "function",
    "gen_ai.tool.call.id": id,
    "gen_ai.conversation.id": SESSION,
    ...more.attributes,
  },
});

export const toolOf = (name: string, execute: Tool["execute"]): Tool => ({
  name,
  description: `Does ${name}.`,
  inputSchema: { type: "object" },
  execute,
});

export const failing = (kind: ModelFailure["kind"], status?: number): ScriptedStep => ({
  ends: { failure: { kind, message: "it says no", status } },
});
