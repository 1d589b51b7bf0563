import type {
  JSONSchema7,
  LanguageModelV4CallOptions,
  LanguageModelV4FunctionTool,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";
import type { JsonObject } from "../../contract/session.ts";
import type { ModelRequest, ToolSpec } from "../../ports/model.ts";
import { rowOf } from "../table-row.ts";
import type { Dialect } from "./dialect.ts";
import { buildPrompt } from "./prompt.ts";

/** A request in the AI SDK's terms. */
export function buildCallOptions(
  request: ModelRequest,
  dialect: Dialect,
  abortSignal: AbortSignal,
): LanguageModelV4CallOptions {
  const { standard, own } = splitParams(request.providerParams ?? {}, dialect);
  const stopSequences = request.stopSequences ?? standard.stopSequences;
  return {
    ...standard,
    prompt: buildPrompt(request.messages, dialect),
    abortSignal,
    includeRawChunks: false,
    ...(request.maxOutputTokens === undefined ? {} : { maxOutputTokens: request.maxOutputTokens }),
    ...(request.tools.length === 0 ? {} : { tools: request.tools.map((tool) => toolOf(tool, dialect)) }),
    ...(request.outputSchema === undefined ? {} : { responseFormat: formatOf(request.outputSchema) }),
    ...(stopSequences === undefined || stopSequences.length === 0 ? {} : { stopSequences: [...stopSequences] }),
    ...providerOptionsOf(own, dialect),
  };
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

/** Parts the parameters every provider has a name for from those only this one knows. */
function splitParams(params: JsonObject, dialect: Dialect): { standard: Standard; own: JsonObject } {
  const standard: Standard = {};
  const own: JsonObject = {};
  for (const [given, value] of Object.entries(params)) {
    const name = camelCase(given);
    const number = rowOf(STANDARD_NUMBERS, name);
    // The package for compatible servers drops topK, though vLLM, llama.cpp and Ollama take it in the body.
    const isForBody = dialect.family === "other" && name === "topK";
    if (number !== undefined && typeof value === "number" && !isForBody) standard[number] = value;
    else if (name === "stop" || name === "stopSequences") standard.stopSequences = textsOf(value);
    else own[dialect.family === "other" ? given : name] = ownValue(name, value, dialect);
  }
  return { standard, own };
}

function textsOf(value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).filter((text) => typeof text === "string");
}

/** Only thinking settings are respelled inside: keys of other objects, such as metadata, may be the user's own. */
function ownValue(name: string, value: unknown, dialect: Dialect): unknown {
  const isSettings = name.startsWith("thinking") && typeof value === "object" && value !== null;
  if (dialect.family === "other" || !isSettings || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [camelCase(key), inner]));
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

function camelCase(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
