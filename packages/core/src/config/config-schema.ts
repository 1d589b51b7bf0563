import { CAPABILITIES } from "../contract/capability.ts";
import { COMPACTION_FALLBACKS, CompactionDefaults } from "../contract/compaction.ts";
import { HookEntries, type HookEntry } from "../contract/hook.ts";
import { Duration, spellDuration } from "../contract/input.ts";
import { isJsonTable, type JsonTable } from "../contract/json.ts";
import { PermissionRules } from "../contract/permission.ts";
import { fieldOf, z } from "../contract/schema.ts";
import { PROVIDER_NAMES } from "../contract/session.ts";
import { CreateSchedule } from "../contract/wire/schedule.ts";
import { SubAgents } from "./agents-schema.ts";
import { EncryptionTable, MemoryIndex, StoreTable } from "./store-schema.ts";
import {
  address,
  CostLimit,
  common,
  flag,
  fraction,
  msOrNone,
  oneOf,
  Price,
  TIMER_MS_MAX,
  text,
  variableName,
  wait,
  waitOrNone,
  whole,
} from "./values.ts";

/** Rules of the configuration with their owner; rules of different owners are never mixed. */
export interface ConfiguredRules {
  /** `answer`: what people have allowed for the project by their answers. */
  readonly from: "user" | "project" | "answer";
  readonly rules: PermissionRules;
}

const answered = fieldOf(PermissionRules, "allow")
  .clone()
  .describe("what people have allowed for the project by their answers; rkat writes it");

const FileRules = PermissionRules.extend({ answered });

/** The rules of one file as a layer; none where it says nothing. */
function layersOf({ answered: allow = [], ...rules }: z.infer<typeof FileRules>): readonly ConfiguredRules[] {
  const layers: readonly ConfiguredRules[] = [
    { from: "project", rules },
    { from: "answer", rules: { allow } },
  ];
  return layers.filter((layer) => Object.values(layer.rules).some((patterns) => (patterns ?? []).length > 0));
}

/** The rules of the project by the keys of its file. */
export function spellRules(layers: readonly ConfiguredRules[]): JsonTable {
  const own = layers.filter(({ from }) => from !== "user");
  return own.reduce<JsonTable>(
    (table, { from, rules }) => joinRules(table, from === "answer" ? { answered: rules.allow } : rules),
    {},
  );
}

/** A table with the rules of both: the realm's own layer adds to what the file says and takes nothing of it away. */
export function withBothRules(merged: JsonTable, file: JsonTable, realm: JsonTable): JsonTable {
  if (!isJsonTable(file.permissions) || !isJsonTable(realm.permissions)) return merged;
  return { ...merged, permissions: joinRules(file.permissions, realm.permissions) };
}

function joinRules(first: JsonTable, second: JsonTable): JsonTable {
  const keys = new Set([...Object.keys(first), ...Object.keys(second)]);
  return Object.fromEntries(
    [...keys].map((key) => {
      const [one, other] = [first[key], second[key]];
      if (Array.isArray(one) && Array.isArray(other)) return [key, [...new Set([...one, ...other])]];
      return [key, other ?? one];
    }),
  );
}

const error = 'write a duration longer than zero, like 90d, or "forever"';
const keep = z.union([z.literal("forever"), Duration.refine((ms) => ms > 0, { error })], { error });

const LABEL = /^[^=]+=/;

/** How long sessions are kept. A key a label, not a list of rules: a later layer then changes one and leaves the others. */
const Retention = z.strictObject({
  sessions: keep
    .optional()
    .meta(
      common("a session whose last change is longer ago is forgotten, as with rkat prune; without it, none is", "90d"),
    ),
  labels: z
    .record(z.string(), keep)
    .superRefine((labels, issues) => {
      for (const label of Object.keys(labels).filter((one) => !LABEL.test(one)))
        issues.addIssue({ code: "custom", path: [label], message: 'name the label as "key=value", like "team=core"' });
    })
    .prefault({})
    .describe(
      'the same for sessions with a label, such as `"team=core" = "30d"`, in the place of `retention.sessions`; of several labels the longest counts',
    ),
});

