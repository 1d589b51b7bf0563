import type { Reading } from "../compaction/reading.ts";
import { CASCADE } from "../compaction/shown-messages.ts";
import type { ExtractSummary } from "../compaction/summarise.ts";
import type { CompactionPart } from "../compactions/compaction-part.ts";
import { CompactionDefaults, type CompactionSettings } from "../contract/compaction.ts";
import { invalid, RuntimeError } from "../contract/error.ts";
import { asksForNothing, invalidInput, WHY_UNSERVED } from "../contract/input.ts";
import { defined } from "../contract/json.ts";
import { AT_CREATION, type CreateSession, type SessionSettings, type StartTurn } from "../contract/session.ts";
import type { CompactionHooks, Compactor, Curator, Judge } from "../ports/compactor.ts";
import type { ModelClient } from "../ports/model.ts";
import { belowCeiling, type Limits, requireBelow, type ToolCeiling, withinLimits } from "../runtime/ceiling.ts";
import { type CamelCased, camelOf, inCamelCase, requireNames, toWire } from "../runtime/options.ts";
import type { SessionState } from "../state/session-state.ts";

export interface SessionDefaults {
  readonly system_prompt?: string | undefined;
  readonly max_tokens?: number | undefined;
  readonly max_turns: number;
  readonly budget_limits: SessionSettings["budget_limits"];
  readonly tools: SessionSettings["tools"];
  readonly structured_output_retries: number;
  readonly presets: Readonly<Record<NonNullable<CreateSession["tool_preset"]>, SessionSettings["tools"]>>;
  readonly ceiling: ToolCeiling;
  /** Whether sessions may have a comms_name. */
  readonly comms: boolean;
  /** Whether there may be an AGENTS.md. */
  readonly agents_md: boolean;
  /** The most a session may spend. */
  readonly limits: Limits;
}

/** Throws for a field that is not served: an ignored one would look accepted. */
export function requireServed(input: CreateSession | StartTurn): void {
  for (const [field, why] of Object.entries(WHY_UNSERVED)) {
    // The keys of the table are fields of both inputs.
    if (!asksForNothing(input[field as keyof typeof WHY_UNSERVED])) throw unserved(field, `${why}; leave it out`);
  }
  if (!asksForNothing(input.external_tools)) {
    throw unserved(
      "external_tools",
      "tools of the client's are taken by session/create of JSON-RPC, and by MCP as tools",
    );
  }
}

function unserved(field: string, why: string): RuntimeError {
  return new RuntimeError("CAPABILITY_UNAVAILABLE", `${field}: ${why}`);
}

/** Throws if the model cannot take its configured parameters. */
export function requireParams(model: ModelClient, { provider_params }: Pick<SessionSettings, "provider_params">): void {
  const problem = provider_params && model.refuseParams?.(provider_params);
  if (problem !== undefined) throw new RuntimeError("CAPABILITY_UNAVAILABLE", `provider_params.${problem}`);
}

/** Throws for a cost limit if the model's price is unknown. */
export function requirePrice(
  model: ModelClient,
  { budget_limits }: Pick<SessionSettings, "budget_limits">,
  of = "budget_limits",
): void {
  if (budget_limits.max_cost === undefined || model.prices !== undefined) return;
  const section = `[prices.${/^[\w-]+$/.test(model.modelId) ? model.modelId : JSON.stringify(model.modelId)}]`;
  throw invalid(
    `${of}.max_cost: no price of ${model.modelId} is known; set input and output under ${section} of the configuration, or leave it out`,
  );
}

/** Resolves every setting of a new session, so that resuming needs only its log. */
export function settleSettings(input: CreateSession, model: ModelClient, defaults: SessionDefaults): SessionSettings {
  const instructions = input.additional_instructions ?? [];
  const system = [input.system_prompt ?? defaults.system_prompt, ...instructions].filter((part) => part?.trim());
  return {
    model: model.modelId,
    provider: model.provider,
    max_turns: input.max_turns ?? defaults.max_turns,
    budget_limits: withinLimits({ ...defaults.budget_limits, ...input.budget_limits }, defaults.limits, input),
    tools: settleTools(input, defaults),
    tool_filter: input.tool_filter ?? "All",
    structured_output_retries: input.structured_output_retries ?? defaults.structured_output_retries,
    ...defined({
      agents_md: defaults.agents_md && input.system_prompt === undefined ? (true as const) : undefined,
      memory_scope: input.memory_scope,
      system_prompt: system.length === 0 ? undefined : system.join("\n\n"),
      max_tokens: input.max_tokens ?? defaults.max_tokens,
      client_tools: input.client_tools,
      provider_params: input.provider_params,
      output_schema: input.output_schema,
      labels: input.labels,
      comms: commsOf(input, defaults),
      app_context: input.app_context,
      shell_env: input.shell_env,
      compaction: input.compaction,
      permissions: input.permissions,
    }),
  };
}

function commsOf(
  { comms_name: name, peer_meta: meta }: CreateSession,
  { comms }: SessionDefaults,
): SessionSettings["comms"] {
  if (!name) {
    if (asksForNothing(meta)) return undefined;
    throw invalid("peer_meta: it says what the session of a comms_name does; give both, or leave it out");
  }
  if (comms) return { ...meta, name };
  throw unserved("comms_name", "the configuration says tools.comms_enabled = false; leave it out");
}

