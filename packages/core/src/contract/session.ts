import { CompactionSettings } from "./compaction.ts";
import { TerminalCause, Usage } from "./event.ts";
import { HooksOverride } from "./hook.ts";
import { BudgetLimits, cliFlag, nonnegative, positive, SKILL_FIELDS, UNSERVED, when_busy } from "./input.ts";
import { ClientResults, ClientTool, ClientTools, CONTENT_KINDS, type Content, PendingCall } from "./message.ts";
import { Cost } from "./money.ts";
import { PermissionRules } from "./permission.ts";
import { MESSAGES_MAX, RewriteMessage } from "./rewrite.ts";
import { z } from "./schema.ts";
import { Goal, GoalState } from "./wire/goal.ts";

export const SessionId = cliFlag(
  "ID",
  z.uuid({ error: "expected a session id (a UUID)" }).describe("the session, by its id"),
);

const nameWanted = {
  error: "write 1 to 64 letters, digits and . _ - / : @, beginning with a letter or digit, and no session id",
};
// A name stands in the line that tells the model who writes: it must not be able to say anything, nor be an id.
export const COMMS_NAME =
  /^(?![\da-f]{8}-[\da-f]{4}-)(?!.*\p{Default_Ignorable_Code_Point})[\p{L}\p{N}][\p{L}\p{N}._/:@-]{0,63}$/iu;
const CommsName = z
  .string(nameWanted)
  .refine((name) => name === "" || COMMS_NAME.test(name), nameWanted)
  .nullish()
  .describe("its name for messages of other sessions; see docs/inbox.md");

const PEER_CHARS_MAX = 4_096;
const peerFields = {
  description: cliFlag("--agent-description <text>", z.string().optional().describe("what it does")),
  labels: cliFlag("--agent-label <key=value>", z.record(z.string(), z.string()).optional().describe("labels they see")),
};
export const PeerMeta = z
  .object(peerFields, { error: 'write an object, like {"description": "reviews code"}' })
  .refine((meta) => JSON.stringify(meta).length <= PEER_CHARS_MAX, {
    error: `write at most ${PEER_CHARS_MAX} characters of JSON`,
  });

