import { hash } from "node:crypto";
import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4Middleware } from "@ai-sdk/provider";
import type { Shown } from "./compaction/kept-elsewhere.ts";
import { createLoopCompaction, type LoopCall, type LoopCompactionOptions } from "./compactions/loop-compaction.ts";
import { RuntimeError } from "./contract/error.ts";
import { createAiSdkModel } from "./providers/ai-sdk.ts";
import type { AiSdkModel } from "./providers/ai-sdk-dialect.ts";
import { type ReadMessages, readMessages, type SdkMessage, saying, showInstead } from "./providers/ai-sdk-messages.ts";
import { findModel } from "./providers/catalog.ts";
import { classifyFailure } from "./providers/model-failure.ts";
import { toolTokens } from "./turn/tokens.ts";

/** How an agent of the AI SDK is compacted. */
export interface CompactionOptions extends LoopCompactionOptions {
  /** Who writes the summaries; without it, the model that is called. */
  readonly summaryModel?: AiSdkModel | undefined;
  /** Whether a message stays whatever happens, with what it needs to stand: its turn's question, its tool exchange. */
  readonly pin?: ((message: SdkMessage) => boolean) | undefined;
}

/** What a step of `generateText`, `streamText` or a `ToolLoopAgent` tells before its model is asked. */
export interface Step<M extends SdkMessage> {
  readonly messages: readonly M[];
  /** By its name alone a model cannot be asked for a summary: then `summaryModel` has to be given. */
  readonly model: AiSdkModel | string;
  readonly instructions?: unknown;
  readonly steps?: readonly { readonly usage: { readonly inputTokens: number | undefined } }[] | undefined;
}

/** The two ways in; either is enough. */
export interface AgentCompaction {
  /** For `wrapLanguageModel`: each call's prompt is compacted, and one that is refused as too long is made again. */
  readonly middleware: LanguageModelV4Middleware;
  /** For `generateText`, `streamText` and `ToolLoopAgent`: the messages of each step are compacted. */
  readonly prepareStep: <M extends SdkMessage>(step: Step<M>) => Promise<{ messages?: M[] }>;
}

type Request = Partial<Pick<LoopCall, "toolTokens" | "outputTokens" | "countedTokens" | "isRefused">> & {
  readonly instructions?: string;
  readonly signal?: AbortSignal | undefined;
};

/** Compacts the messages of agents that keep their own loop, with a receipt for each compaction. */
export function createCompaction(options: CompactionOptions = {}): AgentCompaction {
  const { summaryModel, pin, ...rest } = options;
  const loop = createLoopCompaction(rest, async (...source) => {
    const { extractiveSummary } = await import("./providers/offline/summary.ts");
    return extractiveSummary(...source);
  });

  const compact = async <M extends SdkMessage>(
    messages: readonly M[],
    model: AiSdkModel | string,
    request: Request,
  ) => {
    const read = readMessages(messages, digest);
    const said = read.conversation.map((one) => one.said);
    const pinned = [...read.conversation.entries()].filter(([, { from }]) => pin !== undefined && from.some(pin));
    const { shown, hash: named } = await loop.compact({
      system: [request.instructions ?? "", read.system].filter((text) => text !== "").join("\n\n"),
      messages: said,
      pins: new Set(pinned.map(([place]) => place)),
      summariser: summariserOf(summaryModel ?? model),
      contextWindow: windowOf(model),
      toolTokens: request.toolTokens ?? 0,
      outputTokens: request.outputTokens ?? 0,
      countedTokens: request.countedTokens ?? 0,
      isRefused: request.isRefused ?? false,
      signal: request.signal ?? new AbortController().signal,
    });
    return { messages: shownMessages(read, shown), hash: named };
  };
  return { middleware: middlewareOf(compact, loop.count), prepareStep: prepareStepOf(compact) };
}

type Compact = <M extends SdkMessage>(
  messages: readonly M[],
  model: AiSdkModel | string,
  request: Request,
) => Promise<{ readonly messages: readonly M[]; readonly hash: string }>;

/** A call as it was asked for, and what it is counted by. */
interface Asked {
  readonly params: LanguageModelV4CallOptions;
  readonly hash: string;
}

