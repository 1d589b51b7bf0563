import { z } from "zod";
import { CreateSession, RunResult, StartTurn } from "../session.ts";

const yesOrNo = { error: "write true or false" };
const notOffered = "tools that the client runs are not offered over MCP; leave them out";

/** What `meerkat_run` and `meerkat_resume` take besides the fields of their operation. */
export const TurnExtras = z.object({
  /** Sends every event of the turn as `notifications/message`. */
  stream: z.boolean(yesOrNo).default(false),
  builtin_config: z.object({ enable_shell: z.boolean(yesOrNo).optional() }).optional(),
  tools: z.array(z.unknown()).max(0, { error: notOffered }).optional(),
  tool_results: z.array(z.unknown()).max(0, { error: notOffered }).optional(),
});

export const RunTool = CreateSession.extend(TurnExtras.shape);
export const ResumeTool = StartTurn.extend(TurnExtras.shape);

/** What the two tools answer: a result of MCP inside the result, as existing clients read it. */
export const TurnPayload = z.object({
  content: z.array(z.object({ type: z.literal("text"), text: z.string() })),
  ...RunResult.omit({ text: true, structured_output: true, extraction_error: true, usage: true }).shape,
  usage: RunResult.shape.usage.optional(),
  structured_output: z.unknown(),
  extraction_error: RunResult.shape.extraction_error.unwrap().nullable(),
  schema_warnings: z.null(),
  skill_diagnostics: z.null(),
});
export type TurnPayload = z.infer<typeof TurnPayload>;