export const ToolFilter = z.union(
  [
    z.literal("All"),
    z.strictObject({
      Allow: cliFlag("--allow-tool <name>", z.array(z.string()).describe("offer only the tools named so")),
    }),
    z.strictObject({
      Deny: cliFlag("--block-tool <name>", z.array(z.string()).describe("do not offer the tools named so")),
    }),
  ],
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
const AnyPrompt = z.union(CONTENT_KINDS, promptWanted);
const isSaid = (prompt: Content): boolean => (typeof prompt === "string" ? prompt.trim() : prompt).length > 0;
const isEmpty = { error: "the prompt is empty" };
const Prompt = AnyPrompt.refine(isSaid, isEmpty);

const words = z.string({ error: "write a text in quotes" });
const texts = z.record(z.string(), words, { error: 'write a table of texts, like { NAME = "value" }' });
const NAME_CHARS_MAX = 64;
const named = { error: `write a name of 1 to ${NAME_CHARS_MAX} characters` };
const program = { error: "write the program to start, or the server's address as url" };

/** An MCP server, as files and requests write it. */
export const SERVER_FIELDS = {
  name: z.string(named).min(1, named).max(NAME_CHARS_MAX, named).describe("the prefix of its tools: mcp__NAME__TOOL"),
  command: z.string(program).min(1, program).optional().describe("the program to start"),
  args: z
    .array(words, { error: 'write a list of texts, like ["-y", "a-server"]' })
    .optional()
    .describe("the program's arguments"),
  env: texts.optional().describe(`the program's variables; \${NAME} in a value is a variable of the runtime`),
  url: z
    .url({ protocol: /^https?$/, error: "write an address like https://example.com/mcp" })
    .refine((url) => !/^[a-z]+:\/\/[^/]*@/i.test(url), {
      error: "write the address without a user name or password, and put what gives access into headers",
    })
    .optional()
    .describe("the address of a server that is no program"),
  headers: texts.optional().describe(`sent with each request; \${NAME} in a value is a variable of the runtime`),
  transport: z
    .enum(["stdio", "streamable-http", "sse"], { error: 'write one of "stdio", "streamable-http", "sse"' })
    .optional()
    .describe("stdio for a command; streamable-http, the default, or sse for a url"),
  connect_timeout_secs: z
    .number({ error: "write a number of seconds" })
    .positive({ error: "write a number of seconds above 0" })
    .max(86_400, { error: "write at most 86400 seconds" })
    .optional()
    .describe("seconds to connect in; 10 by default"),
};

/** Reports the fields of a server that do not go together. */
export function checkServer(
  given: Partial<Record<keyof typeof SERVER_FIELDS, unknown>>,
  issues: { addIssue(issue: { code: "custom"; path: string[]; message: string }): void },
): void {
  const refuse = (key: keyof typeof SERVER_FIELDS, message: string): void => {
    if (given[key] !== undefined) issues.addIssue({ code: "custom", path: [key], message });
  };
  if (given.command === undefined && given.url === undefined) {
    issues.addIssue({ code: "custom", path: ["command"], message: program.error });
  } else if (given.url === undefined) {
    if (given.transport !== "stdio") refuse("transport", 'a command is spoken with by "stdio", so remove the key');
    refuse("headers", "headers are for a url; a command is given env");
  } else {
    refuse("command", "a server has a command or a url, so remove one of the two");
    refuse("args", "args are for a command, so remove the key");
    refuse("env", "env is for a command; a url is given headers");
    if (given.transport === "stdio")
      refuse("transport", 'a url is reached by "streamable-http" or "sse", so write one');
  }
}

const McpServer = z.strictObject(SERVER_FIELDS);
export type McpServer = z.infer<typeof McpServer>;
/** A server of a request. */
export const CheckedServer = McpServer.superRefine(checkServer);

/** How a session's MCP servers differ from the configured ones. */
const McpServers = z.object({
  /** The id is of the addition: a reload makes another one, and another connection. */
  added: z.array(McpServer.extend({ id: z.string() })).optional(),
  removed: z.array(z.string()).optional(),
  /** When a configured server was reloaded last, by its name. */
  reloaded: z.record(z.string(), z.number()).optional(),
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
    /** In US dollars. */
    max_cost: z.number().positive().optional(),
  }),
  tools: z.object({
    builtins: z.enum(["none", "safe", "all"]),
    shell: z.boolean(),
    memory: z.boolean(),
    /** Tools to read, search and edit files besides patches. */
    files: z.literal(true).optional(),
    /** Those of MCP servers; where it is not said, as any other kind is there. */
    mcp: z.boolean().optional(),
    /** Whether it may hand tasks to sub-agents. */
    agents: z.literal(true).optional(),
    skills: z.boolean().optional(),
  }),
  /** Whether it gets the project's AGENTS.md: it has no system prompt of its own. */
  agents_md: z.literal(true).optional(),
  mcp_servers: McpServers.optional(),
  tool_filter: ToolFilter,
  /** What its memory tools search; where it is not said, as configured. */
  memory_scope: z.enum(["project", "session"]).optional(),
  client_tools: z.array(ClientTool).optional(),
  provider_params: JsonObject.optional(),
  output_schema: JsonObject.optional(),
  /** That of the newest turn, which wins. */
  turn_output_schema: JsonObject.optional(),
  structured_output_retries: z.number().int().nonnegative(),
  labels: z.record(z.string(), z.string()).optional(),
  /** Labels of its creator: its tools see only sessions with all of them. */
  view: z.record(z.string(), z.string()).optional(),
  /** How other sessions of the realm know it; absent for one that has no messages of theirs. */
  comms: z.object({ name: z.string(), ...peerFields }).optional(),
  app_context: z.unknown().optional(),
  shell_env: z.record(z.string(), z.string()).optional(),
  compaction: CompactionSettings.optional(),
  permissions: PermissionRules.optional(),
  /** Of a session that does a task of another: whose, who it is, and how deep it lies. */
  sub_agent: z
    .object({
      parent: z.string(),
      parent_call: z.string(),
      agent: z.string(),
      depth: positive,
      /** What people had allowed its parent for good. */
      rules: z.array(z.string()).optional(),
    })
    .optional(),
});
/** The schema that the result of a turn must match. */
export function outputSchemaOf({ turn_output_schema, output_schema }: SessionSettings): JsonObject | undefined {
  return turn_output_schema ?? output_schema;
}
export type SessionSettings = z.infer<typeof SessionSettings>;

