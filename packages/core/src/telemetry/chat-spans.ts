import type { Usage } from "../contract/event.ts";
import type { AssistantBlock, StopReason } from "../contract/message.ts";
import type { ModelClient, ModelPart, ModelRequest } from "../ports/model.ts";
import {
  type Attributes,
  answeredMessage,
  contentOf,
  errorTypeOf,
  type Failure,
  messageIn,
  type OpenSpan,
  type Spans,
  spokenMessages,
} from "./spans.ts";

export interface ChatSpans {
  readonly spans: Spans;
  readonly sessionId: string | undefined;
  /** Aborts when the work is interrupted; a call aborted otherwise has timed out. */
  readonly signal: AbortSignal;
  isCompacted(): boolean;
  /** The turn or compaction of the next call. */
  parent(): OpenSpan | undefined;
  /** Attributes of the next call after a failed one. */
  retry(): Attributes;
  /** A finished call whose result is not judged yet. */
  undecided(chat: UndecidedChat): void;
  answered(usage: Usage, stopReason: StopReason): void;
}

export interface UndecidedChat {
  readonly span: OpenSpan;
  readonly atMs: number;
  /** Its failure, unless another is reported. */
  readonly otherwise: Failure | undefined;
}

/** Wraps the model so that each call is a span. */
export function watchModel(model: ModelClient, watching: ChatSpans): ModelClient {
  const { provider, modelId, contextWindow, prices, url, compaction } = model;
  return {
    provider,
    modelId,
    contextWindow,
    prices,
    url,
    compaction: compaction && {
      takesInstructions: compaction.takesInstructions,
      stream: (request, signal) => {
        // The content is for the provider alone: no span contains it.
        const hidden = { ...watching, spans: { ...watching.spans, capturesContent: false } };
        const compacting = { provider, modelId, contextWindow, url, stream: () => compaction.stream(request, signal) };
        return streamInSpan(compacting, hidden, { request, signal });
      },
    },
    stream: (request, signal) => streamInSpan(model, watching, { request, signal }),
  };
}

interface Call {
  readonly request: ModelRequest;
  readonly signal: AbortSignal;
}

async function* streamInSpan(model: ModelClient, watching: ChatSpans, call: Call): AsyncGenerator<ModelPart> {
  const { request, signal } = call;
  const span = watching.spans.begin(newChat(model, watching, request));
  const received: Received = {
    begunMs: performance.now(),
    hasChunk: false,
    blocks: [],
    hasWords: false,
    isOver: false,
  };
  // An aborted call may never yield again.
  const onAbort = (): void => {
    if (received.isOver) return;
    received.isOver = true;
    if (watching.signal.aborted) span.end({ type: "interrupted" });
    else watching.undecided({ span, atMs: Date.now(), otherwise: { type: "timeout" } });
  };
  signal.addEventListener("abort", onAbort, { once: true });
  /** The rest of the answer, while it may be read. */
  let rest: AsyncIterator<ModelPart> | undefined;
  try {
    const parts = span.within(() => model.stream(request, signal)[Symbol.asyncIterator]());
    for (;;) {
      rest = undefined;
      const next = await span.within(() => parts.next());
      if (next.done) break;
      rest = parts;
      receive(next.value, received, { span, watching });
      yield next.value;
    }
    if (!received.isOver) span.end({ type: "malformed_stream" });
  } catch (thrown) {
    if (!received.isOver) span.end({ type: errorTypeOf(thrown), message: messageIn(thrown) });
    throw thrown;
  } finally {
    signal.removeEventListener("abort", onAbort);
    await rest?.return?.();
  }
}

interface Received {
  readonly begunMs: number;
  hasChunk: boolean;
  readonly blocks: AssistantBlock[];
  hasWords: boolean;
  isOver: boolean;
}