export function spellRetention({ sessions, labels }: z.output<typeof Retention>) {
  const spell = (kept: number | "forever") => (kept === "forever" ? kept : spellDuration(kept));
  return {
    ...(sessions === undefined ? {} : { sessions: spell(sessions) }),
    labels: Object.fromEntries(Object.entries(labels).map(([label, kept]) => [label, spell(kept)])),
  };
}

const Hooks = z.strictObject({
  entries: HookEntries.default([]).describe("commands that are called at steps of a turn; [hooks.md](hooks.md)"),
  default_timeout_ms: whole(1, TIMER_MS_MAX).default(5_000).meta(common("the timeout of hooks that set none")),
  payload_max_bytes: whole(1).default(131_072).describe("the largest payload of a hook; longer texts are cut"),
  background_max_concurrency: whole(1)
    .default(32)
    .describe("how many background hooks run at once; further ones are skipped, with an event"),
});

/** Hooks of the user's own file and of a project's: nothing that a project says takes one of the user's away. */
export function withUsersHooks(users: readonly HookEntry[], others: readonly HookEntry[]): HookEntry[] {
  return [...users, ...others.filter(({ id }) => !users.some((one) => one.id === id))];
}

const Skills = z.strictObject({
  enabled: flag.default(true).meta(common("whether sessions have skills; [skills.md](skills.md)", false)),
});

const AgentsMd = z.strictObject({
  enabled: flag.default(true).meta(common("whether sessions get AGENTS.md; [agents-md.md](agents-md.md)", false)),
});

const absent = z.literal(false, { error: "rkat has no such tools, so set it to false or remove the key" }).optional();
const elsewhere = "of other runtimes of this contract; rkat has no such tools";

const Tools = z
  .strictObject({
    default_timeout: wait.prefault("600s").meta(common("of one tool call")),
    approval_timeout: wait.prefault("30m").describe("how long a call waits for approval; then it is denied"),
    max_concurrent: whole(1).default(10).describe("calls of one answer that run at once"),
    builtins_enabled: flag
      .default(false)
      .meta(
        common(
          "built-in tools of sessions of servers and the SDK that do not say: time, tasks, patches; a file that says `false` forbids them to all",
          true,
        ),
      ),
    shell_enabled: flag
      .default(false)
      .meta(common("the shell for those; a file that says `false` forbids it to all", true)),
    memory: flag
      .default(true)
      .meta(common("`memory_search` and `search_project_history` for sessions that have tools", false)),
    comms_enabled: flag
      .default(true)
      .meta(common("whether sessions with a `comms_name` send each other messages; [inbox.md](inbox.md)", false)),
    output_bytes_max: whole(1_024)
      .default(65_536)
      .describe("what of one output the model is shown; the rest stays reachable as a blob"),
    // Written by other runtimes of this contract. Asking for what is not there is refused, not ignored; a schedule
    // is on by default there, so `true` says nothing.
    mob_enabled: absent.describe(elsewhere),
    workgraph_enabled: absent.describe(elsewhere),
    schedule_enabled: flag.optional().describe(elsewhere),
  })
  .transform((tools) => ({
    default_timeout_ms: tools.default_timeout,
    approval_timeout_ms: tools.approval_timeout,
    max_concurrent: tools.max_concurrent,
    builtins_enabled: tools.builtins_enabled,
    shell_enabled: tools.shell_enabled,
    memory: tools.memory,
    comms_enabled: tools.comms_enabled,
    output_bytes_max: tools.output_bytes_max,
  }));

const Shell = z
  .strictObject({
    program: text.optional().describe("without it, bash where there is one, else sh"),
    timeout_secs: z
      .number({ error: "write a number of seconds" })
      .positive({ error: "write a number of seconds above 0" })
      .max(TIMER_MS_MAX / 1_000, { error: "write at most 2147483 seconds" })
      .default(30)
      .describe("of one command"),
    security_mode: oneOf(["unrestricted"])
      .optional()
      .describe("what the shell is: not a sandbox; [security.md](security.md)"),
  })
  .transform((shell) => ({ program: shell.program, timeout_ms: Math.max(1, Math.round(shell.timeout_secs * 1_000)) }));