/** Fields of the wire that clients know from elsewhere. */
const Wire = {
  skill_references: z
    .never({ error: "this field was retired; leave it out" })
    .optional()
    .describe("retired; leave it out"),
  keep_alive: z
    .union([z.boolean(), z.null()], { error: "write true or false" })
    .optional()
    .describe(
      "of a new session: respond at once and run its first turn in the background; any session takes further turns",
    ),
  ...SKILL_FIELDS,
  ...UNSERVED,
  hooks_override: cliFlag(
    "--hooks-override <file|json>",
    HooksOverride.nullish().describe(
      "hooks for this turn alone, {entries, disable}, besides and instead of those configured; see docs/hooks.md",
    ),
  ),
  idempotency_key: z
    .string({ error: "write 1 to 255 visible characters" })
    .regex(/^[\x21-\x7e]{1,255}$/, { error: "write 1 to 255 visible characters" })
    .optional()
    .describe("identifies the request: the same one again, at any server of the realm, gets the end of the same turn"),
  /** JSON-RPC and MCP take them, each in its way, before an operation is called. */
  external_tools: z.array(z.unknown()).nullish().describe("tools that the client runs, over JSON-RPC and MCP"),
};

export const Labels = z
  .record(z.string(), z.string())
  .refine((labels) => !Object.keys(labels).some((key) => key.startsWith("meerkat.")), {
    error: "keys that begin with meerkat. are reserved",
  });

/** What every turn may say, the first and any further one. */
const EveryTurn = {
  prompt: cliFlag("PROMPT", Prompt.describe("the prompt: a text, or a list of content blocks")),
  model: cliFlag(
    "-m, --model <name>",
    ModelInput.optional().describe("the model, such as claude-sonnet-5-5, ollama/llama3.2, offline; see rkat models"),
  ),
  provider: cliFlag(
    "-p, --provider <name>",
    ProviderInput.optional().describe("the provider: anthropic, openai, gemini, self_hosted, offline"),
  ),
  system_prompt: cliFlag("--system <text>", z.string().optional().describe("the system prompt")),
  additional_instructions: cliFlag(
    "--instructions <text>",
    z.array(z.string()).optional().describe("further instructions, below the system prompt"),
  ),
  provider_params: cliFlag(
    "--params-json <json>",
    JsonObject.optional()
      .describe("parameters for the provider, such as its temperature, as it names them")
      .meta({ examples: [{ temperature: 0 }] }),
  ),
  max_tokens: cliFlag("--max-tokens-per-turn <n>", positive.optional().describe("output tokens of one model call")),
  output_schema: cliFlag(
    "--schema <file|json>",
    OutputSchema.optional()
      .describe("a JSON schema the result must match; the result is JSON then")
      .meta({ examples: [{ type: "object", properties: { name: { type: "string" } }, required: ["name"] }] }),
  ),
  client_tools: ClientTools.optional().describe(
    "tools that the client runs: a turn that calls one ends with pending_calls, and a turn with tool_results continues it; those of a turn replace earlier ones",
  ),
  permissions: PermissionRules.optional().describe(
    "rules of the session on its tools' calls, besides those of the configuration; see docs/permissions.md",
  ),
  structured_output_retries: Retries.optional().describe(
    "how often an answer that does not match output_schema is requested again, 0 to 10; 2 by default",
  ),
  goal: Goal.optional().describe(
    "further turns after this one until a condition holds or a limit is met: {until, max_turns, max_cost, max_duration}",
  ),
};

