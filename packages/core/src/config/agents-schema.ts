import { spellDuration } from "../contract/input.ts";
import { isJsonTable } from "../contract/json.ts";
import { z } from "../contract/schema.ts";
import type { SubAgent, SubAgentBounds, SubAgentLimits } from "../ports/sub-agent.ts";
import { CostLimit, common, flag, oneOf, text, wait, whole } from "./values.ts";

export const AGENTS_MAX = 64;
export const PROMPT_BYTES_MAX = 65_536;

const NAME = /^[a-z0-9-]{1,64}$/;
const DESCRIPTION_CHARS_MAX = 1_024;
const TOOLS_MAX = 256;
const DEPTH_MAX = 8;
const CONCURRENT_MAX = 64;
const TASKS_MAX = 1_000;
const RESULT_BYTES_MAX = 1_048_576;

/** The problem of an invalid name; undefined for a valid one. */
export function agentNameProblem(name: string): string | undefined {
  return NAME.test(name) ? undefined : "name a sub-agent in 1 to 64 of a-z, 0-9 and -, like code-reviewer";
}

/** A blank text is no prompt. */
const prompt = text
  .refine((given) => given.trim() !== "", { error: "write what it is to do and how" })
  .refine((given) => Buffer.byteLength(given) <= PROMPT_BYTES_MAX, {
    error: `shorten it to ${PROMPT_BYTES_MAX} bytes`,
  });

/** The keys of a sub-agent besides its name and prompt, in a table and in the head of a file. */
const keys = {
  description: text
    .max(DESCRIPTION_CHARS_MAX, { error: `shorten it to ${DESCRIPTION_CHARS_MAX} characters` })
    .describe("what it is for; the model chooses by it"),
  model: text.optional().describe("its model; without it, the model of the delegating session"),
  provider: text.optional().describe("the provider, where the model's name does not determine it"),
  tools: z
    .array(text, { error: 'write a list of names of tools, like ["memory_search"]' })
    .max(TOOLS_MAX, { error: `write at most ${TOOLS_MAX} names` })
    .optional()
    .describe("the only tools it has of those the session has; without it, all of them"),
  max_tokens: whole(1)
    .optional()
    .describe("input and output tokens of one task; without it, its share of the remaining budget"),
  max_duration: wait.optional().describe("of one task; without it, its share of the remaining budget"),
  max_tool_calls: whole(0).optional().describe("tool calls of one task; without it, its share of the remaining budget"),
  max_cost: CostLimit.optional().describe("US dollars of one task; without it, its share of the remaining budget"),
  max_turns: whole(1).optional().describe("model calls of one task; without it, `agent.max_turns`"),
  inherit: oneOf(["none", "fork"])
    .optional()
    .describe("`fork`: it begins with the session's context; `none`, the default: with its task alone"),
};

const inMs = <T extends { max_duration?: number | undefined }>({ max_duration, ...row }: T) => ({
  ...row,
  ...(max_duration === undefined ? {} : { max_duration_ms: max_duration }),
});

const AgentRow = z
  .strictObject({ ...keys, prompt: prompt.describe("its system prompt") })
  .transform(inMs)
  .describe("a sub-agent; `.rkat/sub-agents/NAME.md` is equivalent; [sub-agents.md](sub-agents.md)");

export const AgentHead = z.strictObject({ ...keys, name: text.optional() }).transform(inMs);

export const AgentBody = prompt;

const bounds = {
  enabled: flag
    .default(false)
    .meta(common("whether sessions have the tool `agent`, which delegates tasks, unless they say otherwise", true)),
  max_depth: whole(1, DEPTH_MAX)
    .default(2)
    .describe("how deep sub-agents nest; 1: sub-agents have no sub-agents themselves"),
  max_concurrent: whole(1, CONCURRENT_MAX).default(4).describe("how many of one session run at once; more wait"),
  max_tasks: whole(1, TASKS_MAX).default(16).describe("how many tasks one turn may delegate; more are refused"),
  result_bytes_max: whole(256, RESULT_BYTES_MAX)
    .default(16_384)
    .describe("of a result in the context; the rest is in the sub-agent's own session"),
};

/** `[sub_agents]` with a table for each sub-agent, `[sub_agents.NAME]`. */
export const SubAgents = z
  .preprocess((given, context) => {
    if (!isJsonTable(given)) return given;
    const unknown = Object.keys(given).filter((key) => !Object.hasOwn(bounds, key) && !isJsonTable(given[key]));
    if (unknown.length > 0) context.issues.push({ code: "unrecognized_keys", keys: unknown, input: given });
    return given;
  }, z.object(bounds).catchall(AgentRow))
  .transform(({ enabled, max_depth, max_concurrent, max_tasks, result_bytes_max, ...named }) => ({
    enabled,
    max_depth,
    max_concurrent,
    max_tasks,
    result_bytes_max,
    named,
  }))
  .superRefine(({ named }, issues) => {
    const names = Object.keys(named);
    for (const name of names) {
      const message = agentNameProblem(name);
      if (message !== undefined) issues.addIssue({ code: "custom", path: [name], message });
    }
    if (names.length > AGENTS_MAX)
      issues.addIssue({ code: "custom", path: [], message: `keep ${AGENTS_MAX} of its ${names.length} sub-agents` });
  })
  .prefault({})
  .describe("tasks that are delegated to sub-agents, each in its own session; [sub-agents.md](sub-agents.md)");

type DeepReadonly<T> = T extends object ? { readonly [K in keyof T]: DeepReadonly<T[K]> } : T;
type Row = DeepReadonly<z.output<typeof AgentRow>>;

export function agentOf(name: string, row: Row): SubAgent {
  const { max_tokens, max_duration_ms, max_tool_calls, max_cost, max_turns: maxTurns, ...said } = row;
  const limits: SubAgentLimits = { max_tokens, max_duration_ms, max_tool_calls, max_cost };
  const isLimited = Object.values(limits).some((limit) => limit !== undefined);
  return {
    name,
    ...said,
    ...(isLimited ? { limits } : {}),
    ...(maxTurns === undefined ? {} : { maxTurns }),
  };
}

/** The configured limits that no model can exceed. */
export function boundsOf(bounds: DeepReadonly<z.output<typeof SubAgents>>): SubAgentBounds {
  return {
    depthMax: bounds.max_depth,
    concurrentMax: bounds.max_concurrent,
    tasksMax: bounds.max_tasks,
    resultBytesMax: bounds.result_bytes_max,
  };
}

export function spellSubAgents({ named, ...bounds }: DeepReadonly<z.output<typeof SubAgents>>) {
  const spell = ({ max_duration_ms, ...row }: Row) =>
    max_duration_ms === undefined ? row : { ...row, max_duration: spellDuration(max_duration_ms) };
  return { ...bounds, ...Object.fromEntries(Object.entries(named).map(([name, row]) => [name, spell(row)])) };
}
