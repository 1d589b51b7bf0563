import { listOf, type Scenario, sse, textOf, type WireFormat } from "./scenario.ts";

/** Gemini's streamGenerateContent. */
export const geminiWire: WireFormat = {
  name: "gemini",
  contentType: "text/event-stream",
  render,
  countsCache: "reads",
  saysWhenOver: false,
  brokenFrame: 'data: {"candidates":[{"content":{"parts":[{"tex\r\n\r\n',
  errorFrame: {
    text: sse({ error: { code: 503, message: "The model is overloaded.", status: "UNAVAILABLE" } }),
    kind: "overloaded",
  },
  refusals: {
    rate_limited: { status: 429, body: refusal(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota") },
    overloaded: { status: 503, body: refusal(503, "UNAVAILABLE", "The model is overloaded.") },
    server_error: { status: 500, body: refusal(500, "INTERNAL", "An internal error has occurred") },
    context_exceeded: {
      status: 400,
      body: refusal(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1200000) exceeds the maximum number of tokens allowed",
      ),
    },
    auth: { status: 400, body: refusal(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.") },
    model_not_found: { status: 404, body: refusal(404, "NOT_FOUND", "models/gemini-nothing is not found") },
  },
  forced: {
    required: { toolConfig: { functionCallingConfig: { mode: "ANY" } } },
    named: { toolConfig: { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["look"] } } },
  },
  readConversation(body) {
    const parts = listOf(body.contents).map((content) => listOf(content.parts));
    const calls = parts.map((list) => list.filter((part) => part.functionCall !== undefined));
    const results = parts.flat().filter((part) => part.functionResponse !== undefined);
    return {
      calls: calls.flat().map((part) => textOf(part.functionCall?.id)),
      results: results.map((part) => textOf(part.functionResponse?.id)),
      callMessages: calls.filter((list) => list.length > 0).length,
    };
  },
  readSignatures: (body) =>
    listOf(body.contents)
      .flatMap((content) => listOf(content.parts))
      .flatMap((part) => (part.thoughtSignature === undefined ? [] : [textOf(part.thoughtSignature)])),
  settings: (url) => ({
    env: { GEMINI_API_KEY: "test-key", GEMINI_BASE_URL: url },
    config: {},
    model: "gemini-3-flash-preview",
  }),
};

function render(scenario: Scenario): readonly string[] {
  const { reasoning, text = [], toolCalls = [], usage } = scenario;
  const frames: string[] = [];
  if (reasoning !== undefined) frames.push(chunk([{ text: reasoning.text, thought: true }]));
  // Gemini signs the first thing it says after thinking, not the thought.
  let signature = reasoning === undefined ? {} : { thoughtSignature: reasoning.signature };
  for (const delta of text) frames.push(chunk([{ text: delta }]));
  for (const { id, name, args } of toolCalls) {
    frames.push(chunk([{ functionCall: { id, name, args: JSON.parse(args) }, ...signature }]));
    signature = {};
  }
  const last = "thoughtSignature" in signature ? [{ text: "", ...signature }] : [];
  const finishReason = scenario.stop === "length" ? "MAX_TOKENS" : "STOP";
  const counted = usage && {
    promptTokenCount: usage.input,
    ...(usage.cacheRead === undefined ? {} : { cachedContentTokenCount: usage.cacheRead }),
    candidatesTokenCount: usage.output,
    totalTokenCount: usage.input + usage.output,
  };
  frames.push(chunk(last, { finishReason }, counted === undefined ? {} : { usageMetadata: counted }));
  return frames;
}

function chunk(parts: readonly object[], candidate: object = {}, more: object = {}): string {
  const content = { parts, role: "model" };
  return sse({
    candidates: [{ content, index: 0, ...candidate }],
    modelVersion: "gemini-3-flash-preview",
    responseId: "r1",
    ...more,
  });
}

function refusal(code: number, status: string, message: string): object {
  return { error: { code, message, status } };
}
