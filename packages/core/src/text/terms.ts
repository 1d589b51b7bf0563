import { fold } from "./canonical.ts";
import { remembered } from "./remembered.ts";
import { stem } from "./stems.ts";
import { FUNCTION_WORDS } from "./words.ts";

/** The search terms of a text with their counts, in linear time. */
export function termsOf(text: string): Map<string, number> {
  const terms = new Map<string, number>();
  for (const token of tokensIn(text)) {
    for (const { term } of termsOfToken(token)) terms.set(term, (terms.get(term) ?? 0) + 1);
  }
  return terms;
}

/** The terms of a query with their weights; at most `QUERY_TERMS_MAX`, the most significant. */
export function queryTerms(query: string): Map<string, number> {
  const seen = new Map<string, { readonly weight: number; readonly count: number }>();
  for (const { term, weight } of tokensIn(query.slice(0, QUERY_CHARS_MAX)).flatMap(termsOfToken)) {
    seen.set(term, { weight, count: (seen.get(term)?.count ?? 0) + 1 });
  }
  // A word asked twice is meant; a word repeated a thousand times is pasted.
  const weights = [...seen].map(([term, { weight, count }]) => [term, weight * (1 + Math.log(count))] as const);
  if (weights.length <= QUERY_TERMS_MAX) return new Map(weights);
  return new Map(weights.sort(([, a], [, b]) => b - a).slice(0, QUERY_TERMS_MAX));
}

export function plainWords(text: string): string {
  const words: string[] = [];
  for (const token of tokensIn(text)) words.push(fold(token.slice(0, TOKEN_CHARS_MAX)));
  return words.join(" ");
}

/** The letters of a text's plain words: texts with other letters have other words, which costs a tenth of reading them. */
export function lettersOf(text: string): string {
  // The words of a longer text are cut.
  const isPlain = text.length <= TOKEN_CHARS_MAX && !/[^\0-\x7f]/.test(text);
  return (isPlain ? text.toLowerCase() : plainWords(text)).replace(/[^a-z0-9_$\u0080-\uffff]+/g, "");
}

export function tokensIn(text: string): readonly string[] {
  return text.match(TOKEN) ?? [];
}

/** A longer query is a document; its beginning gives the topic. */
const QUERY_CHARS_MAX = 20_000;
const QUERY_TERMS_MAX = 128;
/** An endless token (base64, a minified line) is cut. */
const TOKEN_CHARS_MAX = 4_096;
const TERM_CHARS_MAX = 128;

