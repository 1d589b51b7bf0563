import { isJsonTable } from "../contract/input.ts";
import type { ContentBlock, Message } from "../contract/message.ts";
import type { MessageInput } from "../contract/rewrite.ts";
import type { JsonObject } from "../contract/session.ts";
import { ChatMessage } from "../contract/wire/openai.ts";
import { readJson, refused } from "./portable-log.ts";

/** A conversation of another program as the beginning of a session. */
export interface ForeignTranscript {
  readonly system: string | undefined;
  readonly history: readonly MessageInput[];
  /** What could not be imported, one sentence each. */
  readonly leftOut: readonly string[];
}

type Fields = Readonly<Record<string, unknown>>;
type Answer = Extract<MessageInput, { role: "block_assistant" }>;
type Result = Extract<MessageInput, { role: "tool_results" }>["results"][number];

type Turn = { readonly created_at?: string | undefined } & (
  | { readonly by: "system"; readonly text: string }
  | { readonly by: "user"; readonly content: string | ContentBlock[] }
  | { readonly by: "assistant"; readonly blocks: Answer["blocks"] }
  | { readonly by: "tool"; readonly result: Result }
  | { readonly by: "notice"; readonly kind: string; readonly body: string }
);

const NO_RESULT = "the conversation that was imported has no result of this call";

/** Joins turns as providers require: one message per answer, results after their calls, none missing. */
function transcriptOf(turns: Iterable<Turn>, leftOut = new Set<string>()): ForeignTranscript {
  const history: MessageInput[] = [];
  const system: string[] = [];
  let open: string[] = [];
  const push = (result: Result, created_at: string | undefined): void => {
    const last = history.at(-1);
    if (last?.role === "tool_results") last.results.push(result);
    else history.push({ role: "tool_results", results: [result], ...dated(created_at) });
  };
  const close = (): void => {
    for (const id of open) push({ tool_use_id: id, content: NO_RESULT, is_error: true }, undefined);
    open = [];
  };
  for (const turn of turns) {
    const { created_at } = turn;
    const last = history.at(-1);
    if (turn.by === "system" && last === undefined) {
      if (turn.text.trim() !== "") system.push(turn.text);
    } else if (turn.by === "tool") {
      const { tool_use_id: id } = turn.result;
      if (open.includes(id)) push(turn.result, created_at);
      else leftOut.add("results of calls that it does not have");
      open = open.filter((other) => other !== id);
    } else if (turn.by === "assistant") {
      if (turn.blocks.length === 0) continue;
      if (last?.role === "block_assistant" && open.length === 0) last.blocks.push(...turn.blocks);
      else {
        close();
        history.push({ role: "block_assistant", blocks: [...turn.blocks], ...dated(created_at) });
      }
      open.push(...turn.blocks.flatMap((block) => (block.block_type === "tool_use" ? [block.data.id] : [])));
    } else {
      close();
      if (turn.by === "user") history.push({ role: "user", content: turn.content, ...dated(created_at) });
      else {
        const { kind, body } = turn.by === "notice" ? turn : { kind: "system", body: turn.text };
        history.push({ role: "system_notice", kind, body, ...dated(created_at) });
      }
    }
  }
  close();
  return { system: system.length === 0 ? undefined : system.join("\n\n"), history, leftOut: [...leftOut] };
}

function dated(created_at: string | undefined): { created_at?: string } {
  return created_at === undefined ? {} : { created_at };
}

/** Messages of chat completions: a list, or an object with `messages`. */
export function readChat(value: unknown, place: string): ForeignTranscript {
  const list = Array.isArray(value) ? value : isJsonTable(value) ? value.messages : undefined;
  if (!Array.isArray(list)) throw refused(place, "messages: write a list of messages");
  return transcriptOf(list.map((given, at) => chatTurn(given, `${place}: messages[${at}]`)));
}

function chatTurn(given: unknown, place: string): Turn {
  const read = ChatMessage.safeParse(given);
  if (!read.success) throw refused(place, read.error.issues[0]?.message ?? "it is no message");
  const message = read.data;
  const content = contentOf(message.content ?? "", place);
  switch (message.role) {
    case "system":
    case "developer":
      return { by: "system", text: textOf(content) };
    case "user":
      return { by: "user", content };
    case "assistant": {
      const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: args } }) => ({
        block_type: "tool_use" as const,
        data: { id, name, args: argumentsOf(args) },
      }));
      return { by: "assistant", blocks: [...textBlock(textOf(content) || (message.refusal ?? "")), ...calls] };
    }
    case "tool":
      return { by: "tool", result: { tool_use_id: message.tool_call_id, content, is_error: false } };
  }
}