const OpenAi = z.strictObject({
  enabled: flag
    .optional()
    .meta(
      common(
        "whether OpenAI's clients are served at `/v1`; without it, only where this machine alone is listened to",
        true,
      ),
    ),
  memory: oneOf(["session", "project"])
    .default("session")
    .meta(common("what sessions made there may recall: their own words, or those of the whole project", "project")),
  tools: oneOf(["none", "memory", "safe", "workspace", "full"])
    .default("memory")
    .meta(
      common(
        "tools of ours that such a session has: memory, where its request has no tools, or a preset in any case",
        "none",
      ),
    ),
});

const Ui = z
  .strictObject({
    enabled: flag
      .optional()
      .meta(
        common(
          "whether pages with useChat are served at `/ui`; without it, only where this machine alone is listened to",
          true,
        ),
      ),
    memory: oneOf(["session", "project"])
      .default("session")
      .meta(common("what chats of pages may recall: their own words, or those of the whole project", "project")),
    tools: oneOf(["none", "memory", "safe", "workspace", "full"])
      .default("memory")
      .meta(common("tools of ours that a chat has where its page names none", "safe")),
    grace: waitOrNone
      .prefault("10s")
      .describe("how long a turn runs without a reader, as while its page is reloaded; disabled: to its end"),
  })
  .transform(({ grace, ...ui }) => ({ ...ui, grace_ms: msOrNone(grace) }));

const Agent = z.strictObject({
  model: text
    .optional()
    .meta(
      common(
        "the model of sessions that name none; without it, that of the first provider that has a key; `offline` needs none",
        "claude-sonnet-5-5",
      ),
    ),
  provider: text.optional().describe("the provider, where the model's name does not determine it"),
  system_prompt: z
    .string({ error: "write a text in quotes" })
    .optional()
    .meta(common("the system message of sessions that bring none", "Be brief.")),
  max_tokens_per_turn: whole(1).default(16_384).meta(common("output tokens of one model call")),
  max_turns: whole(1).default(100).meta(common("model calls in one turn")),
  budget_warning_threshold: fraction("write a fraction above 0 and up to 1, like 0.8")
    .default(0.8)
    .describe("the part of a budget at which `budget_warning` is emitted"),
  structured_output_retries: whole(0, 10)
    .default(2)
    .describe("how often a result that does not match its schema is requested again"),
});

const Budget = z.strictObject({
  max_tokens: whole(1)
    .optional()
    .meta(common("input and output tokens of all calls of a session; without it, no limit", 100_000)),
  max_duration: wait.optional().meta(common("of one turn; without it, no limit", "10m")),
  max_tool_calls: whole(0).optional().meta(common("tool calls of a session; without it, no limit", 50)),
  max_cost: CostLimit.optional().meta(common("US dollars a session may cost; without it, no limit", 0.5)),
});

const PRESETS = ["none", "safe", "workspace", "full"] as const;
const most = "that a session may set, and its default";
const Turns = z.strictObject({
  resume: flag
    .default(true)
    .describe("whether servers finish turns whose process ended; [durable-turns.md](durable-turns.md)"),
  schedules: flag
    .default(true)
    .meta(common("whether servers over HTTP run schedules; [schedules.md](schedules.md)", false)),
  attempts: whole(1, 100).default(3).describe("how many processes may run a turn before it counts as failed"),
});

const Ceiling = z
  .strictObject({
    tools: oneOf(PRESETS).optional().describe("the most tools sessions may have; without it, what the server allows"),
    models: z
      .array(text, { error: 'write a list of models, like ["claude-*", "openai/gpt-5*"]' })
      .optional()
      .describe("the allowed models, as MODEL or PROVIDER/MODEL, * for any letters; without it, all"),
    max_tokens: whole(1).optional().describe(`the most \`budget.max_tokens\` ${most}`),
    max_duration: wait.optional().describe(`the most \`budget.max_duration\` ${most}`),
    max_tool_calls: whole(0).optional().describe(`the most \`budget.max_tool_calls\` ${most}`),
    max_cost: CostLimit.optional().describe(`the most \`budget.max_cost\`, in US dollars, ${most}`),
  })
  .transform(({ tools, models, max_duration: max_duration_ms, max_tokens, max_tool_calls, max_cost }) => ({
    tools,
    models,
    limits: limitsOf({ max_tokens, max_duration_ms, max_tool_calls, max_cost }),
  }));

