import type { Config } from "./config-schema.ts";
import { DEFAULT_CONFIG } from "./default-config.ts";

/** The configuration without any file or variable. */
export function defaultConfig(): Config {
  return structuredClone(DEFAULT_CONFIG);
}

const ABORT_GRACE_MS = 2_000;

export function policyOf({ agent, retry, tools }: Config) {
  return {
    warnAt: agent.budget_warning_threshold,
    retry: {
      maxRetries: retry.max_retries,
      initialDelayMs: retry.initial_delay_ms,
      maxDelayMs: retry.max_delay_ms,
      retryAfterMaxMs: retry.retry_after_max_ms,
      multiplier: retry.multiplier,
    },
    calls: {
      callTimeoutMs: retry.call_timeout_ms ?? Number.POSITIVE_INFINITY,
      stallTimeoutMs: retry.stall_timeout_ms ?? Number.POSITIVE_INFINITY,
    },
    tools: {
      timeoutMs: tools.default_timeout_ms,
      concurrentMax: tools.max_concurrent,
      outputBytesMax: tools.output_bytes_max,
      abortGraceMs: ABORT_GRACE_MS,
    },
  };
}

/** The settings that choose the model: the given options, then the configuration. */
export function modelConfig(
  given: { readonly model?: unknown; readonly provider?: string | undefined },
  config: Config,
) {
  const { agent, providers, self_hosted, profiles, models, prices } = config;
  const defaultModel = typeof given.model === "string" ? given.model : agent.model;
  const defaultProvider = given.provider ?? agent.provider;
  return { defaultModel, defaultProvider, providers, self_hosted, profiles, models, prices };
}

/** The settings that take effect at the next start, by key. */
export function fixedAtStart({
  features,
  ceiling,
  rest,
  shell,
  memory,
  agent_memory,
  retention,
}: Config): Readonly<Record<string, unknown>> {
  return {
    features,
    ceiling,
    "rest.host": rest.host,
    "rest.port": rest.port,
    "shell.program": shell.program,
    "shell.timeout_secs": shell.timeout_ms,
    "memory.embedder": memory.embedder,
    "memory.embedding_model": memory.embedding_model,
    "memory.embedding_dimensions": memory.embedding_dimensions,
    "memory.index": memory.index,
    "agent_memory.immediate_window": agent_memory.immediate_window,
    "agent_memory.recent_window": agent_memory.recent_window,
    // Whether a server looks for what is due at all; how long is followed at once.
    retention: retention.sessions !== undefined || Object.keys(retention.labels).length > 0,
  };
}
