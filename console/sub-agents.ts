import { type Signal, signal } from "@preact/signals";
import { describeEvent } from "../src/clients/browser.ts";
import type { AgentEvent } from "../src/contract/event.ts";

/** A task that was handed to a sub-agent, and what is known of how it goes. */
export interface SubAgentTask {
  readonly seq: number;
  readonly callId: string;
  readonly childId: string;
  readonly agent: string;
  readonly task: string;
  readonly status: "running" | "completed" | "failed" | "interrupted";
  /** What it took, with its own sub-agents; undefined while it runs. */
  readonly tokens: number | undefined;
  /** What it does, as far as this page has heard it, a line each. */
  readonly inside: readonly { readonly depth: number; readonly text: string }[];
}

/** The sub-agents of a session, by its events. */
export interface SubAgents {
  readonly tasks: Signal<ReadonlyMap<string, SubAgentTask>>;
  hear(seq: number, event: AgentEvent): void;
  /** Sessions that may wait for a word: of those that run, and of theirs. */
  running(): readonly string[];
  between(seq: number, next: number): readonly SubAgentTask[];
}

const LINES_MAX = 200;
const WORDS_MAX = 160;

export function createSubAgents(): SubAgents {
  const tasks = signal<ReadonlyMap<string, SubAgentTask>>(new Map());
  /** The task that a session works for, also through others. */
  const taskOf = new Map<string, string>();
  const change = (callId: string, fields: Partial<SubAgentTask>): void => {
    const task = tasks.value.get(callId);
    if (task !== undefined) tasks.value = new Map(tasks.value).set(callId, { ...task, ...fields });
  };
  const hearInside = (childId: string, event: AgentEvent, depth: number): void => {
    const callId = taskOf.get(childId);
    const task = callId === undefined ? undefined : tasks.value.get(callId);
    if (callId === undefined || task === undefined) return;
    if (event.type === "sub_agent_started") taskOf.set(event.child_id, callId);
    if (event.type === "sub_agent_completed") taskOf.delete(event.child_id);
    const text = lineOf(event);
    if (text !== undefined) change(callId, { inside: [...task.inside, { depth, text }].slice(-LINES_MAX) });
  };
  return {
    tasks,
    hear: (seq, told) => {
      const { event, childId, depth } = heardIn(told);
      if (childId !== undefined) hearInside(childId, event, depth);
      else if (event.type === "sub_agent_started") {
        const { call_id: callId, child_id, agent, task } = event;
        // Told again to a page that comes back: what it has heard meanwhile stays.
        if (tasks.value.has(callId)) return;
        taskOf.set(child_id, callId);
        const begun = { seq, callId, childId: child_id, agent, task, status: "running", tokens: undefined, inside: [] };
        tasks.value = new Map(tasks.value).set(callId, begun as SubAgentTask); // Its fields, above.
      } else if (event.type === "sub_agent_completed") {
        const { call_id, child_id, status, usage } = event;
        for (const [session, task] of taskOf) if (task === call_id || session === child_id) taskOf.delete(session);
        change(call_id, { status, tokens: usage.input_tokens + usage.output_tokens });
      }
    },
    running: () => [...taskOf.keys()],
    between: (seq, next) => [...tasks.value.values()].filter((one) => one.seq > seq && one.seq < next),
  };
}

/** Whether an event of a sub-agent changes which questions wait. */
export function isAboutQuestion(told: AgentEvent): boolean {
  const { type } = heardIn(told).event;
  return type === "tool_approval_requested" || type === "tool_approval_answered";
}

/** Who handed a session its task, by the labels it was made with; undefined for one that nobody did. */
export function parentageOf(labels: Readonly<Record<string, string>> = {}) {
  const { parent, parent_call, agent } = labels;
  return parent === undefined || parent_call === undefined || agent === undefined ? undefined : { parent, agent };
}

const DEPTH_MAX = 64;

/** What happened, in which sub-agent's session, and how deep. */
function heardIn(told: AgentEvent) {
  let [event, depth]: [AgentEvent, number] = [told, 0];
  let childId: string | undefined;
  while (event.type === "sub_agent_event" && depth < DEPTH_MAX) {
    depth += Math.max(1, event.depth);
    childId = event.child_id;
    event = event.event as AgentEvent; // As that session tells it.
  }
  return { event, childId, depth };
}

/** What a reader of the card should see: calls, answers and approvals, and what is no piece or step of a turn. */
function lineOf(event: AgentEvent): string | undefined {
  const { level, text } = describeEvent(event);
  switch (event.type) {
    case "tool_call_requested":
    case "tool_execution_completed":
    case "text_complete":
    case "tool_approval_requested":
      return short(text);
    default:
      return level === "remark" || level === "notice" ? short(text) : undefined;
  }
}

function short(text: string): string {
  return text.length <= WORDS_MAX ? text : `${text.slice(0, WORDS_MAX)}…`;
}