/** The older spelling of `[budget]`; both are read, and they must agree. */
const Limits = z.strictObject({
  budget: whole(1).optional().describe("the older spelling of `budget.max_tokens`"),
  max_duration: wait.optional().describe("the older spelling of `budget.max_duration`"),
  max_tool_calls: whole(0).optional().describe("the older spelling of `budget.max_tool_calls`"),
  max_sessions: whole(1).default(100_000).describe("sessions a process has in memory at once"),
});

const Retry = z
  .strictObject({
    max_retries: whole(0, 100).default(3).meta(common("how often a model call with a temporary failure is retried")),
    initial_delay: wait.prefault("500ms").describe("the wait before the first retry"),
    max_delay: wait.prefault("30s").describe("the longest wait"),
    retry_after_max: wait.prefault("10m").describe("a provider that asks for a longer wait is not retried"),
    multiplier: z
      .number({ error: "write a number of at least 1" })
      .min(1, "write a number of at least 1")
      .default(2)
      .describe("how the wait grows"),
    call_timeout: waitOrNone.prefault("10m").meta(common("the longest a model call may take")),
    stall_timeout: waitOrNone.prefault("300s").describe("the longest a stream may be silent"),
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
    /** Undefined: no limit. */
    call_timeout_ms: msOrNone(retry.call_timeout),
    /** Undefined: no limit. */
    stall_timeout_ms: msOrNone(retry.stall_timeout),
  }));

/** A field of the contract as a key that `rkat init` writes, with this value for an example. */
const example = <S extends z.ZodType>(field: S, value: unknown): S => field.meta({ examples: [value] });

/** Missing keys follow from the model, or are defaults of the compaction. */
const Compaction = CompactionDefaults.extend({
  recent_turn_budget: example(
    fieldOf(CompactionDefaults, "recent_turn_budget"),
    COMPACTION_FALLBACKS.recent_turn_budget,
  ),
  max_summary_tokens: example(
    fieldOf(CompactionDefaults, "max_summary_tokens"),
    COMPACTION_FALLBACKS.max_summary_tokens,
  ),
  policy: example(fieldOf(CompactionDefaults, "policy"), "economy"),
  prepare: example(fieldOf(CompactionDefaults, "prepare"), true),
  evict: example(fieldOf(CompactionDefaults, "evict"), false),
});

const Rest = z.strictObject({
  host: text
    .default("127.0.0.1")
    .describe("where `rkat serve` listens; elsewhere than on this machine it needs a token"),
  port: whole(0, 65_535).default(8_080).describe("0 for any that is free"),
});

const Memory = z
  .strictObject({
    scope: oneOf(["project", "session"])
      .default("project")
      .meta(common("whether an agent recalls what was said in the project or in its session alone", "session")),
    embedder: oneOf(["local", "hashing", "remote"])
      .default("local")
      .meta(
        common("how meaning is found: bundled weights, a baseline that counts words, or a provider's model", "remote"),
      ),
    embedding_model: text
      .optional()
      .meta(common("of a remote embedder: PROVIDER/MODEL", "openai/text-embedding-3-small")),
    embedding_dimensions: whole(1, 16_384)
      .optional()
      .meta(common("of a remote embedder: how long its vectors are", 1_536)),
    index: MemoryIndex.default("auto").describe(
      "how memory is searched, which is a scan of all vectors ([why](decisions/0015-a-scan-instead-of-a-graph.md)); with a database also where: `local`, in an index beside each process, or `database`",
    ),
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
  immediate_window: whole(1).default(64).meta(common("memories that are shown word for word")),
  recent_window: whole(1).default(64).meta(common("memories of the short-term summary, and between two compactions")),
  profile: text
    .default("summarizer")
    .meta(common("the profile that summarises; without such a profile, the model of sessions")),
});

