import { isRecallTool } from "../contract/memory.ts";
import { type AssistantBlock, type Content, type Message, originOf } from "../contract/message.ts";
import type { Chunk, ChunkSource, NewChunk } from "../ports/memory.ts";
import { fold, foldWidth } from "../text/canonical.ts";
import { DAYS, daysIn, monthsIn, monthsOfYearsIn, SPANS, type Span, WEEKDAYS } from "../text/dates.ts";
import { termsOf } from "../text/terms.ts";

export interface MessagePlace {
  readonly session_id: string;
  readonly turn: number;
  readonly seq: number;
  readonly created_at_ms: number;
}

/** Increase when the same logs give other chunks: indexed sessions are then indexed again. */
export const CHUNKS_VERSION = 3;

/** Ids of the calls in a message that query memory itself. */
export function recallsIn(message: Message): ReadonlySet<string> {
  if (message.role !== "block_assistant") return NO_CALLS;
  const asking = message.blocks.flatMap((block) =>
    block.block_type === "tool_use" && isRecallTool(block.data.name) ? [block.data.id] : [],
  );
  return asking.length === 0 ? NO_CALLS : new Set(asking);
}

const NO_CALLS: ReadonlySet<string> = new Set();

/**
 * The searchable texts of a message in order, lazily: a short text whole, a long one in parts. Excludes reasoning,
 * queries to memory and, for the named calls, its answers.
 */
export function* chunksOf(message: Message, place: MessagePlace, recalls = NO_CALLS): Generator<NewChunk> {
  let part = 0;
  const own = originOf(message) === "import" ? { kind: "imported" } : {};
  for (const { role, kind, text } of textsOf(message, recalls)) {
    for (const piece of boundedParts(text))
      yield { ...toChunk({ ...place, role, kind, text: piece, part: part++ }), ...own };
  }
}

/** A chunk is found by its words, the dates it names and the day of its message. */
export function toChunk(chunk: ChunkSource & { readonly text: string }): NewChunk {
  const terms = termsOf(chunk.text);
  for (const term of datesNamedIn(chunk.text)) terms.set(term, 1);
  for (const term of dateTermsOf(chunk.created_at_ms)) terms.set(term, 1);
  return { ...chunk, terms, ...(isOfPrograms(chunk) ? { byWordsAlone: true } : {}) };
}

