import { describeEvent, questionIn } from "@rkat/core/contract/describe-event";
import type { AgentEvent, AgentEventOf } from "@rkat/core/contract/event";
import type { ContentBlock, StopReason } from "@rkat/core/contract/message";
import type { UiChatData } from "@rkat/core/contract/wire/ui-chat";
import type { Delivery } from "@rkat/core/sessions/event-queue";

/** A piece of a UI message stream, as the AI SDK reads it. */
export interface UiChunk {
  readonly type: string;
  readonly [field: string]: unknown;
}

interface EncoderOptions {
  /** Whether a tool is run by the page. */
  isClientTool(name: string): boolean;
  /** Whether pieces are sent as they come; where the beginning was missed, the whole is sent at its end. */
  readonly sendsDeltas: boolean;
}

interface UiEncoder {
  encode(delivery: Delivery): readonly UiChunk[];
  /** The calls the turn ended with for the page to run. */
  pendingCalls(): readonly string[];
}

/** Encodes a turn as the parts of one message; the caller, who knows the message's id, writes its start. */
export function createUiEncoder(options: EncoderOptions): UiEncoder {
  const state = beginEncoding();
  const encode = ({ event }: Delivery): readonly UiChunk[] => {
    const chunks = chunksOf(event, state, options);
    if (chunks.some(({ transient }) => transient !== true)) state.isStepEmpty = event.type === "turn_started";
    return chunks;
  };
  return { encode, pendingCalls: () => state.pending };
}

/** How a message begins, for each reader of it. */
export function startOf(messageId: string, session_id: string): readonly UiChunk[] {
  const session: UiChatData["session"] = { session_id };
  return [
    { type: "start", messageId, messageMetadata: { session_id } },
    { type: "data-session", data: session, transient: true },
  ];
}

/** The approval of one call: a page answers calls one by one. */
function approvalIdOf(approval_id: string, call: string): string {
  return `${approval_id}:${call}`;
}

export function parseApprovalId(id: string): { readonly approval_id: string; readonly call: string } {
  const colon = id.indexOf(":");
  return { approval_id: id.slice(0, colon), call: id.slice(colon + 1) };
}

interface EncoderState {
  isInStep: boolean;
  /** Nothing was sent in the step; another process that repeats its model call continues it. */
  isStepEmpty: boolean;
  /** Parts begun so far; a part is known by its number. */
  parts: number;
  readonly text: OpenPart;
  readonly reasoning: OpenPart;
  readonly calls: Map<string, AgentEventOf<"tool_call_requested">>;
  /** Denied calls: the text that the model gets for them is no output. */
  readonly denied: Set<string>;
  pending: readonly string[];
  stop: StopReason | undefined;
}

interface OpenPart {
  readonly kind: "text" | "reasoning";
  id: string | undefined;
  /** The text sent so far, which may be incomplete. */
  said: string;
}

function beginEncoding(): EncoderState {
  return {
    isInStep: false,
    isStepEmpty: false,
    parts: 0,
    text: { kind: "text", id: undefined, said: "" },
    reasoning: { kind: "reasoning", id: undefined, said: "" },
    calls: new Map(),
    denied: new Set(),
    pending: [],
    stop: undefined,
  };
}

function chunksOf(
  event: AgentEvent,
  state: EncoderState,
  { isClientTool, sendsDeltas }: EncoderOptions,
): readonly UiChunk[] {
  switch (event.type) {
    case "turn_started": {
      if (state.isInStep && state.isStepEmpty) return [];
      const before = endStep(state);
      state.isInStep = true;
      return [...before, { type: "start-step" }];
    }
    case "reasoning_delta":
      return sendsDeltas ? say(state, state.reasoning, event.delta) : [];
    case "text_delta":
      return sendsDeltas ? say(state, state.text, event.delta) : [];
    case "reasoning_complete":
      return complete(state, state.reasoning, event.content);
    case "text_complete":
      return complete(state, state.text, event.content);
    case "tool_call_requested":
      state.calls.set(event.id, event);
      return [
        {
          type: "tool-input-available",
          toolCallId: event.id,
          toolName: event.name,
          input: event.args,
          // What runs here is none of the page's tools, and it must not try to run it.
          ...(isClientTool(event.name) ? {} : { dynamic: true, providerExecuted: true }),
        },
      ];
    case "tool_result_received":
      return resultOf(event, state, isClientTool);
    case "tool_approval_requested":
      return askFor(event);
    case "tool_approval_answered":
      return answered(event, state);
    case "sub_agent_event": {
      // Without a part for the call, which the page has never seen: the word is given to the sub-agent's own session.
      const question = questionIn(event);
      return question === undefined ? [] : [approvalPart(question)];
    }
    case "turn_completed":
      state.stop = event.stop_reason;
      return [];
    case "compaction_started":
      return [compaction({ phase: "started", ...withoutType(event) })];
    case "compaction_completed":
      return [compaction({ phase: "completed", ...withoutType(event) })];
    case "compaction_failed":
      return [compaction({ phase: "failed", ...withoutType(event) })];
    case "context_evicted":
      return [compaction({ phase: "evicted", ...withoutType(event) })];
    case "run_completed":
      return finish(event, state);
    case "run_failed": {
      const last = endStep(state);
      if (event.error_class === "cancelled") return [...last, { type: "abort", reason: event.error }];
      return [...last, { type: "error", errorText: event.error }];
    }
    default:
      return noticeOf(event);
  }
}

