import { z } from "zod";
import { Capability } from "../contract/capability.ts";
import { Duration, spellDuration } from "../contract/input/duration.ts";
import type { JsonTable } from "../contract/input/merge-patch.ts";
import { PROVIDER_NAMES } from "../contract/session.ts";

// A timer of Node fires at once when asked to wait longer than this, so a longer wait must not be sayable.
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Every message of this file completes the sentence "<key> is <value>; …" and says what to write. */
const whole = (least: number, most = Number.MAX_SAFE_INTEGER) => {
  const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
  const error = `write a whole number ${range}`;
  return z.int({ error }).min(least, { error }).max(most, { error });
};
const fraction = (error: string) => z.number({ error }).positive({ error }).max(1, { error });
export const flag = z.boolean({ error: "write true or false" });
export const text = z.string({ error: "write a text in quotes" }).min(1, { error: "write a text, or remove the key" });
export const oneOf = <const T extends readonly string[]>(names: T) =>
  z.enum(names, { error: `write one of ${names.map((name) => `"${name}"`).join(", ")}` });
export const wait = Duration.refine((ms) => ms > 0 && ms <= TIMER_MS_MAX, {
  error: "write a duration longer than zero and of at most 24 days, like 30s",
});
const waitOrNone = z.union([z.literal("disabled"), wait], { error: 'write a duration like 45s, or "disabled"' });
const msOrNone = (given: number | "disabled") => (given === "disabled" ? undefined : given);

/** Secrets stay out of the configuration: it names the variable that holds one. */
const variableName = z.string({ error: "write the name of an environment variable" }).regex(/^[A-Za-z_]\w*$/, {
  error: "write the name of the environment variable that holds the key, never the key itself",
});
const address = z
  .url({ protocol: /^https?$/, error: "write an address like http://localhost:11434/v1" })
  .refine((url) => !/^[a-z]+:\/\/[^/]*@/i.test(url), {
    error: "write the address without a user name or password, and name the key's variable in api_key_env",
  });

const Agent = z.strictObject({
  /** Without one, the first provider that has a key chooses. */
  model: text.optional(),
  provider: text.optional(),
  system_prompt: z.string({ error: "write a text in quotes" }).optional(),
  max_tokens_per_turn: whole(1).default(16_384),
  max_turns: whole(1).default(100),
  budget_warning_threshold: fraction("write a fraction above 0 and up to 1, like 0.8").default(0.8),
  structured_output_retries: whole(0, 10).default(2),
});

const Budget = z.strictObject({
  max_tokens: whole(1).optional(),
  max_duration: wait.optional(),
  max_tool_calls: whole(0).optional(),
});

/** The older spelling of `[budget]`; both are read, and they must agree. */
const Limits = z.strictObject({
  budget: whole(1).optional(),
  max_duration: wait.optional(),
  max_tool_calls: whole(0).optional(),
  max_sessions: whole(1).default(100_000),
});

const Retry = z
  .strictObject({
    max_retries: whole(0, 100).default(3),
    initial_delay: wait.prefault("500ms"),
    max_delay: wait.prefault("30s"),
    /** A provider that asks for a longer wait than this is not waited for. */
    retry_after_max: wait.prefault("10m"),
    multiplier: z.number({ error: "write a number of at least 1" }).min(1, "write a number of at least 1").default(2),
    call_timeout: waitOrNone.prefault("10m"),
    stall_timeout: waitOrNone.prefault("300s"),
  })
  .refine((retry) => retry.initial_delay <= retry.max_delay, {
    path: ["initial_delay"],
    error: "write a delay no longer than retry.max_delay",
  })
  .transform((retry) => ({
    max_retries: retry.max_retries,
    initial_delay_ms: retry.initial_delay,
    max_delay_ms: retry.max_delay,
    retry_after_max_ms: retry.retry_after_max,
    multiplier: retry.multiplier,
    /** Undefined: a call may take as long as it likes. */
    call_timeout_ms: msOrNone(retry.call_timeout),
    /** Undefined: a stream may be silent as long as it likes. */
    stall_timeout_ms: msOrNone(retry.stall_timeout),
  }));

/** What is left out follows from the model, or is the default of the compaction itself. */
const Compaction = z.strictObject({
  /** Without one: 80 % of the model's context window. */
  auto_compact_threshold: whole(1).optional(),
  /** Without one: 4. */
  recent_turn_budget: whole(1).optional(),
  /** Without one: 4096, or a quarter of the threshold of a small model. */
  max_summary_tokens: whole(1).optional(),
  /** Without one: 3. */
  min_turns_between_compactions: whole(0).optional(),
  strategy: oneOf(["summary", "cascade"]).optional(),
  /** Large old tool results are shown as references, unless this is false. */
  prune_tool_results: flag.optional(),
  /** What a summary says and its source does not is cut from it, unless this is false. */
  cut_invented: flag.optional(),
  judge: oneOf(["off", "model"])
    .optional()
    .describe("Whether the session's model judges what a summary claims, in a call more for each compaction."),
});

