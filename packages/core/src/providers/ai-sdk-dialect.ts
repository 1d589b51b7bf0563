import type { LanguageModelV2, LanguageModelV3, LanguageModelV4, SharedV4ProviderOptions } from "@ai-sdk/provider";
import { defined } from "../contract/json.ts";
import type { BlockMeta } from "../contract/message.ts";

/** Any language model of the AI SDK, of this generation or the two before it. */
export type AiSdkModel = LanguageModelV4 | LanguageModelV3 | LanguageModelV2;

/** Families that read their own signatures. */
type ModelFamily = "anthropic" | "openai" | "google" | "other";

/** What a model's package expects. Equal packages share one object, so caches by dialect are shared. */
export interface Dialect {
  readonly family: ModelFamily;
  readonly version: "v2" | "v3" | "v4";
  /** The key the package reads its options under. */
  readonly namespace: string;
  /** Keys its metadata may come back under. */
  readonly metadataKeys: readonly string[];
  /** OpenAI's Responses API, which stores state on the server unless told not to. */
  readonly isResponses: boolean;
  readonly takesToolMedia: boolean;
  readonly takesVideo: boolean;
  readonly takesFiles: boolean;
  /** Whether the provider itself fetches images. */
  readonly takesUrls: boolean;
}

const known = new Map<string, Dialect>();

/** The dialect of a model, by the names its package uses. */
export function dialectOf(model: AiSdkModel): Dialect {
  const key = `${model.specificationVersion} ${model.provider}`;
  const found = known.get(key) ?? describeDialect(model.provider, model.specificationVersion);
  known.set(key, found);
  return found;
}

function describeDialect(provider: string, version: Dialect["version"]): Dialect {
  const family = familyOf(provider);
  const [vendor = provider, api = ""] = provider.split(".");
  const isResponses = family === "openai" && api === "responses";
  return {
    family,
    version,
    namespace: namespaceOf(family, provider, vendor),
    metadataKeys: metadataKeysOf(family, vendor),
    isResponses,
    // Chat Completions would get an image's base64 as text: thousands of useless tokens.
    takesToolMedia: family === "anthropic" || family === "google" || isResponses,
    takesVideo: family === "google" || family === "other",
    takesFiles: family !== "other",
    takesUrls: family === "anthropic" || family === "openai",
  };
}

function familyOf(provider: string): ModelFamily {
  const name = provider.toLowerCase();
  if (name.includes("anthropic")) return "anthropic";
  if (/^(?:openai|azure)(?:\.|$|-openai)/.test(name)) return "openai";
  if (name.startsWith("google")) return "google";
  return "other";
}

function namespaceOf(family: ModelFamily, provider: string, vendor: string): string {
  if (family === "openai") return provider.includes("azure") ? "azure" : "openai";
  return family === "other" ? vendor.trim() : family;
}

function metadataKeysOf(family: ModelFamily, vendor: string): readonly string[] {
  switch (family) {
    case "anthropic":
      return ["anthropic"];
    case "openai":
      return ["openai", "azure"];
    case "google":
      return ["google", "googleVertex", "vertex"];
    case "other":
      // Some packages shorten their name: Bedrock calls itself amazon-bedrock and signs as bedrock.
      return [vendor.trim(), ...vendor.split("-")];
  }
}

/** Anthropic rejects ids with other characters, which other servers may use. */
export function callId(id: string, dialect: Dialect): string {
  return dialect.family === "anthropic" ? id.replace(/[^a-zA-Z0-9_-]/g, "_") : id;
}

/** A package's metadata for a piece of an answer, by namespace. */
export type ProviderMetadata = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** Merges a later piece's metadata into that of the same block. */
export function mergeMetadata(
  earlier: ProviderMetadata | undefined,
  later: ProviderMetadata | undefined,
): ProviderMetadata | undefined {
  if (later === undefined) return earlier;
  const merged: Record<string, Record<string, unknown>> = { ...earlier };
  for (const [namespace, values] of Object.entries(later)) {
    const kept: Record<string, unknown> = { ...merged[namespace] };
    for (const [name, value] of Object.entries(values ?? {})) {
      // Packages use null for "not yet"; it must not erase a value.
      if (value !== null && value !== undefined) kept[name] = value;
    }
    if (Object.keys(kept).length > 0) merged[namespace] = kept;
  }
  return merged;
}