/** Notices about a turn; not stored in the message. */
function noticeOf(event: AgentEvent): readonly UiChunk[] {
  const { level, text } = describeEvent(event);
  const data: UiChatData["notice"] = { event: event.type, text };
  return level === "notice" ? [{ type: "data-notice", data, transient: true }] : [];
}

/** A part of a stream that only says something. */
function say(state: EncoderState, part: OpenPart, delta: string): readonly UiChunk[] {
  if (delta === "") return [];
  const chunks: UiChunk[] = [];
  if (part.id === undefined) {
    state.parts += 1;
    part.id = String(state.parts);
    chunks.push({ type: `${part.kind}-start`, id: part.id });
  }
  part.said += delta;
  return [...chunks, { type: `${part.kind}-delta`, id: part.id, delta }];
}

/** What was said too fast for its reader comes late rather than never. */
function complete(state: EncoderState, part: OpenPart, content: string): readonly UiChunk[] {
  if (part.said.startsWith(content)) {
    // Several texts of one answer may have come as one.
    part.said = part.said.slice(content.length);
    return part.said === "" ? close(part) : [];
  }
  const before = content.startsWith(part.said) ? [] : close(part);
  const rest = say(state, part, content.slice(part.said.length));
  return [...before, ...rest, ...close(part)];
}

function close(part: OpenPart): readonly UiChunk[] {
  const { id, kind } = part;
  part.id = undefined;
  part.said = "";
  return id === undefined ? [] : [{ type: `${kind}-end`, id }];
}

function endStep(state: EncoderState): readonly UiChunk[] {
  const open = [...close(state.reasoning), ...close(state.text)];
  if (!state.isInStep) return open;
  state.isInStep = false;
  return [...open, { type: "finish-step" }];
}

function resultOf(
  { id, name, content = [], is_error }: AgentEventOf<"tool_result_received">,
  { calls, denied }: EncoderState,
  isClientTool: (name: string) => boolean,
): readonly UiChunk[] {
  const call = calls.get(id);
  // A result that the page gave is one it has, of a message before.
  if (call === undefined || denied.has(id)) return [];
  const run = { toolCallId: id, ...(isClientTool(name) ? {} : { dynamic: true, providerExecuted: true }) };
  const output = outputOf(content);
  if (is_error) return [{ type: "tool-output-error", ...run, errorText: String(output) }];
  return [{ type: "tool-output-available", ...run, output }, ...memoryIn(call, output)];
}

/** A text where it is one; else the blocks. */
function outputOf(content: readonly ContentBlock[]): unknown {
  return content.every((block) => block.type === "text") ? content.map(({ text }) => text).join("\n") : content;
}

const MEMORY_TOOL = "memory_search";

function memoryIn({ name, args }: AgentEventOf<"tool_call_requested">, output: unknown): readonly UiChunk[] {
  if (name !== MEMORY_TOOL || typeof output !== "string") return [];
  const hits: unknown = hitsIn(output);
  if (!Array.isArray(hits)) return [];
  return [{ type: "data-memory", data: { query: String(args.query ?? ""), hits } }];
}

function hitsIn(output: string): unknown {
  try {
    return JSON.parse(output);
  } catch {
    // It says in words that nothing was found.
    return undefined;
  }
}

function askFor(event: AgentEventOf<"tool_approval_requested">): readonly UiChunk[] {
  const { approval_id, calls } = event;
  return [
    ...calls.map(({ id, why }) => ({
      type: "tool-approval-request",
      approvalId: approvalIdOf(approval_id, id),
      toolCallId: id,
      reason: why,
    })),
    approvalPart(event),
  ];
}

function approvalPart(event: AgentEventOf<"tool_approval_requested">): UiChunk {
  const data: UiChatData["approval"] = withoutType(event);
  return { type: "data-approval", id: event.approval_id, data };
}

function answered(
  { approval_id, decision, calls, reason }: AgentEventOf<"tool_approval_answered">,
  state: EncoderState,
): readonly UiChunk[] {
  const approved = decision === "allow";
  return calls
    .filter((id) => state.calls.has(id))
    .flatMap((id) => {
      const because = reason === undefined ? {} : { reason };
      const word = { type: "tool-approval-response", approvalId: approvalIdOf(approval_id, id), approved, ...because };
      if (approved) return [word];
      state.denied.add(id);
      return [word, { type: "tool-output-denied", toolCallId: id }];
    });
}

function compaction(data: UiChatData["compaction"]): UiChunk {
  return { type: "data-compaction", data };
}

function withoutType<E extends AgentEvent>({ type: _type, ...fields }: E): Omit<E, "type"> {
  return fields;
}

/** A limit that ended the turn cuts it as one of tokens does. */
function finish(event: AgentEventOf<"run_completed">, state: EncoderState): readonly UiChunk[] {
  const { usage, turn_cost, pending_calls = [], terminal_cause_kind } = event;
  state.pending = pending_calls;
  const data: UiChatData["usage"] = turn_cost === undefined ? { usage } : { usage, turn_cost };
  const isCut = state.stop === "max_tokens" || terminal_cause_kind !== undefined;
  const filtered = state.stop === "content_filter" ? "content-filter" : "stop";
  const finishReason = pending_calls.length > 0 ? "tool-calls" : isCut ? "length" : filtered;
  return [...endStep(state), { type: "data-usage", data }, { type: "finish", finishReason }];
}
