import { Scope } from "./caller.ts";
import { z } from "./schema.ts";

/** A call that waits for a person's word. */
export const AskedCall = z.object({
  id: z.string().describe("the call's id"),
  name: z.string().describe("the tool it calls"),
  args: z.record(z.string(), z.unknown()).describe("what the tool would be given"),
  why: z.string().describe("why it is asked about"),
  always: z
    .array(z.string())
    .optional()
    .describe("the rules that allowing it for the session or the project would add; absent where none is safe"),
});
export type AskedCall = z.infer<typeof AskedCall>;

export const approval_id = z.string().describe("the question's id");

const Decision = z.enum(["allow", "deny"]);

/** For how long a word counts. */
export const Remember = z.enum(["once", "session", "project"]);
export type Remember = z.infer<typeof Remember>;

/** A person's word on calls; the fields of its entry, its event and its operation. */
export const Answer = {
  decision: Decision.describe("whether the calls may run"),
  calls: z.array(z.string()).describe("the ids of the calls it speaks of"),
  remember: Remember.describe("for how long it counts: once, or for calls like these in the session or the project"),
  rules: z.array(z.string()).optional().describe("the rules it adds"),
  reason: z.string().optional().describe("why not, in words the model is told"),
  by: z.string().optional().describe("who said it: the name of a token, or timeout"),
};

/** Inputs of a turn that the settings do not contain: another process needs them to continue it. */
export const TurnInputs = {
  overlay: z
    .object({ allowed_tools: z.array(z.string()).optional(), blocked_tools: z.array(z.string()).optional() })
    .optional()
    .describe("the tools it is restricted to"),
  caller: z
    .object({
      name: z.string(),
      scopes: z.array(Scope),
      labels: z.record(z.string(), z.string()),
      max_cost_per_day: z.number().optional(),
    })
    .optional()
    .describe("the caller of the turn: its tools see no more than the caller does"),
};

/** What continues a turn that waits. */
const Progress = z.object({
  turns: z.number().describe("model calls made before"),
  elapsed_ms: z.number().describe("time it has taken, without the wait"),
  seq_before: z.number().describe("the seq before its first entry"),
  tool_calls_before: z.number().describe("tool calls of the session before it"),
  ...TurnInputs,
  hooks: z
    .array(
      z.object({
        id: z.string().describe("the call's id"),
        args: z.record(z.string(), z.unknown()).optional().describe("what hooks have made of its arguments"),
        refusal: z.string().optional().describe("what the model is told of a call that a hook refused"),
      }),
    )
    .optional()
    .describe("what hooks decided about calls of the answer; they are not asked again"),
});
export type Progress = z.infer<typeof Progress>;

export const AskedEntry = {
  approval_id,
  calls: z.array(AskedCall),
  /** Later answers are refused, and the call counts as denied. */
  expires_at_ms: z.number(),
  progress: Progress,
};
