import { z } from "./schema.ts";

/** Where hooks are called. The last four are ours; the others are the wire's. */
export const HookPoint = z.enum(
  [
    "run_started",
    "run_completed",
    "run_failed",
    "pre_llm_request",
    "post_llm_response",
    "pre_tool_execution",
    "post_tool_execution",
    "turn_boundary",
    "session_created",
    "session_archived",
    "pre_compaction",
    "post_compaction",
  ],
  { error: "write a point, such as pre_tool_execution or run_completed" },
);
export type HookPoint = z.infer<typeof HookPoint>;

/** Where something can still be refused. */
const GUARDED: ReadonlySet<HookPoint> = new Set([
  "run_started",
  "pre_llm_request",
  "post_llm_response",
  "pre_tool_execution",
  "post_tool_execution",
  "turn_boundary",
  "pre_compaction",
]);
const ABOUT_TOOLS: ReadonlySet<HookPoint> = new Set(["pre_tool_execution", "post_tool_execution"]);

const HookMode = z.enum(["foreground", "background"], { error: 'write "foreground" or "background"' });
export type HookMode = z.infer<typeof HookMode>;

const HookCapability = z.enum(["observe", "guardrail", "rewrite"], {
  error: 'write "observe", "guardrail" or "rewrite"',
});
export type HookCapability = z.infer<typeof HookCapability>;

const FailurePolicy = z.enum(["fail_open", "fail_closed"], { error: 'write "fail_open" or "fail_closed"' });
export type FailurePolicy = z.infer<typeof FailurePolicy>;

/** What a failure of a hook means that does not say it: whatever guards must not be passed by breaking it. */
export function failurePolicyFor(capability: HookCapability): FailurePolicy {
  return capability === "observe" ? "fail_open" : "fail_closed";
}

/** The fields of every hook, however it runs. */
interface HookFacts {
  readonly point: HookPoint;
  readonly mode: HookMode;
  readonly capability: HookCapability;
  readonly failurePolicy: FailurePolicy | undefined;
  readonly tools: readonly string[] | undefined;
}

/** What a hook of this kind cannot be, by the field that says it; undefined where it can. */
export function hookFault(hook: HookFacts): { readonly field: string; readonly problem: string } | undefined {
  const { point, mode, capability, failurePolicy, tools } = hook;
  const [first = point] = GUARDED;
  if (capability === "rewrite" && !ABOUT_TOOLS.has(point)) {
    const problem = "only pre_tool_execution and post_tool_execution can be rewritten; observe or guard this point";
    return { field: "capability", problem };
  }
  if (capability !== "observe" && !GUARDED.has(point)) {
    return { field: "capability", problem: `nothing can be refused at ${point} any more; write "observe"` };
  }
  if (capability !== "observe" && mode === "background") {
    const problem = `a ${capability} is waited for; write "foreground", or let it observe`;
    return { field: "mode", problem };
  }
  if (failurePolicy === "fail_closed" && (mode === "background" || !GUARDED.has(point))) {
    const problem = `nothing can be refused there; write "fail_open", or a point like ${first}`;
    return { field: "failure_policy", problem };
  }
  if (tools !== undefined && !ABOUT_TOOLS.has(point)) {
    return { field: "tools", problem: `${point} is not about a tool; leave it out` };
  }
  return undefined;
}

const word = { error: "write a text" };
const text = z.string(word).min(1, word);
const priority = { error: "write a whole number; lower runs first" };
const PRIORITY_MAX = 1_000_000;
const TIMER_MS_MAX = 2 ** 31 - 1;
const wait = { error: "write a whole number of milliseconds above 0" };

