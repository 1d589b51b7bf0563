import { type Piece, sentencesIn } from "../text/sentences.ts";
import { PROMPT_MARKS } from "./tier-text.ts";

const SUMMARY_CHARS_MAX = 4_000;
/** A model that does not stop writes megabytes; a usable summary is at the beginning. */
const READ_CHARS_MAX = 32_000;

/** Removes commentary, a repeated prompt, repetitions and an unfinished last sentence; empty if nothing is left. */
export function cleanSummary(text: string): string {
  const opened = dropOpening(text.slice(0, READ_CHARS_MAX).trim());
  const own = cutAtMark(opened);
  const folded = foldLoops(own);
  const sentences = markRepeated(sentencesOf(folded));
  const kept = sentences.filter(({ isRepeated }) => !isRepeated);
  const chars = lengthOf(kept);
  if (chars < own.length / 2 && kept.every(({ isLooped }) => isLooped)) return "";
  // A model that continued with something else had finished its summary.
  const whole = own === opened ? dropUnfinished(kept) : kept;
  const cleaned = bounded(join(folded.text, dropCommentary(whole), sentences));
  return SAYS_SOMETHING.test(cleaned) ? cleaned : "";
}

const SAYS_SOMETHING = /[\p{L}\p{N}]/u;

const OPENING =
  "(?:(?:sure|certainly|of course|okay|ok|absolutely|alright|great|no problem)(?:\\s*[!,.:–—-]+)?\\s+)?" +
  "(?:(?:based on|given|from)\\s+(?:the|these|your)\\s+[^.:!?\\n]{0,60},\\s*)?";
const HERE = "(?:here(?:['’]s|\\s+is|\\s+are)|below\\s+(?:is|are)|the\\s+following\\s+is|this\\s+is)";
const NAMED = "(?:[\\w-]+\\s+){0,5}?(?:summary|recap|summari[sz]ation|summari[sz]ed)\\b";
const SOURCE =
  "(?:the|these|those|your|all|my)\\s+(?:[\\w-]+\\s+){0,3}(?:memories|memory|conversation|text|passage|events|story|notes|transcript)\\b";