/**
 * Program output is most of a long session, and is searched by names and numbers: a vector of a log costs four times
 * that of a sentence and finds nothing more than words.
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
      // Skills and AGENTS.md are files: otherwise every session that has one would match its words.
      return (message.skill ?? message.agents_md) === undefined
        ? [{ role: originOf(message) === "tool" ? "tool" : "notice", kind: "notice", text: message.body ?? "" }]
        : [];
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

/** Arguments as lines `name: value`: in JSON, escaped paths and patches on one line would not be found. */
function argsText(args: Readonly<Record<string, unknown>>): string {
  return Object.entries(args)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : (JSON.stringify(value) ?? "")}`)
    .join("\n");
}

function textOfContent(content: Content): string {
  if (typeof content === "string") return content;
  return content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
}

/** Of longer texts only the beginning and the end are indexed. */
const CHARS_MAX = 16_000_000;
const TAIL_SHARE = 0.25;

function boundedParts(text: string): readonly string[] {
  if (text.length <= CHARS_MAX) return splitText(text);
  const tailChars = Math.floor(CHARS_MAX * TAIL_SHARE);
  const [head, tail] = [text.slice(0, CHARS_MAX - tailChars), text.slice(-tailChars)];
  return [...splitText(head), ...splitText(tail)];
}

/** The text to embed: a short chunk with the message before it, because "yes" means nothing alone. */
export function passageFor(chunk: Chunk, before: Chunk | undefined): string {
  if (!isShort(chunk.text) || before === undefined || before.session_id !== chunk.session_id) return chunk.text;
  return `${lastChars(before.text)}\n${chunk.text}`;
}

/** Whether a text needs the message before it to be understood. */
export function isShort(text: string): boolean {
  return text.length <= SHORT_CHARS_MAX;
}

const SHORT_CHARS_MAX = 32;
/** More would outweigh the chunk itself. */
const BEFORE_CHARS_MAX = 400;

function lastChars(text: string): string {
  if (text.length <= BEFORE_CHARS_MAX) return text;
  const tail = text.slice(-BEFORE_CHARS_MAX);
  return tail.slice(tail.search(/\s/) + 1);
}

/** Separators of words, in scripts without spaces as well. */
const BETWEEN = /[\s，。、！？；：「」]+/u;
/** A word in a sentence, with the punctuation around it. */
const WORD = /^[\p{Ps}\p{Pi}"']*[\p{L}\p{M}]+(?:['’-][\p{L}\p{M}]+)*[\p{Po}\p{Pe}\p{Pf}]*$/u;
/** Most words; checked first, because the other takes longer. */
const PLAIN_WORD = /^[A-Za-z]+[.,;:!?]*$/;
/** The share of words in prose; of code it is about half, of a log a tenth. */
const WORDS_SHARE_MIN = 0.75;
/** The average number of letters per line in prose; a list of names has fewer. */
const LINE_LETTERS_MIN = 24;
/** The beginning of a text decides. */
const LOOKED_AT_CHARS = 2_000;

/** Whether a text is natural language in any script, not program output: logs, code, tables, lists. */
export function isProse(text: string): boolean {
  const looked = text.slice(0, LOOKED_AT_CHARS);
  const pieces = looked.split(BETWEEN).filter((piece) => piece !== "");
  const words = pieces.filter((piece) => PLAIN_WORD.test(piece) || WORD.test(piece));
  const letters = words.reduce((sum, { length }) => sum + length, 0);
  const lines = looked.split("\n").filter((line) => line.trim() !== "").length;
  return lines > 0 && words.length >= WORDS_SHARE_MIN * pieces.length && letters >= LINE_LETTERS_MIN * lines;
}

/**
 * Splits a text into parts of about `PART_TOKENS_TARGET`, at paragraphs, lines, sentences or words, in that order.
 * Parts of very long texts are longer, to stay near `PARTS_TARGET`.
 */
export function splitText(text: string): readonly string[] {
  const trimmed = text.trim();
  if (trimmed === "") return [];
  const tokens = tokensIn(trimmed);
  if (tokens <= PART_TOKENS_MAX) return [trimmed];
  const partTokens = Math.max(PART_TOKENS_TARGET, Math.ceil(tokens / PARTS_TARGET));
  const parts: string[] = [];
  let from = 0;
  while (from < trimmed.length) {
    const to = endOfPart(trimmed, from, partTokens);
    const part = trimmed.slice(from, to).trim();
    if (part !== "") parts.push(part);
    if (to >= trimmed.length) break;
    from = startOfNext(trimmed, from, to);
  }
  return parts;
}

const PART_TOKENS_TARGET = 180;
/** A vector takes a tenth of a second: a pasted file must not block the embedder for an hour. */
const PARTS_TARGET = 2_048;
/** A text slightly longer than a part stays whole: its second half alone would say little. */
const PART_TOKENS_MAX = 240;
/** Each part repeats the end of the previous one, so that a divided sentence is found by either half. */
const OVERLAP_CHARS_MAX = 120;
/** Chinese characters carry more: there the overlap would be most of a part. */
const OVERLAP_SHARE_MAX = 1 / 3;
const CHARS_PER_TOKEN = 4;

/** Where a part may end, best first; searched in the last half of the part. */
const ENDS = [/\n\s*\n/g, /\n/g, /[.!?…]["'”’)\]]*\s+|[。！？]/g, /[\s\u200b]+/g];

function endOfPart(text: string, from: number, tokens: number): number {
  const limit = charsFor(text, from, tokens);
  if (from + limit >= text.length) return text.length;
  const middle = from + Math.floor(limit / 2);
  const window = text.slice(middle, from + limit);
  for (const end of ENDS) {
    const last = [...window.matchAll(end)].at(-1);
    if (last !== undefined) return middle + last.index + last[0].length;
  }
  return notWithinSign(text, from + limit);
}

function startOfNext(text: string, from: number, to: number): number {
  const overlap = Math.min(OVERLAP_CHARS_MAX, Math.floor((to - from) * OVERLAP_SHARE_MAX));
  const tail = text.slice(to - overlap, to);
  const sentence = /[.!?…]["'”’)\]]*\s+|[。！？]|\n/.exec(tail.slice(0, -1));
  return sentence === null ? to : to - overlap + sentence.index + sentence[0].length;
}

/** How many characters from `from` on make this many tokens. */
function charsFor(text: string, from: number, tokens: number): number {
  let quarters = 0;
  const end = Math.min(text.length, from + tokens * CHARS_PER_TOKEN);
  for (let at = from; at < end; at += 1) {
    quarters += quartersOf(text.charCodeAt(at));
    if (quarters >= tokens * CHARS_PER_TOKEN) return at - from + 1;
  }
  return end - from;
}

export function tokensIn(text: string): number {
  let quarters = 0;
  for (let at = 0; at < text.length; at += 1) quarters += quartersOf(text.charCodeAt(at));
  return quarters / CHARS_PER_TOKEN;
}

/** Four letters make a token; outside alphabets a character is about one. */
function quartersOf(code: number): number {
  return code < 0x0e00 ? 1 : CHARS_PER_TOKEN;
}

function notWithinSign(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}

/** The terms of a time: day, month, month of any year, year, day of the week. */
export function dateTermsOf(atMs: number): readonly string[] {
  const date = new Date(atMs);
  if (Number.isNaN(date.getTime())) return [];
  const day = isoDay(date);
  return [
    `@${day}`,
    `@${day.slice(0, -3)}`,
    `@${day.slice(-5, -3)}`,
    `@${day.slice(0, -6)}`,
    `@day${date.getUTCDay()}`,
  ];
}

/** The terms of explicit dates in a text: 2023-05-08, 8.5.2023, May 8th, 8 mai 2023, 2023年5月8日, in May 2023. */
export function datesNamedIn(text: string): ReadonlySet<string> {
  const terms = new Set<string>();
  // Every form has a number, most texts have none.
  if (!/\d/.test(text)) return terms;
  const plain = foldWidth(text.slice(0, TEXT_CHARS_MAX)).normalize("NFC");
  for (const { year, month, day } of daysIn(plain)) {
    if (year === undefined) terms.add(`@${two(month)}`);
    else terms.add(`@${year}-${two(month)}-${two(day)}`).add(`@${year}-${two(month)}`);
  }
  for (const { year, month } of monthsOfYearsIn(plain)) terms.add(`@${year}-${two(month)}`);
  return terms;
}

/** The terms of dates in a query, explicit or relative: yesterday, last week, on Friday. */
export function datesAskedFor(query: string, nowMs: number): ReadonlySet<string> {
  const terms = new Set(datesNamedIn(query));
  const plain = fold(query.slice(0, TEXT_CHARS_MAX));
  for (const [name, days] of DAYS) if (holds(plain, name)) terms.add(`@${isoDay(new Date(nowMs + days * DAY_MS))}`);
  for (const [ago] of plain.matchAll(AGO)) {
    const days = Number.parseInt(ago, 10) * (/we|wo/.test(ago) ? 7 : 1);
    if (days <= DAYS_AGO_MAX) terms.add(`@${isoDay(new Date(nowMs - days * DAY_MS))}`);
  }
  for (const [name, span] of SPANS) if (holds(plain, name)) addSpan(terms, span, nowMs);
  for (const [name, weekday] of WEEKDAYS) if (holds(plain, name)) terms.add(`@day${weekday}`);
  for (const month of monthsIn(query)) terms.add(`@${two(month)}`);
  return terms;
}

const DAY_MS = 86_400_000;
const DAYS_AGO_MAX = 4_000;
const TEXT_CHARS_MAX = 20_000;
const AGO = /\d{1,4} (?:days?|weeks?)(?= ago)|(?<=vor )\d{1,4} (?:tagen|wochen)/g;

function addSpan(terms: Set<string>, span: Span, nowMs: number): void {
  const now = new Date(nowMs);
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  const sinceMonday = (now.getUTCDay() + 6) % 7;
  switch (span) {
    case "year":
      terms.add(`@${year - 1}`);
      return;
    case "month":
      terms.add(`@${isoDay(new Date(Date.UTC(year, month - 1, 1))).slice(0, -3)}`);
      return;
    case "this_month":
      terms.add(`@${isoDay(now).slice(0, -3)}`);
      return;
    case "week":
    case "this_week": {
      const monday = nowMs - (sinceMonday + (span === "week" ? 7 : 0)) * DAY_MS;
      for (let day = 0; day < 7; day += 1) terms.add(`@${isoDay(new Date(monday + day * DAY_MS))}`);
    }
  }
}

/** Whether a text contains a name as whole words; scripts without spaces have no such words. */
function holds(text: string, name: string): boolean {
  const at = text.indexOf(name);
  if (at < 0 || name.charCodeAt(0) > 0x2e80) return at >= 0;
  return !/[\p{L}\p{N}]/u.test(text.charAt(at - 1)) && !/[\p{L}\p{N}]/u.test(text.charAt(at + name.length));
}

function isoDay(date: Date): string {
  return date.toISOString().slice(0, 10);
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}
