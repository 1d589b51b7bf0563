import type {
  JSONSchema7,
  LanguageModelV4CallOptions,
  LanguageModelV4FunctionTool,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";
import type { JsonObject } from "../contract/session.ts";
import type {
  ModelClient,
  ModelPart,
  ModelRequest,
  ModelResolver,
  NativeCompaction,
  ToolSpec,
} from "../ports/model.ts";
import { Answer, type AnswerEnd, type StreamPart } from "./ai-sdk-answer.ts";
import { CompactionAnswer, compactingApi, compactingRequest, itemMessage } from "./ai-sdk-compaction.ts";
import { type AiSdkModel, type Dialect, dialectOf } from "./ai-sdk-dialect.ts";
import { PARALLEL_PARAMS, refuseParams, splitParams } from "./ai-sdk-params.ts";
import { buildPrompt, type NativeMessages, refuseContent } from "./ai-sdk-prompt.ts";
import { drain } from "./http-stream.ts";
import { abortFailure, CUT_OFF, classifyFailure, type FailureContext } from "./model-failure.ts";

export interface AiSdkModelOptions {
  readonly contextWindow?: number | undefined;
  readonly url?: string | undefined;
  /** How we call the provider; the package's own name otherwise. */
  readonly provider?: string | undefined;
  /** The name that resolves to this model again, when it is not the one the provider knows. */
  readonly modelId?: string | undefined;
  /** For calls that name none. */
  readonly stopSequences?: readonly string[] | undefined;
  /** Values that must not appear in a failure's message. */
  readonly secrets?: readonly string[] | undefined;
  /** Whether the calls carry no key. */
  readonly isKeyless?: boolean | undefined;
}

/** Any model of the AI SDK as a model that can be asked; the SDK's own loop is left out, for we have one. */
export function createAiSdkModel(model: AiSdkModel, options: AiSdkModelOptions = {}): ModelClient {
  const dialect = dialectOf(model);
  const provider = options.provider ?? (dialect.family === "google" ? "gemini" : dialect.namespace);
  const asked: AskedModel = {
    // The versions differ in the prompt, which is built for the one at hand, and in how a stream finishes.
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
  // The controller reaches a connection whose stream the package dropped; the reader wakes a read that ignores it.
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

/** Opens the stream, or rejects as soon as the call is given up, whether or not the model heeds its signal. */
async function openReader(asked: AskedModel, request: ModelRequest, signal: AbortSignal): Promise<Reader> {
  const givenUp = Promise.withResolvers<never>();
  const giveUp = (): void => givenUp.reject(signal.reason);
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    const opening = Promise.resolve(asked.model.doStream(buildCallOptions(request, asked.dialect, signal)));
    // A stream that opens after all must not be left flowing into nothing.
    opening.then(({ stream }) => (signal.aborted ? stream.cancel() : undefined)).catch(ignore);
    const { stream } = await Promise.race([opening, givenUp.promise]);
    return stream.getReader();
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

/** What only the provider can read is worth nothing to whoever reads why it refused it. */
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

/** A request in the AI SDK's terms. */
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

/** The summary as the provider itself wrote it, where it can be sent. */
function nativeIn({ native }: ModelRequest, params: JsonObject, dialect: Dialect): NativeMessages | undefined {
  if (native === undefined) return undefined;
  const message = itemMessage(native.item, params, dialect);
  return message && { compactionId: native.compactionId, message, following: native.following };
}

function toolOf(tool: ToolSpec, dialect: Dialect): LanguageModelV4FunctionTool {
  const { name, description } = tool;
  const inputSchema = tool.inputSchema as JSONSchema7; // a tool's schema is a JSON schema by its port
  // Responses turns strictness on by itself and makes every optional parameter required.
  const strictness = dialect.family === "openai" ? { strict: false } : {};
  return { type: "function", name, description, inputSchema, ...strictness };
}

function formatOf(schema: JsonObject): NonNullable<LanguageModelV4CallOptions["responseFormat"]> {
  return { type: "json", schema: schema as JSONSchema7 }; // checked to be a JSON schema where it was given
}

function providerOptionsOf(own: JsonObject, dialect: Dialect): { providerOptions?: SharedV4ProviderOptions } {
  const options = { ...defaultsOf(dialect), ...own };
  if (Object.keys(options).length === 0) return {};
  // Parameters arrive as JSON, so they are JSON here.
  return { providerOptions: { [dialect.namespace]: options } as SharedV4ProviderOptions };
}

function defaultsOf(dialect: Dialect): JsonObject {
  // A schema is checked again when the answer is there; strict decoding would refuse most schemas people write.
  const relaxed = { strictJsonSchema: false };
  // Without server state the package asks for encrypted reasoning, and a session can be resumed by anyone who has it.
  if (dialect.isResponses) return { store: false, ...relaxed };
  // While Claude thinks in secret, pings are all that says the stream is alive.
  if (dialect.family === "anthropic") return { includePings: true };
  return dialect.family === "openai" || dialect.family === "other" ? relaxed : {};
}

/** A model that was handed in as code; undefined for a name, or for none. */
export function ownModelOf(given: string | AiSdkModel | ModelClient | undefined): ModelClient | undefined {
  if (given === undefined || typeof given === "string") return undefined;
  return "stream" in given ? given : createAiSdkModel(given);
}

/** The model that was handed in serves whenever no other is named, also for a session resumed by its name. */
export function preferOwn(own: ModelClient | undefined, others: ModelResolver): ModelResolver {
  if (own === undefined) return others;
  return {
    resolve: async (model, provider) => {
      const isOwn = (model ?? own.modelId) === own.modelId && (provider ?? own.provider) === own.provider;
      return isOwn ? own : others.resolve(model, provider);
    },
  };
}
