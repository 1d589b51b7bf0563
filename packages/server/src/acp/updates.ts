import type { ClientCapabilities, ContentBlock, Plan, PlanEntry, SessionUpdate } from "@agentclientprotocol/sdk";
import { describeEvent, unwrapSubAgentEvent } from "@rkat/core/contract/describe-event";
import type { AgentEvent, AgentEventOf, Usage } from "@rkat/core/contract/event";
import { isRecord } from "@rkat/core/contract/json";
import type { AssistantBlock, Content, Message } from "@rkat/core/contract/message";
import { promptBlocks } from "./prompt-content.ts";
import { describeCall, resultContent } from "./tool-calls.ts";

/** Optional updates of a client. */
export interface Wishes {
  readonly compactions: boolean;
  readonly notices: boolean;
}

export function wishesOf(capabilities: ClientCapabilities | undefined): Wishes {
  const session = capabilities?.session;
  return {
    compactions: isOffered(session?.compaction),
    notices: isOffered(session?.notices),
  };
}

function isOffered(capability: object | null | undefined): boolean {
  return capability !== undefined && capability !== null;
}

export interface UpdateContext {
  readonly root: string;
  readonly wishes: Wishes;
  readonly tasks: Tasks;
  /** Content with its media in it. */
  fill(content: Content): Promise<Content>;
  /** The context window in tokens; undefined where it is unknown. */
  readonly window: number | undefined;
}

/** The updates of an event; compactions, which have an id there, are sent elsewhere. */
export function updatesOf(event: AgentEvent, updateContext: UpdateContext): readonly SessionUpdate[] {
  switch (event.type) {
    case "text_delta":
      return [{ sessionUpdate: "agent_message_chunk", content: textBlock(event.delta) }];
    case "reasoning_delta":
      return [{ sessionUpdate: "agent_thought_chunk", content: textBlock(event.delta) }];
    case "tool_call_requested":
      return [{ sessionUpdate: "tool_call", status: "pending", ...describeCall(event, updateContext.root) }];
    case "tool_execution_started":
      return [{ sessionUpdate: "tool_call_update", toolCallId: event.id, status: "in_progress" }];
    case "tool_execution_completed":
      return ended(event, updateContext);
    case "tool_execution_timed_out":
      return [{ sessionUpdate: "tool_call_update", toolCallId: event.id, status: "failed" }];
    case "tool_result_received":
      // A refused call never ran, so no other event ends it.
      return event.is_error ? [{ sessionUpdate: "tool_call_update", toolCallId: event.id, status: "failed" }] : [];
    case "sub_agent_started":
      return [titled(event.call_id, `${event.agent}: ${event.task}`)];
    case "sub_agent_event":
      return callInside(event, updateContext);
    case "sub_agent_completed":
      return [titled(event.call_id, `${event.agent}: ${event.status}, ${usedBy(event.usage)} tokens`)];
    case "turn_completed":
      return usageUpdate(usedBy(event.usage), updateContext.window);
    case "context_evicted":
      return notice(updateContext.wishes, "info", titleOf(event));
    default:
      return describeEvent(event).level === "notice" ? notice(updateContext.wishes, "warning", titleOf(event)) : [];
  }
}

