import type { RunResult } from "../contract/session.ts";
import type { SubAgent } from "../ports/sub-agent.ts";
import type { Tool, ToolCallContext, ToolOutput } from "../ports/tool.ts";
import { totalTokens } from "../turn/cost.ts";
import type { TaskUse } from "./sub-agent-settling.ts";

/** The tool's input, validated before it runs. */
export interface Task {
  readonly task: string;
  readonly agent?: string;
  readonly session_id?: string;
}

/** The tool that delegates a task to a sub-agent. */
export function createAgentTool(
  agents: readonly SubAgent[],
  run: (task: Task, context: ToolCallContext) => Promise<ToolOutput>,
): Tool {
  return {
    name: "agent",
    description: [
      "Hands a task to a sub-agent, which works on it in a session of its own, with an empty context of its own, and answers " +
        "with a report. Use it for work that would fill your context with what you need only once, such as reading many " +
        "files, and for parts that do not need each other: several calls in one answer run at the same time. What it uses " +
        "counts in your budgets. Write in task all it has to know, and what its report must say. The report names its " +
        "session: give it as session_id to go on with that sub-agent, also after it was interrupted.",
      "Sub-agents:",
      ...agents.map(({ name, description }) => `- ${name}: ${description}`),
    ].join("\n"),
    inputSchema: {
      type: "object",
      properties: {
        task: { type: "string", minLength: 1, description: "what it is to do, and what it has to know for that" },
        agent: { type: "string", enum: agents.map(({ name }) => name), description: "who; without it, general" },
        session_id: { type: "string", description: "the session of an earlier task of yours, to go on with it" },
      },
      required: ["task"],
      additionalProperties: false,
    },
    // A call that runs again continues its sub-agent.
    effects: "idempotent",
    // The turn's own timeout or interruption ends it.
    timeoutMs: Number.POSITIVE_INFINITY,
    execute: (args, context) => run(args as unknown as Task, context), // By the input schema.
  };
}

export interface TaskEnd {
  readonly status: "completed" | "failed" | "interrupted";
  readonly text: string;
  /** Why it failed; undefined if it succeeded. */
  readonly problem?: string;
}

export function endOf(result: RunResult): TaskEnd {
  const { text, terminal_cause_kind: cause } = result;
  if (cause === undefined) return { status: "completed", text };
  return { status: "failed", text, problem: `it stopped short: ${cause}` };
}

/** The tool result, with the ids to read the rest. */
export function reportOf(
  end: TaskEnd,
  of: { readonly agent: string; readonly childId: string; readonly used: TaskUse; readonly bytesMax: number },
): ToolOutput {
  const { agent, childId, used, bytesMax } = of;
  const counts = `${plural(used.modelCalls, "model call")}, ${plural(totalTokens(used.usage), "token")}`;
  const reference = `[sub-agent ${agent}, session ${childId}, ${end.status}, ${counts}]`;
  const parts = [...(end.problem === undefined ? [] : [end.problem]), cut(end.text, bytesMax), reference];
  const content = parts.filter((part) => part !== "").join("\n\n");
  return end.status === "completed" ? content : { content, isError: true };
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function cut(text: string, bytesMax: number): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= bytesMax) return text;
  // Not fatal: a character cut at the end is dropped.
  const head = new TextDecoder().decode(bytes.subarray(0, bytesMax), { stream: true });
  return `${head}\n[… ${bytes.length - bytesMax} of ${bytes.length} bytes left out here; the session has all of it …]`;
}