/** Words, with the joints of an identifier, path, version or address; emoji and flags stand alone. */
const TOKEN =
  /[\p{L}\p{N}_$][\p{L}\p{N}\p{M}_$]*(?:[.:/@#~+\\=&%'’-]+[\p{L}\p{N}\p{M}_$]+)*|\p{Regional_Indicator}{2}|\p{Extended_Pictographic}/gu;
const SIMPLE = /^[a-z]+$|^[A-Z][a-z]*$/;
const JOINTS = /[^\p{L}\p{N}\p{M}]+/u;
/** Borders inside camelCase words and around numbers. */
const HUMPS = /(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})|(?<=\p{L})(?=\p{N})|(?<=\p{N})(?=\p{L})/u;
/** Most parts; checked first, because looking for borders takes longer. */
const UNDIVIDED = /^(?:[a-z]+|[0-9]+)$/;

/** Letters and digits mixed as in no word: pieces of a hash are meaningless. */
const HASH = /^(?=[\da-f]{7,}$)(?:(?:\d+[a-f]+){2}|(?:[a-f]+\d+){2})/i;
/** The usual length of an abbreviated hash; a longer prefix still matches it. */
const SHORT_HASH_CHARS = 7;
/** A term that repeats what other terms of its token say: a whole hash, a single character. */
const REPEATED_WEIGHT = 0.5;

/** Scripts without spaces, and Hangul, whose endings attach to the word. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}ー々\p{Script=Hangul}]+|[\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]+/gu;
const HAS_UNSPACED = new RegExp(UNSPACED.source, "u");
const SYLLABIC = /[\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
/** A Chinese character can be a word; a Thai letter cannot. */
const SIGNS_PER_TERM = 2;
const LETTERS_PER_TERM = 3;

/** Stop words say little, but a query may consist of nothing else. */
const STOP_WORD_WEIGHT = 0.2;

type Emit = (term: string, weight: number) => void;

type Weighed = { readonly term: string; readonly weight: number };

/** Cached: words repeat. */
const termsOfToken = remembered({ entriesMax: 20_000, charsMax: 40 }, (token): readonly Weighed[] => {
  const terms: Weighed[] = [];
  const emit: Emit = (term, weight) => terms.push({ term, weight });
  if (SIMPLE.test(token)) emitWord(token.toLowerCase(), emit);
  else walkToken(token, emit);
  return terms;
});

/** A complex token: an identifier whole and in parts, a foreign word, an address. */
function walkToken(endless: string, emit: Emit): void {
  const token = endless.slice(0, TOKEN_CHARS_MAX);
  const whole = fold(token);
  if (HAS_UNSPACED.test(whole)) {
    walkUnspaced(whole, emit);
    return;
  }
  const word = whole.replace(/'s$/, "");
  if (HASH.test(word)) {
    emitHash(word, emit);
    return;
  }
  if (FUNCTION_WORDS.has(whole)) emit(whole, STOP_WORD_WEIGHT);
  else if (JOINTS.test(word)) emit(word.slice(0, TERM_CHARS_MAX), 1);
  else emitWord(word, emit);
  const parts = token
    .replace(/['’]\p{L}{1,2}$/u, "")
    .split(JOINTS)
    .flatMap((part) => (UNDIVIDED.test(part) || HASH.test(part) ? [part] : part.split(HUMPS)));
  if (parts.length < 2) return;
  for (const part of parts) {
    if (HASH.test(part)) emitHash(fold(part), emit);
    else if (part !== "") emitWord(fold(part), emit);
  }
}

function walkUnspaced(token: string, emit: Emit): void {
  for (const [run] of token.matchAll(UNSPACED)) {
    const signs = [...run];
    const isSyllabic = SYLLABIC.test(run);
    const size = isSyllabic ? LETTERS_PER_TERM : SIGNS_PER_TERM;
    if (signs.length <= size) emit(run, 1);
    else for (let at = 0; at + size <= signs.length; at += 1) emit(signs.slice(at, at + size).join(""), 1);
    if (isSyllabic || signs.length === 1) continue;
    for (const sign of signs) emit(sign, REPEATED_WEIGHT);
  }
  for (const rest of token.replace(UNSPACED, " ").split(JOINTS)) if (rest !== "") emitWord(rest, emit);
}

function emitHash(hash: string, emit: Emit): void {
  if (hash.length > SHORT_HASH_CHARS) emit(hash.slice(0, TERM_CHARS_MAX), REPEATED_WEIGHT);
  emit(hash.slice(0, SHORT_HASH_CHARS), 1);
}

function emitWord(word: string, emit: Emit): void {
  if (FUNCTION_WORDS.has(word)) emit(word, STOP_WORD_WEIGHT);
  else emit(stem(word).slice(0, TERM_CHARS_MAX), 1);
}

/** The weight of a term by how many of the chunks contain it. */
export function rarity(holders: number, chunks: number): number {
  return Math.log(1 + (chunks - holders + 0.5) / (holders + 0.5));
}

/**
 * k1 and b of BM25, lower than the usual 1.2 and 0.75: those suit articles, where long ones repeat themselves. In a
 * message one mention is enough, and a longer message says more.
 */
export const SATURATION = 0.9;
export const LENGTH_SHARE = 0.4;
