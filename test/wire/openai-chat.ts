import { listOf, type Scenario, sse, textOf, type WireFormat } from "./scenario.ts";

/** OpenAI's Chat Completions, as OpenAI-compatible servers speak it. */
export const openAiChatWire: WireFormat = {
  name: "openai chat",
  contentType: "text/event-stream",
  render,
  countsCache: "reads",
  saysWhenOver: true,
  brokenFrame: 'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"ind\n\n',
  errorFrame: {
    text: sse({ error: { message: "The server had an error", type: "server_error", code: null, param: null } }),
    kind: "server_error",
  },
  refusals: {
    rate_limited: { status: 429, body: refusal("rate_limit_exceeded", "Rate limit reached", "requests") },
    overloaded: { status: 503, body: refusal("server_overloaded", "The engine is overloaded", "server_error") },
    server_error: { status: 500, body: refusal(null, "The server had an error", "server_error") },
    context_exceeded: {
      status: 400,
      body: refusal("context_length_exceeded", "This model's maximum context length is 8192 tokens"),
    },
    auth: { status: 401, body: refusal("invalid_api_key", "Incorrect API key provided: sk-abc***************xyz") },
    model_not_found: { status: 404, body: refusal("model_not_found", "The model does not exist") },
  },
  forced: {
    required: { tool_choice: "required" },
    named: { tool_choice: { type: "function", function: { name: "look" } } },
    apart: { parallel_tool_calls: false },
  },
  readConversation(body) {
    const calls = listOf(body.messages).map((message) => listOf(message.tool_calls));
    const results = listOf(body.messages).filter((message) => textOf(message.role) === "tool");
    return {
      calls: calls.flat().map((call) => textOf(call.id)),
      results: results.map((message) => textOf(message.tool_call_id)),
      callMessages: calls.filter((list) => list.length > 0).length,
    };
  },
  settings: (url) => ({
    env: {},
    config: { self_hosted: { servers: { local: { base_url: url } }, models: { coder: { server: "local" } } } },
    model: "coder",
  }),
};

/** The same wire behind OPENAI_BASE_URL, which OpenAI's own package speaks. */
export const openAiBaseUrlWire: WireFormat = {
  ...openAiChatWire,
  name: "openai behind a base url",
  settings: (url) => ({
    env: { OPENAI_API_KEY: "test-key", OPENAI_BASE_URL: `${url}/v1` },
    config: {},
    model: "gpt-4.1",
  }),
};

function render(scenario: Scenario): readonly string[] {
  const { reasoning, text = [], toolCalls = [], usage } = scenario;
  const frames = [chunk({ role: "assistant", content: "" })];
  if (reasoning !== undefined) frames.push(chunk({ reasoning_content: reasoning.text }));
  for (const content of text) frames.push(chunk({ content }));
  for (const [index, { id, name, args }] of toolCalls.entries()) {
    const half = Math.ceil(args.length / 2);
    frames.push(chunk({ tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] }));
    frames.push(chunk({ tool_calls: [{ index, function: { arguments: args.slice(0, half) } }] }));
    frames.push(chunk({ tool_calls: [{ index, function: { arguments: args.slice(half) } }] }));
  }
  frames.push(chunk({}, finishReasonOf(scenario)));
  if (usage !== undefined) {
    const counted = {
      prompt_tokens: usage.input,
      completion_tokens: usage.output,
      total_tokens: usage.input + usage.output,
      ...(usage.cacheRead === undefined ? {} : { prompt_tokens_details: { cached_tokens: usage.cacheRead } }),
    };
    frames.push(sse({ ...envelope, choices: [], usage: counted }));
  }
  frames.push(sse("[DONE]"));
  return frames;
}

const envelope = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1_760_000_000, model: "coder" };

function chunk(delta: object, finish_reason: string | null = null): string {
  return sse({ ...envelope, choices: [{ index: 0, delta, logprobs: null, finish_reason }] });
}

function finishReasonOf({ stop, toolCalls = [] }: Scenario): string {
  if (stop === "length") return "length";
  return toolCalls.length > 0 ? "tool_calls" : "stop";
}

export function refusal(code: string | null, message: string, type = "invalid_request_error"): object {
  return { error: { message, type, param: null, code } };
}
