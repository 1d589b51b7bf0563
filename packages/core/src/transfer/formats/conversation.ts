import { createHash } from "node:crypto";
import { isRecord } from "../../contract/json.ts";
import type { AssistantBlock, ContentBlock, StopReason } from "../../contract/message.ts";
import type { ForeignCompaction } from "../../contract/portable.ts";
import type { Undated } from "../../contract/rewrite.ts";
import type { JsonObject } from "../../contract/session.ts";
import { MEDIA_BYTES_MAX } from "../../sessions/media.ts";

/** A conversation of another program, in the form that `importHistory` takes. */
export interface Conversation {
  readonly source_id: string;
  readonly parent_id?: string | undefined;
  readonly labels: Readonly<Record<string, string>>;
  /** The folder it was made in. */
  readonly cwd?: string | undefined;
  readonly system: string | undefined;
  readonly history: readonly Undated[];
  readonly compactions: readonly ForeignCompaction[];
  /** What could not be imported, one sentence or noun each. */
  readonly leftOut: readonly string[];
}

export type Fields = Readonly<Record<string, unknown>>;
export type Block = AssistantBlock;
type Result = Extract<Undated, { role: "tool_results" }>["results"][number];
type Answer = Extract<Undated, { role: "block_assistant" }>;

/** One thing that a conversation says, as its file has it. */
export type Turn = { readonly created_at?: string | undefined; readonly ref?: string | undefined } & (
  | { readonly by: "system"; readonly text: string }
  | { readonly by: "user"; readonly content: string | ContentBlock[] }
  | {
      readonly by: "assistant";
      readonly blocks: readonly Block[];
      readonly model?: string | undefined;
      readonly stop?: StopReason | undefined;
    }
  | { readonly by: "tool"; readonly result: Result }
  | {
      readonly by: "compaction";
      readonly summary: string;
      /** The turn from which on its context kept the messages. */
      readonly keepsFrom?: string | undefined;
      readonly model?: string | undefined;
      readonly trigger?: "threshold" | "manual" | undefined;
    }
);

type ToolTurn = Extract<Turn, { by: "tool" }>;

const NO_RESULT = "the conversation that was imported has no result of this call";
const OPENING = "(The imported conversation begins with an answer.)";

/** What could not be imported, with how often. */
export interface LeftOut {
  add(what: string): void;
  readonly sentences: () => readonly string[];
}

const LEFT_OUT_MAX = 100;

export function createLeftOut(): LeftOut {
  const counts = new Map<string, number>();
  return {
    add: (what) => {
      // A hostile file may have as many kinds as lines.
      const key = counts.has(what) || counts.size < LEFT_OUT_MAX ? what : "other things";
      counts.set(key, (counts.get(key) ?? 0) + 1);
    },
    sentences: () => [...counts].map(([what, count]) => (count === 1 ? what : `${what} (${count})`)),
  };
}

/**
 * Turns as providers require them: one message for each answer, its results right after it, none missing and no id twice.
 * The beginning of a longer conversation gives the beginning of its messages, so that it can be imported in steps.
 */
