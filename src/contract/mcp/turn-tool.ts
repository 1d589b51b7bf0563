import { z } from "zod";
import { SKILL_FIELDS, UNSERVED } from "../input/unserved.ts";
import { Content, TextBlock } from "../message.ts";
import { CallbackTool } from "../rpc/requests.ts";
import { AT_CREATION, Named, NewSession, RunResult, SessionInfo, StartTurn } from "../session.ts";
import { SystemTime } from "../transcript/rewrite.ts";

const CLIENT_TOOLS_MAX = 1_024;
const yesOrNo = { error: "write true or false" };

/** A tool the client runs: the call that needs it is answered with what is wanted. */
const ClientTool = CallbackTool.extend({
  handler: z
    .literal("callback", { error: 'write "callback", which is what there is' })
    .default("callback")
    .describe("who runs it; there is one way"),
});
export type ClientTool = z.infer<typeof ClientTool>;

const ToolResults = z.array(
  z.object({
    tool_use_id: z.string().min(1).describe("the call it answers, as pending_tool_calls names it"),
    content: Content.describe("what the tool gave"),
    is_error: z.boolean(yesOrNo).default(false).describe("whether it failed"),
  }),
);
export type ToolResults = z.infer<typeof ToolResults>;

/** What `meerkat_run` and `meerkat_resume` take besides the fields of their operation. */
export const TurnExtras = z.object({
  stream: z.boolean(yesOrNo).default(false).describe("send every event of the turn as notifications/message"),
  builtin_config: z
    .object({
      enable_shell: z.boolean(yesOrNo).nullish().describe("the shell, as enable_shell says"),
      shell_timeout_secs: z
        .null({ error: "a call of the shell tool says how long it may take; leave it out" })
        .optional()
        .describe("leave it out: a call of the shell tool says how long it may take"),
    })
    .nullish()
    .describe("the built-in tools, as older clients ask for them"),
  tools: z
    .array(ClientTool)
    .max(CLIENT_TOOLS_MAX)
    .optional()
    .describe("tools the client runs, for this turn and those after it"),
  tool_results: ToolResults.max(CLIENT_TOOLS_MAX)
    .optional()
    .describe("what the client's tools gave a turn that waits for them; its prompt may be empty then"),
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
  content: z.array(TextBlock).describe("what the model answered last"),
  ...RunResult.omit({ text: true, structured_output: true, extraction_error: true, usage: true }).shape,
  usage: RunResult.shape.usage.optional(),
  structured_output: z.unknown().describe("the result that matches output_schema; null without one"),
  extraction_error: RunResult.shape.extraction_error
    .unwrap()
    .nullable()
    .describe("why there is no structured_output, though one was asked for"),
  schema_warnings: z.null().describe("nothing is ever warned of"),
  skill_diagnostics: z.null().describe("nothing is ever told"),
  status: z
    .literal("pending_tool_call")
    .optional()
    .describe("the turn waits for tools the client runs; meerkat_resume brings their tool_results"),
  pending_tool_calls: z
    .array(
      z.object({
        tool_name: z.string().describe("the tool's name"),
        tool_use_id: z.string().describe("the call's id, which its result names"),
        args: z.record(z.string(), z.unknown()).describe("what the tool is given"),
      }),
    )
    .optional()
    .describe("the calls it waits for"),
});
export type TurnPayload = z.infer<typeof TurnPayload>;

/** What `meerkat_read` answers: the session, and apart from it what it has used. */
export const ReadPayload = z.object({
  ...Named,
  state: SessionInfo.omit({
    session_ref: true,
    total_tokens: true,
    usage: true,
    created_at: true,
    updated_at: true,
  })
    .extend({
      created_at: SystemTime.describe("when it was made"),
      updated_at: SystemTime.describe("when it last changed"),
    })
    .describe("the session"),
  billing: SessionInfo.pick({ total_tokens: true, usage: true }).describe("what it has used"),
});
export type ReadPayload = z.infer<typeof ReadPayload>;
