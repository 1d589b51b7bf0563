import type { EvictionReason } from "../contract/compaction.ts";
import type { AssistantBlock, Content, Message, ToolResult, ToolResultsMessage } from "../contract/message.ts";
import { contentText, estimateTokens } from "../turn/tokens.ts";

export const SEPARATOR = "\n\n";

const HEAD_SHARE = 1 / 3;
/** The share that one message may take, so that head and tail show several messages each. */
const PIECE_SHARE = 1 / 9;
/** Shorter pieces are useless; in a small room a few messages are better than fragments of many. */
const PIECE_BYTES_MIN = 200;

/** The beginning and end of a conversation in about `bytesMax`; longer only if not even the omission note fits. */
export function excerptOf(messages: readonly Message[], bytesMax: number): string {
  if (messages.length === 0) return "";
  const bytes = Math.max(0, bytesMax - bytesOf(leftOut(messages.length, "message")) - SEPARATOR.length);
  const names = namesOfCalls(messages);
  const read = (message: Message): Piece => pieceOf(transcriptText(message, names.get(message)), bytes);
  // At most the tail's share: the newest message must be visible, however small the room.
  const pieceBytesMax = Math.floor(Math.min(bytes * (1 - HEAD_SHARE), Math.max(PIECE_BYTES_MIN, bytes * PIECE_SHARE)));

  const head = takePieces(messages, read, { bytes: bytes * HEAD_SHARE, pieceBytesMax });
  const rest = messages.slice(head.pieces.length).toReversed();
  const tail = takePieces(rest, read, { bytes: bytes - head.bytes, pieceBytesMax });

  const share = fairShare([...head.pieces, ...tail.pieces], bytes);
  const cut = ({ text }: Piece): string => cutText(text, share - SEPARATOR.length);
  const missing = rest.length - tail.pieces.length;
  const gap = missing === 0 ? [] : [leftOut(missing, "message")];
  const parts = [...head.pieces.map(cut), ...gap, ...tail.pieces.toReversed().map(cut)];
  return parts.filter((part) => part !== "").join(SEPARATOR);
}

interface Piece {
  readonly text: string;
  /** With its separator; counted only up to the room. */
  readonly bytes: number;
}

function pieceOf(text: string, bytesMax: number): Piece {
  return { text, bytes: text === "" ? 0 : bytesUpTo(text, bytesMax) + SEPARATOR.length };
}

interface Room {
  readonly bytes: number;
  readonly pieceBytesMax: number;
}

/** Takes messages from the front while they fit, counting a large one by its cut size. */
function takePieces(messages: readonly Message[], read: (message: Message) => Piece, room: Room) {
  const pieces: Piece[] = [];
  let bytes = 0;
  if (room.pieceBytesMax <= SEPARATOR.length) return { pieces, bytes };
  for (const message of messages) {
    const piece = read(message);
    const cost = Math.min(piece.bytes, room.pieceBytesMax);
    if (bytes + cost > room.bytes) break;
    bytes += cost;
    pieces.push(piece);
  }
  return { pieces, bytes };
}

/** The largest piece size at which all fit: small pieces stay whole and leave their room to large ones. */
function fairShare(pieces: readonly Piece[], bytes: number): number {
  const ascending = pieces.map((piece) => piece.bytes).sort((one, other) => one - other);
  let left = bytes;
  for (const [index, size] of ascending.entries()) {
    const share = Math.floor(left / (ascending.length - index));
    if (size > share) return share;
    left -= size;
  }
  return Number.POSITIVE_INFINITY;
}

/** A message as a transcript shows it; empty if there is nothing to show. */
function transcriptText(message: Message, names: CallNames | undefined): string {
  switch (message.role) {
    case "system":
      return labelled("Note", message.content);
    case "system_notice":
      return labelled("Note", message.body === undefined ? message.kind : `${message.kind}: ${message.body}`);
    case "user":
      return labelled("User", contentText(message.content));
    case "block_assistant":
      return message.blocks
        .map(blockText)
        .filter((text) => text !== "")
        .join("\n");
    case "tool_results":
      return message.results.map((result) => resultText(result, names)).join("\n");
  }
}

function labelled(label: string, text: string): string {
  return text.trim() === "" ? "" : `${label}: ${text}`;
}

