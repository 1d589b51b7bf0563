import type { CreateResponse } from "@rkat/core/contract/wire/openai";

export type Echo = Readonly<Record<string, unknown>>;

interface GoneOn {
  readonly previous_response_id: string | null;
  readonly conversation: { readonly id: string } | null;
  readonly model: string | undefined;
}

export function echoOf(asked: CreateResponse, { model, ...from }: GoneOn): Echo {
  return {
    ...ECHO,
    ...from,
    background: asked.background ?? false,
    instructions: asked.instructions ?? null,
    max_output_tokens: asked.max_output_tokens ?? null,
    metadata: asked.metadata ?? {},
    model: asked.model ?? model ?? "default",
    parallel_tool_calls: asked.parallel_tool_calls ?? true,
    prompt_cache_key: asked.prompt_cache_key ?? null,
    reasoning: { effort: asked.reasoning?.effort ?? null, summary: null },
    safety_identifier: asked.safety_identifier ?? null,
    store: asked.store ?? true,
    temperature: asked.temperature ?? 1,
    text: { format: asked.text?.format ?? { type: "text" } },
    tool_choice: asked.tool_choice ?? "auto",
    tools: (asked.tools ?? []).map((tool) =>
      tool.type === "function" ? { description: null, parameters: null, ...tool, strict: tool.strict ?? false } : tool,
    ),
    top_p: asked.top_p ?? 1,
    truncation: asked.truncation ?? "disabled",
    user: asked.user ?? null,
  };
}

/** The values where the request is no longer in memory. */
export const ECHO: Echo = {
  background: false,
  conversation: null,
  frequency_penalty: 0,
  instructions: null,
  max_output_tokens: null,
  max_tool_calls: null,
  metadata: {},
  model: "",
  parallel_tool_calls: true,
  presence_penalty: 0,
  previous_response_id: null,
  prompt_cache_key: null,
  reasoning: { effort: null, summary: null },
  safety_identifier: null,
  service_tier: "default",
  store: true,
  temperature: 1,
  text: { format: { type: "text" } },
  tool_choice: "auto",
  tools: [],
  top_logprobs: 0,
  top_p: 1,
  truncation: "disabled",
  user: null,
};

/** Before the name of a metadatum among the labels of a session: those that say who may see it are not among them. */
const PREFIX = "openai.metadata.";

/** Metadata as labels of the session that is made with them: there they are kept, and sessions are found by them. */
export function labelsOf(metadata: Readonly<Record<string, string>> | null | undefined): Record<string, string> {
  return Object.fromEntries(Object.entries(metadata ?? {}).map(([key, value]) => [`${PREFIX}${key}`, value]));
}

export function metadataIn(labels: Readonly<Record<string, string>> | undefined): Record<string, string> {
  const own = Object.entries(labels ?? {}).filter(([key]) => key.startsWith(PREFIX));
  return Object.fromEntries(own.map(([key, value]) => [key.slice(PREFIX.length), value]));
}