export function joinTurns(
  turns: readonly Turn[],
  leftOut: LeftOut,
): Pick<Conversation, "system" | "history" | "compactions"> {
  const history: Undated[] = [];
  const compactions: ForeignCompaction[] = [];
  const system: string[] = [];
  const places = new Map<string, number>();
  const results = Map.groupBy(
    turns.filter((turn): turn is ToolTurn => turn.by === "tool"),
    (turn) => turn.result.tool_use_id,
  );
  const taken = new Set<ToolTurn>();
  const ids = new Set<string>();
  /** The calls of the newest answer, as [id here, id there, tool]. */
  let open: (readonly [id: string, foreign: string, name: string])[] = [];

  const say = (content: string | ContentBlock[], created_at: string | undefined): void => {
    if (typeof content === "string" ? content.trim() === "" : content.length === 0) return;
    history.push({ role: "user", content, origin: "import", ...dated(created_at) });
  };
  const close = (isEnd: boolean): void => {
    const found = open.map(([id, foreign, name]) => ({ id, name, turn: results.get(foreign)?.shift() }));
    const ended = found.flatMap(({ turn }) => turn ?? []);
    // At the end of a file they may still run: their results are then imported later.
    if (found.length === 0 || (isEnd && ended.length === 0)) return;
    for (const turn of ended) taken.add(turn);
    const media: ContentBlock[] = [];
    const closed = found.map(({ id, name, turn }): Result => {
      if (turn === undefined) return { tool_use_id: id, content: NO_RESULT, is_error: true };
      const { content, is_error } = turn.result;
      const { text, others } = withoutMedia(content);
      if (others.length > 0) media.push({ type: "text", text: `[from the result of ${name}]` }, ...others);
      return { tool_use_id: id, content: text, is_error };
    });
    const at = ended.find(({ created_at }) => created_at !== undefined)?.created_at;
    history.push({ role: "tool_results", results: closed, ...dated(at) });
    // Not all providers take media in results.
    say(media, at);
    open = [];
  };
  const answer = (turn: Extract<Turn, { by: "assistant" }>): void => {
    const blocks = turn.blocks.flatMap((block): Block[] => {
      if (block.block_type === "text" && block.data.text === "") return [];
      if (block.block_type !== "tool_use") return [block];
      const id = uniqueId(block.data.id, ids);
      const name = block.data.name.replaceAll(/[^\w-]/g, "_").slice(0, NAME_CHARS_MAX) || "unknown";
      open.push([id, block.data.id, name]);
      return [{ block_type: "tool_use", data: { ...block.data, id, name } }];
    });
    if (blocks.length === 0) return;
    const last = history.at(-1);
    const stop_reason = turn.stop ?? (open.length > 0 ? "tool_use" : "end_turn");
    if (last?.role === "block_assistant") {
      Object.assign(last, { blocks: [...last.blocks, ...blocks], stop_reason });
      return;
    }
    if (history.length === 0) say(OPENING, turn.created_at);
    const model = turn.model === undefined ? {} : { model: turn.model.slice(0, MODEL_CHARS_MAX) };
    const made: Answer = {
      role: "block_assistant",
      blocks,
      stop_reason,
      origin: "import",
      ...dated(turn.created_at),
      ...model,
    };
    history.push(made);
  };

  for (const turn of turns) {
    const { created_at } = turn;
    if (turn.by !== "assistant") close(false);
    if (turn.ref !== undefined) places.set(turn.ref, history.length);
    switch (turn.by) {
      case "assistant":
        answer(turn);
        break;
      case "system":
        if (history.length === 0) system.push(turn.text);
        else say(turn.text, created_at);
        break;
      case "user":
        say(turn.content, created_at);
        break;
      case "tool": {
        if (taken.has(turn)) break;
        const { tool_use_id: id, content } = turn.result;
        const rest = results.get(id);
        rest?.splice(rest.indexOf(turn), 1);
        leftOut.add("the place of a result without its call, which is a message now");
        say([{ type: "text", text: `[result of ${id}]` }, ...blocksOf(content)], created_at);
        break;
      }
      case "compaction": {
        const { summary, model, trigger = "threshold", keepsFrom } = turn;
        if (summary.trim() === "" || history.length === 0) {
          leftOut.add("a compaction without a summary or without messages before it");
          break;
        }
        const from = keepsFrom === undefined ? undefined : places.get(keepsFrom);
        const keeps = from === undefined ? 0 : history.length - from;
        const made = { ...dated(created_at), ...(model === undefined ? {} : { model }) };
        compactions.push({ at: history.length, summary, keeps, trigger, ...made });
      }
    }
  }
  close(true);
  const said = system.filter((text) => text.trim() !== "");
  return { system: said.length === 0 ? undefined : said.join("\n\n"), history, compactions };
}

const NAME_CHARS_MAX = 64;
const MODEL_CHARS_MAX = 200;
const ID_CHARS_MAX = 64;
const ID_KEPT_CHARS = 40;

/** An id that every provider takes; the first call with an id keeps it. */
function uniqueId(foreign: string, ids: Set<string>): string {
  const plain = foreign.replaceAll(/[^\w-]/g, "_") || "call";
  const short =
    plain.length <= ID_CHARS_MAX
      ? plain
      : `${plain.slice(0, ID_KEPT_CHARS)}_${createHash("sha256").update(foreign).digest("hex").slice(0, 16)}`;
  let id = short;
  for (let number = 2; ids.has(id); number += 1) id = `${short.slice(0, ID_KEPT_CHARS + 16)}_${number}`;
  ids.add(id);
  return id;
}

function dated(created_at: string | undefined): { created_at?: string } {
  return created_at === undefined ? {} : { created_at };
}

function blocksOf(content: string | readonly ContentBlock[]): readonly ContentBlock[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}

function withoutMedia(content: string | readonly ContentBlock[]): { text: string; others: readonly ContentBlock[] } {
  if (typeof content === "string") return { text: content, others: [] };
  const texts = content.flatMap((block) => (block.type === "text" ? [block.text] : []));
  const others = content.filter(({ type }) => type !== "text");
  return { text: texts.join("\n") || (others.length > 0 ? "[it follows]" : ""), others };
}

