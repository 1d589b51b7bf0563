import { listOf, type Scenario, sse, textOf, type WireFormat } from "./scenario.ts";

/** Anthropic's Messages API. */
export const anthropicWire: WireFormat = {
  name: "anthropic",
  contentType: "text/event-stream",
  render,
  countsCache: "reads and writes",
  saysWhenOver: true,
  brokenFrame: 'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"ty\n\n',
  errorFrame: {
    text: event({ type: "error", error: { type: "overloaded_error", message: "Overloaded" } }),
    kind: "overloaded",
  },
  refusals: {
    rate_limited: { status: 429, body: refusal("rate_limit_error", "Number of requests has exceeded your limit") },
    overloaded: { status: 529, body: refusal("overloaded_error", "Overloaded") },
    server_error: { status: 500, body: refusal("api_error", "Internal server error") },
    context_exceeded: {
      status: 400,
      body: refusal("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
    },
    auth: { status: 401, body: refusal("authentication_error", "invalid x-api-key") },
    model_not_found: { status: 404, body: refusal("not_found_error", "model: claude-nothing") },
  },
  forced: {
    required: { tool_choice: { type: "any" } },
    named: { tool_choice: { type: "tool", name: "look" } },
    apart: { tool_choice: { type: "auto", disable_parallel_tool_use: true } },
  },
  readConversation(body) {
    const blocks = listOf(body.messages).map((message) => listOf(message.content));
    const calls = blocks.map((list) => list.filter((block) => textOf(block.type) === "tool_use"));
    const results = blocks.flat().filter((block) => textOf(block.type) === "tool_result");
    return {
      calls: calls.flat().map((block) => textOf(block.id)),
      results: results.map((block) => textOf(block.tool_use_id)),
      callMessages: calls.filter((list) => list.length > 0).length,
    };
  },
  readSignatures: (body) =>
    listOf(body.messages)
      .flatMap((message) => listOf(message.content))
      .flatMap((block) => (textOf(block.type) === "thinking" ? [textOf(block.signature)] : [])),
  settings: (url) => ({
    env: { ANTHROPIC_API_KEY: "test-key", ANTHROPIC_BASE_URL: url },
    config: {},
    model: "claude-sonnet-4-5",
  }),
};

/** The text of a compaction is the provider's own words, and its signature is what is opaque. */
export const COMPACTED_TEXT = "Claude's own words about all of it.";

function render(scenario: Scenario): readonly string[] {
  if (scenario.compaction !== undefined) return renderCompaction(scenario.compaction.opaque, scenario.usage);
  const { reasoning, text = [], toolCalls = [], usage } = scenario;
  const frames = [event({ type: "message_start", message: opening(usage) }), event({ type: "ping" })];
  let index = 0;
  const block = (start: object, deltas: readonly object[]): void => {
    frames.push(event({ type: "content_block_start", index, content_block: start }));
    for (const delta of deltas) frames.push(event({ type: "content_block_delta", index, delta }));
    frames.push(event({ type: "content_block_stop", index }));
    index += 1;
  };
  if (reasoning !== undefined) {
    block({ type: "thinking", thinking: "", signature: "" }, [
      { type: "thinking_delta", thinking: reasoning.text },
      { type: "signature_delta", signature: reasoning.signature },
    ]);
  }
  if (text.length > 0) {
    block(
      { type: "text", text: "" },
      text.map((delta) => ({ type: "text_delta", text: delta })),
    );
  }
  for (const { id, name, args } of toolCalls) {
    const half = Math.ceil(args.length / 2);
    block({ type: "tool_use", id, name, input: {} }, [
      { type: "input_json_delta", partial_json: "" },
      { type: "input_json_delta", partial_json: args.slice(0, half) },
      { type: "input_json_delta", partial_json: args.slice(half) },
    ]);
  }
  const stop_reason = stopReasonOf(scenario);
  const counted = { output_tokens: usage?.output ?? 0 };
  frames.push(event({ type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: counted }));
  frames.push(event({ type: "message_stop" }));
  return frames;
}

/** The block comes whole with its start; what it took is told by its iteration alone. */
function renderCompaction(signature: string, { input, output }: Scenario["usage"] = { input: 0, output: 0 }) {
  const content_block = { type: "compaction", content: COMPACTED_TEXT, signature };
  const iterations = [{ type: "compaction", input_tokens: input, output_tokens: output }];
  const usage = { output_tokens: 0, iterations };
  return [
    event({ type: "message_start", message: opening() }),
    event({ type: "content_block_start", index: 0, content_block }),
    event({ type: "content_block_stop", index: 0 }),
    event({ type: "message_delta", delta: { stop_reason: "compaction", stop_sequence: null }, usage }),
    event({ type: "message_stop" }),
  ];
}

function opening({ input, cacheRead = 0, cacheWrite = 0 }: Scenario["usage"] = { input: 0, output: 0 }): object {
  return {
    id: "msg_01",
    type: "message",
    role: "assistant",
    model: "claude-sonnet-4-5-20250929",
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: {
      // What is in the cache is not counted twice here.
      input_tokens: input - cacheRead - cacheWrite,
      cache_creation_input_tokens: cacheWrite,
      cache_read_input_tokens: cacheRead,
      output_tokens: 1,
    },
  };
}

function stopReasonOf({ stop, toolCalls = [] }: Scenario): string {
  if (stop === "length") return "max_tokens";
  return toolCalls.length > 0 ? "tool_use" : "end_turn";
}

function event(data: { type: string } & Record<string, unknown>): string {
  return sse(data, data.type);
}

function refusal(type: string, message: string): object {
  return { type: "error", error: { type, message }, request_id: "req_01" };
}
