import type { core } from "zod";
import { CompactionSettings } from "../compaction.ts";
import { HooksOverride } from "../hook.ts";
import { nonnegative, SkillRef, UNSERVED } from "../input.ts";
import { MemorySearch } from "../memory.ts";
import { CLIENT_TOOLS_MAX, ClientTool, ContentBlock } from "../message.ts";
import { PermissionRules } from "../permission.ts";
import { ForkReplacing, RewriteMessage } from "../rewrite.ts";
import { created, z } from "../schema.ts";
import { AT_CREATION, FurtherTurn, NewSession, PeerMeta, SessionId } from "../session.ts";
import { Goal } from "./goal.ts";

/** A JSON schema of an object, which is what a tool's arguments and structured results are. */
interface ObjectSchema {
  readonly [keyword: string]: unknown;
  readonly type: "object";
}

/** The JSON schema of what may be written; undefined when that is not one object. */
export function objectSchemaOf(schema: z.ZodType): ObjectSchema | undefined {
  const options = { io: "input", unrepresentable: "any", override: shorten } as const;
  // Clients check arguments with validators of older drafts, which refuse a `$schema` they do not know.
  const { $schema: _, type, ...keywords } = z.toJSONSchema(schema, options);
  return type === "object" ? { type, ...keywords } : undefined;
}

const yesOrNo = { error: "write true or false" };

const BuiltinConfig = z.object({
  enable_shell: z.boolean(yesOrNo).nullish().describe("the shell, as enable_shell says"),
  shell_timeout_secs: z
    .null({ error: "a call of the shell tool says how long it may take; leave it out" })
    .optional()
    .describe("leave it out: a call of the shell tool has its own timeout"),
});

/** Shown to a model as any object: the documents have the fields, and the server checks them. */
const PLAIN: readonly core.$ZodType[] = [
  ContentBlock,
  RewriteMessage,
  HooksOverride,
  SkillRef,
  PermissionRules,
  CompactionSettings,
  Goal,
  PeerMeta,
  BuiltinConfig,
  ForkReplacing.replacement,
];
const UNTOLD_KEYWORDS = ["examples", "minLength", "maxLength", "maxItems", "propertyNames"];

interface SchemaPart {
  readonly zodSchema: core.$ZodType;
  readonly jsonSchema: core.JSONSchema.BaseSchema;
}

/** Leaves out what a model need not read: clients send these schemas to it with every request. */
function shorten({ zodSchema, jsonSchema }: SchemaPart): void {
  const isPlain = PLAIN.some((schema) => created(schema) === zodSchema);
  const unreported = isPlain ? Object.keys(jsonSchema) : UNTOLD_KEYWORDS;
  for (const keyword of unreported) delete jsonSchema[keyword];
  if (isPlain) jsonSchema.type = "object";
  if (JSON.stringify(jsonSchema.additionalProperties) === "{}") delete jsonSchema.additionalProperties;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  // Validators warn of this one, which `contentEncoding` says as well.
  if (jsonSchema.format === "base64") delete jsonSchema.format;
}

/** A tool the client runs, as MCP's clients name it. */
const HandledTool = ClientTool.extend({
  handler: z
    .literal("callback", { error: 'write "callback", which is what there is' })
    .default("callback")
    .describe("who runs it; there is one way"),
});

/** What `meerkat_run` and `meerkat_resume` take besides the fields of their operation. */
const turnExtras = {
  stream: z.boolean(yesOrNo).default(false).describe("send every event of the turn as notifications/message"),
  builtin_config: BuiltinConfig.nullish().describe("the built-in tools, as older clients ask for them"),
  tools: z
    .array(HandledTool)
    .max(CLIENT_TOOLS_MAX)
    .optional()
    .describe("tools the client runs, for this turn and those after it"),
};
export const TurnExtras = z.object(turnExtras);

/** What is taken from a client that sends it and refused where it asks for something; a model need not read of it. */
const UNTOLD = masked({
  ...UNSERVED,
  external_tools: true,
  client_tools: true,
  skill_references: true,
});

function masked<K extends string>(fields: Readonly<Record<K, unknown>>): Record<K, true> {
  // Each key of the fields, by the line before.
  return Object.fromEntries(Object.keys(fields).map((field) => [field, true])) as Record<K, true>;
}

export const RunTool = NewSession.omit(UNTOLD).extend(turnExtras);
export const ResumeTool = FurtherTurn.omit({ ...UNTOLD, ...masked(AT_CREATION) }).extend(turnExtras);

/** What the methods of a task take. */
export const TaskRequest = z.object({ taskId: z.string({ error: "write the id of a task" }) });

const StreamId = z.string().min(1).describe("the stream, as meerkat_event_stream_open answered");
const READ_MS_MAX = 600_000;

/** The tools that are no rows of the table: a model cannot be sent events, so it asks for them one by one. */
export const EXTRA_TOOLS = {
  meerkat_event_stream_open: {
    summary: "Subscribe to a session's events; meerkat_event_stream_read reads them one by one.",
    input: z.strictObject({ session_id: SessionId }),
  },
  meerkat_event_stream_read: {
    summary: "Read the next event of a stream, waiting for one as long as is asked.",
    input: z.strictObject({
      stream_id: StreamId,
      timeout_ms: nonnegative
        .max(READ_MS_MAX, { error: `write at most ${READ_MS_MAX}` })
        .default(5_000)
        .describe("how long to wait for an event, in milliseconds"),
      no_timeout: z.boolean({ error: "write true or false" }).default(false).describe("wait as long as it takes"),
    }),
  },
  meerkat_event_stream_close: {
    summary: "End a subscription to a session's events.",
    input: z.strictObject({ stream_id: StreamId }),
  },
} as const;

/** The tool that a memory server has besides: what compactions removed, with what their receipts say of it. */
export const RECALL_TOOL = {
  name: "recall_compacted",
  summary:
    "Search what compactions removed from the contexts of this project's sessions, with their receipts: how many specifics each " +
    "removed, and those that its summary does not contain.",
  input: MemorySearch.pick({ query: true, limit: true, session_id: true, token_budget: true }),
} as const;

export type ExtraTool = keyof typeof EXTRA_TOOLS;