type ToolsAsked = Partial<
  Pick<
    CreateSession,
    "tool_preset" | "enable_builtins" | "enable_shell" | "enable_files" | "enable_memory" | "enable_agents"
  >
>;

/** Throws PERMISSION_DENIED for explicit settings beyond the ceiling; defaults are lowered to it. */
function settleTools(input: ToolsAsked, defaults: SessionDefaults): SessionSettings["tools"] {
  const base = input.tool_preset === undefined ? defaults.tools : defaults.presets[input.tool_preset];
  const builtins = input.enable_builtins === undefined ? base.builtins : input.enable_builtins ? "all" : "none";
  const shell = input.enable_shell ?? base.shell;
  if (input.enable_files === true && builtins !== "all")
    throw invalid("enable_files: this session has no file tools; choose the tool_preset workspace or full");
  const files = input.enable_files === true ? { files: true as const } : {};
  const others = { ...files, ...defined({ mcp: base.mcp, skills: base.skills }) };
  const tools = { builtins, shell, memory: input.enable_memory ?? base.memory, ...others } as const;
  requireBelow(tools, defaults.ceiling, input);
  return belowCeiling(withAgents(tools, input.enable_agents, defaults), defaults.ceiling);
}

type Tools = SessionSettings["tools"];

/** Sub-agents are a tool and inherit tools: a session without tools has none. */
function withAgents({ agents: _had, ...tools }: Tools, asked: boolean | undefined, defaults: SessionDefaults): Tools {
  const isNone = tools.builtins === "none" && !tools.shell && !tools.memory && tools.mcp !== true;
  if (asked === true && isNone) {
    const message =
      "enable_agents: a session without tools has no sub-agents; choose another tool_preset, such as safe";
    throw invalid(message);
  }
  return (asked ?? defaults.tools.agents) === true && !isNone ? { ...tools, agents: true } : tools;
}

const FIRST_TURN_ONLY = ["max_tokens", "system_prompt", "output_schema", "structured_output_retries"] as const;

/** The settings of a turn; the same object if unchanged. */
export function overrideSettings(
  settings: SessionSettings,
  input: StartTurn,
  how: { model: ModelClient | undefined; isFirstTurn: boolean; defaults: SessionDefaults },
): SessionSettings {
  const late = how.isFirstTurn ? undefined : FIRST_TURN_ONLY.find((field) => input[field] !== undefined);
  // The keys of the table are fields of the input.
  const fields = Object.keys(AT_CREATION) as (keyof typeof AT_CREATION)[];
  const refused = late ?? fields.find((field) => !isAsItIs(settings, field, input[field]));
  if (refused !== undefined) {
    throw invalid(`Cannot override ${refused} on a session that has run: it is set when the session is created`);
  }
  const changed: SessionSettings = {
    ...settings,
    ...(how.model === undefined ? {} : { model: how.model.modelId, provider: how.model.provider }),
    ...defined({
      max_tokens: input.max_tokens,
      system_prompt: input.system_prompt,
      output_schema: input.output_schema,
      structured_output_retries: input.structured_output_retries,
      client_tools: input.client_tools,
      provider_params: input.provider_params,
      permissions: input.permissions,
    }),
  };
  delete changed.turn_output_schema;
  Object.assign(changed, defined({ turn_output_schema: input.turn_output_schema }));
  if (input.clear_provider_params && input.provider_params === undefined) delete changed.provider_params;
  if ((input.system_prompt ?? input.change_settings?.system_prompt) != null) delete changed.agents_md;
  if (input.change_settings !== undefined) change(changed, input.change_settings, how.defaults);
  return JSON.stringify(changed) === JSON.stringify(settings) ? settings : changed;
}

/** Applies the settings that a turn changes explicitly. */
function change(
  settings: SessionSettings,
  { tool_preset, enable_memory, enable_agents, tool_filter, structured_output_retries, ...rest }: Changes,
  defaults: SessionDefaults,
): void {
  for (const field of ["system_prompt", "max_tokens", "output_schema"] as const) {
    if (rest[field] === null) delete settings[field];
  }
  const { system_prompt, max_tokens, output_schema } = rest;
  Object.assign(
    settings,
    defined({
      system_prompt: system_prompt ?? undefined,
      // Without a limit of its own a session has the configured one.
      max_tokens: max_tokens ?? (max_tokens === null ? defaults.max_tokens : undefined),
      output_schema: output_schema ?? undefined,
      structured_output_retries: structured_output_retries ?? undefined,
      tool_filter,
    }),
  );
  const agents = defined({ enable_agents });
  if (tool_preset === undefined && enable_memory === undefined) {
    if (enable_agents === undefined) return;
    requireBelow(settings.tools, defaults.ceiling, agents);
    settings.tools = withAgents(settings.tools, enable_agents, defaults);
    return;
  }
  const { builtins } = tool_preset === undefined ? defaults.tools : defaults.presets[tool_preset];
  const files = { enable_files: settings.tools.files === true && builtins === "all" };
  const asked = { ...defined({ tool_preset, enable_memory }), ...agents, ...files };
  settings.tools = settleTools(asked, defaults);
}

