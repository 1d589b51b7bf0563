import { isJsonTable } from "../contract/input.ts";
import type { ContentBlock, Message } from "../contract/message.ts";
import { ChatMessage } from "../contract/openai-chat.ts";
import type { MessageInput } from "../contract/rewrite.ts";
import type { JsonObject } from "../contract/session.ts";
import { readJson, refused } from "./portable-log.ts";

/** A conversation of another program, as a session can begin with it. */
export interface ForeignTranscript {
  readonly system: string | undefined;
  readonly history: readonly MessageInput[];
  /** What could not be taken over, in words; empty where all was. */
  readonly leftOut: readonly string[];
}

type Fields = Readonly<Record<string, unknown>>;
type Answer = Extract<MessageInput, { role: "block_assistant" }>;
type Results = Extract<MessageInput, { role: "tool_results" }>;

/** Puts messages together so that providers take them: answers in one, results behind their calls, none missing. */
interface Gathering {
  readonly history: MessageInput[];
  add(message: Exclude<MessageInput, Answer | Results>): void;
  answer(blocks: Answer["blocks"], created_at: string | undefined): void;
  result(result: Results["results"][number], created_at: string | undefined): void;
  end(): void;
}

const NO_RESULT = "the conversation that was imported has no result of this call";

function gather(leftOut: Set<string>): Gathering {
  const history: MessageInput[] = [];
  let open: string[] = [];
  const close = (): void => {
    for (const id of open) push({ tool_use_id: id, content: NO_RESULT, is_error: true }, undefined);
    open = [];
  };
  const push = (result: Results["results"][number], created_at: string | undefined): void => {
    const last = history.at(-1);
    if (last?.role === "tool_results") last.results.push(result);
    else history.push({ role: "tool_results", results: [result], ...dated(created_at) });
  };
  return {
    history,
    add: (message) => {
      close();
      history.push(message);
    },
    answer: (blocks, created_at) => {
      if (blocks.length === 0) return;
      const last = history.at(-1);
      if (last?.role === "block_assistant" && open.length === 0) last.blocks.push(...blocks);
      else {
        close();
        history.push({ role: "block_assistant", blocks: [...blocks], ...dated(created_at) });
      }
      open.push(...blocks.flatMap((block) => (block.block_type === "tool_use" ? [block.data.id] : [])));
    },
    result: (result, created_at) => {
      if (!open.includes(result.tool_use_id)) {
        leftOut.add("results of calls that it does not have");
        return;
      }
      open = open.filter((id) => id !== result.tool_use_id);
      push(result, created_at);
    },
    end: close,
  };
}

function dated(created_at: string | undefined): { created_at?: string } {
  return created_at === undefined ? {} : { created_at };
}

/** Messages as chat completions have them: a list, or an object with `messages`. */
export function readChat(value: unknown, place: string): ForeignTranscript {
  const list = Array.isArray(value) ? value : isJsonTable(value) ? value.messages : undefined;
  if (!Array.isArray(list)) throw refused(place, "messages: write a list of messages");
  const leftOut = new Set<string>();
  const system: string[] = [];
  const made = gather(leftOut);
  for (const [at, given] of list.entries()) {
    const where = `${place}: messages[${at}]`;
    const read = ChatMessage.safeParse(given);
    if (!read.success) throw refused(where, read.error.issues[0]?.message ?? "it is no message");
    const message = read.data;
    const content = contentOf(message.content ?? "", where);
    switch (message.role) {
      case "system":
      case "developer":
        if (made.history.length === 0) system.push(textOf(content));
        else made.add({ role: "system_notice", kind: "system", body: textOf(content) });
        break;
      case "user":
        made.add({ role: "user", content });
        break;
      case "assistant": {
        const text = textOf(content) || (message.refusal ?? "");
        const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: args } }) => ({
          block_type: "tool_use" as const,
          data: { id, name, args: argumentsOf(args) },
        }));
        made.answer([...textBlock(text), ...calls], undefined);
        break;
      }
      case "tool":
        made.result({ tool_use_id: message.tool_call_id, content, is_error: false }, undefined);
        break;
    }
  }
  made.end();
  return { system: joined(system), history: made.history, leftOut: [...leftOut] };
}

function textBlock(text: string): Answer["blocks"] {
  return text === "" ? [] : [{ block_type: "text", data: { text } }];
}

function joined(texts: readonly string[]): string | undefined {
  const said = texts.filter((text) => text.trim() !== "");
  return said.length === 0 ? undefined : said.join("\n\n");
}

