import { RuntimeError } from "@rkat/core/contract/error";
import type { AgentEvent, AgentEventOf, TerminalCause, Usage } from "@rkat/core/contract/event";
import type { PendingCall, StopReason } from "@rkat/core/contract/message";
import { answerText, BETWEEN_ANSWERS } from "./client-view.ts";
import { errorOf } from "./failure.ts";
import type { Encoder, Frame } from "./turn-route.ts";

export interface ChatAnswer {
  readonly id: string;
  readonly createdSecs: number;
  readonly model: string;
  /** Whether it is JSON of a schema, which is sent once it is complete. */
  readonly isStructured: boolean;
  readonly sendsUsage: boolean;
  usedBefore(): Usage | undefined;
}

type Finish = "stop" | "length" | "tool_calls" | "content_filter";

/** Encodes a turn as a chat completion, whole or in chunks. */
export function createChatEncoder(answer: ChatAnswer): Encoder {
  const state = beginEncoding();
  const chunk = (delta: object, finish_reason: Finish | null = null): Frame => ({
    data: {
      ...headOf(answer, "chat.completion.chunk"),
      choices: [{ index: 0, delta, logprobs: null, finish_reason }],
      ...(answer.sendsUsage ? { usage: null } : {}),
    },
  });
  const reported = (message: ChatMessage, finish: Finish, usage: unknown): readonly Frame[] => [
    ...(message.tool_calls ?? []).map((call, index) => chunk({ tool_calls: [{ index, ...call }] })),
    chunk({}, finish),
    ...(answer.sendsUsage ? [{ data: { ...headOf(answer, "chat.completion.chunk"), choices: [], usage } }] : []),
  ];
  const say = (text: string): readonly Frame[] =>
    text === "" || answer.isStructured ? [] : [chunk({ content: text })];

  return {
    sessionId: () => state.sessionId,
    encode: ({ event }) => {
      if (event.type === "run_started") {
        state.sessionId = event.session_id;
        return [chunk({ role: "assistant", content: "", refusal: null })];
      }
      return say(take(state, event));
    },
    end: (thrown) => {
      const failure = thrown ?? state.mismatch;
      if (failure !== undefined) {
        return { frames: [{ data: { error: errorOf(failure) } }], body: undefined, isFailed: true, failure };
      }
      const calls = state.pending.flatMap((id) => state.calls.get(id) ?? []);
      const text = state.structured ?? answerText(state.texts);
      const message = messageOf(text, calls);
      const finish = calls.length > 0 ? "tool_calls" : finishOf(state);
      const usage = usageOf(state.usage, answer.usedBefore());
      const body = {
        ...headOf(answer, "chat.completion"),
        choices: [{ index: 0, message, logprobs: null, finish_reason: finish }],
        usage,
      };
      const late = answer.isStructured && text !== "" ? [chunk({ content: text })] : [];
      return { frames: [...late, ...reported(message, finish, usage)], body, isFailed: false };
    },
    replay: (body) => {
      // The body of an earlier answer of this encoder.
      const { choices, usage } = body as { choices: [{ message: ChatMessage; finish_reason: Finish }]; usage: unknown };
      const [{ message, finish_reason }] = choices;
      const first = chunk({ role: "assistant", content: message.content ?? "", refusal: null });
      return [first, ...reported(message, finish_reason, usage)];
    },
  };
}

interface EncoderState {
  sessionId: string | undefined;
  /** The answers of the turn that are whole. */
  readonly texts: string[];
  /** The streamed text of the newest. */
  open: string | undefined;
  readonly calls: Map<string, PendingCall>;
  pending: readonly string[];
  stop: StopReason | undefined;
  cause: TerminalCause | undefined;
  usage: Usage;
  structured: string | undefined;
  /** Why there is no answer in the requested format. */
  mismatch: RuntimeError | undefined;
}

function beginEncoding(): EncoderState {
  return {
    sessionId: undefined,
    texts: [],
    open: undefined,
    calls: new Map(),
    pending: [],
    stop: undefined,
    cause: undefined,
    usage: { input_tokens: 0, output_tokens: 0 },
    structured: undefined,
    mismatch: undefined,
  };
}

function take(state: EncoderState, event: AgentEvent): string {
  switch (event.type) {
    case "turn_started":
      state.open = undefined;
      return "";
    case "text_delta": {
      const isFirst = state.open === undefined;
      state.open = (state.open ?? "") + event.delta;
      return `${isFirst && state.texts.length > 0 ? BETWEEN_ANSWERS : ""}${event.delta}`;
    }
    case "text_complete": {
      const before = state.open ?? "";
      const isFirst = state.open === undefined && state.texts.length > 0;
      state.texts.push(event.content);
      state.open = undefined;
      // Text that a slow reader missed is sent late.
      const rest = event.content.startsWith(before) ? event.content.slice(before.length) : "";
      return rest === "" ? "" : `${isFirst ? BETWEEN_ANSWERS : ""}${rest}`;
    }
    case "tool_call_requested":
      state.calls.set(event.id, { id: event.id, name: event.name, args: event.args });
      return "";
    case "turn_completed":
      state.stop = event.stop_reason;
      return "";
    case "run_completed":
      state.pending = event.pending_calls ?? [];
      state.cause = event.terminal_cause_kind;
      state.usage = event.usage;
      return "";
    case "extraction_succeeded":
      state.structured = JSON.stringify(event.structured_output);
      return "";
    case "extraction_failed":
      state.mismatch = mismatch(event);
      return "";
    default:
      return "";
  }
}

interface ChatMessage {
  readonly role: "assistant";
  readonly content: string | null;
  readonly refusal: null;
  readonly tool_calls?: readonly object[];
}

function messageOf(text: string, calls: readonly PendingCall[]): ChatMessage {
  const tool_calls = calls.map(({ id, name, args }) => ({
    id,
    type: "function",
    function: { name, arguments: JSON.stringify(args) },
  }));
  const called = calls.length === 0 ? {} : { tool_calls };
  return { role: "assistant", content: text === "" && calls.length > 0 ? null : text, refusal: null, ...called };
}

function headOf({ id, createdSecs, model }: ChatAnswer, object: string) {
  return { id, object, created: createdSecs, model };
}

/** A limit that ended the turn cuts it as one of tokens does. */
function finishOf({ stop, cause }: EncoderState): Finish {
  if (stop === "content_filter") return "content_filter";
  return stop === "max_tokens" || cause !== undefined ? "length" : "stop";
}

function mismatch({ reason, session_id }: AgentEventOf<"extraction_failed">): RuntimeError {
  const message = `the model's answer does not match the format that was asked for: ${reason}`;
  return new RuntimeError("PROVIDER_ERROR", message, { details: { session_id } });
}

/** The usage of a turn; a session reports the sum of its turns. */
function usageOf(after: Usage, before: Usage | undefined) {
  const since = (count: (usage: Usage) => number | undefined): number =>
    Math.max(0, (count(after) ?? 0) - ((before && count(before)) ?? 0));
  const prompt_tokens = since(({ input_tokens }) => input_tokens);
  const completion_tokens = since(({ output_tokens }) => output_tokens);
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens: since(({ cache_read_tokens }) => cache_read_tokens) },
    completion_tokens_details: { reasoning_tokens: since(({ reasoning_tokens }) => reasoning_tokens) },
  };
}
