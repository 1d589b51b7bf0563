import type { EmbeddingModelV4 } from "@ai-sdk/provider";
import { invalid, type RuntimeError } from "../contract/error.ts";
import {
  type Environment,
  ollamaUrl,
  type ProviderConfig,
  rowOf,
  settingsOf,
  variableIn,
  versioned,
} from "./provider-settings.ts";

interface Place {
  readonly env: Environment;
  readonly config: ProviderConfig;
}

/** Opens an embedding model by `PROVIDER/MODEL`: openai, gemini, ollama, or a configured server. */
export async function openEmbeddingModel(place: Place, name: string): Promise<EmbeddingModelV4> {
  const slash = name.indexOf("/");
  const [provider, model] = [name.slice(0, Math.max(0, slash)), name.slice(slash + 1)];
  if (provider === "gemini" || provider === "google") {
    const { key, keyVariable, baseUrl } = settingsOf("gemini", place.env, place.config);
    const { createGoogleGenerativeAI } = await import("@ai-sdk/google");
    return createGoogleGenerativeAI({ apiKey: needed(key, keyVariable), baseURL: baseUrl }).embeddingModel(model);
  }
  const { createOpenAI } = await import("@ai-sdk/openai");
  const { key, url } = provider === "openai" ? openAiAt(place) : serverAt(place, provider);
  return createOpenAI({ apiKey: key, baseURL: url, name: provider }).embeddingModel(model);
}

function openAiAt({ env, config }: Place): { key: string; url: string } {
  const { key, keyVariable, baseUrl, isOfficialUrl } = settingsOf("openai", env, config);
  return { key: isOfficialUrl ? needed(key, keyVariable) : (key ?? NO_KEY), url: baseUrl };
}

/** A private server often has no keys. */
const NO_KEY = "none";

function serverAt({ env, config }: Place, provider: string): { key: string; url: string } {
  const server = rowOf(config.self_hosted?.servers, provider) ?? rowOf(config.providers, provider);
  if (server?.base_url === undefined) {
    if (provider === "ollama") return { key: NO_KEY, url: `${ollamaUrl(env)}/v1` };
    throw refusal(
      "memory.embedding_model: write PROVIDER/MODEL with openai, gemini, ollama or a server under [self_hosted.servers]",
    );
  }
  const variable = server.api_key_env;
  const key = variable === undefined ? NO_KEY : needed(variableIn(env, variable), variable);
  return { key, url: versioned(server.base_url, "v1", `${provider}.base_url`) };
}

function needed(key: string | undefined, variable: string): string {
  if (key !== undefined) return key;
  throw refusal(`no key for the embedding model: set ${variable}`);
}

function refusal(message: string): RuntimeError {
  return invalid(message);
}