function newChat({ provider, modelId, url }: ModelClient, watching: ChatSpans, request: ModelRequest) {
  const [first, ...others] = request.messages;
  const system = first?.role === "system" ? first : undefined;
  const { spans } = watching;
  return {
    name: `chat ${modelId}`,
    kind: "client" as const,
    parent: watching.parent(),
    attributes: {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": providerName(provider),
      ...serverAt(url),
      "gen_ai.request.model": modelId,
      "gen_ai.request.stream": true,
      "gen_ai.request.max_tokens": request.maxOutputTokens,
      "gen_ai.output.type": request.outputSchema === undefined ? undefined : "json",
      "gen_ai.conversation.id": watching.sessionId,
      // The convention sets it only if true.
      "gen_ai.conversation.compacted": watching.isCompacted() || undefined,
      "gen_ai.system_instructions": contentOf(spans, () => system && [{ type: "text", content: system.content }]),
      "gen_ai.input.messages": contentOf(spans, () => spokenMessages(system === undefined ? request.messages : others)),
      ...watching.retry(),
    },
  };
}

/** The provider's name in the convention. */
export function providerName(provider: string): string {
  return PROVIDERS[provider] ?? provider;
}

const PROVIDERS: Readonly<Record<string, string>> = { gemini: "gcp.gemini" };
const PORTS: Readonly<Record<string, number>> = { "https:": 443, "http:": 80 };

/** Only host and port: the rest of an address may identify its owner. */
function serverAt(url: string | undefined): Attributes {
  if (url === undefined || !URL.canParse(url)) return {};
  const { hostname, port, protocol } = new URL(url);
  return { "server.address": hostname, "server.port": port === "" ? PORTS[protocol] : Number(port) };
}

interface StreamTimes {
  readonly span: OpenSpan;
  readonly watching: ChatSpans;
}

function receive(part: ModelPart, received: Received, { span, watching }: StreamTimes): void {
  if (received.isOver) return;
  // A finish or failure alone is no chunk.
  const isChunk = part.type !== "finish" && part.type !== "failed";
  if (isChunk && !received.hasChunk)
    span.set({ "gen_ai.response.time_to_first_chunk": secondsSince(received.begunMs) });
  received.hasChunk ||= isChunk;
  switch (part.type) {
    case "text_delta":
      received.hasWords ||= part.delta.trim() !== "";
      return;
    case "reasoning_delta":
      return;
    case "block":
      received.blocks.push(part.block);
      return;
    case "finish":
      received.isOver = true;
      finish(part, received, { span, watching });
      return;
    case "failed":
      received.isOver = true;
      span.set({ "http.response.status_code": part.failure.status });
      span.end({ type: part.failure.kind, message: part.failure.message });
      return;
  }
}

function finish(
  { stopReason, usage, response }: Extract<ModelPart, { type: "finish" }>,
  { blocks, hasWords }: Received,
  { span, watching }: StreamTimes,
): void {
  watching.answered(usage, stopReason);
  span.set({
    "gen_ai.response.id": response?.id,
    "gen_ai.response.model": response?.model,
    "gen_ai.response.finish_reasons": [stopReason],
    "gen_ai.usage.input_tokens": usage.input_tokens,
    "gen_ai.usage.output_tokens": usage.output_tokens,
    "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
    "gen_ai.usage.cache_write.input_tokens": usage.cache_creation_tokens,
    "gen_ai.output.messages": contentOf(watching.spans, () => [answeredMessage(blocks)]),
  });
  if (stopReason === "content_filter") span.end({ type: "content_filtered" });
  else if (hasWords || blocks.some(saysSomething)) span.end();
  // An empty answer is valid at the end of a turn with text, and a failure elsewhere.
  else watching.undecided({ span, atMs: Date.now(), otherwise: undefined });
}

function saysSomething(block: AssistantBlock): boolean {
  if (block.block_type === "text") return block.data.text.trim() !== "";
  return block.block_type !== "reasoning";
}

function secondsSince(begunMs: number): number {
  return (performance.now() - begunMs) / 1_000;
}
