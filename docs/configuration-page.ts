import { z } from "zod";
import { VARIABLES } from "../src/config/config-layers.ts";
import { ConfigFile } from "../src/config/config-schema.ts";
import { code, markdownTable, page } from "./markdown.ts";

/** As much of a JSON schema as the configuration uses. */
interface Schema {
  readonly type?: string;
  readonly format?: string;
  readonly default?: unknown;
  readonly const?: unknown;
  readonly enum?: readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
}

/** Every key there is, by its schema, with what it is for. */
export function configurationPage(): string {
  // zod's type of a JSON schema is this one with every keyword of the standard.
  const { properties = {} } = z.toJSONSchema(ConfigFile, { io: "input", unrepresentable: "any" }) as Schema;
  const { features, ...sections } = properties;
  const tables = Object.entries(sections).flatMap(([name, schema]) => sectionsOf(name, schema));
  const variables = VARIABLES.map(({ name, path }) => [code(name), code(path.join("."))]);
  return page("Configuration", "src/config/config-schema.ts", [
    "TOML, in `rkat.toml` or `.rkat/config.toml` of the project (the nearest parent folder that has one), else in `~/.rkat/config.toml`. Over it lie the realm's own `config.toml`, which `rkat config set` and `config/patch` write, then the variables below, then flags and what a request says. An unknown key is an error that names the nearest known one. Keys of providers are never written here: the configuration names the variable that holds one. `rkat init` writes a commented file, `rkat config get` shows what holds, `rkat doctor` where it comes from.",
    "Of a project's files, what starts a program, names an address or the variable of a key, or lets a model act is left out until you trust them with `rkat trust`; [security.md](security.md#what-a-project-may-do) lists these keys. `RKAT_TRUST=1` obeys them for one process.",
    'Durations are written like `"500ms"`, `"30s"`, `"1h30m"`. Where there is no default, the meaning says what holds without the key.',
    "## Top level",
    markdownTable(HEAD, [row("features", features ?? {}, meaningOf("features"))]),
    ...tables,
    "## Variables",
    "Each wins over the files. Keys and addresses of providers, and the variables of telemetry, are told in the [README](../README.md#models) and in [telemetry.md](telemetry.md).",
    markdownTable(["variable", "key"], variables),
  ]);
}

const HEAD = ["key", "value", "default", "meaning"];

/** A section with its table; a table of tables is a section for each name one chooses. */
function sectionsOf(path: string, schema: Schema): readonly string[] {
  const { properties, additionalProperties } = schema;
  if (typeof additionalProperties === "object") return sectionsOf(`${path}.NAME`, additionalProperties);
  const inside = Object.entries(properties ?? {});
  if (inside.every(([, one]) => one.type === "object")) {
    return inside.flatMap(([name, one]) => sectionsOf(`${path}.${name}`, one));
  }
  const rows = inside.map(([key, one]) => row(key, one, meaningOf(`${path}.${key}`)));
  return [`## ${code(`[${path}]`)}`, markdownTable(HEAD, rows)];
}

function row(key: string, schema: Schema, meaning: string): readonly string[] {
  const { default: given } = schema;
  return [code(key), valueText(schema), given === undefined ? "" : code(JSON.stringify(given)), meaning];
}

function valueText(schema: Schema): string {
  if (schema.const !== undefined) return code(JSON.stringify(schema.const));
  if (schema.enum !== undefined) return schema.enum.map((value) => code(JSON.stringify(value))).join(", ");
  if (schema.anyOf !== undefined) {
    const choices = schema.anyOf.filter(({ const: value }) => value !== undefined).map(valueText);
    return [...choices, "a duration"].join(" or ");
  }
  if (schema.type === "array") return `a list of ${valueText(schema.items ?? {})}`;
  if (schema.type === "boolean") return "`true`, `false`";
  if (schema.type === "string") return schema.format === "uri" ? "an address" : "a text";
  return numberText(schema);
}

function numberText({ type, minimum, exclusiveMinimum, maximum = Number.MAX_SAFE_INTEGER }: Schema): string {
  const kind = type === "integer" ? "a whole number" : "a number";
  const from = exclusiveMinimum === undefined ? `from ${minimum ?? 0}` : `above ${exclusiveMinimum}`;
  return maximum === Number.MAX_SAFE_INTEGER ? `${kind} ${from}` : `${kind} ${from} to ${maximum}`;
}

function meaningOf(key: string): string {
  const meaning = MEANINGS[key];
  if (meaning === undefined) throw new Error(`${key} is a key of the configuration without a meaning: write one`);
  return meaning;
}

const ELSEWHERE = "of other runtimes of this contract; there are no such tools here";