function blockText(block: AssistantBlock): string {
  switch (block.block_type) {
    case "text":
      return labelled("Assistant", block.data.text);
    case "reasoning":
      return "";
    case "tool_use":
      return `Assistant called ${block.data.name} with ${JSON.stringify(block.data.args)}`;
    case "server_tool_content":
      return `Result of ${block.data.name}: ${JSON.stringify(block.data.content)}`;
    case "image":
      return `Assistant: [image: ${block.data.media_type}]`;
  }
}

/** An empty result is shown, too: it is information. */
function resultText({ tool_use_id, content, is_error }: ToolResult, names: CallNames | undefined): string {
  const name = names?.get(tool_use_id) ?? UNKNOWN_TOOL;
  return `Result of ${name}${is_error ? " (failed)" : ""}: ${contentText(content)}`;
}

/** Tool names by call id. */
type CallNames = ReadonlyMap<string, string>;

/** The calls of each message of results; per answer, because a provider may reuse ids in every answer. */
function namesOfCalls(messages: readonly Message[]): ReadonlyMap<Message, CallNames> {
  const answered = new Map<Message, CallNames>();
  let names: CallNames = new Map();
  for (const message of messages) {
    if (message.role === "tool_results") answered.set(message, names);
    if (message.role !== "block_assistant") continue;
    const calls = message.blocks.filter((block) => block.block_type === "tool_use");
    names = new Map(calls.map((call) => [call.data.id, call.data.name]));
  }
  return answered;
}

const UNKNOWN_TOOL = "an unknown tool";

/** The text if it fits, else its head and tail around an omission note; at most `bytesMax` of UTF-8. */
export function cutText(text: string, bytesMax: number): string {
  if (bytesUpTo(text, bytesMax) <= bytesMax) return text.toWellFormed();
  const room = bytesMax - bytesOf(noteOf(text.length));
  // Between two fragments the note would dominate: the beginning alone says more.
  if (room < NOTED_BYTES_MIN) return headOf(text, bytesMax);
  const head = headOf(text, Math.floor(room / 2));
  const tail = tailOf(text, Math.floor(room / 2));
  // Joined, not concatenated: a concatenation of slices keeps the whole text in memory.
  return [head, noteOf(text.length - head.length - tail.length), tail].join("");
}

const NOTED_BYTES_MIN = 40;

function noteOf(characters: number): string {
  return `\n${leftOut(characters, "character")}\n`;
}

/** Created on first use: a formatter took a tenth of the runtime's load time. */
function grouped(count: number): string {
  return count.toLocaleString("en-US");
}

export function leftOut(count: number, noun: string): string {
  return `[… ${grouped(count)} ${noun}${count === 1 ? "" : "s"} left out …]`;
}

/** As much of the beginning as fits, whole characters only. */
export function headOf(text: string, bytesMax: number): string {
  let bytes = 0;
  let end = 0;
  while (end < text.length) {
    const point = text.codePointAt(end) ?? 0;
    bytes += widthOf(point);
    if (bytes > bytesMax) break;
    end += unitsOf(point);
  }
  return text.slice(0, end).toWellFormed();
}

/** As much of the end as fits, whole characters only. */
export function tailOf(text: string, bytesMax: number): string {
  let bytes = 0;
  let start = text.length;
  while (start > 0) {
    const isPair = unitsOf(text.codePointAt(start - 2) ?? 0) === 2;
    const before = start - (isPair ? 2 : 1);
    bytes += widthOf(text.codePointAt(before) ?? 0);
    if (bytes > bytesMax) break;
    start = before;
  }
  return text.slice(start).toWellFormed();
}

export function bytesOf(text: string): number {
  return bytesUpTo(text, Number.POSITIVE_INFINITY);
}

/** The UTF-8 length of a text; counting stops above `bytesMax`, which bounds the cost. */
function bytesUpTo(text: string, bytesMax: number): number {
  let bytes = 0;
  for (let at = 0; at < text.length && bytes <= bytesMax; ) {
    const point = text.codePointAt(at) ?? 0;
    bytes += widthOf(point);
    at += unitsOf(point);
  }
  return bytes;
}

/** A lone surrogate counts as the replacement character. */
function widthOf(point: number): number {
  if (point < 0x80) return 1;
  if (point < 0x800) return 2;
  return point < 0x10000 ? 3 : 4;
}

function unitsOf(point: number): number {
  return point < 0x10000 ? 1 : 2;
}

