import type { AnthropicProviderOptions } from "@ai-sdk/anthropic";
import type { GoogleGenerativeAIProviderOptions } from "@ai-sdk/google";
import type { OpenAIChatLanguageModelOptions, OpenAIResponsesProviderOptions } from "@ai-sdk/openai";
import type { LanguageModelV4CallOptions } from "@ai-sdk/provider";
import type { JsonObject } from "../contract/session.ts";
import type { Dialect } from "./ai-sdk-dialect.ts";
import { rowOf } from "./provider-settings.ts";

type Standard = Pick<
  LanguageModelV4CallOptions,
  "temperature" | "topP" | "topK" | "seed" | "presencePenalty" | "frequencyPenalty" | "stopSequences"
>;

const STANDARD_NUMBERS: Readonly<Record<string, Exclude<keyof Standard, "stopSequences">>> = {
  temperature: "temperature",
  topP: "topP",
  topK: "topK",
  seed: "seed",
  presencePenalty: "presencePenalty",
  frequencyPenalty: "frequencyPenalty",
};

/** Splits the parameters into common ones and those of this provider. */
export function splitParams(params: JsonObject, dialect: Dialect): { standard: Standard; own: JsonObject } {
  const standard: Standard = {};
  const own: JsonObject = {};
  for (const [given, value] of Object.entries(params)) {
    const name = camelCase(given);
    const number = rowOf(STANDARD_NUMBERS, name);
    // The package for compatible servers drops topK, though vLLM, llama.cpp and Ollama accept it in the body.
    const isForBody = dialect.family === "other" && name === "topK";
    if (number !== undefined && typeof value === "number" && !isForBody) standard[number] = value;
    else if (name === "stop" || name === "stopSequences") standard.stopSequences = textsOf(value);
    else if (name === THINKING_BUDGET && thinkingOf(value, dialect) !== undefined) {
      Object.assign(own, thinkingOf(value, dialect));
    } else if (name === PARALLEL && dialect.family === "anthropic") own[SEQUENTIAL] = value === false;
    else own[dialect.family === "other" ? given : name] = ownValue(name, value, dialect);
  }
  return { standard, own };
}

/** The thinking budget, under the name that existing clients use. */
const THINKING_BUDGET = "thinkingBudget";

/** Whether an answer may have several calls: the usual name, and Anthropic's inverse. */
const PARALLEL = "parallelToolCalls";
const SEQUENTIAL = "disableParallelToolUse";
/** Parameters that providers reject without tools. */
export const PARALLEL_PARAMS = [PARALLEL, "parallel_tool_calls", SEQUENTIAL];

function thinkingOf(budget: unknown, { family }: Dialect): JsonObject | undefined {
  if (family === "anthropic") return { thinking: { type: "enabled", budgetTokens: budget } };
  return family === "google" ? { thinkingConfig: { thinkingBudget: budget } } : undefined;
}

function textsOf(value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).filter((text) => typeof text === "string");
}

/** Only thinking settings are renamed inside: keys of other objects, such as metadata, may be the user's. */
function ownValue(name: string, value: unknown, dialect: Dialect): unknown {
  const isSettings = name.startsWith("thinking") && typeof value === "object" && value !== null;
  if (dialect.family === "other" || !isSettings || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [camelCase(key), inner]));
}

function camelCase(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** The parameter that a package would silently ignore, and why, as `name: why`. */
export function refuseParams(params: JsonObject, dialect: Dialect): string | undefined {
  const taken = acceptedBy(dialect);
  if (taken === undefined) return undefined;
  for (const [given, value] of Object.entries(params)) {
    const name = camelCase(given) === "stop" ? "stopSequences" : camelCase(given);
    if (!taken.includes(name))
      return `${given}: ${dialect.namespace} has no such parameter; it has ${taken.join(", ")}`;
    const isNumber = rowOf(STANDARD_NUMBERS, name) !== undefined || name === THINKING_BUDGET;
    if (isNumber && typeof value !== "number") return `${given}: write a number`;
  }
  return undefined;
}

/** The names a package accepts; undefined if it passes on everything. */
function acceptedBy({ family, isResponses, version }: Dialect): readonly string[] | undefined {
  // A model of another generation was passed as code; its names are unknown.
  if (version !== "v4") return undefined;
  switch (family) {
    case "anthropic":
      return ["temperature", "topP", "topK", "stopSequences", THINKING_BUDGET, PARALLEL, ...Object.keys(ANTHROPIC)];
    case "google":
      return [...Object.keys(STANDARD_NUMBERS), "stopSequences", THINKING_BUDGET, ...Object.keys(GOOGLE)];
    case "openai":
      return isResponses
        ? ["temperature", "topP", ...Object.keys(OPENAI_RESPONSES)]
        : [...Object.keys(STANDARD_NUMBERS), "stopSequences", ...Object.keys(OPENAI_CHAT)].filter(
            (name) => name !== "topK",
          );
    case "other":
      return undefined;
  }
}

/** The options of each package, which does not export them as values; a new one fails to compile until it is listed. */
type Names<T> = Readonly<Record<keyof T, true>>;

const ANTHROPIC: Names<AnthropicProviderOptions> = {
  anthropicBeta: true,
  cacheControl: true,
  compaction: true,
  container: true,
  contextManagement: true,
  disableParallelToolUse: true,
  effort: true,
  fallbacks: true,
  includePings: true,
  inferenceGeo: true,
  mcpServers: true,
  metadata: true,
  safeguards: true,
  sendReasoning: true,
  serviceTier: true,
  speed: true,
  structuredOutputMode: true,
  taskBudget: true,
  thinking: true,
  thread: true,
  toolStreaming: true,
};

const GOOGLE: Names<GoogleGenerativeAIProviderOptions> = {
  audioTimestamp: true,
  cachedContent: true,
  continuationToken: true,
  imageConfig: true,
  labels: true,
  mediaResolution: true,
  requestType: true,
  responseModalities: true,
  retrievalConfig: true,
  safetySettings: true,
  serviceTier: true,
  sharedRequestType: true,
  streamFunctionCallArguments: true,
  structuredOutputs: true,
  thinkingConfig: true,
  threshold: true,
};

const OPENAI_CHAT: Names<OpenAIChatLanguageModelOptions> = {
  forceReasoning: true,
  logitBias: true,
  logprobs: true,
  maxCompletionTokens: true,
  metadata: true,
  parallelToolCalls: true,
  prediction: true,
  promptCacheKey: true,
  promptCacheOptions: true,
  promptCacheRetention: true,
  reasoningEffort: true,
  safetyIdentifier: true,
  serviceTier: true,
  store: true,
  strictJsonSchema: true,
  systemMessageMode: true,
  textVerbosity: true,
  user: true,
};

const OPENAI_RESPONSES: Names<OpenAIResponsesProviderOptions> = {
  allowedTools: true,
  compactionTrigger: true,
  contextManagement: true,
  conversation: true,
  forceReasoning: true,
  include: true,
  includeWebSearchSources: true,
  instructions: true,
  logprobs: true,
  maxToolCalls: true,
  metadata: true,
  parallelToolCalls: true,
  passThroughUnsupportedFiles: true,
  previousResponseId: true,
  promptCacheKey: true,
  promptCacheOptions: true,
  promptCacheRetention: true,
  reasoningContext: true,
  reasoningEffort: true,
  reasoningEffortUpdate: true,
  reasoningMode: true,
  reasoningSummary: true,
  safetyIdentifier: true,
  serviceTier: true,
  store: true,
  strictJsonSchema: true,
  systemMessageMode: true,
  textVerbosity: true,
  truncation: true,
  user: true,
};
