import { z } from "zod";
import { CompactionCadence, CompactionSettings } from "./compaction.ts";
import { TerminalCause, Usage } from "./event.ts";
import { BudgetLimits } from "./input/budget-limits.ts";
import { SKILL_FIELDS, UNSERVED } from "./input/unserved.ts";
import { nonnegative, positive } from "./input/whole-number.ts";
import { Content, Message } from "./message.ts";

export const SessionId = z.uuid({ error: "expected a session id (a UUID)" });

export const ToolFilter = z.union(
  [z.literal("All"), z.object({ Allow: z.array(z.string()) }), z.object({ Deny: z.array(z.string()) })],
  { error: 'write "All", {"Allow": [names]} or {"Deny": [names]}' },
);
export type ToolFilter = z.infer<typeof ToolFilter>;

/** The providers that need no configuration; a name of one's own is as good once it is configured. */
export const PROVIDER_NAMES: readonly string[] = ["anthropic", "openai", "gemini", "self_hosted", "offline", "other"];
const modelName = { error: "write the name of a model" };
const providerName = { error: "write the name of a provider" };
const ModelInput = z.string(modelName).min(1, modelName);
/** The spelling an older REST schema used for OpenAI is accepted and means the same. */
const ProviderInput = z.preprocess(
  (value) => (value === "open_a_i" ? "openai" : value),
  z.string(providerName).min(1, providerName),
);

const JsonObject = z.record(z.string(), z.unknown());
export type JsonObject = z.infer<typeof JsonObject>;

/** A raw JSON schema, or one in the wrapper `{schema, name, strict}`. */
const OutputSchema = JsonObject.transform((given) => {
  const wrapped = given.schema;
  return typeof wrapped === "object" && wrapped !== null && given.type === undefined ? (wrapped as JsonObject) : given;
});

const wantedRetries = { error: "write a whole number from 0 to 10" };
const Retries = z.int(wantedRetries).nonnegative(wantedRetries).max(10, wantedRetries);

const promptWanted = { error: "write a text or a list of content blocks" };
const Prompt = z
  .union(Content.options, promptWanted)
  .refine((prompt) => (typeof prompt === "string" ? prompt.trim() : prompt).length > 0, {
    error: "the prompt is empty",
  });

/** What a session is made of besides its history; resume restores exactly this. */
export const SessionSettings = z.object({
  model: z.string(),
  provider: z.string(),
  system_prompt: z.string().optional(),
  max_tokens: positive.optional(),
  max_turns: positive,
  budget_limits: z.object({
    max_tokens: positive.optional(),
    max_tool_calls: nonnegative.optional(),
    max_duration_ms: positive.optional(),
  }),
  tools: z.object({
    builtins: z.enum(["none", "safe", "all"]),
    shell: z.boolean(),
    memory: z.boolean(),
    /** Those of MCP servers; where it is not said, as any other kind is there. */
    mcp: z.boolean().optional(),
  }),
  tool_filter: ToolFilter,
  provider_params: JsonObject.optional(),
  output_schema: JsonObject.optional(),
  structured_output_retries: z.number().int().nonnegative(),
  labels: z.record(z.string(), z.string()).optional(),
  app_context: z.unknown().optional(),
  shell_env: z.record(z.string(), z.string()).optional(),
  compaction: CompactionSettings.optional(),
});
export type SessionSettings = z.infer<typeof SessionSettings>;

/** Fields of the wire that clients know from elsewhere. */
const Wire = {
  skill_references: z.never({ error: "this field was retired; leave it out" }).optional(),
  /** A session that is made with it answers at once and runs its first turn behind; any session takes further turns. */
  keep_alive: z.union([z.boolean(), z.null()], { error: "write true or false" }).optional(),
  ...SKILL_FIELDS,
  ...UNSERVED,
  /** Tools the client runs: JSON-RPC and MCP take them, each in its way, before an operation is called. */
  external_tools: z.array(z.unknown()).nullish(),
};

const Labels = z
  .record(z.string(), z.string())
  .refine((labels) => !Object.keys(labels).some((key) => key.startsWith("meerkat.")), {
    error: "keys that begin with meerkat. are reserved",
  });

