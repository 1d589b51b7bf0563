import { AsyncLocalStorage } from "node:async_hooks";
import { type Context, context, ROOT_CONTEXT, SpanKind, SpanStatusCode, type Tracer, trace } from "@opentelemetry/api";
import { RuntimeError } from "../contract/error.ts";
import type { Usage } from "../contract/event.ts";
import type { AssistantBlock, Content, Message, StopReason } from "../contract/message.ts";
import type { ModelClient, ModelPart, ModelRequest } from "../ports/model.ts";

/** Undefined values are omitted. */
export type Attributes = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/** A failure: a public class, and a sentence that may quote content. */
export interface Failure {
  readonly type: string;
  readonly message?: string | undefined;
}

interface NewSpan {
  readonly name: string;
  readonly kind: "internal" | "client";
  /** Defaults to the active span. */
  readonly parent?: OpenSpan | undefined;
  /** The caller's trace over a wire, which replaces the active one. */
  readonly traceparent?: string | undefined;
  readonly attributes: Attributes;
}

export interface OpenSpan {
  readonly context: Context;
  set(attributes: Attributes): void;
  /** Ends it once; later calls are ignored. */
  end(failure?: Failure, atMs?: number): void;
  within<T>(work: () => T): T;
}

export interface Spans {
  readonly capturesContent: boolean;
  readonly redact: (text: string) => string;
  begin(span: NewSpan): OpenSpan;
}

/** A failure may quote its whole input. */
const MESSAGE_CHARS_MAX = 4_096;

/** Creates spans. Every text passes `redact`; failure sentences are included only with content. */
export function createSpans(parts: {
  readonly tracer: Tracer;
  readonly redact: (text: string) => string;
  readonly capturesContent: boolean;
}): Spans {
  const { tracer, redact, capturesContent } = parts;
  const safe = (attributes: Attributes) => {
    const reported: Record<string, string | number | boolean | string[]> = {};
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "string") reported[name] = redact(value);
      else if (typeof value === "object") reported[name] = value.map(redact);
      else if (value !== undefined) reported[name] = value;
    }
    return reported;
  };
  return {
    capturesContent,
    redact,
    begin: ({ name, kind, parent, traceparent, attributes }) => {
      const around = parent?.context ?? contextFrom(traceparent) ?? activeContext();
      const options = { kind: kind === "client" ? SpanKind.CLIENT : SpanKind.INTERNAL, attributes: safe(attributes) };
      const span = tracer.startSpan(redact(name), options, around);
      const inside = trace.setSpan(around, span);
      let hasEnded = false;
      return {
        context: inside,
        set: (more) => {
          if (!hasEnded) span.setAttributes(safe(more));
        },
        end: (failure, atMs) => {
          if (hasEnded) return;
          hasEnded = true;
          if (failure !== undefined) {
            const { type, message } = failure;
            const includesMessage = capturesContent && message !== undefined;
            span.setAttribute("error.type", type);
            span.setStatus({
              code: SpanStatusCode.ERROR,
              ...(includesMessage ? { message: redact(message).slice(0, MESSAGE_CHARS_MAX) } : {}),
            });
          }
          span.end(atMs);
        },
        within: (work) => nesting.run(inside, () => context.with(inside, work)),
      };
    },
  };
}

/** The application may have no context manager; our spans must nest all the same. */
const nesting = new AsyncLocalStorage<Context>();

function activeContext(): Context {
  const active = context.active();
  return active === ROOT_CONTEXT ? (nesting.getStore() ?? active) : active;
}

const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/;

/** Undefined for an invalid traceparent: the caller's request still runs. */
function contextFrom(traceparent: string | undefined): Context | undefined {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? "") ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  const traceFlags = Number.parseInt(flags, 16) & 1;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
}

/** The convention's value for an unnamed failure. */
const OTHER = "_OTHER";

/** A code or class name, never text from a message. */
export function errorTypeOf(thrown: unknown): string {
  if (thrown instanceof RuntimeError) return thrown.code;
  if (!(thrown instanceof Error)) return OTHER;
  if (!Object.hasOwn(thrown, "name") && thrown.name !== "Error") return thrown.name;
  const { name } = thrown.constructor;
  return name === "" ? OTHER : name;
}

export function messageIn(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** Per attribute; the session's log has the rest. */
const CONTENT_CHARS_MAX = 65_536;

/** A value as JSON without secrets. Undefined unless content is captured. */
export function contentOf({ capturesContent, redact }: Spans, make: () => unknown): string | undefined {
  if (!capturesContent) return undefined;
  try {
    // Before serialization: escaping would hide secrets with quotes or line breaks.
    const safe = JSON.stringify(make(), (_key, value: unknown) => (typeof value === "string" ? redact(value) : value));
    return safe?.slice(0, CONTENT_CHARS_MAX);
  } catch {
    // An untyped tool may return a value that JSON cannot represent; its caller reports that.
    return undefined;
  }
}

/** A text as an attribute; undefined unless content is captured. */
export function textContent({ capturesContent, redact }: Spans, text: string): string | undefined {
  return capturesContent ? redact(text).slice(0, CONTENT_CHARS_MAX) : undefined;
}

/** Messages in the shape of `gen_ai.input.messages`; media are named only. */
export function spokenMessages(messages: readonly Message[]): readonly unknown[] {
  return messages.map(spokenMessage);
}

function spokenMessage(message: Message): unknown {
  switch (message.role) {
    case "system":
      return { role: "system", parts: [textPart(message.content)] };
    case "system_notice":
      return { role: "system", parts: [textPart(message.body ?? "")] };
    case "user":
      return { role: "user", parts: partsOf(message.content) };
    case "block_assistant":
      return answeredMessage(message.blocks);
    case "tool_results":
      return {
        role: "tool",
        parts: message.results.map(({ tool_use_id: id, content }) => ({
          type: "tool_call_response",
          id,
          response: typeof content === "string" ? content : partsOf(content),
        })),
      };
  }
}

/** A model's answer in the shape of `gen_ai.output.messages`. */
export function answeredMessage(blocks: readonly AssistantBlock[]): unknown {
  return { role: "assistant", parts: blocks.map(blockPart) };
}

export function partsOf(content: Content): readonly unknown[] {
  if (typeof content === "string") return [textPart(content)];
  return content.map((block) => {
    if (block.type === "text") return textPart(block.text);
    return { type: block.type, modality: block.type, mime_type: block.media_type };
  });
}

function blockPart(block: AssistantBlock): unknown {
  switch (block.block_type) {
    case "text":
      return textPart(block.data.text);
    case "reasoning":
      return { type: "reasoning", content: block.data.text };
    case "tool_use":
      return { type: "tool_call", id: block.data.id, name: block.data.name, arguments: block.data.args };
    case "server_tool_content":
      return { type: "server_tool_call_response", id: block.data.id, response: block.data.content };
    case "image":
      return { type: "image", modality: "image", mime_type: block.data.media_type };
  }
}

function textPart(content: string): unknown {
  return { type: "text", content };
}

interface ChatSpans {
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
