import { type AssistantBlock, blockText, type Content, type Message, type StopReason } from "../contract/message.ts";
import type { JsonObject } from "../contract/session.ts";
import type { ModelClient, ModelPart, ModelRequest } from "../ports/model.ts";
import { countOf, openLines } from "./http-stream.ts";
import { abortFailure, CUT_OFF, classifyFailure } from "./model-failure.ts";

export interface OllamaGenerateOptions {
  /** Ollama's root, without /v1. */
  readonly baseUrl: string;
  readonly model: string;
  readonly provider?: string | undefined;
  /** The name that resolves to this model. */
  readonly modelId?: string | undefined;
  readonly contextWindow?: number | undefined;
  /** For requests without any. */
  readonly stop?: readonly string[] | undefined;
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/** A base model, which continues text and has no chat template: Ollama's `/api/generate`. */
export function createOllamaGenerateModel(options: OllamaGenerateOptions): ModelClient {
  return {
    provider: options.provider ?? "self_hosted",
    modelId: options.modelId ?? options.model,
    contextWindow: options.contextWindow,
    url: options.baseUrl,
    noToolChoice: "a text completion model calls no tools; choose a chat model",
    refuseParams: ({ parallel_tool_calls }) =>
      parallel_tool_calls === undefined ? undefined : "parallel_tool_calls: a text completion model calls no tools",
    refuseContent: (block) => {
      const isNew = block.type === "file" || (block.type === "image" && block.source === "url");
      return isNew ? "a text completion model accepts no media; send the content as text" : undefined;
    },
    stream: (request, signal) => streamCompletion(options, request, signal),
  };
}

async function* streamCompletion(
  options: OllamaGenerateOptions,
  request: ModelRequest,
  signal: AbortSignal,
): AsyncGenerator<ModelPart> {
  const call = new AbortController();
  const hangUp = (): void => call.abort(signal.reason);
  signal.addEventListener("abort", hangUp, { once: true });
  let text = "";
  let end: ModelPart | undefined;
  try {
    if (signal.aborted) hangUp();
    const source = { url: `${options.baseUrl}/api/generate`, headers: {}, fetch: options.fetch };
    const lines = await openLines({ ...source, body: JSON.stringify(bodyOf(options, request)) }, call.signal);
    for await (const line of flat(lines)) {
      const chunk = readChunk(line);
      if (chunk.response !== "") yield { type: "text_delta", delta: chunk.response };
      text += chunk.response;
      if (chunk.end === undefined) continue;
      end = chunk.end;
      break;
    }
  } catch (thrown) {
    const failure = signal.aborted
      ? abortFailure(signal)
      : classifyFailure(thrown, { provider: "ollama", isKeyless: true });
    end = { type: "failed", failure };
  } finally {
    signal.removeEventListener("abort", hangUp);
    if (end?.type !== "finish") hangUp();
  }
  if (end?.type === "finish" && text !== "") yield { type: "block", block: { block_type: "text", data: { text } } };
  yield end ?? { type: "failed", failure: signal.aborted ? abortFailure(signal) : CUT_OFF };
}

async function* flat(batches: AsyncIterable<readonly string[]>): AsyncGenerator<string> {
  for await (const batch of batches) yield* batch.filter((line) => line.trim() !== "");
}

function bodyOf(options: OllamaGenerateOptions, request: ModelRequest): JsonObject {
  const stop = request.stopSequences ?? options.stop;
  return {
    model: options.model,
    prompt: promptOf(request.messages),
    raw: true,
    stream: true,
    ...(request.outputSchema === undefined ? {} : { format: request.outputSchema }),
    options: {
      ...request.providerParams,
      ...(request.maxOutputTokens === undefined ? {} : { num_predict: request.maxOutputTokens }),
      ...(stop === undefined || stop.length === 0 ? {} : { stop }),
    },
  };
}

/**
 * A single request is sent literally after the system text and a blank line: a base model continues it. A conversation
 * becomes a transcript of `User:` and `Assistant:` paragraphs, open at the end.
 */
function promptOf(messages: readonly Message[]): string {
  const system = messages.flatMap((message) => (message.role === "system" ? [message.content] : []));
  const spoken = messages.filter((message) => message.role !== "system");
  const [only, ...others] = spoken;
  if (only?.role === "user" && others.length === 0) return [...system, plainText(only.content)].join("\n\n");
  return [...system, ...spoken.map(paragraphOf).filter((text) => text !== ""), "Assistant:"].join("\n\n");
}

function paragraphOf(message: Message): string {
  switch (message.role) {
    case "system":
      return message.content;
    case "system_notice":
      return `Notice (${message.kind}): ${message.body ?? ""}`.trim();
    case "user":
      return `User: ${plainText(message.content)}`;
    case "block_assistant": {
      const said = message.blocks.map(answerText).filter((text) => text !== "");
      return said.length === 0 ? "" : `Assistant: ${said.join("\n")}`;
    }
    case "tool_results":
      return message.results.map((result) => `Result: ${plainText(result.content)}`).join("\n\n");
  }
}

function answerText(block: AssistantBlock): string {
  return block.block_type === "text" ? block.data.text.trim() : "";
}

function plainText(content: Content): string {
  if (typeof content === "string") return content;
  return content.map(blockText).join("\n");
}

interface Chunk {
  readonly response: string;
  readonly end: ModelPart | undefined;
}

function readChunk(line: string): Chunk {
  const chunk: unknown = JSON.parse(line);
  if (typeof chunk !== "object" || chunk === null) throw new SyntaxError("a line of the answer is not an object");
  const { response, done, done_reason, error, prompt_eval_count, eval_count } = chunk as JsonObject; // just checked
  if (error !== undefined) throw { error };
  const text = typeof response === "string" ? response : "";
  if (done !== true) return { response: text, end: undefined };
  const stopReason: StopReason = done_reason === "length" ? "max_tokens" : "end_turn";
  const usage = { input_tokens: countOf(prompt_eval_count) ?? 0, output_tokens: countOf(eval_count) ?? 0 };
  return { response: text, end: { type: "finish", stopReason, usage } };
}
