import type { ModelClient, ModelPart, ModelRequest } from "../ports/model.ts";
import { abortFailure, CUT_OFF, classifyFailure } from "./model-failure.ts";
import { ChatAnswer } from "./openai-chat/answer.ts";
import { serialiseRequest } from "./openai-chat/request.ts";
import { openLines } from "./wire/http-lines.ts";

export interface OpenAiChatOptions {
  /** Up to and with /v1. */
  readonly baseUrl: string;
  /** The name the server knows. */
  readonly model: string;
  readonly provider: string;
  /** The name that resolves to this model again. */
  readonly modelId: string;
  readonly apiKey?: string | undefined;
  readonly contextWindow?: number | undefined;
  /** For calls that name none. */
  readonly stopSequences?: readonly string[] | undefined;
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/**
 * A model behind the Chat Completions wire that OpenAI-compatible servers speak: Ollama, vLLM, llama.cpp and others.
 * It is read here rather than through a provider package because that alone costs more than the rest of a turn.
 */
export function createOpenAiChatModel(options: OpenAiChatOptions): ModelClient {
  const { provider, modelId, contextWindow, baseUrl: url } = options;
  return { provider, modelId, contextWindow, url, stream: (request, signal) => streamChat(options, request, signal) };
}

/** How long after its finish an answer may still be told what it cost, and that it is over. */
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
  let patience: ReturnType<typeof setTimeout> | undefined;
  let failure: unknown;
  try {
    if (signal.aborted) hangUp();
    const lines = await openLines(sourceOf(options, request), call.signal);
    for await (const batch of lines) {
      for (const line of batch) answer.read(line);
      yield* answer.take();
      if (answer.isOver) break;
      if (answer.isFinished) patience ??= setTimeout(hangUp, AFTERMATH_MS_MAX);
    }
    answer.close();
  } catch (thrown) {
    failure = thrown;
  } finally {
    clearTimeout(patience);
    signal.removeEventListener("abort", hangUp);
    // A connection whose answer was read to its end serves the next call; any other must be closed.
    if (!answer.isOver) hangUp();
  }
  // What was said in the read that then broke.
  yield* answer.take();
  // What breaks after the model said it was done is only the end of the stream.
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

function blameOf({ provider, apiKey }: OpenAiChatOptions) {
  return { provider, secrets: apiKey === undefined ? [] : [apiKey], isKeyless: apiKey === undefined };
}
