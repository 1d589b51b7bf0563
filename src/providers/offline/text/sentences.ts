/** Longer runs are cut, so that one quote stays readable and one sentence cannot fill a summary. */
const SENTENCE_CHARS_MAX = 400;
/** How far a cut may move back to keep an identifier or a number whole. */
const CUT_BACK_CHARS_MAX = 160;

const SENTENCE_END = /(?<![.!?…])[.!?…]+["'”’)\]]*(?=\s|$)|[。！？]+[」』”]?/gu;
const LIST_MARKER = /^\s*(?:(?:[-*•>]|\d{1,3}[.)])\s+)*/u;
const ABBREVIATION = /(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|mr|mrs|ms|dr)$|^\s*(?:\p{L}|\d{1,3})$/iu;

/** The sentences of a text, each a verbatim piece of it, without list markers and blank ones. */
export function splitSentences(text: string): string[] {
  const sentences: string[] = [];
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const body = line.replace(LIST_MARKER, "");
    if (body.trim() !== "") splitLine(body, sentences);
  }
  return sentences;
}

function splitLine(line: string, into: string[]): void {
  let start = 0;
  let seen = 0;
  let isInCode = false;
  for (const end of line.matchAll(SENTENCE_END)) {
    for (; seen < end.index; seen += 1) if (line[seen] === "`") isInCode = !isInCode;
    const after = end.index + end[0].length;
    if (isInCode || (end[0] === "." && !endsSentence(line, start, end.index))) continue;
    pushCut(line.slice(start, after), into);
    start = after;
  }
  pushCut(line.slice(start), into);
}

/** A full stop after an abbreviation, or before a lower-case word, is not an end. */
function endsSentence(line: string, start: number, stop: number): boolean {
  const next = line.slice(stop + 1, stop + 4).trimStart();
  if (/^\p{Ll}/u.test(next)) return false;
  return next === "" || !ABBREVIATION.test(line.slice(start, stop).slice(-8));
}

function pushCut(piece: string, into: string[]): void {
  let rest = piece.trim();
  while (rest.length > SENTENCE_CHARS_MAX) {
    const cut = cutPosition(rest, SENTENCE_CHARS_MAX);
    into.push(rest.slice(0, cut).trim());
    rest = rest.slice(cut).trim();
  }
  if (rest !== "") into.push(rest);
}

/** The text up to a limit, cut between words; the whole text when it is short enough. */
export function clip(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : text.slice(0, cutPosition(text, charsMax)).trimEnd();
}

/** The end of a text, begun between words; the whole text when it is short enough. */
export function clipStart(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text;
  const end = text.slice(-charsMax);
  const space = /\s/u.exec(end.slice(0, SENTENCE_CHARS_MAX))?.index ?? 0;
  return end.slice(space);
}

/** Where to cut: at a space, else between signs that are not one identifier, else (one endless token) at the limit. */
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