const MEANINGS: Readonly<Record<string, string>> = {
  features: "the capabilities that are composed; [capabilities.md](capabilities.md)",
  "agent.model": "the model of sessions that name none; without it, that of the first provider that has a key",
  "agent.provider": "whose model it is, where the name does not say",
  "agent.system_prompt": "the system message of sessions that bring none",
  "agent.max_tokens_per_turn": "output tokens of one model call",
  "agent.max_turns": "model calls in one turn",
  "agent.budget_warning_threshold": "the part of a budget at which `budget_warning` is told",
  "agent.structured_output_retries": "how often a result that does not match its schema is asked for again",
  "budget.max_tokens": "input and output tokens of all calls of a session; without it, no limit",
  "budget.max_duration": "of one turn; without it, no limit",
  "budget.max_tool_calls": "tool calls of a session; without it, no limit",
  "limits.budget": "the older spelling of `budget.max_tokens`",
  "limits.max_duration": "the older spelling of `budget.max_duration`",
  "limits.max_tool_calls": "the older spelling of `budget.max_tool_calls`",
  "limits.max_sessions": "sessions a process has in memory at once",
  "retry.max_retries": "how often a model call that failed for a while is made again",
  "retry.initial_delay": "the wait before the first of them",
  "retry.max_delay": "the longest wait",
  "retry.retry_after_max": "a provider that asks for a longer wait than this is not waited for",
  "retry.multiplier": "how the wait grows",
  "retry.call_timeout": "the longest a model call may take",
  "retry.stall_timeout": "the longest a stream may be silent",
  "compaction.auto_compact_threshold": "tokens; without it, 80 % of the model's window",
  "compaction.recent_turn_budget": "turns that stay as they were said; without it, 4",
  "compaction.max_summary_tokens": "without it, 4096, or a quarter of the threshold of a small model",
  "compaction.min_turns_between_compactions": "model calls between two; without it, 3",
  "compaction.strategy": "one summary, or one of the recent past and one of all before; without it, `summary`",
  "compaction.prune_tool_results": "large old tool results are shown as references, unless `false`",
  "compaction.cut_invented": "what a summary says and its source does not is cut from it, unless `false`",
  "compaction.judge":
    "`model`: the session's model judges what a summary claims, in a call more for each compaction; without it, `off`",
  "tools.default_timeout": "of one tool call",
  "tools.max_concurrent": "calls of one answer that run at once",
  "tools.builtins_enabled":
    "built-in tools of sessions of servers and the SDK that do not say: time, tasks, patches; a file that says `false` forbids them to all",
  "tools.shell_enabled": "the shell for those; a file that says `false` forbids it to all",
  "tools.memory": "`memory_search` and `search_project_history` for sessions that have tools",
  "tools.output_bytes_max": "what of one output the model is shown; the rest stays reachable as a blob",
  "tools.comms_enabled": ELSEWHERE,
  "tools.mob_enabled": ELSEWHERE,
  "tools.workgraph_enabled": ELSEWHERE,
  "tools.schedule_enabled": ELSEWHERE,
  "shell.program": "without it, bash where there is one, else sh",
  "shell.timeout_secs": "of one command",
  "shell.security_mode": "what the shell is: not a sandbox; [security.md](security.md)",
  "rest.host": "where `rkat serve` listens; elsewhere than on this machine it needs a token",
  "rest.port": "0 for any that is free",
  "memory.embedder": "how meaning is found: bundled weights, a table of words, a baseline, or a provider's model",
  "memory.embedding_model": "of a remote embedder: PROVIDER/MODEL",
  "memory.embedding_dimensions": "of a remote embedder: how long its vectors are",
  "memory.index":
    "how vectors are searched; both are a scan of all of them ([why](decisions/0015-a-scan-instead-of-a-graph.md))",
  "memory.scope": "whether an agent recalls what was said in the project or in its session alone",
  "agent_memory.immediate_window": "memories that are shown word for word",
  "agent_memory.recent_window": "memories of the short-term summary, and between two compactions",
  "agent_memory.profile": "who summarises; without such a profile, the model of sessions",
  "telemetry.enabled": "whether spans are sent; [telemetry.md](telemetry.md)",
  "telemetry.endpoint": "without it, that of the standard variables, else http://localhost:4318",
  "telemetry.capture_content": "whether what is said goes along",
  "telemetry.service_name": "the name spans come under",
  "hooks.default_timeout_ms": "reserved: hooks are not built",
  "hooks.payload_max_bytes": "reserved: hooks are not built",
  "hooks.background_max_concurrency": "reserved: hooks are not built",
  "profiles.NAME.model": "the model of the profile",
  "profiles.NAME.api": "a conversation, or the continuation of a text by a base model",
  "profiles.NAME.base_url": "where it is served; without it, where its provider is",
  "profiles.NAME.stop": "texts at which a continuation ends",
  "providers.NAME.base_url": "where the provider is reached; without it, its own address",
  "providers.NAME.api_key_env": "the variable that holds the key; without it, the provider's usual one",
  "providers.NAME.api": "what is spoken; without it, what suits the address",
  "self_hosted.servers.NAME.base_url": "a server that speaks OpenAI's chat completions",
  "self_hosted.servers.NAME.api_key_env": "the variable that holds its key; without it, none is sent",
  "self_hosted.models.NAME.server": "which of the servers has it",
  "self_hosted.models.NAME.remote_model": "its name there; without it, that of this table",
  "self_hosted.models.NAME.context_window": "tokens it can see; without it, contexts are compacted at 100,000",
  "self_hosted.models.NAME.max_output_tokens": "tokens it can say at once",
  "models.NAME.context_window": "corrects the catalogue, or adds to it",
  "models.NAME.max_output_tokens": "corrects the catalogue, or adds to it",
  "models.NAME.provider": "corrects the catalogue, or adds to it",
};