/** The program of a hook. */
const HookCommand = z.strictObject({
  type: z
    .literal("command", {
      error: 'write "command", which is what can be configured; a function is given to createRuntime',
    })
    .describe("the kind of hook; a configuration has only commands"),
  command: text.describe("the program, by its name or its path from the project's folder"),
  args: z
    .array(z.string(word), { error: "write a list of texts" })
    .optional()
    .describe("its arguments; no shell interprets them"),
  env: z
    .record(z.string(), z.string(word), { error: "write a table of texts" })
    .optional()
    .describe("further variables; it also gets those of the process, without its secrets"),
});

/** A hook that is a command, as it is configured. */
export const HookEntry = z
  .strictObject({
    id: text.describe("its name in events"),
    enabled: z.boolean({ error: "write true or false" }).default(true).describe("whether it is called"),
    point: HookPoint.describe("where it is called"),
    mode: HookMode.default("foreground").describe("whether the turn waits for it"),
    capability: HookCapability.default("observe").describe(
      "what its answer can do: nothing, refuse, or refuse and rewrite",
    ),
    priority: z
      .int(priority)
      .min(-PRIORITY_MAX, priority)
      .max(PRIORITY_MAX, priority)
      .default(100)
      .describe("lower runs first; equal priorities run in their order"),
    failure_policy: FailurePolicy.optional().describe(
      "whether its failure refuses the step; by default yes, except for an observer",
    ),
    timeout_ms: z
      .int(wait)
      .positive(wait)
      .max(TIMER_MS_MAX, wait)
      .optional()
      .describe("its timeout; without it, hooks.default_timeout_ms"),
    tools: z
      .array(text, { error: 'write a list of names, like ["shell", "mcp__*"]' })
      .optional()
      .describe("of a point about tools: only for tools of these names, in which * stands for any signs"),
    runtime: HookCommand.describe("the command"),
  })
  .superRefine(({ failure_policy: failurePolicy, tools, ...entry }, issues) => {
    const fault = hookFault({ ...entry, failurePolicy, tools });
    if (fault !== undefined) issues.addIssue({ code: "custom", path: [fault.field], message: fault.problem });
  });
export type HookEntry = Unchanging<z.infer<typeof HookEntry>>;

type Unchanging<T> = T extends object ? { readonly [K in keyof T]: Unchanging<T[K]> } : T;

export const HookEntries = z.array(HookEntry, { error: "write a list of hooks" }).superRefine((entries, issues) => {
  for (const [index, { id }] of entries.entries()) {
    if (entries.findIndex((entry) => entry.id === id) === index) continue;
    issues.addIssue({ code: "custom", path: [index, "id"], message: "another hook has this id; give it its own" });
  }
});

/** Hooks of one turn: added ones, and replacements of configured ones. */
export const HooksOverride = z.strictObject(
  {
    entries: HookEntries.default([]).describe("hooks for this turn alone"),
    disable: z
      .array(text, { error: "write a list of ids" })
      .default([])
      .describe("ids of hooks that are not called in this turn"),
  },
  { error: "write {entries: [hooks], disable: [ids]}" },
);
export type HooksOverride = Unchanging<z.infer<typeof HooksOverride>>;

const Denial = z.object({
  decision: z.literal("deny"),
  reason_code: z.enum(["policy_violation", "safety_violation", "schema_violation", "timeout", "runtime_error"]),
  message: z.string(),
  payload: z.unknown().optional(),
});

const Patch = z.discriminatedUnion("patch_type", [
  z.strictObject({ patch_type: z.literal("tool_args"), args: z.record(z.string(), z.unknown()) }),
  z.strictObject({ patch_type: z.literal("tool_result"), content: z.string(), is_error: z.boolean().nullish() }),
]);
export type HookPatch = z.infer<typeof Patch>;

/** What a hook answers. A word that is not known is no answer: it might have been a refusal. */
export const HookAnswer = z.strictObject({
  decision: z.discriminatedUnion("decision", [z.object({ decision: z.literal("allow") }), Denial]).nullish(),
  patches: z.array(Patch).nullish(),
});
export type HookAnswer = z.infer<typeof HookAnswer>;
