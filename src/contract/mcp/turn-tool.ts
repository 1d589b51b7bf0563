import { z } from "zod";
import { SKILL_FIELDS, UNSERVED } from "../input/unserved.ts";
import { Content } from "../message.ts";
import { CallbackTool } from "../rpc/requests.ts";
import { AT_CREATION, NewSession, RunResult, SessionInfo, StartTurn } from "../session.ts";

const CLIENT_TOOLS_MAX = 1_024;
const yesOrNo = { error: "write true or false" };

/** A tool the client runs: the call that needs it is answered with what is wanted. */
const ClientTool = CallbackTool.extend({
  handler: z.literal("callback", { error: 'write "callback", which is what there is' }).default("callback"),
});
export type ClientTool = z.infer<typeof ClientTool>;

const ToolResults = z.array(
  z.object({ tool_use_id: z.string().min(1), content: Content, is_error: z.boolean(yesOrNo).default(false) }),
);
export type ToolResults = z.infer<typeof ToolResults>;

/** What `meerkat_run` and `meerkat_resume` take besides the fields of their operation. */
export const TurnExtras = z.object({
  /** Sends every event of the turn as `notifications/message`. */
  stream: z.boolean(yesOrNo).default(false),
  builtin_config: z
    .object({
      enable_shell: z.boolean(yesOrNo).nullish(),
      shell_timeout_secs: z
        .null({ error: "a call of the shell tool says how long it may take; leave it out" })
        .optional(),
    })
    .nullish(),
  /** Tools the client runs, for this turn and those after it. */
  tools: z.array(ClientTool).max(CLIENT_TOOLS_MAX).optional(),
  /** What the client's tools gave a turn that waits for them; its prompt may be empty then. */
  tool_results: ToolResults.max(CLIENT_TOOLS_MAX).optional(),
});

/** What is taken from a client that sends it and refused where it asks for something; a model need not read of it. */
const UNTOLD = masked({ ...UNSERVED, ...SKILL_FIELDS, external_tools: true, skill_references: true });

function masked<K extends string>(fields: Readonly<Record<K, unknown>>): Record<K, true> {
  // Each key of the fields, by the line before.
  return Object.fromEntries(Object.keys(fields).map((field) => [field, true])) as Record<K, true>;
}

export const RunTool = NewSession.omit(UNTOLD).extend(TurnExtras.shape);
export const ResumeTool = StartTurn.omit({ ...UNTOLD, ...masked(AT_CREATION) }).extend(TurnExtras.shape);

/** What the two tools answer: a result of MCP inside the result, as existing clients read it. */
export const TurnPayload = z.object({
  content: z.array(z.object({ type: z.literal("text"), text: z.string() })),
  ...RunResult.omit({ text: true, structured_output: true, extraction_error: true, usage: true }).shape,
  usage: RunResult.shape.usage.optional(),
  structured_output: z.unknown(),
  extraction_error: RunResult.shape.extraction_error.unwrap().nullable(),
  schema_warnings: z.null(),
  skill_diagnostics: z.null(),
  /** There while the turn waits for tools the client runs; `meerkat_resume` brings their `tool_results`. */
  status: z.literal("pending_tool_call").optional(),
  pending_tool_calls: z
    .array(z.object({ tool_name: z.string(), tool_use_id: z.string(), args: z.record(z.string(), z.unknown()) }))
    .optional(),
});
export type TurnPayload = z.infer<typeof TurnPayload>;

/** A moment as existing clients of `meerkat_read` have it. */
const SystemTime = z.object({ secs_since_epoch: z.number().int(), nanos_since_epoch: z.number().int() });

/** What `meerkat_read` answers: the session, and apart from it what it has used. */
export const ReadPayload = z.object({
  session_id: z.string(),
  session_ref: z.string().optional(),
  state: SessionInfo.omit({
    session_ref: true,
    total_tokens: true,
    usage: true,
    created_at: true,
    updated_at: true,
  }).extend({
    created_at: SystemTime,
    updated_at: SystemTime,
  }),
  billing: SessionInfo.pick({ total_tokens: true, usage: true }),
});
export type ReadPayload = z.infer<typeof ReadPayload>;
