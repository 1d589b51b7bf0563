import { invalid } from "@rkat/core/contract/error";
import type { AssistantBlock, Content, Message } from "@rkat/core/contract/message";
import type { MessageInput } from "@rkat/core/contract/rewrite";
import type { CreateResponse, InputItem, SaidItem } from "@rkat/core/contract/wire/openai";
import { contentOf, joined, textOf } from "./content.ts";
import type { SeqMessage } from "./response-log.ts";

/** An input, split into earlier messages and new ones. */
export interface Decoded {
  readonly history: readonly MessageInput[];
  /** What the system says at its beginning. */
  readonly system: readonly string[];
  /** What it says later, to the turn. */
  readonly notes: readonly string[];
  /** Empty where results alone are new. */
  readonly prompt: Content;
  readonly results: readonly { readonly tool_use_id: string; readonly content: Content }[];
}

/** The last output of the model ends the earlier part: everything after it is new. */
export function decodeInput(input: CreateResponse["input"]): Decoded {
  if (input === undefined) return { history: [], system: [], notes: [], prompt: "", results: [] };
  const items = input.filter((item) => !LEFT_OUT.has(item.type));
  const from = items.findLastIndex((item) => isOfModel(item)) + 1;
  const fresh = items.slice(from).map((item, index) => ({ item, at: `input[${from + index}]` }));
  const before = items.slice(0, from);
  const isSystem = (item: InputItem): boolean => isSaid(item) && (item.role === "system" || item.role === "developer");
  const leading = items.findIndex((item) => !isSystem(item));
  const systemEnd = leading < 0 ? items.length : leading;
  return {
    history: historyOf(before.slice(Math.min(systemEnd, from))),
    system: items
      .slice(0, systemEnd)
      .flatMap((item) => (isSaid(item) ? [textOf(contentOf(item.content, "input"))] : [])),
    notes: fresh
      .filter(({ item }, index) => isSystem(item) && from + index >= systemEnd)
      .flatMap(({ item }) => (isSaid(item) ? [textOf(contentOf(item.content, "input"))] : [])),
    prompt: joined(
      fresh.flatMap(({ item, at }) =>
        isSaid(item) && item.role === "user" ? [contentOf(item.content, `${at}.content`)] : [],
      ),
    ),
    results: fresh.flatMap(({ item, at }) =>
      isOutput(item) ? [{ tool_use_id: item.call_id, content: contentOf(item.output, `${at}.output`) }] : [],
    ),
  };
}

/** Items about how an answer was made, which are not sent again. */
const LEFT_OUT: ReadonlySet<string> = new Set(["reasoning", "mcp_call", "mcp_list_tools"]);

type CallItem = Extract<InputItem, { type: "function_call" }>;
type OutputItem = Extract<InputItem, { type: "function_call_output" }>;
const isSaid = (item: InputItem): item is SaidItem => item.type === "message";
const isCall = (item: InputItem): item is CallItem => item.type === "function_call";
const isOutput = (item: InputItem): item is OutputItem => item.type === "function_call_output";
const isOfModel = (item: InputItem): boolean => isCall(item) || (isSaid(item) && item.role === "assistant");

/** What was said before, as our messages: an answer and its calls are one, and so are the results of its calls. */
export function historyOf(items: readonly InputItem[], field = "input"): readonly MessageInput[] {
  const messages: MessageInput[] = [];
  items.forEach((item, index) => {
    const at = `${field}[${index}]`;
    const last = messages.at(-1);
    if (isOutput(item)) {
      const result = { tool_use_id: item.call_id, content: contentOf(item.output, `${at}.output`), is_error: false };
      if (last?.role === "tool_results") last.results.push(result);
      else messages.push({ role: "tool_results", results: [result] });
      return;
    }
    if (isCall(item) || (isSaid(item) && item.role === "assistant")) {
      const block = isCall(item) ? callOf(item, at) : textBlock(item, at);
      if (last?.role === "block_assistant") last.blocks.push(block);
      else messages.push({ role: "block_assistant", blocks: [block], stop_reason: "end_turn" });
      const own = messages.at(-1);
      if (own?.role === "block_assistant" && isCall(item)) own.stop_reason = "tool_use";
      return;
    }
    if (!isSaid(item)) return;
    const content = contentOf(item.content, `${at}.content`);
    if (item.role === "user") messages.push({ role: "user", content });
    else messages.push({ role: "system_notice", kind: "instructions", body: textOf(content) });
  });
  return messages;
}

function textBlock(item: SaidItem, at: string): AssistantBlock {
  return { block_type: "text", data: { text: textOf(contentOf(item.content, `${at}.content`)) } };
}

function callOf({ call_id, name, arguments: text }: CallItem, at: string): AssistantBlock {
  return { block_type: "tool_use", data: { id: call_id, name, args: argumentsOf(text, at) } };
}

function argumentsOf(text: string, at: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text === "" ? "{}" : text);
    // An object of JSON has texts for keys.
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Reported below.
  }
  throw invalid(`${at}.arguments: write a JSON object, as the call had it`);
}

export function itemsOf(messages: readonly SeqMessage[]): readonly ListedItem[] {
  return messages.flatMap(itemsIn);
}

export type ListedItem = Readonly<Record<string, unknown>>;

function itemsIn(message: SeqMessage): readonly ListedItem[] {
  const { seq } = message;
  switch (message.role) {
    case "user":
      return [{ id: `msg_${seq}`, type: "message", role: "user", status: "completed", content: inputParts(message) }];
    case "block_assistant":
      return message.blocks.flatMap((block, index) => answerItem(block, `${seq}_${index}`));
    case "tool_results":
      return message.results.map(({ tool_use_id, content }, index) => ({
        id: `fco_${seq}_${index}`,
        type: "function_call_output",
        call_id: tool_use_id,
        output: textOf(content),
        status: "completed",
      }));
    case "system":
    case "system_notice":
      return [];
  }
}

function inputParts({ content }: Extract<Message, { role: "user" }>) {
  const blocks = typeof content === "string" ? [{ type: "text" as const, text: content }] : content;
  return blocks.map((block) => {
    if (block.type === "text") return { type: "input_text", text: block.text };
    const inline = block.source === "inline" ? `data:${block.media_type};base64,${block.data}` : null;
    if (block.type === "file") return { type: "input_file", filename: block.name ?? null, file_data: inline };
    const image_url = block.source === "url" ? block.url : inline;
    return { type: "input_image", detail: "auto", file_id: null, image_url };
  });
}

export function answerItem(block: AssistantBlock, place: string): readonly ListedItem[] {
  if (block.block_type === "text") {
    const content = [{ type: "output_text", text: block.data.text, annotations: [], logprobs: [] }];
    return [{ id: `msg_${place}`, type: "message", role: "assistant", status: "completed", content }];
  }
  if (block.block_type !== "tool_use") return [];
  const { id, name, args } = block.data;
  const text = JSON.stringify(args);
  return [{ id: `fc_${place}`, type: "function_call", call_id: id, name, arguments: text, status: "completed" }];
}
