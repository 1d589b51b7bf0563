/**
 * A text in parts of about `PART_TOKENS_TARGET`, cut at the ends of paragraphs, lines, sentences or words, in that order.
 * Of a text so long that they would be many more than `PARTS_TARGET` the parts are longer instead.
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
/** A vector takes a tenth of a second to make: a pasted file must not keep the embedder busy for an hour. */
const PARTS_TARGET = 2_048;
/** A text slightly longer than a part stays whole: its second half alone would say little. */
const PART_TOKENS_MAX = 240;
/** The last words of a part begin the next one, so that a sentence cut in two is found by either half. */
const OVERLAP_CHARS_MAX = 120;
/** Signs of Chinese say more: there, so many characters would be most of a part. */
const OVERLAP_SHARE_MAX = 1 / 3;
const CHARS_PER_TOKEN = 4;

/** Where a part may end, best first; each is looked for in the last half of the part. */
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

/** About how many tokens a text takes. */
export function tokensIn(text: string): number {
  let quarters = 0;
  for (let at = 0; at < text.length; at += 1) quarters += quartersOf(text.charCodeAt(at));
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