/** A tool result shown as a reference: `content` is the shown text, `tokens` the size of the whole. */
export interface Pruned {
  readonly seq: number;
  readonly tool_use_id: string;
  readonly tokens: number;
  readonly content: string;
  /** Why it was evicted. */
  readonly reason?: EvictionReason | undefined;
}

interface Placed {
  readonly seq: number;
  readonly message: Message;
}

interface PruneOptions {
  readonly tokensMin: number;
  readonly keepTurns: number;
}

/** The large results outside the newest turns, each with its replacement. */
export function findPrunable(placed: readonly Placed[], options: PruneOptions): readonly Pruned[] {
  const names = namesOfCalls(placed.map(({ message }) => message));
  const found: Pruned[] = [];
  for (const { seq, message } of placed.slice(0, startOfKept(placed, options.keepTurns))) {
    // Message estimates are cached, result estimates are not: most messages are skipped without counting.
    if (message.role !== "tool_results" || estimateTokens([message]) <= options.tokensMin) continue;
    for (const result of message.results) {
      const tokens = resultTokens(result.content);
      if (tokens <= options.tokensMin || isReference(result.content)) continue;
      const name = names.get(message)?.get(result.tool_use_id) ?? UNKNOWN_TOOL;
      const content = asReference(result.content, referenceTo({ name, tokens, seq }));
      if (resultTokens(content) < tokens) found.push({ seq, tool_use_id: result.tool_use_id, tokens, content });
    }
  }
  return found;
}

/** Replaces the named results of one message by references; `pruned` belongs to that message. */
export function applyPruned(message: ToolResultsMessage, pruned: readonly Pruned[]): ToolResultsMessage {
  const contents = new Map(pruned.map(({ tool_use_id, content }) => [tool_use_id, content]));
  if (!message.results.some((result) => contents.has(result.tool_use_id))) return message;
  const results = message.results.map((result): ToolResult => {
    const content = contents.get(result.tool_use_id);
    return content === undefined ? result : { ...result, content };
  });
  return { ...message, results };
}

function startOfKept(placed: readonly Placed[], keepTurns: number): number {
  let start = placed.length;
  for (let turns = 0; turns < keepTurns && start > 0; ) {
    start -= 1;
    if (isTurnStart(placed[start]?.message)) turns += 1;
  }
  return start;
}

/** A summary is a user message, too, but no turn. */
function isTurnStart(message: Message | undefined): boolean {
  return message?.role === "user" && message.compaction_id === undefined;
}

function resultTokens(content: Content): number {
  const result: ToolResult = { tool_use_id: "", content, is_error: false };
  return estimateTokens([{ role: "tool_results", results: [result], created_at: "" }]);
}

/** Bytes, so at most as many characters. */
const EDGE_BYTES_MAX = 200;
const NAME_BYTES_MAX = 100;

function asReference(content: Content, reference: string): string {
  const text = contentText(typeof content === "string" ? content : content.filter(({ type }) => type === "text"));
  const head = headOf(text, EDGE_BYTES_MAX);
  const tail = tailOf(text.slice(head.length), EDGE_BYTES_MAX);
  return [head, headOf(mediaNames(content), EDGE_BYTES_MAX), reference, tail].filter((part) => part !== "").join("\n");
}

/** Each kind once: a hundred screenshots need no hundred names. */
function mediaNames(content: Content): string {
  if (typeof content === "string") return "";
  const media = content.filter(({ type }) => type !== "text");
  return [...new Set(media.map((block) => contentText([block])))].join(" ");
}

function referenceTo({ name, tokens, seq }: { name: string; tokens: number; seq: number }): string {
  const what = `the whole result of ${headOf(name, NAME_BYTES_MAX)} (about ${grouped(tokens)} tokens)`;
  return `[… ${what} is in the log at seq ${seq}, left out of the context …]`;
}

const REFERENCE =
  /\[… the whole result of .{0,100} \(about [\d,]+ tokens\) is in the log at seq \d+, left out of the context …\]/s;
/** Head, tail, media and the reference with its longest name; a longer result only quotes a reference. */
const REFERENCE_CHARS_MAX = 3 * EDGE_BYTES_MAX + 300;

function isReference(content: Content): boolean {
  return typeof content === "string" && content.length <= REFERENCE_CHARS_MAX && REFERENCE.test(content);
}