type Changes = NonNullable<StartTurn["change_settings"]>;

/** Throws if messages follow the last seq the caller has seen. */
export function requireNothingSince({ sessionId, shown }: SessionState, afterSeq: number | undefined): void {
  const said_seq = shown.at(-1)?.seq ?? 0;
  if (afterSeq === undefined || said_seq <= afterSeq) return;
  const message = `after_seq: session ${sessionId} has gone on to ${said_seq} since; fork it to go on from there`;
  throw new RuntimeError("INVALID_PARAMS", message, { details: { said_seq } });
}

/** Whether a turn's value equals the session's, or is absent. */
function isAsItIs(settings: SessionSettings, field: keyof typeof AT_CREATION, value: unknown): boolean {
  if (value === undefined || value === null || (typeof value === "object" && asksForNothing(value))) return true;
  switch (field) {
    case "enable_builtins":
      return value === (settings.tools.builtins !== "none");
    case "enable_shell":
      return value === settings.tools.shell;
    case "enable_files":
      return value === (settings.tools.files === true);
    case "enable_memory":
      return value === settings.tools.memory;
    case "enable_agents":
      return value === (settings.tools.agents === true);
    case "comms_name":
      return value === (settings.comms?.name ?? "");
    case "peer_meta": {
      const { name: _, ...meta } = settings.comms ?? { name: "" };
      return JSON.stringify(value) === JSON.stringify(meta);
    }
    case "history":
    case "initial_turn":
    case "tool_preset":
      return false;
    default:
      return JSON.stringify(value) === JSON.stringify(settings[field]);
  }
}

/** How sessions are compacted: the configuration's keys, and code. Absent values come from the configuration. */
export interface CompactionOptions extends Omit<CamelCased<CompactionDefaults>, "judge"> {
  /** Your own compactor decides when to compact and what stays. Gates, receipt, pins and undo apply to it. */
  readonly compactor?: Compactor;
  /** Writes the summary instead of the model. */
  readonly curator?: Curator;
  /** Called before each compaction; a returned text is the reason not to compact. */
  readonly beforeCompaction?: CompactionHooks["before"];
  /** Called after each compaction. */
  readonly afterCompaction?: CompactionHooks["after"];
  /** Who checks the claims of a summary: the session's model in another call, or your own judge. None by default. */
  readonly judge?: "off" | "model" | Judge;
}

const CODE = ["compactor", "curator", "beforeCompaction", "afterCompaction"];

/** Composes the capability; throws INVALID_PARAMS for an unknown or wrong option. */
export function composeCompaction(
  options: CompactionOptions,
  configured: CompactionDefaults,
  extract: ExtractSummary,
): CompactionPart {
  const { compactor, curator, beforeCompaction: before, afterCompaction: after } = options;
  const settings = { ...configured, ...settingsIn(options) };
  const judge = typeof options.judge === "object" ? options.judge : settings.judge;
  if (settings.strategy === CASCADE && compactor !== undefined) {
    throw invalid(`compaction.strategy: "${CASCADE}" is not for a compactor of one's own; leave one of the two out`);
  }
  if (settings.native && curator !== undefined) {
    const why = "would stand in the place of what a curator of one's own writes";
    throw invalid(`compaction.native: the provider's compaction ${why}; leave one of the two out`);
  }
  requirePolicy({ compactor }, settings);
  return {
    settings,
    judge: judge === "off" ? undefined : judge,
    compactor,
    curator,
    hooks: defined({ before, after }),
    extract,
    reading: readInWorker,
  };
}

/** The options that the configuration has, under its names. */
function settingsIn(options: CompactionOptions): CompactionDefaults {
  const present = Object.entries(options).filter(([, value]) => value !== undefined);
  if (present.length === 0) return {};
  const fields = Object.fromEntries(Object.keys(CompactionDefaults.shape).map((field) => [field, null]));
  requireNames(options, [...Object.keys(fields).map(camelOf), ...CODE]);
  const isCode = ([name, value]: [string, unknown]) =>
    CODE.includes(name) || (name === "judge" && typeof value === "object");
  const settings = toWire(Object.fromEntries(present.filter((option) => !isCode(option))), fields);
  const read = CompactionDefaults.safeParse(settings);
  if (read.success) return read.data;
  throw invalid(`compaction.${inCamelCase(invalidInput(read.error).message, fields)}`);
}

/** Rejects a policy that cannot work with your own compactor, whose choice is not known in advance. */
export function requirePolicy(
  { compactor }: Pick<CompactionPart, "compactor">,
  settings: Pick<CompactionSettings, "policy"> | undefined,
): void {
  if (compactor === undefined || settings?.policy !== "economy") return;
  throw invalid('compaction.policy: "economy" is not for a compactor of one\'s own; leave one of the two out');
}

/** Loaded on first use. */
const readInWorker: Reading = async (...work) =>
  (await import("../compactions/reading-worker.ts")).readInWorker(...work);
