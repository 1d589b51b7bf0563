import { refusal } from "./openai-chat.ts";
import { listOf, type Scenario, sse, textOf, type WireFormat } from "./scenario.ts";

/** OpenAI's Responses API. */
export const openAiResponsesWire: WireFormat = {
  name: "openai responses",
  contentType: "text/event-stream",
  render,
  countsCache: "reads",
  saysWhenOver: false,
  brokenFrame: 'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","item_id":"ms\n\n',
  errorFrame: {
    text: sse(
      { type: "error", sequence_number: 9, code: "server_error", message: "The server had an error", param: null },
      "error",
    ),
    kind: "server_error",
  },
  refusals: {
    rate_limited: { status: 429, body: refusal("rate_limit_exceeded", "Rate limit reached", "requests") },
    overloaded: { status: 503, body: refusal("slow_down", "Please slow down", "service_unavailable_error") },
    server_error: { status: 500, body: refusal(null, "The server had an error", "server_error") },
    context_exceeded: {
      status: 400,
      body: refusal("context_length_exceeded", "Your input exceeds the context window of this model"),
    },
    auth: { status: 401, body: refusal("invalid_api_key", "Incorrect API key provided: sk-abc***************xyz") },
    model_not_found: { status: 404, body: refusal("model_not_found", "The model does not exist") },
  },
  forced: {
    required: { tool_choice: "required" },
    named: { tool_choice: { type: "function", name: "look" } },
    apart: { parallel_tool_calls: false },
  },
  readConversation(body) {
    const items = listOf(body.input);
    const isCall = items.map((item) => textOf(item.type) === "function_call");
    return {
      calls: items.filter((_, index) => isCall[index]).map((item) => textOf(item.call_id)),
      results: items.filter((item) => textOf(item.type) === "function_call_output").map((item) => textOf(item.call_id)),
      // Here each call is an item of its own; parallel ones stand side by side.
      callMessages: isCall.filter((is, index) => is && !isCall[index - 1]).length,
    };
  },
  readSignatures: (body) =>
    listOf(body.input).flatMap((item) => (textOf(item.type) === "reasoning" ? [textOf(item.encrypted_content)] : [])),
  settings: (url) => ({
    env: { OPENAI_API_KEY: "test-key", OPENAI_BASE_URL: url },
    config: { providers: { openai: { api: "responses" } } },
    model: "gpt-5.5",
  }),
};

function render(scenario: Scenario): readonly string[] {
  const { reasoning, text = [], toolCalls = [] } = scenario;
  const frames: string[] = [];
  const emit = (type: string, data: object): void => {
    frames.push(sse({ type, sequence_number: frames.length, ...data }, type));
  };
  emit("response.created", { response: responseOf(scenario, "in_progress") });
  emit("response.in_progress", { response: responseOf(scenario, "in_progress") });
  let output_index = 0;
  if (scenario.compaction !== undefined) {
    const item = { id: "cmp_01", type: "compaction" };
    emit("response.output_item.added", { output_index, item: { ...item, encrypted_content: "" } });
    const { opaque: encrypted_content } = scenario.compaction;
    emit("response.output_item.done", { output_index, item: { ...item, encrypted_content } });
    output_index += 1;
  }
  if (reasoning !== undefined) {
    renderReasoning(emit, output_index, reasoning);
    output_index += 1;
  }
  if (text.length > 0) {
    renderMessage(emit, output_index, text);
    output_index += 1;
  }
  for (const { id, name, args } of toolCalls) {
    const item = { id: `fc_${id}`, type: "function_call", call_id: id, name };
    emit("response.output_item.added", { output_index, item: { ...item, status: "in_progress", arguments: "" } });
    emit("response.function_call_arguments.delta", { output_index, item_id: item.id, delta: args });
    emit("response.function_call_arguments.done", { output_index, item_id: item.id, arguments: args });
    emit("response.output_item.done", { output_index, item: { ...item, status: "completed", arguments: args } });
    output_index += 1;
  }
  const end = scenario.stop === "length" ? "incomplete" : "completed";
  emit(`response.${end}`, { response: responseOf(scenario, end) });
  return frames;
}

type Emit = (type: string, data: object) => void;

function renderReasoning(emit: Emit, output_index: number, reasoning: NonNullable<Scenario["reasoning"]>): void {
  const item = { id: "rs_01", type: "reasoning" };
  const place = { output_index, item_id: item.id, summary_index: 0 };
  emit("response.output_item.added", { output_index, item: { ...item, encrypted_content: null, summary: [] } });
  emit("response.reasoning_summary_part.added", { ...place, part: { type: "summary_text", text: "" } });
  emit("response.reasoning_summary_text.delta", { ...place, delta: reasoning.text });
  emit("response.reasoning_summary_text.done", { ...place, text: reasoning.text });
  const part = { type: "summary_text", text: reasoning.text };
  emit("response.reasoning_summary_part.done", { ...place, part });
  const done = { ...item, encrypted_content: reasoning.signature, summary: [part] };
  emit("response.output_item.done", { output_index, item: done });
}

function renderMessage(emit: Emit, output_index: number, text: readonly string[]): void {
  const item = { id: "msg_01", type: "message", role: "assistant", phase: "final_answer" };
  const place = { output_index, item_id: item.id, content_index: 0 };
  emit("response.output_item.added", { output_index, item: { ...item, status: "in_progress", content: [] } });
  emit("response.content_part.added", { ...place, part: { type: "output_text", text: "", annotations: [] } });
  for (const delta of text) emit("response.output_text.delta", { ...place, delta, logprobs: [] });
  const part = { type: "output_text", text: text.join(""), annotations: [], logprobs: [] };
  emit("response.output_text.done", { ...place, text: part.text, logprobs: [] });
  emit("response.content_part.done", { ...place, part });
  emit("response.output_item.done", { output_index, item: { ...item, status: "completed", content: [part] } });
}

function responseOf({ usage }: Scenario, status: string): object {
  const counted = usage && {
    input_tokens: usage.input,
    input_tokens_details: { cached_tokens: usage.cacheRead ?? 0 },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: usage.input + usage.output,
  };
  return {
    id: "resp_01",
    object: "response",
    created_at: 1_760_000_000,
    status,
    model: "gpt-5.5",
    output: [],
    error: null,
    incomplete_details: status === "incomplete" ? { reason: "max_output_tokens" } : null,
    usage: status === "in_progress" ? null : (counted ?? null),
  };
}