/** What a session is made with. */
const AtCreation = {
  comms_name: cliFlag("--comms-name <name>", CommsName),
  peer_meta: PeerMeta.nullish().describe("what they are told"),
  initial_turn: z
    .enum(["run_immediately", "deferred"])
    .default("run_immediately")
    .describe("run_immediately calls the model at once; deferred stores the prompt for the first turn"),
  max_turns: cliFlag("--max-turns <n>", positive.optional().describe("model calls in the turn")),
  budget_limits: BudgetLimits.optional().describe(
    "limits of the session; the turn that reaches one ends gracefully and its text is kept",
  ),
  history: z
    .array(RewriteMessage, { error: "write a list of messages" })
    .max(MESSAGES_MAX, { error: `write at most ${MESSAGES_MAX} messages` })
    .optional()
    .describe("earlier messages that the session begins with; they may end with calls that wait for tool_results"),
  tool_preset: cliFlag(
    "-t, --tools <preset>",
    z
      .enum(["none", "safe", "workspace", "full"])
      .optional()
      .describe(
        "none · safe, the default of rkat run: time, tasks, memory · workspace: and files, shell · full: all there are",
      ),
  ),
  enable_builtins: z
    .boolean()
    .optional()
    .describe("the built-in tools, whatever the preset says: time, tasks, patches"),
  enable_shell: z.boolean().optional().describe("the shell, whatever the preset says"),
  enable_files: z
    .boolean()
    .optional()
    .describe("read_file, search_files and edit_file, in a session that has file tools; rkat run and chat set it"),
  enable_memory: cliFlag(
    "--memory",
    z
      .boolean()
      .optional()
      .describe("search of earlier messages, also with the preset none or with [tools] memory = false"),
  ),
  enable_agents: cliFlag(
    "--sub-agents",
    z
      .boolean()
      .optional()
      .describe("the tool agent, which delegates a task to a sub-agent in its own session; see docs/sub-agents.md"),
  ),
  memory_scope: z
    .enum(["project", "session"], { error: 'write "project" or "session"' })
    .optional()
    .describe("what its agent can recall: messages of the project, or of this session only; without it, as configured"),
  tool_filter: ToolFilter.optional().describe(
    'which of the tools are offered: "All", or those of a list, or all others',
  ),
  labels: cliFlag(
    "--label <key=value>",
    Labels.optional()
      .describe("labels of the session, to find it by")
      .meta({ examples: [{ team: "core" }] }),
  ),
  app_context: cliFlag("--app-context <json>", z.unknown().optional().describe("data stored with the session")),
  shell_env: z
    .record(z.string(), z.string())
    .optional()
    .describe("environment variables for commands of the shell tool")
    .meta({ examples: [{ CI: "1" }] }),
  compaction: CompactionSettings.optional().describe(
    "compaction settings of this session that differ from the configuration",
  ),
};

export const NewSession = z.object({ ...Wire, ...EveryTurn, ...AtCreation });

/** What a session is made with. One whose first turn comes later may leave the prompt to that turn. */
export const CreateSession = NewSession.partial({ prompt: true }).refine(
  ({ prompt, initial_turn }) => prompt !== undefined || initial_turn === "deferred",
  { path: ["prompt"], ...promptWanted },
);
export type CreateSession = z.infer<typeof CreateSession>;

const atCreation = z.unknown().optional().describe("set when the session was created; a turn may repeat it unchanged");

/** What a session is made with; a turn may say it again, as it is. */
// Each key of the fields, by the line below.
export const AT_CREATION = Object.fromEntries(Object.keys(AtCreation).map((field) => [field, atCreation])) as Record<
  keyof typeof AtCreation,
  typeof atCreation
>;

