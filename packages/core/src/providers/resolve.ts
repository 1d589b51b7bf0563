import { NO_MODEL, RuntimeError } from "../contract/error.ts";
import type { ModelClient, ModelResolver } from "../ports/model.ts";
import {
  type ConfiguredPrices,
  configuredPrices,
  DEFAULT_MODELS,
  findModel,
  HOSTED_PROVIDERS,
  type HostedProvider,
  inferProvider,
  isHosted,
  mergeModels,
  publishedPrices,
} from "./catalog.ts";
import { boundFetch } from "./http-stream.ts";
import type { OllamaGenerateOptions } from "./ollama-generate.ts";
import type { OpenAiChatOptions } from "./openai-chat.ts";
import {
  type Environment,
  type ModelProfile,
  ollamaUrl,
  type ProviderConfig,
  type ProviderSettings,
  rootOf,
  rowOf,
  settingsOf,
  variableIn,
  versioned,
} from "./provider-settings.ts";

export interface ModelResolverOptions {
  readonly env: Environment;
  readonly config?: ProviderConfig | undefined;
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/** Resolves models by name. A provider's package is imported with the first use of its models. */
export function createModelResolver(options: ModelResolverOptions): ModelResolver {
  const place: Place = { env: options.env, config: options.config ?? {}, fetch: options.fetch };
  // One client per name: a long session resolves its model every turn.
  const clients = new Map<string, Promise<ModelClient>>();
  return {
    resolve(model, provider) {
      const key = JSON.stringify([model, provider]);
      let client = clients.get(key);
      if (client === undefined) {
        client = openModel(place, model, provider).then((opened) => withPrices(opened, place.config.prices));
        clients.set(key, client);
        // A missing key may be set next time.
        client.catch(() => clients.delete(key));
      }
      return client;
    },
  };
}

export function withPrices(model: ModelClient, configured: ConfiguredPrices = {}): ModelClient {
  const prices = configuredPrices(configured, model.modelId);
  if (prices === undefined) return model;
  const { provider, modelId, contextWindow, url, compaction, noToolChoice } = model;
  return {
    provider,
    modelId,
    contextWindow,
    url,
    prices,
    compaction,
    noToolChoice,
    // A model passed as code may be a class instance.
    refuseParams: (params) => model.refuseParams?.(params),
    refuseContent: (block) => model.refuseContent?.(block),
    stream: (request, signal) => model.stream(request, signal),
  };
}

interface Place {
  readonly env: Environment;
  readonly config: ProviderConfig;
  readonly fetch: typeof globalThis.fetch | undefined;
}

async function openModel(place: Place, given: string | undefined, provider: string | undefined): Promise<ModelClient> {
  const { config } = place;
  checkProvider(config, provider ?? (given === undefined ? config.defaultProvider : undefined));
  const { model, owner } = given === undefined ? defaultChoice(place, provider) : { model: given, owner: provider };
  // A resumed session that used a profile names the provider it was given.
  const profile = owner === undefined || owner === "self_hosted" ? rowOf(config.profiles, model) : undefined;
  if (profile !== undefined) return openProfile(place, model, profile);
  if (model === "offline" || owner === "offline") return openOffline(place);
  const isElsewhere = owner !== undefined && (isHosted(owner) || rowOf(config.providers, owner) !== undefined);
  const selfHosted = isElsewhere ? undefined : openSelfHosted(place, model, owner);
  if (selfHosted !== undefined) return selfHosted;
  const { vendor, name } = splitName(place, model, owner);
  if (isHosted(vendor)) return openHosted(place, vendor, name);
  return openConfigured(place, vendor, name);
}

const BUILT_IN = [...HOSTED_PROVIDERS, "ollama", "self_hosted", "offline"];
/** Accepted, but not suggested. */
const ALIASES = ["google", "other"];

function checkProvider({ providers = {}, self_hosted }: ProviderConfig, provider: string | undefined): void {
  if (provider === undefined || ALIASES.includes(provider)) return;
  const known = [...new Set([...BUILT_IN, ...Object.keys(providers), ...Object.keys(self_hosted?.servers ?? {})])];
  if (known.includes(provider)) return;
  throw refusal(`unknown provider ${provider}: use ${known.slice(0, -1).join(", ")} or ${known.at(-1)}`);
}

interface Choice {
  readonly model: string;
  readonly owner: string | undefined;
}

function defaultChoice({ env, config }: Place, provider: string | undefined): Choice {
  if (config.defaultModel !== undefined && (provider === undefined || provider === config.defaultProvider)) {
    return { model: config.defaultModel, owner: provider ?? config.defaultProvider };
  }
  const wanted = provider ?? config.defaultProvider;
  const owner = wanted ?? HOSTED_PROVIDERS.find((name) => settingsOf(name, env, config).key !== undefined);
  const model = DEFAULT_MODELS.get(owner ?? "");
  if (model !== undefined) return { model, owner };
  if (owner !== undefined) throw refusal(`provider ${owner} has no default model; name one with --model`);
  const named = Object.keys(config.self_hosted?.models ?? {}).join(", ");
  if (named !== "")
    throw refusal(`no model is chosen: name one of [self_hosted.models] with --model or [agent] model: ${named}`);
  throw refusal(
    'no model is configured: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or use the model "offline", which needs no key',
  );
}

/** Splits `provider/model`, or finds the provider of a bare name. */
function splitName({ config }: Place, model: string, owner: string | undefined): { vendor: string; name: string } {
  const slash = model.indexOf("/");
  const prefix = canonical(slash > 0 ? model.slice(0, slash) : "");
  const isPrefix = isHosted(prefix) || prefix === "ollama" || rowOf(config.providers, prefix) !== undefined;
  if (owner !== undefined && owner !== "other") {
    const vendor = canonical(owner);
    return { vendor, name: prefix === vendor ? model.slice(slash + 1) : model };
  }
  if (isPrefix) return { vendor: prefix, name: model.slice(slash + 1) };
  const vendor = findModel(model, mergeModels(config.models ?? {}))?.provider ?? inferProvider(model);
  if (vendor !== undefined && vendor !== "other") return { vendor: canonical(vendor), name: model };
  throw refusal(
    `unknown model ${model}: write PROVIDER/${model} with anthropic, openai, gemini or ollama, or configure it under [self_hosted.models]`,
    NO_MODEL,
  );
}

function canonical(provider: string): string {
  return provider === "google" ? "gemini" : provider;
}

async function openHosted(place: Place, provider: HostedProvider, model: string): Promise<ModelClient> {
  const settings = settingsOf(provider, place.env, place.config);
  // A private server behind OPENAI_BASE_URL often has no keys.
  const isKeyless = provider === "openai" && !settings.isOfficialUrl;
  const apiKey = settings.key ?? (isKeyless ? "none" : undefined);
  if (apiKey === undefined) {
    throw refusal(
      `no key for ${provider}: set ${settings.keyVariable}, or use the model "offline", which needs no key`,
    );
  }
  // OpenAI's package knows the peculiarities of OpenAI's own models only.
  if (isKeyless && inferProvider(model) !== "openai" && place.config.providers?.openai?.api !== "responses") {
    const contextWindow = windowOf(place, model);
    const key = settings.key === undefined ? {} : { apiKey: settings.key };
    return openCompatible(place, { provider, modelId: model, model, baseUrl: settings.baseUrl, contextWindow, ...key });
  }
  const { createAiSdkModel } = await import("./ai-sdk.ts");
  const sdkModel = await loadHosted(place, { provider, model, apiKey, settings });
  const client = createAiSdkModel(sdkModel, {
    provider,
    modelId: model,
    contextWindow: windowOf(place, model),
    url: settings.baseUrl,
    secrets: settings.key === undefined ? [] : [settings.key],
    isKeyless: settings.key === undefined,
  });
  // The prices of a gateway at another address are unknown.
  return settings.isOfficialUrl ? { ...client, prices: publishedPrices(provider, model) } : client;
}

interface HostedModel {
  readonly provider: HostedProvider;
  readonly model: string;
  readonly apiKey: string;
  readonly settings: ProviderSettings;
}

async function loadHosted(place: Place, { provider, model, apiKey, settings }: HostedModel) {
  const options = { apiKey, baseURL: settings.baseUrl, fetch: boundFetch(place.fetch) };
  switch (provider) {
    case "anthropic": {
      const { createAnthropic } = await import("@ai-sdk/anthropic");
      return createAnthropic(options)(model);
    }
    case "gemini": {
      const { createGoogleGenerativeAI } = await import("@ai-sdk/google");
      return createGoogleGenerativeAI(options)(model);
    }
    case "openai": {
      // Responses keeps reasoning across calls, but few other servers have it: behind another address Chat is used,
      // unless `[providers.openai] api = "responses"` is set.
      const isResponses = settings.isOfficialUrl || place.config.providers?.openai?.api === "responses";
      const { createOpenAI } = await import("@ai-sdk/openai");
      const openai = createOpenAI(options);
      // Only OpenAI's package knows which models need max_completion_tokens and a developer message.
      return isResponses ? openai.responses(model) : openai.chat(model);
    }
  }
}

/** A configured model or server wins over built-in names; undefined if the name is none of them. */
function openSelfHosted(place: Place, model: string, owner: string | undefined): Promise<ModelClient> | undefined {
  const { servers = {}, models = {} } = place.config.self_hosted ?? {};
  const row = rowOf(models, model);
  if (row !== undefined) {
    const remote = { model: row.remote_model ?? model, contextWindow: row.context_window };
    return openServer(place, model, { ...remote, server: row.server });
  }
  const slash = model.indexOf("/");
  const prefix = model.slice(0, Math.max(0, slash));
  if (rowOf(servers, prefix) !== undefined)
    return openServer(place, model, { model: model.slice(slash + 1), server: prefix });
  if (owner !== undefined && rowOf(servers, owner) !== undefined)
    return openServer(place, model, { model, server: owner });
  if (owner !== "self_hosted") return undefined;
  const [only, ...others] = Object.keys(servers);
  if (only !== undefined && others.length === 0 && prefix !== "ollama") {
    return openServer(place, model, { model, server: only });
  }
  return openOllama(place, prefix === "ollama" ? model.slice(slash + 1) : model);
}

interface RemoteModel {
  readonly model: string;
  readonly server: string;
  readonly contextWindow?: number | undefined;
}

async function openServer(place: Place, modelId: string, remote: RemoteModel): Promise<ModelClient> {
  const server = rowOf(place.config.self_hosted?.servers, remote.server);
  if (server === undefined) {
    throw refusal(`model ${modelId} names server ${remote.server}; add [self_hosted.servers.${remote.server}]`);
  }
  const apiKey = keyIn(place, server.api_key_env, remote.server);
  return openCompatible(place, {
    provider: "self_hosted",
    server: `the server ${remote.server}`,
    modelId,
    model: remote.model,
    baseUrl: versioned(server.base_url, "v1", `self_hosted.servers.${remote.server}.base_url`),
    apiKey,
    contextWindow: remote.contextWindow ?? windowOf(place, modelId),
  });
}

function keyIn(place: Place, variable: string | undefined, server: string): string | undefined {
  if (variable === undefined) return undefined;
  const key = variableIn(place.env, variable);
  if (key === undefined) throw refusal(`no key for ${server}: set ${variable}`);
  return key;
}

function openOllama(place: Place, model: string): Promise<ModelClient> {
  const url = ollamaUrl(place.env);
  return openCompatible(place, {
    provider: "self_hosted",
    server: `Ollama at ${url}`,
    modelId: `ollama/${model}`,
    model,
    baseUrl: versioned(url, "v1", "OLLAMA_HOST"),
    contextWindow: windowOf(place, `ollama/${model}`) ?? windowOf(place, model),
  });
}

/** `ollama/…`, or a provider configured under [providers.NAME]. */
async function openConfigured(place: Place, provider: string, model: string): Promise<ModelClient> {
  const endpoint = rowOf(place.config.providers, provider);
  if (provider === "ollama" && endpoint?.base_url === undefined) return openOllama(place, model);
  if (endpoint?.base_url === undefined) {
    throw refusal(`provider ${provider} has no address: set base_url under [providers.${provider}]`);
  }
  if (endpoint.api === "ollama-generate")
    return openGenerate(place, { provider, modelId: model, model, baseUrl: endpoint.base_url });
  return openCompatible(place, {
    provider,
    modelId: model,
    model,
    baseUrl: versioned(endpoint.base_url, "v1", `providers.${provider}.base_url`),
    apiKey: keyIn(place, endpoint.api_key_env, provider),
    contextWindow: windowOf(place, model),
  });
}

async function openCompatible(place: Place, given: Omit<OpenAiChatOptions, "fetch">): Promise<ModelClient> {
  const { createOpenAiChatModel } = await import("./openai-chat.ts");
  return createOpenAiChatModel({ ...given, ...fetchOption(place) });
}

/** A profile names a model at an address, with its stop sequences. */
async function openProfile(place: Place, name: string, profile: ModelProfile): Promise<ModelClient> {
  const { model, stop } = profile;
  if (profile.api === "ollama-generate") {
    return openGenerate(place, { modelId: name, model, baseUrl: profile.base_url ?? ollamaUrl(place.env), stop });
  }
  if (profile.base_url !== undefined) {
    const baseUrl = versioned(profile.base_url, "v1", `profiles.${name}.base_url`);
    const contextWindow = windowOf(place, name) ?? windowOf(place, model);
    return openCompatible(place, {
      provider: "self_hosted",
      modelId: name,
      model,
      baseUrl,
      contextWindow,
      stopSequences: stop,
    });
  }
  // A profile named after its own model must not resolve to itself.
  const { [name]: _, ...profiles } = place.config.profiles ?? {};
  const client = await openModel({ ...place, config: { ...place.config, profiles } }, model, undefined);
  if (stop === undefined) return client;
  return {
    ...client,
    stream: (request, signal) => client.stream({ ...request, stopSequences: request.stopSequences ?? stop }, signal),
  };
}

async function openGenerate(
  place: Place,
  given: OllamaGenerateOptions & { readonly modelId: string },
): Promise<ModelClient> {
  const { modelId, model } = given;
  const { createOllamaGenerateModel } = await import("./ollama-generate.ts");
  const contextWindow = windowOf(place, modelId) ?? windowOf(place, model);
  return createOllamaGenerateModel({
    ...given,
    baseUrl: rootOf(given.baseUrl),
    contextWindow,
    ...fetchOption(place),
  });
}

async function openOffline(place: Place): Promise<ModelClient> {
  const { createOfflineModel } = await import("./offline/offline.ts");
  const contextWindow = windowOf(place, "offline");
  const client = createOfflineModel(contextWindow === undefined ? {} : { contextWindow });
  return { ...client, prices: publishedPrices("offline", "offline") };
}

function windowOf({ config }: Place, model: string): number | undefined {
  return findModel(model, mergeModels(config.models ?? {}))?.context_window;
}

function fetchOption(place: Place): { fetch?: typeof globalThis.fetch } {
  return place.fetch === undefined ? {} : { fetch: place.fetch };
}

function refusal(message: string, details?: unknown): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", message, { details });
}
