import { matchesOf } from "./canonical.ts";
export interface Piece {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** A longer sentence is a page without full stops; it is divided, so that no check reads a page at once. */
const SENTENCE_CHARS_MAX = 2_000;
/** A page without any full stop is cut between words. */
const PIECE_CHARS_MAX = 4_000;
/** A quotation stays readable, and one sentence cannot fill a summary. */
const QUOTE_CHARS_MAX = 400;
/** How far a cut may move back to keep an identifier or a number whole. */
const CUT_BACK_CHARS_MAX = 160;

const SENTENCE_END = /(?<![.!?…])[.!?…]+["'”’»)\]*_`]*(?=\s|$)|[。！？]+[」』”）]?/gu;
const ABBREVIATION =
  /(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|mr|mrs|ms|dr|ca|z\.\s?b|u\.\s?a|d\.\s?h|bzw|usw|evtl|ggf|inkl|st|m|mme|p\.\s?ex|env|mio|mrd|tsd)$/iu;
/** Abbreviations only before a number: `Art. 5`, but "it is about art." */
const NUMBERED = /(?:^|[\s(])(?:no|nr|abs|art)$/iu;
const BEFORE_CHARS = 10;
const AFTER_CHARS = 4;
const LIST_MARKER = /^\s*(?:(?:[-*•>]|\d{1,3}[.)])\s+)*/u;

/** Where a stop does not end a sentence. */
interface Ends {
  /** Text that makes the following stop a list number. */
  readonly counted: RegExp;
  /** Paired characters; inside a pair a sentence does not end. */
  readonly even: readonly string[];
  /** Each the closing, then the opening character. */
  readonly closes: readonly string[];
  readonly signs: RegExp;
}

/** Sentences that are judged or cut include their quotations and brackets; a missing end joins two. */
const JUDGED: Ends = {
  counted: /(?:^|\s)(?:\p{Lu}|\d{1,3})$/iu,
  even: ["`", "**", '"'],
  closes: [")(", "][", "»«", "」「", "』『", "）（"],
  signs: /[`"()[\]“”„«»「」『』（）]|\*\*/gu,
};
/** Quotable sentences are short: of a pasted page in quotes one line is enough. */
const QUOTABLE: Ends = { counted: /^\s*(?:\p{L}|\d{1,3})$/iu, even: ["`"], closes: [], signs: /`/gu };

/** The sentences of a text with positions; none ends inside emphasis, code, a quotation or brackets. */
export function sentencesIn(text: string, offset = 0): Piece[] {
  let start = 0;
  return endsIn(text, JUDGED).flatMap((end) => {
    const pieces = trimmed(text.slice(start, end), offset + start);
    start = end;
    return pieces;
  });
}

/** Ends of the sentences; the last one is the end of the text. */
function endsIn(text: string, ends: Ends): readonly number[] {
  const found: number[] = [];
  let start = 0;
  let seen = 0;
  const signs = new Map<string, number>();
  const hasSigns = text.search(ends.signs) >= 0;
  for (const { 0: stop, index } of matchesOf(SENTENCE_END, text)) {
    const after = index + stop.length;
    // Counted from the last end: otherwise a page of open brackets would be read once per end.
    if (hasSigns) countSigns(text.slice(seen, after), ends.signs, signs);
    seen = after;
    const isLong = after - start > SENTENCE_CHARS_MAX;
    const mayJoin = stop.startsWith(".") || stop.startsWith("…");
    const isOver = !(mayJoin && isJoined(text, { start, index, stop }, ends.counted)) && isBalanced(signs, ends);
    if (!isLong && !isOver) continue;
    found.push(after);
    start = after;
    signs.clear();
  }
  if (start < text.length) found.push(text.length);
  return found;
}

type Stop = { readonly start: number; readonly index: number; readonly stop: string };

/** A full stop after an abbreviation or a number, or before a lower-case letter, is no end. */
function isJoined(text: string, { start, index, stop }: Stop, counted: RegExp): boolean {
  const after = index + stop.length;
  const next = text.slice(after, after + AFTER_CHARS).trimStart();
  if (next === "") return false;
  if (/^\p{Ll}/u.test(next)) return true;
  if (stop !== ".") return false;
  const before = text.slice(start, index).slice(-BEFORE_CHARS);
  return ABBREVIATION.test(before) || counted.test(before) || (NUMBERED.test(before) && /^\d/u.test(next));
}

function countSigns(text: string, signs: RegExp, into: Map<string, number>): void {
  for (const [sign] of matchesOf(signs, text)) into.set(sign, (into.get(sign) ?? 0) + 1);
}

/** Openings and closings must balance, and symmetric characters must be even. */
function isBalanced(signs: ReadonlyMap<string, number>, { even, closes }: Ends): boolean {
  if (signs.size === 0) return true;
  const count = (sign: string): number => signs.get(sign) ?? 0;
  // “ opens an English quotation and closes a German one.
  const german = Math.min(count("„"), count("“"));
  return (
    even.every((sign) => count(sign) % 2 === 0) &&
    closes.every(([end = "", start = ""]) => count(start) <= count(end)) &&
    count("„") + count("“") - 2 * german <= count("”")
  );
}

export function sentencesOf(text: string): string[] {
  return text.split("\n").flatMap((line) => sentencesIn(line).map((piece) => piece.text));
}

/** Sentences for quoting: literal pieces without list markers, bounded in length. */
export function quotableSentences(text: string): string[] {
  const sentences: string[] = [];
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const body = line.replace(LIST_MARKER, "");
    let start = 0;
    for (const end of endsIn(body, QUOTABLE)) {
      pushCut(body.slice(start, end).trim(), sentences);
      start = end;
    }
  }
  return sentences;
}

function pushCut(sentence: string, into: string[]): void {
  let rest = sentence;
  while (rest.length > QUOTE_CHARS_MAX) {
    const cut = cutPosition(rest, QUOTE_CHARS_MAX);
    into.push(rest.slice(0, cut).trim());
    rest = rest.slice(cut).trim();
  }
  if (rest !== "") into.push(rest);
}

/** A piece without surrounding blanks; several if it is too long. */
export function trimmed(raw: string, at: number): readonly Piece[] {
  if (raw.length < PIECE_CHARS_MAX) return pieceOf(raw, at);
  const pieces: Piece[] = [];
  for (let from = 0; from < raw.length; ) {
    const rest = raw.slice(from, from + PIECE_CHARS_MAX);
    const space = rest.length < PIECE_CHARS_MAX ? 0 : rest.lastIndexOf(" ") + 1;
    const piece = space > PIECE_CHARS_MAX / 2 ? rest.slice(0, space) : rest;
    pieces.push(...pieceOf(piece, at + from));
    from += piece.length;
  }
  return pieces;
}

function pieceOf(raw: string, at: number): readonly Piece[] {
  const text = raw.trim();
  if (text === "") return [];
  const start = at + (raw.length - raw.trimStart().length);
  return [{ text, start, end: start + text.length }];
}

/** The text up to a limit, cut between words. */
export function clip(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : text.slice(0, cutPosition(text, charsMax)).trimEnd();
}

/** The end of a text, cut between words. */
export function clipStart(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text;
  const end = text.slice(-charsMax);
  const space = /\s/u.exec(end.slice(0, QUOTE_CHARS_MAX))?.index ?? 0;
  return end.slice(space);
}

/** Cuts at a space, else between characters that are not one identifier, else at the limit. */
function cutPosition(text: string, charsMax: number): number {
  const space = text.lastIndexOf(" ", charsMax);
  if (space >= charsMax / 2) return space;
  for (let at = charsMax; at > Math.max(1, charsMax - CUT_BACK_CHARS_MAX); at -= 1) {
    const isInToken = /^[!-~]{2}$/u.test(text.slice(at - 1, at + 1));
    if (!isInToken && !isLowSurrogate(text, at)) return at;
  }
  return isLowSurrogate(text, charsMax) ? Math.max(charsMax - 1, 2) : charsMax;
}

function isLowSurrogate(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  return unit >= 0xdc00 && unit <= 0xdfff;
}

/** A question mark of any script at the end; the Greek one is a semicolon elsewhere. */
const QUESTION_END = /(?:[?？؟]|\p{Script=Greek}[;\u037e])["'”’»」』)\]]*\s*$/u;

export function isQuestion(text: string): boolean {
  return QUESTION_END.test(text);
}
