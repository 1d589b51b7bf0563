export interface Piece {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** A longer sentence is a page without full stops; it is taken in pieces, so that no check looks at a page at once. */
const SENTENCE_CHARS_MAX = 2_000;

const SENTENCE_END = /[.!?…]+["'”’»)\]*_`]*(?=\s|$)|[。！？]+[」』”）]?/gu;
const ABBREVIATION =
  /(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|mr|mrs|ms|dr|no|nr|ca|z\.\s?b|u\.\s?a|d\.\s?h|bzw|usw|evtl|ggf|inkl|abs|art|st|m|mme|p\.\s?ex|env|mio|mrd|tsd)$|(?:^|\s)(?:\p{Lu}|\d{1,3})$/iu;
const PAIRS: readonly (readonly [string, string])[] = [
  ["(", ")"],
  ["[", "]"],
  ["“", "”"],
  ["«", "»"],
  ["「", "」"],
  ["『", "』"],
  ["（", "）"],
];

/** The sentences of a text in their places; none ends inside emphasis, code, a quotation or brackets. */
export function sentencesIn(text: string, offset = 0): Piece[] {
  const pieces: Piece[] = [];
  let start = 0;
  for (const end of text.matchAll(SENTENCE_END)) {
    const after = end.index + end[0].length;
    const isLong = after - start > SENTENCE_CHARS_MAX;
    if (!isLong && (!endsSentence(text, start, end) || !isBalanced(text.slice(start, after)))) continue;
    pieces.push(...trimmed(text.slice(start, after), offset + start));
    start = after;
  }
  pieces.push(...trimmed(text.slice(start), offset + start));
  return pieces;
}

/** The sentences of every line, as texts. */
export function sentencesOf(text: string): string[] {
  return text.split("\n").flatMap((line) => sentencesIn(line).map((piece) => piece.text));
}

function trimmed(raw: string, at: number): readonly Piece[] {
  const text = raw.trim();
  const start = at + raw.indexOf(text);
  return text === "" ? [] : [{ text, start, end: start + text.length }];
}

/** A full stop after an abbreviation or a number, or before a small letter, is not an end. */
function endsSentence(text: string, start: number, end: RegExpExecArray): boolean {
  if (!/^[.…]/u.test(end[0])) return true;
  const next = text.slice(end.index + end[0].length, end.index + end[0].length + 4).trimStart();
  if (next === "") return true;
  if (/^\p{Ll}/u.test(next)) return false;
  return end[0] !== "." || !ABBREVIATION.test(text.slice(start, end.index).slice(-10));
}

function isBalanced(piece: string): boolean {
  if (count(piece, "`") % 2 === 1 || count(piece, "**") % 2 === 1 || count(piece, '"') % 2 === 1) return false;
  return PAIRS.every(([open, close]) => count(piece, open) <= count(piece, close));
}

function count(text: string, sign: string): number {
  let total = 0;
  for (let at = text.indexOf(sign); at >= 0; at = text.indexOf(sign, at + sign.length)) total += 1;
  return total;
}
