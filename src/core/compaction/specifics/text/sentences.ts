export interface Piece {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** A longer sentence is a page without full stops; it is taken in pieces, so that no check looks at a page at once. */
const SENTENCE_CHARS_MAX = 2_000;
/** Where a page has not one full stop, it is cut between words. */
const PIECE_CHARS_MAX = 4_000;

const SENTENCE_END = /(?<![.!?…])[.!?…]+["'”’»)\]*_`]*(?=\s|$)|[。！？]+[」』”）]?/gu;
const ABBREVIATION =
  /(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|mr|mrs|ms|dr|no|nr|ca|z\.\s?b|u\.\s?a|d\.\s?h|bzw|usw|evtl|ggf|inkl|abs|art|st|m|mme|p\.\s?ex|env|mio|mrd|tsd)$|(?:^|\s)(?:\p{Lu}|\d{1,3})$/iu;
/** Of these there must be as many as of the sign they begin with, of all others an even number. */
const CLOSES = new Map([
  [")", "("],
  ["]", "["],
  ["”", "“"],
  ["»", "«"],
  ["」", "「"],
  ["』", "『"],
  ["）", "（"],
]);
const EVEN = ["`", "**", '"'];
const SIGNS = /[`"()[\]“”«»「」『』（）]|\*\*/gu;

/** The sentences of a text in their places; none ends inside emphasis, code, a quotation or brackets. */
export function sentencesIn(text: string, offset = 0): Piece[] {
  const pieces: Piece[] = [];
  let start = 0;
  let seen = 0;
  let signs = new Map<string, number>();
  for (const end of text.matchAll(SENTENCE_END)) {
    const after = end.index + end[0].length;
    // Counted on from the last end: counted anew, a page of open brackets would be read once for each of its ends.
    countSigns(text.slice(seen, after), signs);
    seen = after;
    const isLong = after - start > SENTENCE_CHARS_MAX;
    if (!isLong && (!endsSentence(text, start, end) || !isBalanced(signs))) continue;
    pieces.push(...trimmed(text.slice(start, after), offset + start));
    start = after;
    signs = new Map();
  }
  pieces.push(...trimmed(text.slice(start), offset + start));
  return pieces;
}

/** The sentences of every line, as texts. */
export function sentencesOf(text: string): string[] {
  return text.split("\n").flatMap((line) => sentencesIn(line).map((piece) => piece.text));
}

/** A piece without the blanks around it; several when it is too long for one. */
export function trimmed(raw: string, at: number): readonly Piece[] {
  const pieces: Piece[] = [];
  for (let from = 0; from < raw.length; ) {
    const rest = raw.slice(from, from + PIECE_CHARS_MAX);
    const space = rest.length < PIECE_CHARS_MAX ? 0 : rest.lastIndexOf(" ") + 1;
    const piece = space > PIECE_CHARS_MAX / 2 ? rest.slice(0, space) : rest;
    const text = piece.trim();
    const start = at + from + (piece.length - piece.trimStart().length);
    if (text !== "") pieces.push({ text, start, end: start + text.length });
    from += piece.length;
  }
  return pieces;
}

/** A full stop after an abbreviation or a number, or before a small letter, is not an end. */
function endsSentence(text: string, start: number, end: RegExpExecArray): boolean {
  if (!/^[.…]/u.test(end[0])) return true;
  const next = text.slice(end.index + end[0].length, end.index + end[0].length + 4).trimStart();
  if (next === "") return true;
  if (/^\p{Ll}/u.test(next)) return false;
  return end[0] !== "." || !ABBREVIATION.test(text.slice(start, end.index).slice(-10));
}

function countSigns(text: string, into: Map<string, number>): void {
  for (const [sign] of text.matchAll(SIGNS)) into.set(sign, (into.get(sign) ?? 0) + 1);
}

function isBalanced(signs: ReadonlyMap<string, number>): boolean {
  const count = (sign: string): number => signs.get(sign) ?? 0;
  return EVEN.every((sign) => count(sign) % 2 === 0) && [...CLOSES].every(([end, start]) => count(start) <= count(end));
}
