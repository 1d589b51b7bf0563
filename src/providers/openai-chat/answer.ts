import type { Usage } from "../../contract/event.ts";
import type { AssistantBlock, StopReason } from "../../contract/message.ts";
import type { ModelPart } from "../../ports/model.ts";
import { countOf } from "../ai-sdk/usage.ts";
import { toolUseBlock } from "../tool-arguments.ts";

interface OpenCall {
  id: string;
  name: string;
  args: string;
}

/** Gathers the events of one answer; parts to pass on are taken after each network read. */
export class ChatAnswer {
  /** The server said that nothing follows. */
  isOver = false;
  #parts: ModelPart[] = [];
  #text = "";
  #reasoning = "";
  readonly #calls: OpenCall[] = [];
  #finishReason: string | undefined;
  #usage: Usage = { input_tokens: 0, output_tokens: 0 };

  /** Whether the model said that it was done. */
  get isFinished(): boolean {
    return this.#finishReason !== undefined;
  }

  /** Reads one line of the event stream; throws what cannot be read and what the server reports as an error. */
  read(line: string): void {
    if (!line.startsWith("data:")) {
      // Some servers answer a request they refuse with plain JSON after all.
      if (line.startsWith("{")) this.#readChunk(line);
      return;
    }
    const data = line.slice(5).trim();
    if (data === "[DONE]") this.isOver = true;
    else if (data !== "") this.#readChunk(data);
  }

  /** What was read since the last time. */
  take(): readonly ModelPart[] {
    const parts = this.#parts;
    this.#parts = [];
    return parts;
  }

  /** The answer's blocks and its end. */
  finish(): readonly ModelPart[] {
    const blocks: AssistantBlock[] = [];
    if (this.#reasoning !== "") blocks.push({ block_type: "reasoning", data: { text: this.#reasoning } });
    if (this.#text !== "") blocks.push({ block_type: "text", data: { text: this.#text } });
    const calls = this.#calls.filter((call) => call.name !== "");
    for (const [index, call] of calls.entries()) {
      blocks.push(toolUseBlock({ id: call.id === "" ? `call_${index}` : call.id, name: call.name, input: call.args }));
    }
    const stopReason = stopReasonOf(this.#finishReason, calls.length > 0);
    const parts = blocks.map((block): ModelPart => ({ type: "block", block }));
    return [...parts, { type: "finish", stopReason, usage: this.#usage }];
  }

  #readChunk(json: string): void {
    const chunk = asRecord(JSON.parse(json));
    if (chunk.error !== undefined && chunk.error !== null) throw chunk;
    if (chunk.usage !== undefined && chunk.usage !== null) this.#usage = usageOf(asRecord(chunk.usage));
    const choice = asRecord(Array.isArray(chunk.choices) ? chunk.choices[0] : undefined);
    this.#readDelta(asRecord(choice.delta ?? choice.message));
    if (typeof choice.finish_reason === "string") this.#finishReason = choice.finish_reason;
  }

  #readDelta(delta: Loose): void {
    const { content, tool_calls } = delta;
    const reasoning = delta.reasoning_content ?? delta.reasoning;
    if (typeof reasoning === "string" && reasoning !== "") {
      this.#reasoning += reasoning;
      this.#parts.push({ type: "reasoning_delta", delta: reasoning });
    }
    if (typeof content === "string" && content !== "") {
      this.#text += content;
      this.#parts.push({ type: "text_delta", delta: content });
    }
    if (!Array.isArray(tool_calls)) return;
    for (const piece of tool_calls) this.#readCall(asRecord(piece));
    // Writing a long tool input shows nothing and must not be taken for a stall.
    this.#parts.push(SIGN_OF_LIFE);
  }

  #readCall({ index, id, function: called }: Loose): void {
    const at = typeof index === "number" && index >= 0 && index < CALLS_MAX ? Math.floor(index) : this.#calls.length;
    while (this.#calls.length <= at) this.#calls.push({ id: "", name: "", args: "" });
    const call = this.#calls[at];
    if (call === undefined) return;
    const { name, arguments: args } = asRecord(called);
    if (typeof id === "string" && id !== "") call.id = id;
    if (typeof name === "string" && name !== "") call.name = name;
    if (typeof args === "string") call.args += args;
  }
}

const CALLS_MAX = 1_024;
const SIGN_OF_LIFE: ModelPart = { type: "text_delta", delta: "" };

function stopReasonOf(reason: string | undefined, hasCalls: boolean): StopReason {
  if (reason === "length") return "max_tokens";
  if (reason === "content_filter") return "content_filter";
  // Not the word but the calls decide: some servers say "stop" with calls, and calls must be answered.
  return hasCalls ? "tool_use" : "end_turn";
}

function usageOf(usage: Loose): Usage {
  const cached = countOf(asRecord(usage.prompt_tokens_details).cached_tokens);
  return {
    input_tokens: countOf(usage.prompt_tokens) ?? 0,
    output_tokens: countOf(usage.completion_tokens) ?? 0,
    ...(cached === undefined ? {} : { cache_read_tokens: cached }),
  };
}

type Loose = Readonly<Record<string, unknown>>;

function asRecord(value: unknown): Loose {
  return typeof value === "object" && value !== null ? (value as Loose) : {}; // any object may be read by name
}