function textBlock(text: string): Answer["blocks"] {
  return text === "" ? [] : [{ block_type: "text", data: { text } }];
}

/** Unusable arguments, as a session stores them. */
function argumentsOf(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text === "" ? "{}" : text);
    if (isJsonTable(value)) return { ...value };
  } catch {}
  return { raw_arguments: text };
}

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+);base64,([A-Za-z0-9+/=]*)$/;

/** Parts of OpenAI or pi as our content blocks. */
function contentOf(content: unknown, place: string): string | ContentBlock[] {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw refused(place, "content: write a text or a list of parts");
  const blocks = content.map((part: unknown, at): ContentBlock => {
    const where = `${place}.content[${at}]`;
    if (!isJsonTable(part)) throw refused(where, "it is no part of a message");
    if (typeof part.text === "string") return { type: "text", text: part.text };
    if (typeof part.refusal === "string") return { type: "text", text: part.refusal };
    if (part.type === "image" && typeof part.data === "string" && typeof part.mimeType === "string") {
      return { type: "image", source: "inline", media_type: part.mimeType, data: part.data };
    }
    const url = isJsonTable(part.image_url) ? part.image_url.url : part.image_url;
    if (typeof url !== "string") throw refused(where, `type: a part of the type ${String(part.type)} is not taken`);
    const [, media_type, data] = DATA_URL.exec(url) ?? [];
    if (media_type !== undefined && data !== undefined) return { type: "image", source: "inline", media_type, data };
    return { type: "image", source: "url", media_type: "image/*", url };
  });
  const [only] = blocks;
  return blocks.length === 1 && only?.type === "text" ? only.text : blocks;
}

function textOf(content: string | ContentBlock[]): string {
  if (typeof content === "string") return content;
  return content.map((block) => (block.type === "text" ? block.text : `[${block.type}]`)).join("\n");
}

const SPEAKERS: Readonly<Record<string, "system" | "user" | "assistant" | "call" | "result">> = {
  system: "system",
  human: "user",
  user: "user",
  gpt: "assistant",
  assistant: "assistant",
  chatgpt: "assistant",
  model: "assistant",
  function_call: "call",
  observation: "result",
  tool: "result",
  function_response: "result",
};

/** A conversation in ShareGPT form: `conversations` with `from` and `value`. */
export function readShared(value: unknown, place: string): ForeignTranscript {
  const list = isJsonTable(value) ? value.conversations : value;
  if (!Array.isArray(list)) throw refused(place, "conversations: write a list of turns");
  const own: Turn[] =
    isJsonTable(value) && typeof value.system === "string" ? [{ by: "system", text: value.system }] : [];
  const waiting: string[] = [];
  let calls = 0;
  const turnOf = (turn: unknown, at: number): Turn => {
    const where = `${place}: conversations[${at}]`;
    if (!isJsonTable(turn) || typeof turn.from !== "string" || typeof turn.value !== "string") {
      throw refused(where, "write a turn with the texts from and value");
    }
    const { from, value: text } = turn;
    switch (Object.hasOwn(SPEAKERS, from) ? SPEAKERS[from] : undefined) {
      case undefined:
        throw refused(where, `from: unknown role ${JSON.stringify(from.slice(0, 40))}`);
      case "system":
        return { by: "system", text };
      case "user":
        return { by: "user", content: text };
      case "assistant":
        return { by: "assistant", blocks: textBlock(text) };
      case "call": {
        const blocks = callsIn(text, where).map((call) => {
          calls += 1;
          waiting.push(`call_${calls}`);
          return { block_type: "tool_use" as const, data: { ...call, id: `call_${calls}` } };
        });
        return { by: "assistant", blocks };
      }
      case "result":
        return { by: "tool", result: { tool_use_id: waiting.shift() ?? "", content: text, is_error: false } };
    }
  };
  return transcriptOf([...own, ...list.map(turnOf)]);
}

function callsIn(text: string, place: string): readonly { readonly name: string; readonly args: JsonObject }[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw refused(place, "value: write a call as JSON with name and arguments");
  }
  return (Array.isArray(value) ? value : [value]).map((call: unknown) => {
    if (!isJsonTable(call) || typeof call.name !== "string") {
      throw refused(place, "value: write a call as JSON with name and arguments");
    }
    const { name, arguments: args } = call;
    return { name, args: isJsonTable(args) ? { ...args } : argumentsOf(typeof args === "string" ? args : "") };
  });
}