const OPENINGS: readonly RegExp[] = [
  /^(?:#{1,6}\s*)?[*_]*summary[*_]*\s*[:：][*_]*\s*/iu,
  /^#{1,6}\s*[*_]*summary[*_]*\s*(?:\n|$)/iu,
  // A title, unless it names a task.
  /^###\s+(?!(?:instruction|input|response|question|task|user|human|assistant|system|example)s?\b)\S[^\n]*\n/iu,
  /^(?:sure(?: thing)?|certainly|of course|okay|ok|absolutely|alright|understood|got it|no problem|great)\s*[!.](?=\s|$)/iu,
  new RegExp(`^${OPENING}${HERE}\\s+${NAMED}[^.:!?\\n]{0,120}[:：]`, "iu"),
  new RegExp(`^${OPENING}${HERE}\\s+${NAMED}\\s+of\\s+${SOURCE}[^.:!?\\n]{0,60}[.!](?=\\s|$)`, "iu"),
  /^(?:the|a|my)\s+(?:[\w-]+\s+){0,2}summary\b[^.:!?\n]{0,80}\b(?:is|follows|below)\s*[:：]/iu,
  new RegExp(`^(?:an?\\s+)?(?:[\\w-]+\\s+)?summary\\s+of\\s+${SOURCE}\\s*[:：]`, "iu"),
  /^in\s+(?:2-3|two\s+(?:or|to)\s+three)\s+sentences\s*[:：]/iu,
];
const OPENINGS_MAX = 8;

function dropOpening(text: string): string {
  let rest = text;
  for (let round = 0; round < OPENINGS_MAX; round += 1) {
    const opening = OPENINGS.find((one) => one.test(rest));
    if (opening === undefined) return rest;
    rest = rest.replace(opening, "").trimStart();
  }
  return rest;
}

/** How another task or a transcript begins; the text before it decides whether it does. */
const NEW_TASK =
  /(?:User|Human|Assistant|Question|Q)\*{0,2}\s?:|###\s|Summari[sz]e\s+(?:these|this|the\s+(?:following|above|text|passage|article|story|conversation|memories|paragraph))\b/gu;
const BEGINS_ANEW = /(?:^|\n)[ \t>*_]*$|[.!?。！？]["'”’)]*\s+$/u;
const LOOKED_BACK_CHARS = 40;

/** The text up to where the model repeats the prompt or starts something else. */
function cutAtMark(text: string): string {
  const places = PROMPT_MARKS.map((mark) => text.indexOf(mark)).filter((at) => at >= 0);
  for (const { index } of text.matchAll(NEW_TASK)) {
    if (!BEGINS_ANEW.test(text.slice(Math.max(0, index - LOOKED_BACK_CHARS), index))) continue;
    places.push(index);
    break;
  }
  return places.length === 0 ? text : text.slice(0, Math.min(...places)).trimEnd();
}

interface Word {
  readonly start: number;
  readonly end: number;
  readonly key: string;
  /** A character of a script without spaces counts as a word. */
  readonly isSign: boolean;
}

const WORD =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[^\s\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]+/gu;
const SIGN = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]$/u;
const WORD_OPENING = /^["'“‘«([*_]+/u;
/** Bounded: thousands of full stops are not the end of a word. */
const WORD_CLOSING = /[.,;:!?…"'”’»)\]*_。，、！？；：]{1,8}$/u;
const PHRASE_WORDS_MAX = 8;
const PHRASE_SIGNS_MAX = 16;
const REPEATS_MIN = 4;
/** Rows of zeros are more often data than a loop. */
const NUMBER_REPEATS_MIN = 12;

function wordsOf(text: string): readonly Word[] {
  const words: Word[] = [];
  for (const { 0: raw, index } of text.matchAll(WORD)) {
    if (!SAYS_SOMETHING.test(raw)) continue;
    const start = index + (WORD_OPENING.exec(raw)?.[0].length ?? 0);
    const end = index + (WORD_CLOSING.exec(raw)?.index ?? raw.length);
    words.push({ start, end, key: text.slice(start, end).toLowerCase(), isSign: SIGN.test(raw) });
  }
  return words;
}

interface Folded {
  readonly text: string;
  readonly places: readonly number[];
}

/** Keeps one copy of a phrase that is repeated in a row. */
function foldLoops(text: string): Folded {
  const words = wordsOf(text);
  const pieces: string[] = [];
  const places: number[] = [];
  let from = 0;
  let length = 0;
  for (let at = 0; at < words.length; ) {
    const loop = loopAt(words, at);
    if (loop === undefined) {
      at += 1;
      continue;
    }
    const piece = text.slice(from, words[at + loop.period - 1]?.end);
    pieces.push(piece);
    length += piece.length;
    places.push(length);
    from = words[loop.last]?.end ?? text.length;
    at = loop.last + 1;
  }
  return { text: [...pieces, text.slice(from)].join(""), places };
}

/** The shortest phrase repeated from a word on, and the last word of the repetition. */
function loopAt(words: readonly Word[], at: number): { readonly period: number; readonly last: number } | undefined {
  for (let period = 1; period <= PHRASE_SIGNS_MAX; period += 1) {
    if (words[at]?.key !== words[at + period]?.key) continue;
    const phrase = words.slice(at, at + period);
    if (period > PHRASE_WORDS_MAX && !phrase.every(({ isSign }) => isSign)) return undefined;
    let same = 1;
    while (at + same + period < words.length && words[at + same]?.key === words[at + same + period]?.key) same += 1;
    const repeats = 1 + Math.floor(same / period);
    if (repeats < (phrase.some(({ key }) => /\p{L}/u.test(key)) ? REPEATS_MIN : NUMBER_REPEATS_MIN)) continue;
    // The text may end in the middle of a repetition.
    const isAtEnd = at + same + period === words.length;
    return { period, last: isAtEnd ? words.length - 1 : at + period * repeats - 1 };
  }
  return undefined;
}

interface Sentence extends Piece {
  /** For comparison; empty for lines without content, like the rule of a table. */
  readonly key: string;
  readonly isItem: boolean;
  readonly isRepeated: boolean;
  /** Repeated in a row, or containing a repeated phrase. */
  readonly isLooped: boolean;
}

const ITEM = /^(?:[-*+•・]|\d{1,3}[.)、])\s*/u;

/** Line by line: a list has no full stops. */
function sentencesOf({ text, places }: Folded): readonly Sentence[] {
  const sentences: Sentence[] = [];
  let start = 0;
  let next = 0;
  for (const line of text.split("\n")) {
    for (const [at, piece] of sentencesIn(line, start).entries()) {
      let isLooped = false;
      for (; (places[next] ?? Number.POSITIVE_INFINITY) <= piece.end; next += 1) isLooped = true;
      const isItem = at === 0 && ITEM.test(piece.text) && line.trimStart().startsWith(piece.text);
      const said = piece.text.replace(ITEM, "").toLowerCase().replace(/\s+/gu, " ");
      const key = SAYS_SOMETHING.test(said) ? said : "";
      sentences.push({ ...piece, key, isItem, isRepeated: false, isLooped });
    }
    start += line.length + 1;
  }
  return sentences;
}

function markRepeated(sentences: readonly Sentence[]): readonly Sentence[] {
  const counts = new Map<string, number>();
  for (const { key } of sentences) if (key !== "") counts.set(key, (counts.get(key) ?? 0) + 1);
  const seen = new Set<string>();
  return sentences.map((sentence) => {
    const { key } = sentence;
    const isRepeated = seen.has(key);
    if (key !== "") seen.add(key);
    return { ...sentence, isRepeated, isLooped: sentence.isLooped || (counts.get(key) ?? 0) >= REPEATS_MIN };
  });
}

function lengthOf(sentences: readonly Sentence[]): number {
  return sentences.reduce((sum, { start, end }) => sum + end - start, 0);
}

const ENDED = /[.!?…。！？]["'”’»)\]*_`」』）]{0,8}$/u;

/** Drops an unfinished last sentence if a whole one comes before it. */
function dropUnfinished(sentences: readonly Sentence[]): readonly Sentence[] {
  const before = sentences.slice(0, -1);
  const last = sentences.at(-1);
  if (last === undefined || last.key === "" || ENDED.test(last.text)) return sentences;
  // Either all items of a list end with a full stop, or none.
  const items = before.filter(({ isItem }) => isItem);
  if (last.isItem && !(items.length > 0 && items.every(({ text }) => ENDED.test(text)))) return sentences;
  return before.some(({ text, key }) => key !== "" && ENDED.test(text)) ? before : sentences;
}

const COMMENTARY_CHARS_MAX = 300;
const MODEL_ITSELF = "(?:ai|llm|artificial intelligence|(?:ai |large )?language model|ai (?:model|assistant))";

/** What models say about themselves or the summary, never about its content. */
const COMMENTARY: readonly RegExp[] = [
  /^as an? (?:ai |large )?language model\b/iu,
  new RegExp(`^as an? ${MODEL_ITSELF}(?:\\s*,)?\\s*i\\b`, "iu"),
  new RegExp(`^(?:i['’]m|i am) (?:just |only )?an? ${MODEL_ITSELF}\\b`, "iu"),
  /^(?:(?:i['’]m|i am) sorry|sorry|i apologi[sz]e)\b[^"“”]{0,60}\b(?:can(?:no|['’])t|unable)\b[^"“”]{0,40}\b(?:summari|help|assist|provide|fulfil|comply)/iu,
  /^i hope (?:this|that|it|these|the above)\b[^"“”]{0,60}\b(?:helps?|helpful|useful|what you|meets?|answers?|clear)\b/iu,
  /^(?:please )?(?:let me know if|feel free to)\b[^"“”]*\b(?:you|any|questions?|more|further)\b[^"“”]*$/iu,
  /^[([*_]*(?:please )?note(?: that)?(?:\s*[:,*_][*_]*)?\s+(?:that )?(?:this|the above|my) (?:summary|response|answer)\b/iu,
  /^(?:this|the above|my) summary (?:captures|covers|includes|provides|condenses|highlights|aims|reflects|omits|focuses|is (?:based|intended|meant|written|concise|within|in))\b/iu,
  /^is there anything else\b[^"“”]*\?$/iu,
  /^would you like me to\b[^"“”]*\?$/iu,
  /^if you (?:need|have|would like|want)\b[^"“”]*\b(?:let me know|feel free|please ask|happy to)\b/iu,
  /^[([]?(?:word|sentence|character|token) count\b/iu,
];

/** Only at the edges: in the middle of a summary such a sentence is content. */
function dropCommentary(sentences: readonly Sentence[]): readonly Sentence[] {
  const first = sentences.findIndex((one) => !isCommentary(one));
  if (first < 0) return [];
  return sentences.slice(first, sentences.findLastIndex((one) => !isCommentary(one)) + 1);
}

function isCommentary({ text }: Sentence): boolean {
  return text.length <= COMMENTARY_CHARS_MAX && COMMENTARY.some((one) => one.test(text));
}

/** Joins the kept sentences with their original gaps; where others stood, with a line break if there was one. */
function join(text: string, kept: readonly Sentence[], all: readonly Sentence[]): string {
  const isKept = new Set(kept);
  const parts: string[] = [];
  let gap = "";
  let end = 0;
  for (const sentence of all) {
    const before = text.slice(end, sentence.start);
    if (!gap.includes("\n")) gap = before;
    end = sentence.end;
    if (!isKept.has(sentence)) continue;
    parts.push(parts.length === 0 ? "" : gap, text.slice(sentence.start, end));
    gap = "";
  }
  return parts.join("");
}

/** Cuts a long text after the last sentence that fits, or the last word of a long sentence. */
function bounded(text: string): string {
  if (text.length <= SUMMARY_CHARS_MAX) return text;
  let end = 0;
  let start = 0;
  for (const line of text.split("\n")) {
    for (const piece of sentencesIn(line, start)) {
      if (piece.end > SUMMARY_CHARS_MAX) return end > 0 ? text.slice(0, end) : headOf(text);
      end = piece.end;
    }
    start += line.length + 1;
  }
  return text.slice(0, end);
}

function headOf(text: string): string {
  const head = text.slice(0, SUMMARY_CHARS_MAX);
  const space = head.lastIndexOf(" ");
  // Do not leave half of a surrogate pair.
  return space > 0 ? head.slice(0, space) : head.replace(/[\ud800-\udbff]$/u, "");
}