/** As a session keeps arguments that are none. */
function argumentsOf(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text === "" ? "{}" : text);
    if (isJsonTable(value)) return { ...value };
  } catch {
    // Kept as it is, below.
  }
  return { raw_arguments: text };
}

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+);base64,([A-Za-z0-9+/=]*)$/;

/** Parts of OpenAI's or of pi's, as content of ours. */
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

/** A conversation as ShareGPT writes it: `conversations` with `from` and `value`. */
export function readShared(value: unknown, place: string): ForeignTranscript {
  const list = isJsonTable(value) ? value.conversations : value;
  if (!Array.isArray(list)) throw refused(place, "conversations: write a list of turns");
  const leftOut = new Set<string>();
  const own = isJsonTable(value) && typeof value.system === "string" ? [value.system] : [];
  const system: string[] = [...own];
  const made = gather(leftOut);
  const waiting: string[] = [];
  let calls = 0;
  for (const [at, turn] of list.entries()) {
    const where = `${place}: conversations[${at}]`;
    if (!isJsonTable(turn) || typeof turn.from !== "string" || typeof turn.value !== "string") {
      throw refused(where, "write a turn with the texts from and value");
    }
    const { from, value: said } = turn;
    const speaker = Object.hasOwn(SPEAKERS, from) ? SPEAKERS[from] : undefined;
    switch (speaker) {
      case undefined:
        throw refused(where, `from: nobody is known by the name ${JSON.stringify(from.slice(0, 40))}`);
      case "system":
        if (made.history.length === 0) system.push(said);
        else made.add({ role: "system_notice", kind: "system", body: said });
        break;
      case "user":
        made.add({ role: "user", content: said });
        break;
      case "assistant":
        made.answer(textBlock(said), undefined);
        break;
      case "call":
        for (const data of callsIn(said, where)) {
          calls += 1;
          const id = `call_${calls}`;
          waiting.push(id);
          made.answer([{ block_type: "tool_use", data: { ...data, id } }], undefined);
        }
        break;
      case "result":
        made.result({ tool_use_id: waiting.shift() ?? "", content: said, is_error: false }, undefined);
        break;
    }
  }
  made.end();
  return { system: joined(system), history: made.history, leftOut: [...leftOut] };
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

/** A session's file of pi: the branch that its last entry ends, as its documentation describes it. */
export function readPi(lines: readonly string[], place: string): ForeignTranscript {
  if (lines.length > PI_LINES_MAX) throw refused(place, `it has more than ${PI_LINES_MAX} lines`);
  const entries = lines
    .map((line, at) => ({ fields: readJson(line, `${place}: line ${at + 1}`), where: `${place}: line ${at + 1}` }))
    .slice(1);
  const leftOut = new Set<string>();
  const made = gather(leftOut);
  for (const { fields, where } of branchOf(entries)) addPi(made, fields, { where, leftOut });
  made.end();
  return { system: undefined, history: made.history, leftOut: [...leftOut] };
}

interface PiLine {
  readonly fields: Fields;
  readonly where: string;
}

/** From the last entry back to the first, by their parents; a file of before there were parents is one branch. */
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

function addPi(
  made: Gathering,
  entry: Fields,
  { where, leftOut }: { readonly where: string; readonly leftOut: Set<string> },
): void {
  const created_at = timeOf(entry.timestamp);
  const notice = (kind: string, body: string): void =>
    made.add({ role: "system_notice", kind, body, ...dated(created_at) });
  switch (entry.type) {
    case "message": {
      if (!isJsonTable(entry.message)) throw refused(where, "message: it is no message");
      const { message } = entry;
      switch (message.role) {
        case "user":
          made.add({ role: "user", content: contentOf(message.content, where), ...dated(created_at) });
          return;
        case "assistant":
          made.answer(piBlocks(message.content, where), created_at);
          return;
        case "toolResult":
          made.result(
            {
              tool_use_id: String(message.toolCallId),
              content: contentOf(message.content, where),
              is_error: message.isError === true,
            },
            created_at,
          );
          return;
        case "bashExecution":
          notice("bash", `$ ${String(message.command)}\n${String(message.output)}`);
          return;
        case "custom":
          notice(String(message.customType), textOf(contentOf(message.content, where)));
          return;
        default:
          leftOut.add(`messages of the role ${String(message.role).slice(0, 40)}`);
          return;
      }
    }
    case "custom_message":
      notice(String(entry.customType), textOf(contentOf(entry.content, where)));
      return;
    case "branch_summary":
      notice("branch_summary", String(entry.summary));
      return;
    default:
      // What was said before a compaction is in the file, and is taken over instead of its summary.
      leftOut.add(`entries of the type ${String(entry.type).slice(0, 40)}`);
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