const absent = z.literal(false, { error: "rkat has no such tools, so set it to false or remove the key" }).optional();

const Tools = z
  .strictObject({
    default_timeout: wait.prefault("600s"),
    max_concurrent: whole(1).default(10),
    builtins_enabled: flag.default(false),
    shell_enabled: flag.default(false),
    memory: flag.default(true),
    /** What of one tool output the model is shown; the rest stays reachable as a blob. */
    output_bytes_max: whole(1_024).default(65_536),
    // Written by other runtimes of this contract. Asking for what is not there is refused, not ignored; a schedule
    // is on by default there, so `true` says nothing.
    comms_enabled: absent,
    mob_enabled: absent,
    workgraph_enabled: absent,
    schedule_enabled: flag.optional(),
  })
  .transform((tools) => ({
    default_timeout_ms: tools.default_timeout,
    max_concurrent: tools.max_concurrent,
    builtins_enabled: tools.builtins_enabled,
    shell_enabled: tools.shell_enabled,
    memory: tools.memory,
    output_bytes_max: tools.output_bytes_max,
  }));

const Shell = z
  .strictObject({
    /** Without one: bash where there is one, else sh. */
    program: text.optional(),
    timeout_secs: z
      .number({ error: "write a number of seconds" })
      .positive({ error: "write a number of seconds above 0" })
      .max(TIMER_MS_MAX / 1_000, { error: "write at most 2147483 seconds" })
      .default(30),
    security_mode: oneOf(["unrestricted"]).optional(),
  })
  .transform((shell) => ({ program: shell.program, timeout_ms: Math.max(1, Math.round(shell.timeout_secs * 1_000)) }));

/** Where the REST server listens. */
const Rest = z.strictObject({ host: text.default("127.0.0.1"), port: whole(0, 65_535).default(8_080) });

const Memory = z
  .strictObject({
    /** `static` needs no native runtime; `hashing` is a baseline; `remote` asks a provider. One of one's own is given to the SDK. */
    embedder: oneOf(["local", "static", "hashing", "remote"]).default("local"),
    /** Of a remote embedder: PROVIDER/MODEL. */
    embedding_model: text.optional(),
    /** Of a remote embedder: how long its vectors are. */
    embedding_dimensions: whole(1, 16_384).optional(),
    index: oneOf(["auto", "exact"]).default("auto"),
    scope: oneOf(["project", "session"]).default("project"),
  })
  .refine((memory) => memory.embedder !== "remote" || memory.embedding_model !== undefined, {
    path: ["embedding_model"],
    error: "write the model as PROVIDER/MODEL, like openai/text-embedding-3-small",
  })
  .refine((memory) => memory.embedder !== "remote" || memory.embedding_dimensions !== undefined, {
    path: ["embedding_dimensions"],
    error: "write how long the model's vectors are, like 1536",
  });

const AgentMemory = z.strictObject({
  immediate_window: whole(1).default(64),
  recent_window: whole(1).default(64),
  profile: text.default("summarizer"),
});

/** Spans of what sessions do, for an OpenTelemetry collector; nothing is sent unless this says so. */
const Telemetry = z.strictObject({
  enabled: flag.default(false),
  /** Without one: that of the standard variables, else http://localhost:4318. */
  endpoint: z
    .url({ protocol: /^https?$/, error: "write the collector's address, like http://localhost:4318" })
    .refine((url) => !/^[a-z]+:\/\/[^/]*@/i.test(url), {
      error: "write the address without a user name or password; OTEL_EXPORTER_OTLP_HEADERS holds what gives access",
    })
    .optional(),
  /** Whether what is said goes along. */
  capture_content: flag.default(false),
  service_name: text.default("rkat"),
});

// Read by hooks, which are not built yet. A hook itself is refused as an unknown key: one that is accepted and does
// not run would let through what it was written to stop.
const Hooks = z.strictObject({
  default_timeout_ms: whole(1, TIMER_MS_MAX).default(5_000),
  payload_max_bytes: whole(1).default(131_072),
  background_max_concurrency: whole(1).default(32),
});

const Profile = z.strictObject({
  model: text,
  api: oneOf(["chat", "ollama-generate"]).default("chat"),
  base_url: address.optional(),
  stop: z.array(text, { error: 'write a list of texts, like ["\\n\\n"]' }).optional(),
});