/** The metadata of a finished block in our form; unknown metadata is kept as it is. */
export function keepMetadata(metadata: ProviderMetadata | undefined): BlockMeta | undefined {
  if (metadata === undefined) return undefined;
  const namespaces = Object.keys(metadata);
  if (namespaces.length === 0) return undefined;
  const typed = typedMeta(metadata, namespaces);
  if (typed !== undefined) return typed;
  // `as`: parsed JSON of the package, a record of records.
  return { provider: "unknown", metadata: metadata as Record<string, Record<string, unknown>> };
}

function typedMeta(metadata: ProviderMetadata, namespaces: readonly string[]): BlockMeta | undefined {
  if (metadata.google !== undefined || metadata.vertex !== undefined) return geminiMeta(metadata);
  if (namespaces.length !== 1) return undefined;
  if (metadata.anthropic !== undefined) return anthropicMeta(metadata.anthropic);
  const openai = metadata.openai ?? metadata.azure;
  return openai === undefined ? undefined : openAiMeta(openai);
}

type Values = ProviderMetadata[string];

function geminiMeta(metadata: ProviderMetadata): BlockMeta | undefined {
  const values = metadata.google ?? metadata.vertex ?? {};
  const { thoughtSignature } = values;
  if (typeof thoughtSignature !== "string" || !hasOnly(values, ["thoughtSignature"])) return undefined;
  return { provider: "gemini", thoughtSignature };
}

function anthropicMeta(values: Values): BlockMeta | undefined {
  const { signature, redactedData } = values;
  if (typeof signature === "string" && hasOnly(values, ["signature"])) return { provider: "anthropic", signature };
  if (typeof redactedData === "string" && hasOnly(values, ["redactedData"])) {
    return { provider: "anthropic_redacted", data: redactedData };
  }
  return undefined;
}

function openAiMeta(values: Values): BlockMeta | undefined {
  const { itemId, reasoningEncryptedContent, phase } = values;
  if (typeof itemId !== "string" || !hasOnly(values, ["itemId", "reasoningEncryptedContent", "phase"]))
    return undefined;
  return {
    provider: "open_ai",
    id: itemId,
    ...(typeof reasoningEncryptedContent === "string" ? { encrypted_content: reasoningEncryptedContent } : {}),
    ...(typeof phase === "string" ? { phase } : {}),
  };
}

function hasOnly(values: Values, names: readonly string[]): boolean {
  return Object.keys(values).every((name) => names.includes(name));
}

/** The metadata to send back with a block; undefined if the current model cannot read it. */
export function replayMetadata(meta: BlockMeta | undefined, dialect: Dialect): SharedV4ProviderOptions | undefined {
  if (meta === undefined) return undefined;
  switch (meta.provider) {
    case "anthropic":
      return dialect.family === "anthropic" ? { anthropic: { signature: meta.signature } } : undefined;
    case "anthropic_redacted":
      return dialect.family === "anthropic" ? { anthropic: { redactedData: meta.data } } : undefined;
    case "gemini":
      // The Vertex package reads this namespace, too.
      return dialect.family === "google" ? { google: { thoughtSignature: meta.thoughtSignature } } : undefined;
    case "open_ai":
      return dialect.family === "openai" ? { [dialect.namespace]: openAiOptions(meta) } : undefined;
    case "unknown": {
      const metadata = meta.metadata ?? {};
      const isOurs = Object.keys(metadata).some((namespace) => dialect.metadataKeys.includes(namespace));
      // `as`: it was JSON when the package made it.
      return isOurs ? (metadata as SharedV4ProviderOptions) : undefined;
    }
  }
}

function openAiOptions(meta: Extract<BlockMeta, { provider: "open_ai" }>) {
  return {
    itemId: meta.id,
    ...defined({ reasoningEncryptedContent: meta.encrypted_content, phase: meta.phase }),
  };
}