const Telemetry = z.strictObject({
  enabled: flag.default(false).meta(common("whether spans are sent; [telemetry.md](telemetry.md)", true)),
  endpoint: z
    .url({ protocol: /^https?$/, error: "write the collector's address, like http://localhost:4318" })
    .refine((url) => !/^[a-z]+:\/\/[^/]*@/i.test(url), {
      error: "write the address without a user name or password; OTEL_EXPORTER_OTLP_HEADERS holds what gives access",
    })
    .optional()
    .meta(common("without it, that of the standard variables, else http://localhost:4318", "http://localhost:4318")),
  capture_content: flag.default(false).meta(common("whether spans include the text of messages", true)),
  service_name: text.default("rkat").describe("the name spans come under"),
});

const Profile = z.strictObject({
  model: text.meta(common("the model of the profile", "comma-v0.1-2t")),
  api: oneOf(["chat", "ollama-generate"])
    .default("chat")
    .meta(common("a conversation, or the continuation of a text by a base model", "ollama-generate")),
  base_url: address.optional().describe("where it is served; without it, where its provider is"),
  stop: z
    .array(text, { error: 'write a list of texts, like ["\\n\\n"]' })
    .optional()
    .meta(common("texts at which a continuation ends", ["\n\n"])),
});

const Provider = z.strictObject({
  base_url: address.optional().describe("where the provider is reached; without it, its own address"),
  api_key_env: variableName
    .optional()
    .describe("the variable that holds the key; without it, the provider's usual one"),
  api: oneOf(["chat", "responses", "ollama-generate"])
    .optional()
    .describe("the protocol; without it, the one that suits the address"),
});

const SelfHosted = z.strictObject({
  servers: table(
    z.strictObject({
      base_url: address.meta(common("a server that speaks OpenAI's chat completions", "http://127.0.0.1:8000/v1")),
      api_key_env: variableName
        .optional()
        .meta(common("the variable that holds its key; without it, none is sent", "LOCAL_API_KEY")),
    }),
  ).meta(common("servers of your own: rkat -m local/MODEL asks the one named local", "local")),
  models: table(
    z.strictObject({
      server: text.describe("which of the servers has it"),
      remote_model: text.optional().describe("its name there; without it, that of this table"),
      context_window: whole(1).optional().describe("tokens it can see; without it, contexts are compacted at 100,000"),
      max_output_tokens: whole(1).optional().describe("the most output tokens of one call"),
    }),
  ),
});

/** Adds a model to the catalogue, or corrects one. */
const correction = "corrects the catalogue, or adds to it";
const CataloguedModel = z.strictObject({
  context_window: whole(1).optional().describe(correction),
  max_output_tokens: whole(1).optional().describe(correction),
  provider: text.optional().describe(correction),
});

/** As they are written: what a schedule is follows from them when a server starts. */
const Schedules = z
  .array(z.record(z.string(), z.unknown()), { error: "write [[schedules]] tables" })
  .superRefine((tables, issues) => {
    const names = new Set<unknown>();
    for (const [at, { name, ...given }] of tables.entries()) {
      const wrong = typeof name !== "string" || name === "" || names.has(name);
      if (wrong) issues.addIssue({ code: "custom", path: [at, "name"], message: "write a name that no other has" });
      names.add(name);
      for (const { path, message } of CreateSchedule.safeParse(given).error?.issues ?? [])
        issues.addIssue({ code: "custom", path: [at, ...path], message });
    }
  });

