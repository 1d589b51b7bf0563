import { spellDuration } from "../contract/input.ts";
import type { JsonTable } from "../contract/json.ts";
import { z } from "../contract/schema.ts";
import { type JsonSchema, withExamples } from "../contract/wire/requests.ts";
import { spellSubAgents } from "./agents-schema.ts";
import { type Config, ConfigFile, spellRetention, spellRules } from "./config-schema.ts";
import { withoutPassword } from "./store-schema.ts";

/** Every key of the file, with its description. */
export function configFileSchema(): JsonSchema {
  // zod's type of a JSON schema is this one with every keyword of the standard.
  return z.toJSONSchema(ConfigFile, { io: "input", override: withExamples }) as JsonSchema;
}

/** A configuration by the keys of its file; reading it back gives the same. */
export function spellConfig(config: Config): JsonTable {
  const {
    features,
    agent,
    budget,
    limits: held,
    retry,
    compaction,
    tools,
    shell,
    ceiling,
    permissions,
    store,
    ui,
    retention,
    sub_agents,
    forbidden: _file,
    ...rest
  } = config;
  const { initial_delay_ms, max_delay_ms, retry_after_max_ms, call_timeout_ms, stall_timeout_ms, ...retries } = retry;
  const { default_timeout_ms, approval_timeout_ms, ...offered } = tools;
  const { lease_ms, ...kept } = store;
  const { grace_ms, ...pages } = ui;
  const spelled = {
    features,
    agent,
    budget: spellLimits(budget),
    ceiling: { tools: ceiling.tools, models: ceiling.models, ...spellLimits(ceiling.limits) },
    limits: held,
    retry: {
      ...retries,
      initial_delay: spellDuration(initial_delay_ms),
      max_delay: spellDuration(max_delay_ms),
      retry_after_max: spellDuration(retry_after_max_ms),
      call_timeout: call_timeout_ms === undefined ? "disabled" : spellDuration(call_timeout_ms),
      stall_timeout: stall_timeout_ms === undefined ? "disabled" : spellDuration(stall_timeout_ms),
    },
    compaction,
    permissions: spellRules(permissions),
    tools: {
      ...offered,
      default_timeout: spellDuration(default_timeout_ms),
      approval_timeout: spellDuration(approval_timeout_ms),
    },
    shell: { program: shell.program, timeout_secs: shell.timeout_ms / 1_000 },
    store: { ...kept, lease: spellDuration(lease_ms) },
    ui: { ...pages, grace: grace_ms === undefined ? "disabled" : spellDuration(grace_ms) },
    retention: spellRetention(retention),
    sub_agents: spellSubAgents(sub_agents),
    ...rest,
  };
  // A key without a value is one that the file does not have.
  return JSON.parse(JSON.stringify(spelled));
}

/** The same without the password of the database. */
export function describeConfig(config: Config): JsonTable {
  const { url } = config.store;
  return spellConfig(url === undefined ? config : { ...config, store: { ...config.store, url: withoutPassword(url) } });
}

function spellLimits({ max_duration_ms, ...limits }: Config["budget"]): JsonTable {
  return { ...limits, max_duration: max_duration_ms === undefined ? undefined : spellDuration(max_duration_ms) };
}
