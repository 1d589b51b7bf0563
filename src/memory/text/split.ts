/** A text in parts of about `PART_TOKENS_TARGET`, cut at the ends of paragraphs, lines, sentences or words, in that order. */
export function splitText(text: string): readonly string[] {
  const trimmed = text.trim();
  if (trimmed === "") return [];
  if (tokensIn(trimmed, 0, trimmed.length) <= PART_TOKENS_MAX) return [trimmed];
  const parts: string[] = [];
  let from = 0;
  while (from < trimmed.length) {
    const to = endOfPart(trimmed, from);
    const part = trimmed.slice(from, to).trim();
    if (part !== "") parts.push(part);
    if (to >= trimmed.length) break;
    from = Math.max(from + 1, startOfNext(trimmed, to));
  }
  return parts;
}

const PART_TOKENS_TARGET = 180;
/** A text slightly longer than a part stays whole: its second half alone would say little. */
const PART_TOKENS_MAX = 240;
/** The last words of a part begin the next one, so that a sentence cut in two is found by either half. */
const OVERLAP_CHARS_MAX = 120;
const CHARS_PER_TOKEN = 4;

/** Where a part may end, best first; each is looked for in the last half of the part. */
const ENDS = [/\n\s*\n/g, /\n/g, /[.!?…]["'”’)\]]*\s+|[。！？]/g, /[\s\u200b]+/g];

function endOfPart(text: string, from: number): number {
  const limit = charsFor(text, from, PART_TOKENS_TARGET);
  if (from + limit >= text.length) return text.length;
  const middle = from + Math.floor(limit / 2);
  const window = text.slice(middle, from + limit);
  for (const end of ENDS) {
    const last = [...window.matchAll(end)].at(-1);
    if (last !== undefined) return middle + last.index + last[0].length;
  }
  return notWithinSign(text, from + limit);
}

function startOfNext(text: string, end: number): number {
  const from = Math.max(0, end - OVERLAP_CHARS_MAX);
  const tail = text.slice(from, end);
  const sentence = /[.!?…]["'”’)\]]*\s+|[。！？]|\n/.exec(tail.slice(0, -1));
  return sentence === null ? end : from + sentence.index + sentence[0].length;
}

/** How many characters from `from` on make so many tokens. */
function charsFor(text: string, from: number, tokens: number): number {
  let quarters = 0;
  const end = Math.min(text.length, from + tokens * CHARS_PER_TOKEN);
  for (let at = from; at < end; at += 1) {
    quarters += quartersOf(text.charCodeAt(at));
    if (quarters >= tokens * CHARS_PER_TOKEN) return at - from + 1;
  }
  return end - from;
}

function tokensIn(text: string, from: number, to: number): number {
  if (to - from > PART_TOKENS_MAX * CHARS_PER_TOKEN) return Number.POSITIVE_INFINITY;
  let quarters = 0;
  for (let at = from; at < to; at += 1) quarters += quartersOf(text.charCodeAt(at));
  return quarters / CHARS_PER_TOKEN;
}

/** Four letters make a token; beyond the alphabets a sign is about one. */
function quartersOf(code: number): number {
  return code < 0x0e00 ? 1 : CHARS_PER_TOKEN;
}

function notWithinSign(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}
