import { invalid } from "../contract/error.ts";
import {
  apiOf,
  type ConfiguredModel,
  type ConfiguredPrices,
  DEFAULT_MODELS,
  HOSTED_PROVIDERS,
  type HostedProvider,
  type OwnModel,
} from "./catalog.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

interface Endpoint {
  readonly base_url?: string | undefined;
  readonly api_key_env?: string | undefined;
  readonly api?: string | undefined;
}

export interface ProviderConfig {
  readonly defaultModel?: string | undefined;
  readonly defaultProvider?: string | undefined;
  readonly providers?: Readonly<Record<string, Endpoint>> | undefined;
  readonly self_hosted?:
    | {
        readonly servers?: Readonly<Record<string, Endpoint & { readonly base_url: string }>> | undefined;
        readonly models?: Readonly<Record<string, OwnModel>> | undefined;
      }
    | undefined;
  readonly profiles?: Readonly<Record<string, ModelProfile>> | undefined;
  readonly prices?: ConfiguredPrices | undefined;
  readonly models?: Readonly<Record<string, ConfiguredModel>> | undefined;
}

export interface ModelProfile {
  readonly model: string;
  readonly api?: string | undefined;
  readonly base_url?: string | undefined;
  readonly stop?: readonly string[] | undefined;
}

export interface ProviderSettings {
  readonly key: string | undefined;
  /** The variable the key was found in, or the one to set. */
  readonly keyVariable: string;
  readonly baseUrl: string;
  readonly isOfficialUrl: boolean;
}

/** Address and key of a provider; configuration comes before RKAT_ variables, and those before the usual ones. */
export function settingsOf(provider: HostedProvider, env: Environment, config: ProviderConfig): ProviderSettings {
  const { keys, urls, url, version } = apiOf(provider);
  const configured = rowOf(config.providers, provider);
  const keyNames = configured?.api_key_env === undefined ? withPrefix(keys) : [configured.api_key_env];
  const found = keyNames.find((name) => variableIn(env, name) !== undefined);
  const urlName = withPrefix(urls).find((name) => variableIn(env, name) !== undefined);
  const given = configured?.base_url ?? (urlName === undefined ? undefined : variableIn(env, urlName));
  const baseUrl = given === undefined ? url : versioned(given, version, urlName ?? `providers.${provider}.base_url`);
  return {
    key: found === undefined ? undefined : variableIn(env, found),
    keyVariable: found ?? configured?.api_key_env ?? keys[0],
    baseUrl,
    isOfficialUrl: baseUrl === url,
  };
}

function withPrefix(names: readonly string[]): readonly string[] {
  return [...names.map((name) => `RKAT_${name}`), ...names];
}

/** The value of a variable; an empty one is not set. */
export function variableIn(env: Environment, name: string): string | undefined {
  return rowOf(env, name)?.trim() || undefined;
}

/** An address with its version segment; an existing one is kept, since gateways have it mid-path. */
export function versioned(address: string, version: string, source: string): string {
  const url = parseUrl(address, source);
  const path = url.pathname.replace(/(?<!\/)\/+$/, "");
  const hasVersion = /\/v\d\w*(?:\/|$)/.test(path);
  return `${url.origin}${hasVersion ? path : `${path}/${version}`}${url.search}`;
}

function parseUrl(address: string, source: string): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return url;
  throw invalid(`${source} is not an http address: ${address}`);
}

const OLLAMA_PORT = "11434";

/** Ollama's root address; OLLAMA_HOST may be a bare host, as for Ollama itself, or an address with or without /v1. */
export function ollamaUrl(env: Environment): string {
  const given = variableIn(env, "RKAT_OLLAMA_HOST") ?? variableIn(env, "OLLAMA_HOST") ?? "127.0.0.1";
  const hasScheme = /^https?:\/\//i.test(given);
  const url = parseUrl(hasScheme ? given : `http://${given}`, "OLLAMA_HOST");
  if (!hasScheme && url.port === "") url.port = OLLAMA_PORT;
  // A listen address, to which clients cannot connect.
  if (url.hostname === "0.0.0.0") url.hostname = "127.0.0.1";
  return rootOf(url.href);
}

/** An address without the version segment of its OpenAI-compatible API. */
export function rootOf(address: string): string {
  return address.replace(/(?<!\/)\/+$/, "").replace(/\/v1$/, "");
}

export interface ProviderStatus {
  readonly provider: string;
  readonly keyVariable: string;
  readonly hasKey: boolean;
  readonly baseUrl: string;
  readonly defaultModel: string;
}

/** Which providers can be used now, without keys. */
export function providerStatus(env: Environment, config: ProviderConfig = {}): readonly ProviderStatus[] {
  return HOSTED_PROVIDERS.map((provider) => {
    const { key, keyVariable, baseUrl } = settingsOf(provider, env, config);
    const defaultModel = DEFAULT_MODELS.get(provider) ?? "";
    return { provider, keyVariable, hasKey: key !== undefined, baseUrl, defaultModel };
  });
}

/** The providers that need a key and have none. */
export function keylessProviders(env: Environment, config: ProviderConfig = {}): readonly string[] {
  return providerStatus(env, config).flatMap(({ provider, hasKey }) => (hasKey ? [] : [provider]));
}

/** A row of a user-written table; inherited names such as `constructor` are none. */
export function rowOf<Row>(table: Readonly<Record<string, Row>> | undefined, name: string): Row | undefined {
  return table !== undefined && Object.hasOwn(table, name) ? table[name] : undefined;
}
