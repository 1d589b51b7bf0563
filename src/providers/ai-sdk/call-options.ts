import type {
  JSONSchema7,
  LanguageModelV4CallOptions,
  LanguageModelV4FunctionTool,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";
import type { JsonObject } from "../../contract/session.ts";
import type { ModelRequest, ToolSpec } from "../../ports/model.ts";
import type { Dialect } from "./dialect.ts";
import { splitParams } from "./params.ts";
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
