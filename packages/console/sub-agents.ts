import { type Signal, signal } from "@preact/signals";
import { describeEvent } from "@rkat/client/browser";
import type { AgentEvent } from "@rkat/core/contract/event";

export interface SubAgentTask {
  readonly seq: number;
  readonly callId: string;
  readonly childId: string;
  readonly agent: string;
  readonly task: string;
  readonly status: "running" | "completed" | "failed" | "interrupted";
  /** Tokens used, including its own sub-agents; undefined while it runs. */
  readonly tokens: number | undefined;
  /** The events of the task that this page received, one line each. */
  readonly activity: readonly { readonly depth: number; readonly text: string }[];
}

export interface SubAgents {
  readonly tasks: Signal<ReadonlyMap<string, SubAgentTask>>;
  handleEvent(seq: number, event: AgentEvent): void;
  /** The ids of running sub-agent sessions at any depth: they may have pending approvals. */
  running(): readonly string[];
  between(seq: number, next: number): readonly SubAgentTask[];
}

const LINES_MAX = 200;
const WORDS_MAX = 160;

export function createSubAgents(): SubAgents {
  const tasks = signal<ReadonlyMap<string, SubAgentTask>>(new Map());
  /** The task of this session that a sub-agent session belongs to, at any depth. */
  const taskOf = new Map<string, string>();
  const change = (callId: string, fields: Partial<SubAgentTask>): void => {
    const task = tasks.value.get(callId);
    if (task !== undefined) tasks.value = new Map(tasks.value).set(callId, { ...task, ...fields });
  };
  const handleInner = (childId: string, event: AgentEvent, depth: number): void => {
    const callId = taskOf.get(childId);
    const task = callId === undefined ? undefined : tasks.value.get(callId);
    if (callId === undefined || task === undefined) return;
    if (event.type === "sub_agent_started") taskOf.set(event.child_id, callId);
    if (event.type === "sub_agent_completed") taskOf.delete(event.child_id);
    const text = lineOf(event);
    if (text !== undefined) change(callId, { activity: [...task.activity, { depth, text }].slice(-LINES_MAX) });
  };
  return {
    tasks,
    handleEvent: (seq, received) => {
      const { event, childId, depth } = unwrap(received);
      if (childId !== undefined) handleInner(childId, event, depth);
      else if (event.type === "sub_agent_started") {
        const { call_id: callId, child_id, agent, task } = event;
        // The event is replayed after a reconnect: keep the recorded activity.
        if (tasks.value.has(callId)) return;
        taskOf.set(child_id, callId);
        const started = {
          seq,
          callId,
          childId: child_id,
          agent,
          task,
          status: "running",
          tokens: undefined,
          activity: [],
        };
        tasks.value = new Map(tasks.value).set(callId, started as SubAgentTask); // `status` is widened.
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

/** Whether an event of a sub-agent changes its pending approvals. */
export function isAboutApproval(received: AgentEvent): boolean {
  const { type } = unwrap(received).event;
  return type === "tool_approval_requested" || type === "tool_approval_answered";
}

/** The parent session and the name of a sub-agent, from the labels of its session; undefined for other sessions. */
export function parentageOf(labels: Readonly<Record<string, string>> = {}) {
  const { parent, parent_call, agent } = labels;
  return parent === undefined || parent_call === undefined || agent === undefined ? undefined : { parent, agent };
}

const DEPTH_MAX = 64;

/** Takes an event out of its `sub_agent_event` wrappers: the event, the session it belongs to, and its depth. */
function unwrap(received: AgentEvent) {
  let [event, depth]: [AgentEvent, number] = [received, 0];
  let childId: string | undefined;
  while (event.type === "sub_agent_event" && depth < DEPTH_MAX) {
    depth += Math.max(1, event.depth);
    childId = event.child_id;
    event = event.event as AgentEvent; // The wrapper carries the event unchanged.
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
