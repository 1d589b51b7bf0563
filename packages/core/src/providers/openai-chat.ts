import type { Usage } from "../contract/event.ts";
import type { AssistantBlock, Message, StopReason } from "../contract/message.ts";
import { chatMessages } from "../contract/wire/openai.ts";
import type { ModelClient, ModelPart, ModelRequest, ToolSpec } from "../ports/model.ts";
import { asRecord, countOf, type Loose, openLines, toolUseBlock } from "./http-stream.ts";
import { abortFailure, asText, CUT_OFF, classifyFailure } from "./model-failure.ts";

export interface OpenAiChatOptions {
  /** Including /v1. */
  readonly baseUrl: string;
  /** The name the server knows. */
  readonly model: string;
  readonly provider: string;
  /** The name in failure messages; defaults to the provider. */
  readonly server?: string | undefined;
  /** The name that resolves to this model. */
  readonly modelId: string;
  readonly apiKey?: string | undefined;
  readonly contextWindow?: number | undefined;
  /** For requests without any. */
  readonly stopSequences?: readonly string[] | undefined;
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/**
 * A model behind the Chat Completions API of OpenAI-compatible servers: Ollama, vLLM, llama.cpp and others. Implemented
 * here because a provider package costs more than the rest of a turn.
 */
export function createOpenAiChatModel(options: OpenAiChatOptions): ModelClient {
  const { provider, modelId, contextWindow, baseUrl: url } = options;
  return {
    provider,
    modelId,
    contextWindow,
    url,
    refuseContent: ({ type }) =>
      type === "file" ? "servers of this API accept no files; send the content as text" : undefined,
    stream: (request, signal) => streamChat(options, request, signal),
  };
}

/** How long after its finish an answer may still report its usage and end. */
const AFTERMATH_MS_MAX = 2_000;

async function* streamChat(
  options: OpenAiChatOptions,
  request: ModelRequest,
  signal: AbortSignal,
): AsyncGenerator<ModelPart> {
  const call = new AbortController();
  const hangUp = (): void => call.abort(signal.reason);
  signal.addEventListener("abort", hangUp, { once: true });
  const answer = new ChatAnswer(request.messages.length);
  let timeout: ReturnType<typeof setTimeout> | undefined;
  let failure: unknown;
  try {
    if (signal.aborted) hangUp();
    const lines = await openLines(sourceOf(options, request), call.signal);
    for await (const batch of lines) {
      for (const line of batch) answer.read(line);
      yield* answer.take();
      if (answer.isOver) break;
      if (answer.isFinished) timeout ??= setTimeout(hangUp, AFTERMATH_MS_MAX);
    }
    answer.close();
  } catch (thrown) {
    failure = thrown;
  } finally {
    clearTimeout(timeout);
    signal.removeEventListener("abort", hangUp);
    // A connection whose answer was read to its end can be reused; any other must be closed.
    if (!answer.isOver) hangUp();
  }
  // The parts of the read that then broke.
  yield* answer.take();
  // An error after the finish is only the end of the stream.
  if (answer.isFinished) yield* answer.finish();
  else if (signal.aborted) yield { type: "failed", failure: abortFailure(signal) };
  else if (failure === undefined) yield { type: "failed", failure: CUT_OFF };
  else yield { type: "failed", failure: classifyFailure(failure, blameOf(options)) };
}

function sourceOf(options: OpenAiChatOptions, request: ModelRequest) {
  const { baseUrl, apiKey, fetch, model, stopSequences } = options;
  return {
    url: `${baseUrl}/chat/completions`,
    headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
    body: serialiseRequest(request, { model, stopSequences: request.stopSequences ?? stopSequences }),
    fetch,
  };
}

function blameOf({ provider, server = provider, apiKey }: OpenAiChatOptions) {
  return { provider: server, secrets: apiKey === undefined ? [] : [apiKey], isKeyless: apiKey === undefined };
}

interface OpenCall {
  readonly index: number | undefined;
  id: string;
  name: string;
  args: string;
}

/** Collects the events of one answer; parts to emit are taken after each network read. */
class ChatAnswer {
  /** The server sent its end marker. */
  isOver = false;
  readonly #position: number;
  #responseId = "";
  #model: string | undefined;
  /** Text outside of events. */
  #plain = "";
  #parts: ModelPart[] = [];
  #text = "";
  #reasoning = "";
  readonly #calls: OpenCall[] = [];
  #finishReason: string | undefined;
  #usage: Usage = { input_tokens: 0, output_tokens: 0 };

  /** `position`: the answer's index in its conversation. */
  constructor(position: number) {
    this.#position = position;
  }

  get isFinished(): boolean {
    return this.#finishReason !== undefined;
  }