const sections = {
  features: z
    .array(oneOf(CAPABILITIES), { error: "write a list of capabilities" })
    .default([...CAPABILITIES])
    .describe("the capabilities that are composed; [capabilities.md](capabilities.md)"),
  agent: Agent.prefault({}).describe("the defaults of sessions"),
  budget: Budget.prefault({}).describe("a session ends gracefully when one is used up, and warns at 80 %"),
  ceiling: Ceiling.prefault({}).describe("limits that no request can exceed; a change takes effect at the next start"),
  limits: Limits.prefault({}),
  turns: Turns.prefault({}).describe("turns whose process ended before they did, and scheduled ones"),
  schedules: Schedules.default([]).describe(
    "schedules that servers make at their start and follow, each with a name; [schedules.md](schedules.md)",
  ),
  retry: Retry.prefault({}).describe("retries after rate limits, overload and broken connections"),
  compaction: Compaction.prefault({}).describe(
    "a context that grows too large is summarised; rkat compact undo brings it back",
  ),
  tools: Tools.prefault({}).describe(
    "what a model may do: rkat run offers time, tasks and memory, rkat mcp add the tools of a server",
  ),
  permissions: FileRules.transform((rules) => layersOf(rules))
    .prefault({})
    .describe("which tool calls run, need approval or are refused; [permissions.md](permissions.md)"),
  shell: Shell.prefault({}),
  rest: Rest.prefault({}),
  openai: OpenAi.prefault({}).describe("OpenAI's clients at `rkat serve`; [openai.md](openai.md)"),
  ui: Ui.prefault({}).describe("pages with the AI SDK's useChat at `rkat serve`; [ui-chat.md](ui-chat.md)"),
  store: StoreTable.prefault({}).describe(
    "where sessions are stored; not in the realm's own layer, which is stored there",
  ),
  encryption: EncryptionTable.prefault({}).describe(
    "stored data is encrypted with this key; without one, it is plain; [encryption.md](encryption.md)",
  ),
  memory: Memory.prefault({}).describe("search over all sessions, as with rkat memory search"),
  retention: Retention.prefault({}).describe("how long sessions are kept; [retention.md](retention.md)"),
  agent_memory: AgentMemory.prefault({}).describe("an agent's memories in three tiers, as with rkat agent remember"),
  sub_agents: SubAgents,
  telemetry: Telemetry.prefault({}).describe(
    "spans for an OpenTelemetry collector; the usual OTEL_ variables say where, too",
  ),
  skills: Skills.prefault({}).describe("knowledge that is loaded when it is needed, as with rkat skill list"),
  agents_md: AgentsMd.prefault({}).describe("the project's instructions for models, of AGENTS.md or CLAUDE.md"),
  hooks: Hooks.prefault({}).describe("commands that watch and guard the steps of turns; [hooks.md](hooks.md)"),
  profiles: table(Profile).meta(common("models for one purpose, such as a base model that summarises", "summarizer")),
  providers: table(Provider),
  self_hosted: SelfHosted.prefault({}),
  models: table(CataloguedModel),
  prices: table(Price).describe("what models charge, by their names; [money.md](money.md)"),
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
      refuse(["budget", key], `limits.${older} has another value, so remove one of the two`);
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
      max_cost: budget.max_cost,
    }),
    limits: { max_sessions: limits.max_sessions },
    forbidden: nothingForbidden,
  }));

/** The tools a file can forbid, and the key of `[tools]` that does when it says false. */
export const SWITCHES = { builtins: "builtins_enabled", shell: "shell_enabled" } as const;
type Switch = keyof typeof SWITCHES;

/** The tools that a file sets to false; a default forbids nothing. */
const nothingForbidden: readonly Switch[] = [];

interface SessionLimits {
  readonly max_tokens?: number;
  readonly max_duration_ms?: number;
  readonly max_tool_calls?: number;
  readonly max_cost?: number;
}

/** Only the limits that are set: the shape a session's settings keep. */
function limitsOf(given: { readonly [K in keyof SessionLimits]: number | undefined }): SessionLimits {
  return Object.fromEntries(Object.entries(given).filter(([, limit]) => limit !== undefined));
}

type DeepReadonly<T> = T extends object ? { readonly [K in keyof T]: DeepReadonly<T[K]> } : T;

/** Every tunable of the product with its value; durations are milliseconds and say so in their name. */
export type Config = DeepReadonly<z.output<typeof ConfigFile>>;