/** Content as one text; media are named. */
export function textOf(content: string | readonly ContentBlock[]): string {
  if (typeof content === "string") return content;
  return content.map((block) => (block.type === "text" ? block.text : `[${block.type}]`)).join("\n");
}

/** A text of one block, or the blocks. */
export function contentFrom(blocks: ContentBlock[]): string | ContentBlock[] {
  const [only] = blocks;
  return blocks.length === 1 && only?.type === "text" ? only.text : blocks;
}

export function textBlock(text: unknown): Block[] {
  return typeof text !== "string" || text === "" ? [] : [{ block_type: "text", data: { text } }];
}

export function reasoningBlock(text: string): Block[] {
  return text === "" ? [] : [{ block_type: "reasoning", data: { text } }];
}

export function callBlock(id: unknown, name: unknown, args: unknown): Block {
  return { block_type: "tool_use", data: { id: String(id), name: String(name), args: argumentsFrom(args) } };
}

/** Unusable arguments, as a session stores them. */
export function argumentsFrom(given: unknown): JsonObject {
  if (isRecord(given)) return { ...given };
  if (typeof given !== "string") return given === undefined || given === null ? {} : { raw_arguments: jsonOf(given) };
  try {
    const value: unknown = JSON.parse(given === "" ? "{}" : given);
    if (isRecord(value)) return { ...value };
  } catch {}
  return { raw_arguments: given };
}

export function tablesIn(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

export function textIn(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function jsonOf(value: unknown): string {
  return JSON.stringify(value) ?? "";
}

/** A value as the text of a result. */
export function resultText(value: unknown): string {
  return typeof value === "string" ? value : jsonOf(value);
}

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,([\s\S]*)$/;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const PDF = "application/pdf";

/** An image or file of a data URL, an address, or Base64; media that no session can hold are left out and named. */
export function mediaBlock(
  given: { readonly url?: unknown; readonly data?: unknown; readonly type?: unknown; readonly name?: unknown },
  leftOut: LeftOut,
): ContentBlock {
  const url = textIn(given.url);
  const [, fromUrl, inUrl] = (url === undefined ? null : DATA_URL.exec(url)) ?? [];
  const media_type = textIn(given.type) ?? fromUrl ?? "image/*";
  const data = textIn(given.data) ?? inUrl;
  const isImage = media_type.startsWith("image/");
  if (data !== undefined) {
    const isSound = data.length % 4 === 0 && BASE64.test(data) && (data.length * 3) / 4 <= MEDIA_BYTES_MAX;
    if (isSound && isImage) return { type: "image", source: "inline", media_type, data };
    const name = textIn(given.name)?.split(/[/\\]/).at(-1)?.slice(0, FILE_NAME_CHARS_MAX);
    if (isSound && media_type === PDF) {
      return { type: "file", source: "inline", media_type, data, ...(name === undefined ? {} : { name }) };
    }
    if (isSound && media_type.startsWith("text/")) {
      return { type: "text", text: Buffer.from(data, "base64").toString("utf8") };
    }
  } else if (isImage && url !== undefined && URL.canParse(url) && /^https?:/.test(url) && url.length <= URL_CHARS_MAX) {
    return { type: "image", source: "url", media_type, url };
  }
  leftOut.add(`content of the type ${media_type.slice(0, 60)} that a session cannot hold`);
  return { type: "text", text: `[not imported: ${media_type.slice(0, 60)}]` };
}

const FILE_NAME_CHARS_MAX = 255;
const URL_CHARS_MAX = 2_048;
const YEAR_MIN = Date.UTC(1970, 0);
const YEAR_MAX = Date.UTC(9999, 0);

/** A time of milliseconds or of a text, as messages have it. */
export function timeFrom(given: unknown): string | undefined {
  const ms = typeof given === "number" ? given : typeof given === "string" ? Date.parse(given) : Number.NaN;
  return ms >= YEAR_MIN && ms < YEAR_MAX ? new Date(ms).toISOString() : undefined;
}

const SOURCE_ID_CHARS_MAX = 300;

/** The id of a conversation; without one of the program, the hash of its content. */
export function sourceIdFrom(given: unknown, content: () => unknown): string {
  if (typeof given === "string" && given !== "" && given.length <= SOURCE_ID_CHARS_MAX) return given;
  return `sha256:${createHash("sha256")
    .update(jsonOf(given ?? content()))
    .digest("hex")}`;
}