const Provider = z.strictObject({
  base_url: address.optional(),
  api_key_env: variableName.optional(),
  /** Without one, what suits the address: a provider's own, or chat completions for a server that resembles it. */
  api: oneOf(["chat", "responses", "ollama-generate"]).optional(),
});

const SelfHosted = z.strictObject({
  servers: table(z.strictObject({ base_url: address, api_key_env: variableName.optional() })),
  models: table(
    z.strictObject({
      server: text,
      /** Without one, the name of this table. */
      remote_model: text.optional(),
      context_window: whole(1).optional(),
      max_output_tokens: whole(1).optional(),
    }),
  ),
});

/** Adds a model to the catalogue, or corrects one. */
const CataloguedModel = z.strictObject({
  context_window: whole(1).optional(),
  max_output_tokens: whole(1).optional(),
  provider: text.optional(),
});

const sections = {
  features: z.array(oneOf(Capability.options), { error: "write a list of capabilities" }).default(Capability.options),
  agent: Agent.prefault({}),
  budget: Budget.prefault({}),
  limits: Limits.prefault({}),
  retry: Retry.prefault({}),
  compaction: Compaction.prefault({}),
  tools: Tools.prefault({}),
  shell: Shell.prefault({}),
  rest: Rest.prefault({}),
  memory: Memory.prefault({}),
  agent_memory: AgentMemory.prefault({}),
  telemetry: Telemetry.prefault({}),
  hooks: Hooks.prefault({}),
  profiles: table(Profile),
  providers: table(Provider),
  self_hosted: SelfHosted.prefault({}),
  models: table(CataloguedModel),
};

function table<T extends z.ZodType>(row: T) {
  return z.record(z.string(), row).prefault({});
}

/** The two spellings of a limit, by the key of `[budget]`. */
export const LIMIT_SPELLINGS = {
  max_tokens: "budget",
  max_duration: "max_duration",
  max_tool_calls: "max_tool_calls",
} as const;

/** The whole file: every key it may hold, every default it leaves out. */
export const ConfigFile = z
  .strictObject(sections)
  .superRefine((given, issues) => {
    const refuse = (path: string[], message: string) => issues.addIssue({ code: "custom", path, message });
    for (const [key, older] of Object.entries(LIMIT_SPELLINGS)) {
      // Both maps have exactly these keys: the entries of LIMIT_SPELLINGS, whose types `Object.entries` forgets.
      const newer = given.budget[key as keyof typeof LIMIT_SPELLINGS];
      const old = given.limits[older];
      if (newer === undefined || old === undefined || newer === old) continue;
      refuse(["budget", key], `limits.${older} says otherwise, so remove one of the two`);
    }
    const { provider } = given.agent;
    const providers = [...PROVIDER_NAMES, ...Object.keys(given.providers)];
    if (provider !== undefined && !providers.includes(provider))
      refuse(["agent", "provider"], `write one of ${providers.join(", ")}, or add [providers.${provider}]`);
    for (const [name, { server }] of Object.entries(given.self_hosted.models)) {
      if (Object.hasOwn(given.self_hosted.servers, server)) continue;
      refuse(["self_hosted", "models", name, "server"], `add [self_hosted.servers.${server}] with its base_url`);
    }
  })
  .transform(({ limits, budget, ...rest }) => ({
    ...rest,
    budget: limitsOf({
      max_tokens: budget.max_tokens ?? limits.budget,
      max_duration_ms: budget.max_duration ?? limits.max_duration,
      max_tool_calls: budget.max_tool_calls ?? limits.max_tool_calls,
    }),
    limits: { max_sessions: limits.max_sessions },
    forbidden: nothingForbidden,
  }));

/** The tools a file can forbid, and the key of `[tools]` that does when it says false. */
export const SWITCHES = { builtins: "builtins_enabled", shell: "shell_enabled" } as const;
type Switch = keyof typeof SWITCHES;

/** What a file has said false to; a default that nobody wrote forbids nothing. */
const nothingForbidden: readonly Switch[] = [];

interface SessionLimits {
  readonly max_tokens?: number;
  readonly max_duration_ms?: number;
  readonly max_tool_calls?: number;
}

/** Only the limits that are set: the shape a session's settings keep. */
function limitsOf(given: { readonly [K in keyof SessionLimits]: number | undefined }): SessionLimits {
  return Object.fromEntries(Object.entries(given).filter(([, limit]) => limit !== undefined));
}

type DeepReadonly<T> = T extends object ? { readonly [K in keyof T]: DeepReadonly<T[K]> } : T;

/** Every tunable of the product with its value; durations are milliseconds and say so in their name. */
export type Config = DeepReadonly<z.output<typeof ConfigFile>>;

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
