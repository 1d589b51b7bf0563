import { isRecallTool } from "../contract/memory.ts";
import type { AssistantBlock, Content, Message } from "../contract/message.ts";
import type { Chunk, ChunkSource, NewChunk } from "../ports/memory.ts";
import { isProse } from "../text/prose.ts";
import { termsOf } from "../text/terms.ts";
import { datesNamedIn, dateTermsOf } from "./date-terms.ts";
import { splitText } from "./split.ts";

/** Where a message stands. */
export interface MessagePlace {
  readonly session_id: string;
  readonly turn: number;
  readonly seq: number;
  readonly created_at_ms: number;
}

/** Counts up when other chunks are made of the same logs: what was taken in before is then taken in again. */
export const CHUNKS_VERSION = 3;

/** The ids of the calls in a message that ask memory itself. */
export function recallsIn(message: Message): ReadonlySet<string> {
  if (message.role !== "block_assistant") return NO_CALLS;
  const asking = message.blocks.flatMap((block) =>
    block.block_type === "tool_use" && isRecallTool(block.data.name) ? [block.data.id] : [],
  );
  return asking.length === 0 ? NO_CALLS : new Set(asking);
}

const NO_CALLS: ReadonlySet<string> = new Set();

/**
 * What of a message can be found again, in its order: a short text whole, a long one in parts, each made when it is asked
 * for. Reasoning is left out, and so is what memory was asked and, of the calls named, answered.
 */
export function* chunksOf(message: Message, place: MessagePlace, recalls = NO_CALLS): Generator<NewChunk> {
  let part = 0;
  for (const { role, kind, text } of textsOf(message, recalls)) {
    for (const piece of boundedParts(text)) yield toChunk({ ...place, role, kind, text: piece, part: part++ });
  }
}

/** A chunk is found by its words, the dates it names and the day it was said on. */
export function toChunk(chunk: ChunkSource & { readonly text: string }): NewChunk {
  const terms = termsOf(chunk.text);
  for (const term of datesNamedIn(chunk.text)) terms.set(term, 1);
  for (const term of dateTermsOf(chunk.created_at_ms)) terms.set(term, 1);
  return { ...chunk, terms, ...(isOfPrograms(chunk) ? { byWordsAlone: true } : {}) };
}

/**
 * What programs say to each other is most of a long session, and is asked for by the names and numbers in it: a vector of
 * a log costs four times that of a sentence and finds nothing that words do not.
 */
function isOfPrograms({ kind, text }: ChunkSource & { readonly text: string }): boolean {
  return (kind === "tool_call" || kind === "tool_result") && !isProse(text);
}

interface Piece {
  readonly role: ChunkSource["role"];
  readonly kind: "text" | "tool_call" | "tool_result" | "notice";
  readonly text: string;
}

function textsOf(message: Message, recalls: ReadonlySet<string>): readonly Piece[] {
  switch (message.role) {
    case "system":
      return [];
    case "system_notice":
      // A skill lies in a file: nobody said it, and every session that loads it would be found by its words.
      return message.skill === undefined ? [{ role: "notice", kind: "notice", text: message.body ?? "" }] : [];
    case "user":
      return [{ role: "user", kind: "text", text: textOfContent(message.content) }];
    case "tool_results":
      return message.results
        .filter(({ tool_use_id }) => !recalls.has(tool_use_id))
        .map(({ content }) => ({ role: "tool", kind: "tool_result", text: textOfContent(content) }));
    case "block_assistant":
      return message.blocks.flatMap(piecesOf);
  }
}

function piecesOf(block: AssistantBlock): readonly Piece[] {
  switch (block.block_type) {
    case "text":
      return [{ role: "assistant", kind: "text", text: block.data.text }];
    case "tool_use":
      if (isRecallTool(block.data.name)) return [];
      return [{ role: "assistant", kind: "tool_call", text: `${block.data.name} ${argsText(block.data.args)}` }];
    case "reasoning":
    case "server_tool_content":
    case "image":
      return [];
  }
}

/** Arguments as lines `name: value`; as JSON, a path with escaped slashes or a patch on one line would not be found. */
function argsText(args: Readonly<Record<string, unknown>>): string {
  return Object.entries(args)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : (JSON.stringify(value) ?? "")}`)
    .join("\n");
}

function textOfContent(content: Content): string {
  if (typeof content === "string") return content;
  return content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
}

/** No model is shown more at once. Of what is longer the middle cannot be found, and the end says how it went. */
const CHARS_MAX = 16_000_000;
const TAIL_SHARE = 0.25;

function boundedParts(text: string): readonly string[] {
  if (text.length <= CHARS_MAX) return splitText(text);
  const tailChars = Math.floor(CHARS_MAX * TAIL_SHARE);
  const [head, tail] = [text.slice(0, CHARS_MAX - tailChars), text.slice(-tailChars)];
  return [...splitText(head), ...splitText(tail)];
}

/**
 * What a chunk is embedded as: its text; a short one after what was said just before it, because "yes, at eight" means
 * nothing alone. One that says something is blurred by talk before it that is about something else.
 */
export function passageFor(chunk: Chunk, before: Chunk | undefined): string {
  if (!isShort(chunk.text) || before === undefined || before.session_id !== chunk.session_id) return chunk.text;
  return `${lastChars(before.text)}\n${chunk.text}`;
}

/** Whether a text means little without what was said before it. */
export function isShort(text: string): boolean {
  return text.length <= SHORT_CHARS_MAX;
}

const SHORT_CHARS_MAX = 32;
/** More would drown the chunk itself. */
const BEFORE_CHARS_MAX = 400;

function lastChars(text: string): string {
  if (text.length <= BEFORE_CHARS_MAX) return text;
  const tail = text.slice(-BEFORE_CHARS_MAX);
  return tail.slice(tail.search(/\s/) + 1);
}