  /** Reads one line of the event stream; throws if it is unreadable or the server reports an error. */
  read(line: string): void {
    if (this.isOver) return;
    if (!line.startsWith("data:")) {
      // Some servers answer with plain JSON, on one line or on several.
      if (this.#plain !== "" || line.startsWith("{")) this.#plain += line;
      return;
    }
    const data = line.slice(5).trim();
    if (data === "[DONE]") this.isOver = true;
    else if (data !== "") this.#readChunk(data);
  }

  /** At the end, text outside of events is the answer, or an error. */
  close(): void {
    if (this.#plain !== "") this.#readChunk(this.#plain);
  }

  /** The parts since the last call. */
  take(): readonly ModelPart[] {
    const parts = this.#parts;
    this.#parts = [];
    return parts;
  }

  finish(): readonly ModelPart[] {
    const blocks: AssistantBlock[] = [];
    if (this.#reasoning !== "") blocks.push({ block_type: "reasoning", data: { text: this.#reasoning } });
    if (this.#text !== "") blocks.push({ block_type: "text", data: { text: this.#text } });
    const calls = this.#calls.filter((call) => call.name !== "");
    const taken = new Set<string>();
    for (const [index, { id, name, args }] of calls.entries()) {
      blocks.push(toolUseBlock({ id: unique(id || this.#newId(index), taken), name, input: args }));
    }
    const stopReason = stopReasonOf(this.#finishReason, calls.length > 0);
    const parts = blocks.map((block): ModelPart => ({ type: "block", block }));
    const named = {
      ...(this.#responseId === "" ? {} : { id: this.#responseId }),
      ...(this.#model === undefined ? {} : { model: this.#model }),
    };
    const response = Object.keys(named).length === 0 ? {} : { response: named };
    return [...parts, { type: "finish", stopReason, usage: this.#usage, ...response }];
  }

  #readChunk(json: string): void {
    const chunk = asRecord(JSON.parse(json));
    if (chunk.error !== undefined && chunk.error !== null) throw chunk;
    if (this.#responseId === "" && typeof chunk.id === "string") this.#responseId = chunk.id;
    if (typeof chunk.model === "string") this.#model ??= chunk.model;
    if (chunk.usage !== undefined && chunk.usage !== null) this.#usage = usageOf(asRecord(chunk.usage));
    const choice = asRecord(Array.isArray(chunk.choices) ? chunk.choices[0] : undefined);
    this.#readDelta(asRecord(choice.delta ?? choice.message));
    if (typeof choice.finish_reason === "string") this.#finishReason = choice.finish_reason;
  }

  #readDelta(delta: Loose): void {
    const { content, tool_calls } = delta;
    const reasoning = delta.reasoning_content ?? delta.reasoning;
    if (typeof reasoning === "string" && reasoning !== "") {
      this.#reasoning += reasoning;
      this.#parts.push({ type: "reasoning_delta", delta: reasoning });
    }
    if (typeof content === "string" && content !== "") {
      this.#text += content;
      this.#parts.push({ type: "text_delta", delta: content });
    }
    if (!Array.isArray(tool_calls)) return;
    for (const piece of tool_calls) this.#readCall(asRecord(piece));
    // A long tool input shows nothing and must not count as a stall.
    this.#parts.push(SIGN_OF_LIFE);
  }

  #readCall(piece: Loose): void {
    const { name, arguments: args } = asRecord(piece.function);
    const said = { index: asIndex(piece.index), id: asText(piece.id), name: asText(name) };
    const call = this.#findCall(said) ?? this.#openCall(said.index);
    call.id ||= said.id;
    call.name ||= said.name;
    call.args += asText(args);
  }

  /** The call that a piece continues: by index, else by id, else the last. */
  #findCall({ index, id, name }: Pick<OpenCall, "index" | "id" | "name">): OpenCall | undefined {
    if (index === undefined && id === "") return name === "" ? this.#calls.at(-1) : undefined;
    if (index === undefined) return this.#calls.find((call) => call.id === id);
    const known = this.#calls.findLast((call) => call.index === index);
    if (known === undefined || known.id === "" || known.id === id) return known;
    // Some servers number every call as the first; others give each piece a new id, but no name.
    return id !== "" && name !== "" ? undefined : known;
  }

  #openCall(index: number | undefined): OpenCall {
    if (this.#calls.length === CALLS_MAX) throw new SyntaxError(`it has more than ${CALLS_MAX} tool calls`);
    const call = { index, id: "", name: "", args: "" };
    this.#calls.push(call);
    return call;
  }

  /** An id for a call without one, unique in the conversation. */
  #newId(index: number): string {
    const response = this.#responseId.slice(-RESPONSE_ID_LENGTH_MAX);
    return ["call", ...(response === "" ? [] : [response]), this.#position, index].join("_");
  }
}

const CALLS_MAX = 1_024;
/** OpenAI rejects call ids of more than 40 characters, and a session may continue there. */
const RESPONSE_ID_LENGTH_MAX = 24;
const SIGN_OF_LIFE: ModelPart = { type: "text_delta", delta: "" };

function asIndex(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

/** The wanted id, or a numbered one if it is taken: results find their calls by it. */
function unique(wanted: string, taken: Set<string>): string {
  let id = wanted;
  for (let number = 2; taken.has(id); number += 1) id = `${wanted}_${number}`;
  taken.add(id);
  return id;
}

function stopReasonOf(reason: string | undefined, hasCalls: boolean): StopReason {
  if (reason === "length") return "max_tokens";
  if (reason === "content_filter") return "content_filter";
  // The calls decide, not the reason: some servers say "stop" with calls, and calls must be answered.
  return hasCalls ? "tool_use" : "end_turn";
}

function usageOf(usage: Loose): Usage {
  const cached = countOf(asRecord(usage.prompt_tokens_details).cached_tokens);
  const thought = countOf(asRecord(usage.completion_tokens_details).reasoning_tokens) ?? 0;
  return {
    input_tokens: countOf(usage.prompt_tokens) ?? 0,
    output_tokens: countOf(usage.completion_tokens) ?? 0,
    ...(cached === undefined ? {} : { cache_read_tokens: cached }),
    ...(thought > 0 ? { reasoning_tokens: thought } : {}),
  };
}

/** A request as JSON bytes. The previous one is cached, so a call pays for its new messages only. */
export function serialiseRequest(
  request: ModelRequest,
  asked: { model: string; stopSequences: readonly string[] | undefined },
): Buffer<ArrayBuffer> {
  const { tools, maxOutputTokens, providerParams, outputSchema, toolChoice: choice } = request;
  const { model, stopSequences: stop } = asked;
  const schema = { name: "output", schema: outputSchema };
  const settings = JSON.stringify({
    ...providerParams,
    messages: undefined, // They stand before, and of two a server takes the later.
    model,
    stream: true,
    stream_options: { include_usage: true },
    ...(maxOutputTokens === undefined ? {} : { max_tokens: maxOutputTokens }),
    ...(stop === undefined || stop.length === 0 ? {} : { stop }),
    // Servers reject it without tools.
    ...(tools.length === 0 ? { parallel_tool_calls: undefined } : { tools: tools.map(toolOf) }),
    ...(choice === undefined
      ? {}
      : { tool_choice: choice === "required" ? choice : { type: "function", function: choice } }),
    ...(outputSchema === undefined ? {} : { response_format: { type: "json_schema", json_schema: schema } }),
  });
  const written = recall(request.messages);
  const end = writeMessages(written, request.messages);
  return Buffer.concat([written.bytes.subarray(0, end), Buffer.from(`],${settings.slice(1)}`)]);
}

function toolOf({ name, description, inputSchema }: ToolSpec) {
  return { type: "function", function: { name, description, parameters: inputSchema } };
}

/**
 * The messages of a conversation's newest request; `ends` holds the end of each in its JSON. Stored as bytes: one
 * non-Latin character makes a string of megabytes two-byte, and encoding that at every call cost four times as much.
 */
interface Written {
  readonly messages: Message[];
  readonly ends: number[];
  /** Larger than its content. */
  bytes: Buffer;
}

const OPENING = Buffer.from('{"messages":[');

/** By first message, which stays the same whatever is added or compacted. */
const conversations = new WeakMap<Message, Written>();

function recall([first]: readonly Message[]): Written {
  const known = first === undefined ? undefined : conversations.get(first);
  if (known !== undefined) return known;
  const written: Written = { messages: [], ends: [], bytes: OPENING };
  if (first !== undefined) conversations.set(first, written);
  return written;
}

/**
 * Writes a request up to the end of its messages. It reuses the previous request's prefix: looking up and joining every
 * message was a quarter of a turn's cost after 1,000 turns.
 */
function writeMessages(written: Written, messages: readonly Message[]): number {
  const same = sharedLength(written.messages, messages);
  written.messages.length = same;
  written.ends.length = same;
  let end = written.ends.at(-1) ?? OPENING.length;
  for (const message of messages.slice(same)) {
    for (const wire of chatMessages(message)) {
      const json = `${end === OPENING.length ? "" : ","}${JSON.stringify(wire)}`;
      written.bytes = withRoom(written.bytes, end + Buffer.byteLength(json));
      end += written.bytes.write(json, end);
    }
    written.messages.push(message);
    written.ends.push(end);
  }
  return end;
}

/** Grows a buffer to twice the needed size, so that it is not copied at every message. */
function withRoom(bytes: Buffer, length: number): Buffer {
  if (length <= bytes.length) return bytes;
  const roomy = Buffer.alloc(2 * length);
  bytes.copy(roomy);
  return roomy;
}

/** The length of the common prefix. */
function sharedLength(one: readonly Message[], other: readonly Message[]): number {
  const length = Math.min(one.length, other.length);
  for (let index = 0; index < length; index += 1) if (one[index] !== other[index]) return index;
  return length;
}