export const NewSession = z.object({
  ...Wire,
  prompt: Prompt,
  initial_turn: z.enum(["run_immediately", "deferred"]).default("run_immediately"),
  model: ModelInput.optional(),
  provider: ProviderInput.optional(),
  max_tokens: positive.optional(),
  max_turns: positive.optional(),
  system_prompt: z.string().optional(),
  output_schema: OutputSchema.optional(),
  structured_output_retries: Retries.optional(),
  enable_builtins: z.boolean().optional(),
  enable_shell: z.boolean().optional(),
  enable_memory: z.boolean().optional(),
  tool_preset: z.enum(["none", "safe", "workspace", "full"]).optional(),
  tool_filter: ToolFilter.optional(),
  budget_limits: BudgetLimits.optional(),
  provider_params: JsonObject.optional(),
  labels: Labels.optional(),
  additional_instructions: z.array(z.string()).optional(),
  app_context: z.unknown().optional(),
  shell_env: z.record(z.string(), z.string()).optional(),
  compaction: CompactionSettings.optional(),
});

/** What a session is made with. One whose first turn comes later may leave the prompt to that turn. */
export const CreateSession = NewSession.partial({ prompt: true }).refine(
  ({ prompt, initial_turn }) => prompt !== undefined || initial_turn === "deferred",
  { path: ["prompt"], ...promptWanted },
);
export type CreateSession = z.infer<typeof CreateSession>;

/** What a session is made with; a turn may say it again, as it is. */
const atCreation = z.unknown().optional();
export const AT_CREATION = {
  initial_turn: atCreation,
  max_turns: atCreation,
  enable_builtins: atCreation,
  enable_shell: atCreation,
  enable_memory: atCreation,
  tool_preset: atCreation,
  tool_filter: atCreation,
  budget_limits: atCreation,
  labels: atCreation,
  app_context: atCreation,
  shell_env: atCreation,
  compaction: atCreation,
};

export const StartTurn = z.object({
  ...Wire,
  ...AT_CREATION,
  session_id: SessionId,
  prompt: Prompt,
  model: ModelInput.optional(),
  provider: ProviderInput.optional(),
  provider_params: JsonObject.optional(),
  clear_provider_params: z.boolean().default(false),
  flow_tool_overlay: z
    .object({ allowed_tools: z.array(z.string()).optional(), blocked_tools: z.array(z.string()).optional() })
    .optional(),
  additional_instructions: z.array(z.string()).optional(),
  max_tokens: positive.optional(),
  system_prompt: z.string().optional(),
  output_schema: OutputSchema.optional(),
  structured_output_retries: Retries.optional(),
});
export type StartTurn = z.infer<typeof StartTurn>;

const RunUsage = Usage.extend({ total_tokens: z.number().int().nonnegative() });

export const RunResult = z.object({
  session_id: z.string(),
  session_ref: z.string().optional(),
  text: z.string(),
  turns: z.number().int().nonnegative(),
  tool_calls: z.number().int().nonnegative(),
  usage: RunUsage,
  terminal_cause_kind: TerminalCause.optional(),
  structured_output: z.unknown().optional(),
  extraction_error: z.object({ last_output: z.string(), attempts: z.number().int(), reason: z.string() }).optional(),
});
export type RunResult = z.infer<typeof RunResult>;

/** A session made without a first turn. */
export const DeferredSession = z.object({ session_id: z.string(), session_ref: z.string().optional() });

const unixSeconds = z.number().int().nonnegative();

/** `interrupted`: a turn was running when its process ended; the next turn goes on from what was kept. */
const SessionStateName = z.enum(["idle", "running", "interrupted", "archived"]);

export const SessionSummary = z.object({
  session_id: z.string(),
  session_ref: z.string().optional(),
  created_at: unixSeconds,
  updated_at: unixSeconds,
  message_count: z.number().int(),
  total_tokens: z.number().int(),
  is_active: z.boolean(),
  state: SessionStateName,
  model: z.string(),
  /** The beginning of the first thing the user said; empty before. */
  title: z.string(),
  labels: z.record(z.string(), z.string()).optional(),
});
export type SessionSummary = z.infer<typeof SessionSummary>;

