import type { LanguageModelV2, LanguageModelV3, LanguageModelV4 } from "@ai-sdk/provider";

/** Any language model of the AI SDK, of this generation or the two before it. */
export type AiSdkModel = LanguageModelV4 | LanguageModelV3 | LanguageModelV2;

/** Who can read the signatures of whom. */
type ModelFamily = "anthropic" | "openai" | "google" | "other";

/** How a model's package wants to be spoken to. Equal packages share one object, so what is cached by it is shared. */
export interface Dialect {
  readonly family: ModelFamily;
  readonly version: "v2" | "v3" | "v4";
  /** The key the package reads its options under. */
  readonly namespace: string;
  /** Keys its metadata may come back under. */
  readonly metadataKeys: readonly string[];
  /** OpenAI's Responses API, which can keep state on the server unless told not to. */
  readonly isResponses: boolean;
  readonly takesToolMedia: boolean;
  readonly takesVideo: boolean;
}

const known = new Map<string, Dialect>();

/** The dialect of a model, found by the names its package gives itself. */
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
    // Chat Completions would get the base64 of an image as text: thousands of tokens that show nothing.
    takesToolMedia: family === "anthropic" || family === "google" || isResponses,
    takesVideo: family === "google" || family === "other",
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
      // Some packages shorten their own name: Bedrock calls itself amazon-bedrock and signs as bedrock.
      return [vendor.trim(), ...vendor.split("-")];
  }
}

/** Anthropic refuses ids with other characters, which servers of other models are free to make up. */
export function callId(id: string, dialect: Dialect): string {
  return dialect.family === "anthropic" ? id.replace(/[^a-zA-Z0-9_-]/g, "_") : id;
}