function titleOf(event: AgentEvent): string {
  const { text } = describeEvent(event);
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

function ended(event: AgentEventOf<"tool_execution_completed">, { tasks }: UpdateContext): readonly SessionUpdate[] {
  const { id, name, result, is_error } = event;
  const content = name === "apply_patch" && !is_error ? {} : { content: resultContent(event.content ?? result) };
  const status = is_error ? "failed" : "completed";
  const plan = is_error ? undefined : takeTasks(tasks, name, result);
  return [
    { sessionUpdate: "tool_call_update", toolCallId: id, status, ...content, rawOutput: result },
    ...(plan === undefined ? [] : [{ sessionUpdate: "plan" as const, ...plan }]),
  ];
}

const TITLE_CHARS_MAX = 200;

/** A sub-agent's activity is shown in the title of its call. */
function titled(toolCallId: string, words: string): SessionUpdate {
  const title = words.replace(/\s+/g, " ").slice(0, TITLE_CHARS_MAX);
  return { sessionUpdate: "tool_call_update", toolCallId, title };
}

/** Of a sub-agent's own sub-agents the client knows no call. */
function callInside(reported: AgentEventOf<"sub_agent_event">, { root }: UpdateContext): readonly SessionUpdate[] {
  const { event, depth, agent } = unwrapSubAgentEvent(reported);
  if (depth !== 1 || event.type !== "tool_call_requested") return [];
  return [titled(reported.call_id, `${agent}: ${describeCall(event, root).title ?? event.name}`)];
}

function usedBy({ input_tokens, output_tokens }: Usage): number {
  return input_tokens + output_tokens;
}

/** The usage of the context; nothing where the window is unknown. */
export function usageUpdate(used: number, window: number | undefined, cost?: Usage["cost"]): readonly SessionUpdate[] {
  if (window === undefined) return [];
  const spent = cost === undefined ? {} : { cost: { amount: cost.amount, currency: "USD" } };
  return [{ sessionUpdate: "usage_update", used, size: window, ...spent }];
}

export function notice(
  wishes: Wishes,
  severity: "info" | "warning" | "error",
  title: string,
): readonly SessionUpdate[] {
  return wishes.notices ? [{ sessionUpdate: "notice", severity, title }] : [];
}

export function textBlock(text: string): ContentBlock {
  return { type: "text", text };
}

/** A compaction as a client sees it, from its begin to its end. */
export interface ReportedCompaction {
  readonly compaction_id: string;
  readonly summary: string;
}

export function compactionUpdates({ compaction_id, summary }: ReportedCompaction): readonly SessionUpdate[] {
  const compactionId = compaction_id;
  const chunk = { sessionUpdate: "compaction_summary_chunk" as const, compactionId, content: textBlock(summary) };
  const done = { sessionUpdate: "compaction_update" as const, compactionId, status: "completed" };
  return summary === "" ? [done] : [chunk, done];
}

type SeqMessage = Message & { readonly seq: number };
type SeqCompaction = ReportedCompaction & { readonly seq: number };

/** The updates that replay a transcript, with its compactions in their places; in parts, since media are large. */
export function replayOf(
  messages: readonly SeqMessage[],
  compactions: readonly SeqCompaction[],
  updateContext: UpdateContext,
): readonly (() => Promise<readonly SessionUpdate[]>)[] {
  const names = new Map<string, string>();
  const reported = updateContext.wishes.compactions ? compactions : [];
  const parts = [
    ...messages.map((message) => ({ seq: message.seq, updates: () => messageUpdates(message, updateContext, names) })),
    ...reported.map((compaction) => ({ seq: compaction.seq, updates: async () => compactionUpdates(compaction) })),
  ];
  return parts.toSorted((one, other) => one.seq - other.seq).map(({ updates }) => updates);
}

async function messageUpdates(
  message: SeqMessage,
  updateContext: UpdateContext,
  names: Map<string, string>,
): Promise<readonly SessionUpdate[]> {
  const messageId = String(message.seq);
  switch (message.role) {
    case "system":
    case "system_notice":
      return [];
    case "user":
      return promptBlocks(await updateContext.fill(message.content)).map((content) => ({
        sessionUpdate: "user_message_chunk",
        content,
        messageId,
      }));
    case "block_assistant":
      return message.blocks.flatMap((block) => blockUpdates(block, { messageId, root: updateContext.root, names }));
    case "tool_results": {
      const reported = message.results.map(async ({ tool_use_id, content: kept, is_error }) => {
        const name = names.get(tool_use_id) ?? "";
        const content = await updateContext.fill(kept);
        const blocks = promptBlocks(content);
        const result = blocks.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
        const event = { type: "tool_execution_completed", id: tool_use_id, name, result, is_error, duration_ms: 0 };
        const whole = typeof content === "string" ? {} : { content };
        return ended({ ...event, ...whole } as AgentEventOf<"tool_execution_completed">, updateContext); // Its fields, above.
      });
      return (await Promise.all(reported)).flat();
    }
  }
}

function blockUpdates(
  block: AssistantBlock,
  { messageId, root, names }: { messageId: string; root: string; names: Map<string, string> },
): readonly SessionUpdate[] {
  switch (block.block_type) {
    case "text":
      return [{ sessionUpdate: "agent_message_chunk", content: textBlock(block.data.text), messageId }];
    case "reasoning":
      return [{ sessionUpdate: "agent_thought_chunk", content: textBlock(block.data.text), messageId }];
    case "tool_use":
      names.set(block.data.id, block.data.name);
      return [{ sessionUpdate: "tool_call", status: "pending", ...describeCall(block.data, root) }];
    case "image": {
      const content = { type: "image" as const, mimeType: block.data.media_type, data: block.data.data };
      return [{ sessionUpdate: "agent_message_chunk", content, messageId }];
    }
    case "server_tool_content":
      return [];
  }
}

export type Tasks = Map<string, PlanEntry>;

const TASKS_MAX = 200;
const PRIORITIES = ["high", "medium", "low"] as const;
const STATUSES = ["pending", "in_progress", "completed"] as const;

/** Applies the result of a task tool; returns the plan when it changed, undefined for other tools. */
function takeTasks(tasks: Tasks, tool: string, answer: string): Plan | undefined {
  if (!/^task_(?:create|get|list|update)$/.test(tool)) return undefined;
  const before = JSON.stringify([...tasks]);
  for (const task of tasksIn(answer)) {
    const priority = PRIORITIES.find((known) => known === task.priority) ?? "medium";
    const status = STATUSES.find((known) => known === task.status) ?? "pending";
    const id = String(task.id);
    if (tasks.has(id) || tasks.size < TASKS_MAX) tasks.set(id, { content: String(task.subject), priority, status });
  }
  return JSON.stringify([...tasks]) === before ? undefined : { entries: [...tasks.values()] };
}

function tasksIn(answer: string): readonly Readonly<Record<string, unknown>>[] {
  try {
    const value: unknown = JSON.parse(answer);
    return (Array.isArray(value) ? value : [value]).filter((task) => isRecord(task) && "subject" in task);
  } catch {
    // A task tool that failed answers with a sentence.
    return [];
  }
}