const PI_LINES_MAX = 1_000_000;

/** A session file of pi: the branch that ends with its last entry. */
export function readPi(lines: readonly string[], place: string): ForeignTranscript {
  if (lines.length > PI_LINES_MAX) throw refused(place, `it has more than ${PI_LINES_MAX} lines`);
  const entries = lines
    .map((line, at) => ({ fields: readJson(line, `${place}: line ${at + 1}`), where: `${place}: line ${at + 1}` }))
    .slice(1);
  const leftOut = new Set<string>();
  return transcriptOf(
    branchOf(entries).flatMap((line) => piTurn(line, leftOut)),
    leftOut,
  );
}

interface PiLine {
  readonly fields: Fields;
  readonly where: string;
}

/** From the last entry back by parents; an older file without parents is one branch. */
function branchOf(entries: readonly PiLine[]): readonly PiLine[] {
  const byId = new Map(
    entries.flatMap((entry) => (typeof entry.fields.id === "string" ? [[entry.fields.id, entry]] : [])),
  );
  if (byId.size === 0) return entries;
  const branch: PiLine[] = [];
  const met = new Set<PiLine>();
  for (let one = entries.at(-1); one !== undefined; ) {
    if (met.has(one)) throw refused(one.where, "parentId: entries are each other's parents");
    met.add(one);
    branch.push(one);
    const { parentId } = one.fields;
    const parent = typeof parentId === "string" ? byId.get(parentId) : undefined;
    if (typeof parentId === "string" && parent === undefined)
      throw refused(one.where, "parentId: there is no such entry");
    one = parent;
  }
  return branch.toReversed();
}

function piTurn({ fields: entry, where }: PiLine, leftOut: Set<string>): readonly Turn[] {
  const created_at = timeOf(entry.timestamp);
  const notice = (kind: unknown, body: string): readonly Turn[] => [
    { by: "notice", kind: String(kind), body, created_at },
  ];
  switch (entry.type) {
    case "message": {
      if (!isJsonTable(entry.message)) throw refused(where, "message: it is no message");
      const { role, content, ...message } = entry.message;
      switch (role) {
        case "user":
          return [{ by: "user", content: contentOf(content, where), created_at }];
        case "assistant":
          return [{ by: "assistant", blocks: piBlocks(content, where), created_at }];
        case "toolResult": {
          const is_error = message.isError === true;
          const result = { tool_use_id: String(message.toolCallId), content: contentOf(content, where), is_error };
          return [{ by: "tool", result, created_at }];
        }
        case "bashExecution":
          return notice("bash", `$ ${String(message.command)}\n${String(message.output)}`);
        case "custom":
          return notice(message.customType, textOf(contentOf(content, where)));
        default:
          leftOut.add(`messages of the role ${String(role).slice(0, 40)}`);
          return [];
      }
    }
    case "custom_message":
      return notice(entry.customType, textOf(contentOf(entry.content, where)));
    case "branch_summary":
      return notice("branch_summary", String(entry.summary));
    default:
      // The file has the messages before a compaction; they replace its summary.
      leftOut.add(`entries of the type ${String(entry.type).slice(0, 40)}`);
      return [];
  }
}

function piBlocks(content: unknown, place: string): Answer["blocks"] {
  if (typeof content === "string") return textBlock(content);
  if (!Array.isArray(content)) throw refused(place, "message.content: write a list of blocks");
  return content.flatMap((block: unknown, at): Answer["blocks"] => {
    if (!isJsonTable(block)) throw refused(place, `message.content[${at}]: it is no block`);
    if (block.type === "text" && typeof block.text === "string") return textBlock(block.text);
    if (block.type === "thinking" && typeof block.thinking === "string") {
      return [{ block_type: "reasoning", data: { text: block.thinking } }];
    }
    const { id, name, arguments: args } = block;
    if (block.type !== "toolCall" || typeof id !== "string" || typeof name !== "string") {
      throw refused(place, `message.content[${at}]: a block of the type ${String(block.type)} is not taken`);
    }
    return [{ block_type: "tool_use", data: { id, name, args: isJsonTable(args) ? { ...args } : {} } }];
  });
}

function timeOf(timestamp: unknown): Message["created_at"] | undefined {
  const ms = typeof timestamp === "number" ? timestamp : Date.parse(String(timestamp));
  const time = new Date(ms);
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString();
}
