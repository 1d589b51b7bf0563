import type { Scenario, WireFormat } from "./scenario.ts";

/** Ollama's raw completion. */
export const ollamaGenerateWire: WireFormat = {
  name: "ollama generate",
  contentType: "application/x-ndjson",
  render,
  countsCache: "nothing",
  saysWhenOver: true,
  brokenFrame: '{"model":"comma","respon\n',
  errorFrame: { text: line({ error: "an error was encountered while running the model" }), kind: "unknown" },
  refusals: {
    rate_limited: { status: 429, body: { error: "too many requests" } },
    overloaded: { status: 503, body: { error: "server busy, please try again. maximum pending requests exceeded" } },
    server_error: { status: 500, body: { error: "llama runner process has terminated" } },
    context_exceeded: { status: 400, body: { error: "the input length exceeds the context length" } },
    auth: { status: 401, body: { error: "unauthorized" } },
    model_not_found: { status: 404, body: { error: "model 'comma' not found" } },
  },
  settings: (url) => ({
    env: { OLLAMA_HOST: url },
    config: { profiles: { base: { model: "comma", api: "ollama-generate" } } },
    model: "base",
  }),
};

function render({ text = [], usage, stop }: Scenario): readonly string[] {
  const counted = usage && { prompt_eval_count: usage.input, eval_count: usage.output };
  const done_reason = stop === "length" ? "length" : "stop";
  return [
    ...text.map((response) => line({ response, done: false })),
    line({ response: "", done: true, done_reason, ...counted }),
  ];
}

function line(data: object): string {
  return `${JSON.stringify({ model: "comma", created_at: "2026-01-01T00:00:00Z", ...data })}\n`;
}