export const FurtherTurn = z.object({
  ...Wire,
  ...AT_CREATION,
  session_id: SessionId,
  ...EveryTurn,
  prompt: cliFlag("PROMPT", AnyPrompt.describe("the prompt: a text, or a list of content blocks")),
  tool_results: ClientResults.optional().describe(
    "the results of all pending_calls of the turn before; the prompt may be empty then",
  ),
  turn_output_schema: EveryTurn.output_schema.describe(
    "a JSON schema the result of this turn alone must match, also on a session that has run",
  ),
  clear_provider_params: z.boolean().default(false).describe("remove the session's provider_params first"),
  change_settings: z
    .strictObject({
      system_prompt: EveryTurn.system_prompt.nullable(),
      max_tokens: EveryTurn.max_tokens.nullable(),
      output_schema: EveryTurn.output_schema.nullable(),
      structured_output_retries: EveryTurn.structured_output_retries.nullable(),
      tool_preset: AtCreation.tool_preset,
      enable_memory: AtCreation.enable_memory,
      enable_agents: AtCreation.enable_agents,
      tool_filter: AtCreation.tool_filter,
    })
    .optional()
    .describe("settings that change from this turn on, also of a session that has run; null removes a setting"),
  when_busy,
  after_seq: nonnegative
    .optional()
    .describe("run only if this is the session's last seq; otherwise refuse; for clients that must not be overtaken"),
  flow_tool_overlay: z
    .strictObject({
      allowed_tools: cliFlag(
        "--allow-tool <name>",
        z.array(z.string()).optional().describe("offer only the tools named so"),
      ),
      blocked_tools: cliFlag(
        "--block-tool <name>",
        z.array(z.string()).optional().describe("do not offer the tools named so"),
      ),
    })
    .optional()
    .describe("which of the session's tools this turn has"),
});
export const StartTurn = FurtherTurn.refine(
  ({ prompt, tool_results }) => tool_results !== undefined || isSaid(prompt),
  {
    path: ["prompt"],
    ...isEmpty,
  },
);
export type StartTurn = z.infer<typeof StartTurn>;

const whole = z.number().int();
/** What a session is called on every wire. */
export const Named = {
  session_id: z.string().describe("the session's id"),
  session_ref: z.string().optional().describe("the id with its realm, unique across realms"),
};

const RunUsage = Usage.extend({
  total_tokens: whole.nonnegative().describe("input and output tokens together"),
}).describe("the tokens the turn used");

/** What a session's sub-agents used, those of theirs included. */
export const Delegated = z
  .object({
    usage: Usage.describe("the tokens they used"),
    tool_calls: whole.nonnegative().describe("the tool calls they made"),
  })
  .describe("the usage of the session's sub-agents, which its budgets include; absent without sub-agents");
export type Delegated = z.infer<typeof Delegated>;

export const RunResult = z.object({
  ...Named,
  text: z.string().describe("the last answer of the model"),
  turns: whole.nonnegative().describe("model calls of the turn"),
  tool_calls: whole.nonnegative().describe("tool calls of the turn"),
  usage: RunUsage,
  delegated: Delegated.optional(),
  turn_cost: Cost.optional().describe(
    "what the turn cost, its compactions included, while usage.cost is the session's; absent where no price is known",
  ),
  pending_calls: z
    .array(PendingCall)
    .optional()
    .describe("the calls of client_tools with which the turn ended; a turn with their tool_results continues it"),
  terminal_cause_kind: TerminalCause.optional().describe("why the turn ended early; absent if the model ended it"),
  structured_output: z.unknown().optional().describe("the result that matches output_schema"),
  extraction_error: z
    .object({
      last_output: z.string().describe("the last answer of the model"),
      attempts: whole.describe("the number of attempts"),
      reason: z.string().describe("what does not match"),
    })
    .optional()
    .describe("why there is no structured_output although one was requested"),
  goal: GoalState.optional().describe("how the goal of the turn ended; the rest is about its last turn"),
});
export type RunResult = z.infer<typeof RunResult>;

/** A session made without a first turn. */
export const DeferredSession = z.object(Named);
