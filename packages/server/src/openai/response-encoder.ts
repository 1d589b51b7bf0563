import type { RuntimeError } from "@rkat/core/contract/error";
import type { AgentEvent, AgentEventOf, Usage } from "@rkat/core/contract/event";
import type { Delivery } from "@rkat/core/sessions/event-queue";
import { responseId } from "./ids.ts";
import type { Echo } from "./response-echo.ts";
import { createItems, type Item } from "./response-items.ts";
import type { Encoder, Frame } from "./turn-route.ts";

interface ResponseParts {
  readonly echo: Echo;
  isClientCall(call: { readonly id: string; readonly name: string }): boolean;
  /** Whether the answer is what a schema asks for, and no text besides. */
  readonly wantsJson: boolean;
  began?(id: string): void;
}

/** The body of a response: what is read of it here, and the rest. */
type ResponseBody = Echo & { readonly output: readonly Item[] };

interface ResponseEncoder extends Encoder {
  body(): ResponseBody;
  end(failure: RuntimeError | undefined): ReturnType<Encoder["end"]> & { readonly body: ResponseBody };
}

/** Encodes a turn as a response, from the log or while it runs. */
export function createResponseEncoder(parts: ResponseParts): ResponseEncoder {
  let place: { readonly id: string; readonly session_id: string; readonly created_at: number } | undefined;
  let completedAt: number | null = null;
  let number = 0;
  let usage: Usage = { input_tokens: 0, output_tokens: 0 };
  let end: AgentEventOf<"run_completed"> | AgentEventOf<"run_failed"> | undefined;
  let stop: string | undefined;
  let structured: unknown;
  let failure: RuntimeError | undefined;

  const frame = (type: string, data: Readonly<Record<string, unknown>>): Frame => {
    const event = { type, sequence_number: number, ...data };
    number += 1;
    return { type, data: event };
  };
  const items = createItems(() => place?.id ?? "", frame);

  const body = (status = statusOf()): ResponseBody => ({
    id: place?.id ?? "",
    object: "response",
    created_at: place?.created_at ?? 0,
    completed_at: status === "completed" ? completedAt : null,
    status,
    error: status === "failed" ? { code: "server_error", message: failureText() } : null,
    incomplete_details: status === "incomplete" ? { reason: reasonOf(stop, end) } : null,
    ...parts.echo,
    output: items.all(status),
    output_text: textIn(items.all(status)),
    usage: status === "in_progress" ? null : usageOf(usage),
  });
  const failureText = () => failure?.message ?? (end?.type === "run_failed" ? end.error : "the turn failed");
  const statusOf = (): string => {
    if (end === undefined) return failure === undefined ? "in_progress" : "failed";
    if (end.type === "run_completed") return reasonOf(stop, end) === undefined ? "completed" : "incomplete";
    if (end.error_class === "cancelled") return "cancelled";
    return reasonOf(stop, end) === undefined ? "failed" : "incomplete";
  };

  const encode = ({ seq, event, timestamp_ms }: Delivery): readonly Frame[] => {
    switch (event.type) {
      case "run_started": {
        const { session_id } = event;
        place = { id: responseId({ session_id, seq }), session_id, created_at: Math.floor(timestamp_ms / 1_000) };
        parts.began?.(place.id);
        const response = body("in_progress");
        return [frame("response.created", { response }), frame("response.in_progress", { response })];
      }
      case "reasoning_delta":
        return items.add("reasoning", event.delta);
      case "reasoning_complete":
        return items.finish("reasoning", event.content);
      case "text_delta":
        return parts.wantsJson ? [] : items.add("message", event.delta);
      case "text_complete":
        return parts.wantsJson ? [] : items.finish("message", event.content);
      case "tool_call_requested":
        return parts.isClientCall(event) ? items.callFunction(event) : items.callTool(event);
      case "tool_execution_completed":
        return items.answerTool(event);
      case "retrying":
      case "turn_adopted":
        return items.abandon();
      case "turn_completed":
        stop = event.stop_reason;
        usage = sumOf(usage, event.usage);
        return [];
      case "extraction_succeeded":
        structured = event.structured_output;
        return [];
      case "run_completed":
        structured ??= event.structured_output;
        end = event;
        completedAt = Math.floor(timestamp_ms / 1_000);
        return [];
      case "run_failed":
        end = event;
        return [];
      default:
        return [];
    }
  };
  return {
    sessionId: () => place?.session_id,
    encode,
    body: () => body(),
    end: (thrown) => {
      failure = thrown;
      const frames = [...items.abandon()];
      if (parts.wantsJson && structured !== undefined)
        frames.push(...items.finish("message", JSON.stringify(structured)));
      const status = statusOf();
      const response = body(status);
      const type = status === "cancelled" ? "response.incomplete" : `response.${status}`;
      frames.push(frame(type, { response }));
      return { frames, body: response, isFailed: thrown !== undefined && status === "failed" };
    },
    replay: (response) => [
      { type: "response.completed", data: { type: "response.completed", sequence_number: 0, response } },
    ],
  };
}

/** Why a turn is incomplete; undefined for a complete one. */
function reasonOf(stop: string | undefined, end: AgentEvent | undefined): string | undefined {
  if (stop === "content_filter") return "content_filter";
  if (stop === "max_tokens") return "max_output_tokens";
  if (end?.type === "run_failed") return end.error_class === "max_tokens" ? "max_output_tokens" : undefined;
  // A limit of the session's: OpenAI has no word for it, and its own would send clients after the wrong one.
  return end?.type === "run_completed" ? end.terminal_cause_kind : undefined;
}

function sumOf(one: Usage, other: Usage): Usage {
  return {
    input_tokens: one.input_tokens + other.input_tokens,
    output_tokens: one.output_tokens + other.output_tokens,
    cache_read_tokens: (one.cache_read_tokens ?? 0) + (other.cache_read_tokens ?? 0),
    reasoning_tokens: (one.reasoning_tokens ?? 0) + (other.reasoning_tokens ?? 0),
  };
}

export function usageOf({ input_tokens, output_tokens, cache_read_tokens = 0, reasoning_tokens = 0 }: Usage) {
  return {
    input_tokens,
    input_tokens_details: { cached_tokens: cache_read_tokens },
    output_tokens,
    output_tokens_details: { reasoning_tokens },
    total_tokens: input_tokens + output_tokens,
  };
}

function textIn(output: readonly Item[]): string {
  return output.flatMap((item) => (item.type === "message" ? item.content.map(({ text }) => text) : [])).join("");
}