export const SessionInfo = z.object({
  session_id: z.string(),
  session_ref: z.string().optional(),
  created_at: unixSeconds,
  updated_at: unixSeconds,
  message_count: z.number().int(),
  total_tokens: z.number().int(),
  is_active: z.boolean(),
  state: SessionStateName,
  model: z.string(),
  provider: z.string(),
  /** What the tokens are made of; absent for a session of before that was kept. */
  usage: Usage.optional(),
  last_assistant_text: z.string().optional(),
  session_compaction_cadence: CompactionCadence.optional(),
  labels: z.record(z.string(), z.string()).optional(),
});
export type SessionInfo = z.infer<typeof SessionInfo>;

export const SessionHistory = z.object({
  session_id: z.string(),
  session_ref: z.string().optional(),
  message_count: z.number().int(),
  offset: z.number().int(),
  limit: z.number().int().optional(),
  has_more: z.boolean(),
  messages: z.array(z.intersection(Message, z.object({ seq: z.number().int() }))),
});
export type SessionHistory = z.infer<typeof SessionHistory>;

const TEXT_CHARS_MAX = 1_000_000;

export const InjectContext = z.object({
  session_id: SessionId,
  text: z.string().min(1, { error: "the text is empty" }).max(TEXT_CHARS_MAX),
  source: z.string().optional(),
  /** The same key again adds nothing; with another text it is refused. */
  idempotency_key: z.string().min(1).max(200).optional(),
});
export type InjectContext = z.infer<typeof InjectContext>;

const PAYLOAD_CHARS_MAX = 65_536;
const shortText = { error: "write a text of 1 to 200 characters" };
const TextBlock = z.object({ type: z.literal("text"), text: z.string() });

/** Something that happened outside; the model is shown it as data, never as what the user said. */
export const ExternalEvent = z.object({
  session_id: SessionId,
  kind: z.literal("generic_json", { error: 'write "generic_json"; there is no other kind' }).default("generic_json"),
  event_type: z.string(shortText).min(1, shortText).max(200, shortText),
  payload: z
    .unknown()
    .refine((payload) => (JSON.stringify(payload) ?? "").length <= PAYLOAD_CHARS_MAX, {
      error: `write at most ${PAYLOAD_CHARS_MAX} characters of JSON`,
    })
    .optional(),
  /** More of it, in words. */
  blocks: z
    .array(TextBlock, { error: "write a list of text blocks; other media go into a prompt" })
    .refine((blocks) => blocks.reduce((sum, { text }) => sum + text.length, 0) <= PAYLOAD_CHARS_MAX, {
      error: `write at most ${PAYLOAD_CHARS_MAX} characters`,
    })
    .nullish(),
  /** The same key again is the same event. */
  idempotency_key: z.string(shortText).min(1, shortText).max(200, shortText).nullish(),
});
export type ExternalEvent = z.infer<typeof ExternalEvent>;

/** `deduplicated`: the event was there already; `rejected`: its key was used for another. */
export const ExternalEventOutcome = z.object({
  outcome_type: z.enum(["accepted", "deduplicated", "rejected"]),
  input_id: z.string().optional(),
  existing_id: z.string().optional(),
  reason: z.string().optional(),
});
export type ExternalEventOutcome = z.infer<typeof ExternalEventOutcome>;

export const ForkedSession = z.object({
  source_session_id: z.string(),
  session_id: z.string(),
  session_ref: z.string().optional(),
  message_count: z.number().int(),
});

/** What the model is shown; `sha256` is the hash recorded with the call when it was made. */
export const SessionContext = z.object({
  messages: z.array(z.intersection(Message, z.object({ seq: z.number().int() }))),
  estimated_tokens: z.number().int(),
  sha256: z.string(),
  /** `system`, `summary`, `pinned`, `expanded` or `turn`, in the order of the messages. */
  parts: z.array(
    z.object({
      kind: z.string(),
      seqs: z.tuple([z.number().int(), z.number().int()]),
      estimated_tokens: z.number().int(),
    }),
  ),
  /** What the tools' descriptions add to every request. */
  tool_tokens: z.number().int(),
  /** What the model can see at once, when it is known. */
  context_window: z.number().int().optional(),
  /** The size at which the context is compacted; absent without `session-compaction`. */
  auto_compact_threshold: z.number().int().optional(),
});
export type SessionContext = z.infer<typeof SessionContext>;
