import { z } from "zod";
import { spellDuration } from "../contract/input/duration.ts";
import type { JsonTable } from "../contract/input/merge-patch.ts";
import { type JsonSchema, withExamples } from "../contract/rest/operation-schema.ts";
import { type Config, ConfigFile } from "./config-schema.ts";

/** Every key of the file, with what is said of it. */
export function configFileSchema(): JsonSchema {
  // zod's type of a JSON schema is this one with every keyword of the standard.
  return z.toJSONSchema(ConfigFile, { io: "input", override: withExamples }) as JsonSchema;
}

/** A configuration by the keys of its file; reading it back gives the same. */
export function spellConfig(config: Config): JsonTable {
  const { features, agent, budget, limits: held, retry, compaction, tools, shell, forbidden: _file, ...rest } = config;
  const { max_duration_ms, ...limits } = budget;
  const { initial_delay_ms, max_delay_ms, retry_after_max_ms, call_timeout_ms, stall_timeout_ms, ...retries } = retry;
  const { default_timeout_ms, ...offered } = tools;
  const spelled = {
    features,
    agent,
    budget: { ...limits, max_duration: max_duration_ms === undefined ? undefined : spellDuration(max_duration_ms) },
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
    tools: { ...offered, default_timeout: spellDuration(default_timeout_ms) },
    shell: { program: shell.program, timeout_secs: shell.timeout_ms / 1_000 },
    ...rest,
  };
  // A key without a value is one that the file does not have.
  return JSON.parse(JSON.stringify(spelled));
}
