import type { AssistantBlock, Content, Message } from "../../../contract/message.ts";

/** Arguments nested deeper, or in more leaves, are no text anybody reads. */
const ARGS_DEPTH_MAX = 8;
const ARGS_LEAVES_MAX = 2_000;
/** Runs without a space of this length are data: base64, a minified file. */
const ENCODED = /(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{400,}/gu;
/** What is read at once: reading a piece takes milliseconds, and between two others have their turn. */
const PIECE_CHARS_MAX = 1_500;
const FENCE = /^[ \t]*```[^`\n]*$/gmu;

/** What a message says, for looking something up in it, in pieces: every text but reasoning and encoded media. */
export function textsOf(message: Message): readonly string[] {
  return wholeTextsOf(message).flatMap(piecesOf);
}

/** A text in pieces that end with a line, else with a sentence, else between words; a fence of code that a cut divides is opened again. */
export function piecesOf(text: string): readonly string[] {
  if (text.length <= PIECE_CHARS_MAX) return [withoutEncoded(text)];
  const pieces: string[] = [];
  let fence = "";
  for (let start = 0; start < text.length; ) {
    const end = endOfPiece(text, start);
    const piece = text.slice(start, end);
    pieces.push(withoutEncoded(fence + piece));
    for (const [line] of piece.matchAll(FENCE)) fence = fence === "" ? `${line.trim()}\n` : "";
    start = end;
  }
  return pieces;
}

function endOfPiece(text: string, start: number): number {
  const last = start + PIECE_CHARS_MAX;
  if (last >= text.length) return text.length;
  // Looked for in this half alone: a search of the text would go back to its beginning for every piece.
  const middle = start + PIECE_CHARS_MAX / 2;
  const half = text.slice(middle, last);
  // Half a sentence may say the opposite of the whole one.
  const border = half.lastIndexOf("\n") + 1 || lastSentenceEnd(half) || half.lastIndexOf(" ") + 1;
  if (border > 0) return middle + border;
  // Between the halves of a pair is no place to cut.
  return /[\udc00-\udfff]/.test(text.charAt(last)) ? last - 1 : last;
}

const SENTENCE_ENDS = [". ", "! ", "? ", "。", "！", "？"];

/** After the last sentence that ends in a text; 0 when none does. */
function lastSentenceEnd(text: string): number {
  return Math.max(...SENTENCE_ENDS.map((end) => (text.includes(end) ? text.lastIndexOf(end) + end.length : 0)));
}

/** The same texts uncut. */
export function wholeTextsOf(message: Message): readonly string[] {
  switch (message.role) {
    case "system":
      return [message.content];
    case "system_notice":
      return message.body === undefined ? [message.kind] : [message.kind, message.body];
    case "user":
      return contentTexts(message.content);
    case "tool_results":
      return message.results.flatMap((result) => contentTexts(result.content));
    case "block_assistant":
      return message.blocks.flatMap(blockTexts);
  }
}

/** The texts of content, media left out. */
function contentTexts(content: Content): string[] {
  const texts =
    typeof content === "string" ? [content] : content.flatMap((block) => (block.type === "text" ? [block.text] : []));
  return texts;
}

function blockTexts(block: AssistantBlock): readonly string[] {
  switch (block.block_type) {
    case "text":
      return [block.data.text];
    case "tool_use":
      return [block.data.name, ...leavesOf(block.data.args)];
    case "server_tool_content":
      return [block.data.name, ...leavesOf(block.data.content)];
    case "reasoning":
    case "image":
      return [];
  }
}

/** The leaves of a value as lines of `key: value`; texts of their own where they have lines of their own. */
function leavesOf(value: unknown): string[] {
  const leaves: string[] = [];
  collectLeaves(value, { key: "", depth: 0 }, leaves);
  return leaves;
}

function collectLeaves(value: unknown, at: { readonly key: string; readonly depth: number }, into: string[]): void {
  if (into.length >= ARGS_LEAVES_MAX || at.depth > ARGS_DEPTH_MAX || value === null || value === undefined) return;
  if (typeof value === "object") {
    const isList = Array.isArray(value);
    for (const [key, inner] of Object.entries(value)) {
      collectLeaves(inner, { key: isList ? at.key : key, depth: at.depth + 1 }, into);
    }
    return;
  }
  const text = String(value);
  into.push(at.key === "" || text.includes("\n") ? text : `${at.key}: ${text}`);
}

function withoutEncoded(text: string): string {
  return text.length < 400 ? text : text.replace(ENCODED, " ");
}
