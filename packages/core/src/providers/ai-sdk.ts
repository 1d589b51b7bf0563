import type {
  JSONSchema7,
  LanguageModelV4CallOptions,
  LanguageModelV4FunctionTool,
  LanguageModelV4Message,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";
import type { JsonObject } from "../contract/session.ts";
import type {
  ModelClient,
  ModelPart,
  ModelRequest,
  ModelResolver,
  NativeCompaction,
  NativeRequest,
  ToolSpec,
} from "../ports/model.ts";
import { Answer, type AnswerEnd, SIGN_OF_LIFE, type StreamPart } from "./ai-sdk-answer.ts";
import { type AiSdkModel, type Dialect, dialectOf } from "./ai-sdk-dialect.ts";
import { PARALLEL_PARAMS, refuseParams, splitParams } from "./ai-sdk-params.ts";
import { buildPrompt, type NativeMessages, refuseContent } from "./ai-sdk-prompt.ts";
import { asRecord, drain } from "./http-stream.ts";
import { abortFailure, CUT_OFF, classifyFailure, type FailureContext } from "./model-failure.ts";

export interface AiSdkModelOptions {
  readonly contextWindow?: number | undefined;
  readonly url?: string | undefined;
  readonly provider?: string | undefined;
  /** The name that resolves to this model, if it differs from the provider's. */
  readonly modelId?: string | undefined;
  /** For requests without any. */
  readonly stopSequences?: readonly string[] | undefined;
  readonly secrets?: readonly string[] | undefined;
  readonly isKeyless?: boolean | undefined;
}

/** Wraps any model of the AI SDK as a model client, without the SDK's own loop. */
export function createAiSdkModel(model: AiSdkModel, options: AiSdkModelOptions = {}): ModelClient {
  const dialect = dialectOf(model);
  const provider = options.provider ?? (dialect.family === "google" ? "gemini" : dialect.namespace);
  const asked: AskedModel = {
    // `as`: versions differ in the prompt, which is built for this one, and in the finish part.
    model: model as unknown as StreamingModel,
    dialect,
    blame: { provider, secrets: options.secrets, isKeyless: options.isKeyless },
  };
  const stream = (request: ModelRequest, signal: AbortSignal) =>
    streamAnswer(asked, { request: withStops(request, options.stopSequences), answer: new Answer(), signal });
  return {
    provider,
    modelId: options.modelId ?? model.modelId,
    contextWindow: options.contextWindow,
    url: options.url,
    compaction: compactionOf(asked),
    refuseParams: (params) => refuseParams(params, dialect),
    refuseContent: (block) => refuseContent(block, dialect),
    stream,
  };
}

function compactionOf(asked: AskedModel): NativeCompaction | undefined {
  const api = compactingApi(asked.dialect);
  if (api === undefined) return undefined;
  return {
    takesInstructions: api === "anthropic",
    stream: (request, signal) =>
      streamAnswer(asked, { request: compactingRequest(request, api), answer: new CompactionAnswer(), signal }),
  };
}

interface StreamingModel {
  doStream(options: LanguageModelV4CallOptions): PromiseLike<{ readonly stream: ReadableStream<StreamPart> }>;
}

interface AskedModel {
  readonly model: StreamingModel;
  readonly dialect: Dialect;
  readonly blame: FailureContext;
}

function withStops(request: ModelRequest, stopSequences: readonly string[] | undefined): ModelRequest {
  return request.stopSequences !== undefined || stopSequences === undefined ? request : { ...request, stopSequences };
}

type Reader = ReadableStreamDefaultReader<StreamPart>;

interface Call {
  readonly request: ModelRequest;
  readonly answer: Pick<Answer, "ready" | "take">;
  readonly signal: AbortSignal;
}

async function* streamAnswer(asked: AskedModel, { request, answer, signal }: Call): AsyncGenerator<ModelPart> {
  const call = new AbortController();
  let reader: Reader | undefined;
  // The controller closes a connection whose stream the package dropped; the reader ends a read that ignores it.
  const hangUp = (): void => {
    call.abort(signal.reason);
    void reader?.cancel().catch(ignore);
  };
  signal.addEventListener("abort", hangUp, { once: true });
  let end: AnswerEnd | undefined;
  try {
    if (signal.aborted) hangUp();
    else reader = await openReader(asked, request, call.signal);
    while (reader !== undefined && end === undefined) {
      const { done, value } = await reader.read();
      if (done) break;
      end = answer.take(value);
      for (const part of answer.ready) yield part;
      answer.ready.length = 0;
    }
  } catch (thrown) {
    end = { type: "error", error: thrown };
  } finally {
    signal.removeEventListener("abort", hangUp);
    if (end?.type === "finish" && reader !== undefined) void drain(reader);
    else hangUp();
  }
  yield lastPart(end, blameFor(request, asked), signal);
}

/** Opens the stream, or rejects as soon as the call is aborted, even if the model ignores its signal. */
async function openReader(asked: AskedModel, request: ModelRequest, signal: AbortSignal): Promise<Reader> {
  const givenUp = Promise.withResolvers<never>();
  const giveUp = (): void => givenUp.reject(signal.reason);
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    const opening = Promise.resolve(asked.model.doStream(buildCallOptions(request, asked.dialect, signal)));
    // A stream that opens afterwards must be cancelled.
    opening.then(({ stream }) => (signal.aborted ? stream.cancel() : undefined)).catch(ignore);
    const { stream } = await Promise.race([opening, givenUp.promise]);
    return stream.getReader();
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

/** A native item is unreadable in an error message. */
function blameFor({ native }: ModelRequest, { blame }: AskedModel): FailureContext {
  if (native === undefined) return blame;
  const opaque = Object.values(native.item).filter(
    (value) => typeof value === "string" && value.length > WORD_CHARS_MAX,
  );
  return { ...blame, secrets: [...(blame.secrets ?? []), ...opaque.map(String)] };
}

const WORD_CHARS_MAX = 32;

function lastPart(end: AnswerEnd | undefined, blame: FailureContext, signal: AbortSignal): ModelPart {
  if (end !== undefined && end.type !== "error") return end;
  if (signal.aborted) return { type: "failed", failure: abortFailure(signal) };
  if (end === undefined) return { type: "failed", failure: CUT_OFF };
  return { type: "failed", failure: classifyFailure(end.error, blame) };
}

function ignore(): void {}

function buildCallOptions(
  request: ModelRequest,
  dialect: Dialect,
  abortSignal: AbortSignal,
): LanguageModelV4CallOptions {
  const { standard, own } = splitParams(request.providerParams ?? {}, dialect);
  if (request.tools.length === 0) for (const name of PARALLEL_PARAMS) delete own[name];
  const { toolChoice: choice } = request;
  const stopSequences = request.stopSequences ?? standard.stopSequences;
  return {
    ...standard,
    prompt: buildPrompt(request.messages, dialect, nativeIn(request, own, dialect)),
    abortSignal,
    includeRawChunks: false,
    ...(request.maxOutputTokens === undefined ? {} : { maxOutputTokens: request.maxOutputTokens }),
    ...(request.tools.length === 0 ? {} : { tools: request.tools.map((tool) => toolOf(tool, dialect)) }),
    ...(choice === undefined
      ? {}
      : { toolChoice: choice === "required" ? { type: choice } : { type: "tool", toolName: choice.name } }),
    ...(request.outputSchema === undefined ? {} : { responseFormat: formatOf(request.outputSchema) }),
    ...(stopSequences === undefined || stopSequences.length === 0 ? {} : { stopSequences: [...stopSequences] }),
    ...providerOptionsOf(own, dialect),
  };
}

/** The provider's native item, if it can be sent. */
function nativeIn({ native }: ModelRequest, params: JsonObject, dialect: Dialect): NativeMessages | undefined {
  if (native === undefined) return undefined;
  const message = itemMessage(native.item, params, dialect);
  return message && { compactionId: native.compactionId, message, following: native.following };
}

function toolOf(tool: ToolSpec, dialect: Dialect): LanguageModelV4FunctionTool {
  const { name, description } = tool;
  const inputSchema = tool.inputSchema as JSONSchema7; // a tool's schema is a JSON schema by its port
  // Responses enables strict mode by default and makes every optional parameter required.
  const strictness = dialect.family === "openai" ? { strict: false } : {};
  return { type: "function", name, description, inputSchema, ...strictness };
}

function formatOf(schema: JsonObject): NonNullable<LanguageModelV4CallOptions["responseFormat"]> {
  return { type: "json", schema: schema as JSONSchema7 }; // checked to be a JSON schema where it was given
}

function providerOptionsOf(own: JsonObject, dialect: Dialect): { providerOptions?: SharedV4ProviderOptions } {
  const options = { ...defaultsOf(dialect), ...own };
  if (Object.keys(options).length === 0) return {};
  // `as`: parameters arrive as JSON.
  return { providerOptions: { [dialect.namespace]: options } as SharedV4ProviderOptions };
}

function defaultsOf(dialect: Dialect): JsonObject {
  // The answer is validated anyway; strict decoding would reject most schemas.
  const relaxed = { strictJsonSchema: false };
  // Without server state the package requests encrypted reasoning, so any client can resume the session.
  if (dialect.isResponses) return { store: false, ...relaxed };
  // During hidden thinking, pings are the only sign that the stream is alive.
  if (dialect.family === "anthropic") return { includePings: true };
  return dialect.family === "openai" || dialect.family === "other" ? relaxed : {};
}

/** A model passed as code; undefined for a name or nothing. */
export function ownModelOf(given: string | AiSdkModel | ModelClient | undefined): ModelClient | undefined {
  if (given === undefined || typeof given === "string") return undefined;
  return "stream" in given ? given : createAiSdkModel(given);
}

/** A model passed as code serves whenever no other is named, also for a resumed session with its name. */
export function preferOwn(own: ModelClient | undefined, others: ModelResolver): ModelResolver {
  if (own === undefined) return others;
  return {
    resolve: async (model, provider) => {
      const isOwn = (model ?? own.modelId) === own.modelId && (provider ?? own.provider) === own.provider;
      return isOwn ? own : others.resolve(model, provider);
    },
  };
}

/** How a provider compacts; undefined if it or its package cannot. */
type CompactingApi = "anthropic" | "responses";

/** Packages of earlier generations silently ignore the request. */
function compactingApi({ version, family, isResponses }: Dialect): CompactingApi | undefined {
  if (version !== "v4") return undefined;
  return family === "anthropic" ? "anthropic" : isResponses ? "responses" : undefined;
}

function compactingRequest(request: NativeRequest, api: CompactingApi): ModelRequest {
  const { instructions, ...rest } = request;
  if (api === "responses") {
    // Reasoning counts as output: a limit for the summary would be used up before it starts.
    const { maxOutputTokens: _unlimited, ...unlimited } = rest;
    return { ...unlimited, providerParams: { compactionTrigger: true } };
  }
  const own = instructions === undefined ? {} : { instructions };
  return { ...rest, providerParams: { compaction: { type: "summarize", ...own } } };
}

/** Parameters with which the provider stores or compacts the conversation itself: it rejects its item beside them. */
const KEPT_BY_PROVIDER: Readonly<Record<CompactingApi, readonly string[]>> = {
  anthropic: ["contextManagement", "taskBudget", "thread"],
  responses: ["conversation", "previousResponseId"],
};

/** An item as a provider message; undefined if it cannot be sent and the summary is used. */
function itemMessage(item: JsonObject, params: JsonObject, dialect: Dialect): LanguageModelV4Message | undefined {
  const api = compactingApi(dialect);
  if (api === undefined || KEPT_BY_PROVIDER[api].some((name) => params[name] !== undefined)) return undefined;
  if (api === "anthropic") {
    const { content: text, signature } = item;
    if (typeof text !== "string" || text.trim() === "" || typeof signature !== "string") return undefined;
    const providerOptions = { anthropic: { type: "compaction", signature } };
    return { role: "assistant", content: [{ type: "text", text, providerOptions }] };
  }
  const { id: itemId, encrypted_content: encryptedContent } = item;
  // With a store the package would send only the id of an item that was never stored.
  if (typeof itemId !== "string" || typeof encryptedContent !== "string" || params.store === true) return undefined;
  const providerOptions = { [dialect.namespace]: { itemId, encryptedContent } };
  return { role: "assistant", content: [{ type: "custom", kind: "openai.compaction", providerOptions }] };
}

/** Far more than any compaction takes; an endless one must not fill the memory. */
const STREAMED_CHARS_MAX = 4 * 1_024 * 1_024;

/** Collects a compaction. It is not shown, so only keep-alive parts are emitted before it. */
class CompactionAnswer {
  readonly ready: ModelPart[] = [];
  readonly #answer = new Answer();
  readonly #items: JsonObject[] = [];
  /** Anthropic's block, which comes as a text, by the id of that text. */
  #open: { readonly id: string; readonly signature: unknown; content: string } | undefined;
  #chars = 0;

  take(part: StreamPart): AnswerEnd | undefined {
    this.#gather(part);
    if (this.#chars > STREAMED_CHARS_MAX) {
      return {
        type: "failed",
        failure: { kind: "answer_too_long", message: "the provider's compaction is endless" },
      };
    }
    const end = this.#answer.take(part);
    if (this.#answer.ready.length > 0) this.ready.push(SIGN_OF_LIFE);
    this.#answer.ready.length = 0;
    const [item, ...others] = this.#items;
    // With several items it is unknown which stands for the conversation.
    if (end?.type === "finish" && item !== undefined && others.length === 0) {
      const data = { name: "compaction", content: item };
      this.ready.push({ type: "block", block: { block_type: "server_tool_content", data } });
    }
    return end;
  }

  #gather(part: StreamPart): void {
    switch (part.type) {
      case "text-start": {
        const { type, signature } = asRecord(part.providerMetadata?.anthropic);
        if (type === "compaction") this.#open = { id: part.id, signature, content: "" };
        return;
      }
      case "text-delta":
      case "reasoning-delta":
        this.#chars += part.delta.length;
        if (part.type === "text-delta" && part.id === this.#open?.id) this.#open.content += part.delta;
        return;
      case "text-end": {
        const open = this.#open;
        if (open === undefined || part.id !== open.id) return;
        this.#open = undefined;
        const { content, signature } = open;
        // Without a signature it would be rejected later.
        if (content.trim() !== "" && typeof signature === "string") {
          this.#items.push({ type: "compaction", content, signature });
        }
        return;
      }
      case "custom": {
        if (part.kind !== "openai.compaction") return;
        const { openai, azure } = part.providerMetadata ?? {};
        const { itemId: id, encryptedContent: encrypted_content } = asRecord(openai ?? azure);
        if (typeof id !== "string" || typeof encrypted_content !== "string") return;
        this.#items.push({ type: "compaction", id, encrypted_content });
        return;
      }
      default:
    }
  }
}