function middlewareOf(compact: Compact, count: (hash: string, tokens: number) => void): LanguageModelV4Middleware {
  const asked = new WeakMap<LanguageModelV4CallOptions, Asked>();
  const shorten = async (params: LanguageModelV4CallOptions, model: LanguageModelV4, isRefused: boolean) => {
    const { messages, hash } = await compact(params.prompt, model, {
      toolTokens: toolTokens((params.tools ?? []).flatMap((tool) => (tool.type === "function" ? [specOf(tool)] : []))),
      outputTokens: params.maxOutputTokens ?? 0,
      signal: params.abortSignal,
      isRefused,
    });
    const shortened = { ...params, prompt: [...messages] };
    asked.set(shortened, { params, hash });
    return shortened;
  };
  /** Makes a call, and once more with less where the provider says that it is too long. */
  const call = async <R>(
    params: LanguageModelV4CallOptions,
    model: LanguageModelV4,
    first: () => PromiseLike<R>,
    again: (params: LanguageModelV4CallOptions) => PromiseLike<R>,
  ): Promise<{ readonly result: R; readonly hash: string | undefined }> => {
    const known = asked.get(params);
    try {
      return { result: await first(), hash: known?.hash };
    } catch (thrown) {
      const isTooLong = classifyFailure(thrown, { provider: model.provider }).kind === "context_exceeded";
      if (known === undefined || !isTooLong) throw thrown;
      const shorter = await shorten(known.params, model, true);
      if (JSON.stringify(shorter.prompt) === JSON.stringify(params.prompt)) throw thrown;
      return { result: await again(shorter), hash: known.hash };
    }
  };
  const note = (hash: string | undefined, tokens: number | undefined): void => {
    if (hash !== undefined && tokens !== undefined) count(hash, tokens);
  };
  return {
    specificationVersion: "v4",
    transformParams: ({ params, model }) => shorten(params, model, false),
    wrapGenerate: async ({ doGenerate, params, model }) => {
      const { result, hash } = await call(params, model, doGenerate, (shorter) => model.doGenerate(shorter));
      note(hash, result.usage.inputTokens.total);
      return result;
    },
    wrapStream: async ({ doStream, params, model }) => {
      const { result, hash } = await call(params, model, doStream, (shorter) => model.doStream(shorter));
      const listening = new TransformStream<StreamPart, StreamPart>({
        transform: (part, controller) => {
          if (part.type === "finish") note(hash, part.usage.inputTokens.total);
          controller.enqueue(part);
        },
      });
      return { ...result, stream: result.stream.pipeThrough(listening) };
    },
  };
}

type StreamPart =
  Awaited<ReturnType<LanguageModelV4["doStream"]>>["stream"] extends ReadableStream<infer P> ? P : never;

function prepareStepOf(compact: Compact): AgentCompaction["prepareStep"] {
  // A step continues with what the one before it was given: what that stands for is found by the first message of it that
  // only we can have made.
  const made = new WeakMap<
    SdkMessage,
    { readonly given: readonly SdkMessage[]; readonly whole: readonly SdkMessage[] }
  >();
  const wholeOf = <M extends SdkMessage>(messages: readonly M[]): readonly M[] => {
    const known = messages.map((message) => made.get(message)).find((one) => one !== undefined);
    if (known === undefined || !known.given.every((message, at) => message === messages[at])) return messages;
    // What it was made of came from the same loop.
    return [...(known.whole as readonly M[]), ...messages.slice(known.given.length)];
  };
  return async (step) => {
    const whole = wholeOf(step.messages);
    const { messages } = await compact(whole, step.model, {
      instructions: textOf(step.instructions),
      countedTokens: step.steps?.at(-1)?.usage.inputTokens ?? 0,
    });
    const said = new Set<SdkMessage>(whole);
    const ours = messages.find((message) => !said.has(message));
    if (ours === undefined) return {};
    made.set(ours, { given: messages, whole });
    return { messages: [...messages] };
  };
}

/** The conversation as it is shown: what is kept is the very messages that were given. */
function shownMessages<M extends SdkMessage>(read: ReadMessages<M>, shown: readonly Shown[]): readonly M[] {
  const said = shown.flatMap((part): readonly M[] => {
    if ("summary" in part) return [saying<M>("user", part.summary)];
    const message = read.conversation[part.place];
    if (message === undefined) return [];
    return part.instead === undefined ? message.from : showInstead(message, part.instead);
  });
  return [...read.systems, ...said];
}

function summariserOf(model: AiSdkModel | string): LoopCall["summariser"] {
  if (typeof model === "string") {
    throw new RuntimeError(
      "INVALID_PARAMS",
      `summaryModel: give a model that writes summaries; "${model}" is but a name`,
    );
  }
  return createAiSdkModel(model, { contextWindow: windowOf(model) });
}

/** Routers write whose model it is before its name. */
function windowOf(model: AiSdkModel | string): number | undefined {
  const id = typeof model === "string" ? model : model.modelId;
  return findModel(id.slice(id.lastIndexOf("/") + 1))?.context_window;
}

type FunctionTool = Extract<NonNullable<LanguageModelV4CallOptions["tools"]>[number], { type: "function" }>;

function specOf({ name, description = "", inputSchema }: FunctionTool) {
  return { name, description, inputSchema: inputSchema as Record<string, unknown> }; // A schema that is an object.
}

/** Instructions are a text, or messages with one. */
function textOf(instructions: unknown): string {
  if (typeof instructions === "string") return instructions;
  if (Array.isArray(instructions)) return instructions.map(textOf).join("\n\n");
  const isMessage = typeof instructions === "object" && instructions !== null && "content" in instructions;
  return isMessage ? textOf(instructions.content) : "";
}

function digest(data: string | Uint8Array): string {
  return hash("sha256", data);
}

export type { CompactionReport } from "./compactions/loop-compaction.ts";
export type { Receipt } from "./contract/compaction.ts";
export type { SdkMessage } from "./providers/ai-sdk-messages.ts";
export type { PrefixStore } from "./sessions/known-prefixes.ts";
