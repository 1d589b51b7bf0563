import { stem } from "./stems.ts";

/** What a text is found by: its terms, each with how often it occurs. The work grows with the text and no faster. */
export function termsOf(text: string): Map<string, number> {
  const terms = new Map<string, number>();
  for (const token of text.match(TOKEN) ?? []) {
    for (const { term } of termsOfToken(token)) terms.set(term, (terms.get(term) ?? 0) + 1);
  }
  return terms;
}

/** The terms of a question with what each is worth; at most `QUERY_TERMS_MAX`, those that say most. */
export function queryTerms(query: string): Map<string, number> {
  const seen = new Map<string, { readonly weight: number; readonly count: number }>();
  walk(query.slice(0, QUERY_CHARS_MAX), (term, weight) =>
    seen.set(term, { weight, count: (seen.get(term)?.count ?? 0) + 1 }),
  );
  // What is asked twice is meant, what stands there a thousand times is pasted.
  const weights = [...seen].map(([term, { weight, count }]) => [term, weight * (1 + Math.log(count))] as const);
  if (weights.length <= QUERY_TERMS_MAX) return new Map(weights);
  return new Map(weights.sort(([, a], [, b]) => b - a).slice(0, QUERY_TERMS_MAX));
}

/** A text as a line of its words, for telling whether two texts say the same in the same order. */
export function plainWords(text: string): string {
  const words: string[] = [];
  for (const token of text.match(TOKEN) ?? []) words.push(fold(token));
  return words.join(" ");
}

/** Beyond this a question is a document; its beginning says what it is about. */
const QUERY_CHARS_MAX = 20_000;
const QUERY_TERMS_MAX = 128;
/** An endless token (base64, a minified line) is kept by its beginning. */
const TOKEN_CHARS_MAX = 4_096;
const TERM_CHARS_MAX = 128;

/** Words, with what joins an identifier, path, version or address kept inside; emoji and flags stand alone. */
const TOKEN =
  /[\p{L}\p{N}_$][\p{L}\p{N}\p{M}_$]*(?:[.:/@#~+\\=&%'’-]+[\p{L}\p{N}\p{M}_$]+)*|\p{Regional_Indicator}{2}|\p{Extended_Pictographic}/gu;
const SIMPLE = /^[a-z]+$|^[A-Z][a-z]*$/;
const NON_ASCII = /[^\0-\x7f]/;
const JOINTS = /[^\p{L}\p{N}\p{M}]+/u;
/** Where camelCase, and a number within a word, begin anew. */
const HUMPS = /(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})|(?<=\p{L})(?=\p{N})|(?<=\p{N})(?=\p{L})/u;

/** Letters and numbers mixed as no word is: its pieces would be those of any other hash. */
const HASH = /^(?=[\da-f]{7,}$)(?:(?:\d+[a-f]+){2}|(?:[a-f]+\d+){2})/i;
/** What is left of a hash where it is abbreviated; a question for more of it is still one for the same. */
const SHORT_HASH_CHARS = 7;
const LONG_HASH_WEIGHT = 0.5;

/** Scripts written without spaces, and Hangul, whose endings stick to the word. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}ー々\p{Script=Hangul}]+|[\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]+/gu;
const HAS_UNSPACED = new RegExp(UNSPACED.source, "u");
const SYLLABIC = /[\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
/** A sign of Chinese is a word now and then; a letter of Thai never is. */
const SIGNS_PER_TERM = 2;
const LETTERS_PER_TERM = 3;
const SINGLE_SIGN_WEIGHT = 0.3;

const STOP_WORDS = new Set(
  `a about after again all also am an and any are aren't as at be because been before being but by can can't could couldn't
  did didn't do does doesn't doing don't for from had hadn't has hasn't have haven't having he he's her here hers him his
  how how's i i'd i'll i'm i've if in into is isn't it it's its itself just let's may me might more most my myself no not
  of off on only or other our ours out over own please same shall she she's should so some such than that that's the their
  theirs them then there there's these they they're this those through to too up us very was wasn't we we'd we'll we're
  we've were weren't what what's when where where's which while who who's whom whose why will with won't would wouldn't you
  you'd you'll you're you've your yours`.split(/\s+/),
);
/** They tell little and stand everywhere, and yet a question may be made of nothing else. */
const STOP_WORD_WEIGHT = 0.2;

type Emit = (term: string, weight: number) => void;

function walk(text: string, emit: Emit): void {
  for (const token of text.match(TOKEN) ?? []) {
    for (const { term, weight } of termsOfToken(token)) emit(term, weight);
  }
}

type Weighed = { readonly term: string; readonly weight: number };

/** Texts say the same words again and again; long tokens are rare and would fill the cache. */
const CACHED_TOKENS_MAX = 20_000;
const CACHED_TOKEN_CHARS_MAX = 40;
const cached = new Map<string, readonly Weighed[]>();

function termsOfToken(token: string): readonly Weighed[] {
  const known = cached.get(token);
  if (known !== undefined) return known;
  const terms: Weighed[] = [];
  const emit: Emit = (term, weight) => terms.push({ term, weight });
  if (SIMPLE.test(token)) emitWord(token.toLowerCase(), emit);
  else walkToken(token, emit);
  if (cached.size >= CACHED_TOKENS_MAX) cached.clear();
  if (token.length <= CACHED_TOKEN_CHARS_MAX) cached.set(token, terms);
  return terms;
}

/** A word that is not plain: an identifier whole and in its parts, a foreign word, an address. */
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
  if (STOP_WORDS.has(whole)) emit(whole, STOP_WORD_WEIGHT);
  else if (JOINTS.test(word)) emit(word.slice(0, TERM_CHARS_MAX), 1);
  else emitWord(word, emit);
  const parts = token
    .replace(/['’]\p{L}{1,2}$/u, "")
    .split(JOINTS)
    .flatMap((part) => (HASH.test(part) ? [part] : part.split(HUMPS)));
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
    for (const sign of signs) emit(sign, SINGLE_SIGN_WEIGHT);
  }
  for (const rest of token.replace(UNSPACED, " ").split(JOINTS)) if (rest !== "") emitWord(rest, emit);
}

function emitHash(hash: string, emit: Emit): void {
  if (hash.length > SHORT_HASH_CHARS) emit(hash.slice(0, TERM_CHARS_MAX), LONG_HASH_WEIGHT);
  emit(hash.slice(0, SHORT_HASH_CHARS), 1);
}

function emitWord(word: string, emit: Emit): void {
  if (STOP_WORDS.has(word)) emit(word, STOP_WORD_WEIGHT);
  else emit(stem(word).slice(0, TERM_CHARS_MAX), 1);
}

/** One spelling of a word: small letters, full-width forms made plain, no accents. */
function fold(token: string): string {
  const cut = token.slice(0, TOKEN_CHARS_MAX);
  if (!NON_ASCII.test(cut)) return cut.toLowerCase();
  return cut
    .normalize("NFKD")
    .replace(ACCENTS, "")
    .normalize("NFC")
    .toLowerCase()
    .replace(LETTERS, (letter) => PLAIN_LETTERS.get(letter) ?? letter);
}

/** Of Latin, Greek and Cyrillic, and the points of Hebrew and Arabic; in other scripts such marks are vowels. */
const ACCENTS = /[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670]/g;
const LETTERS = /[’ßøłđæœıþð]/g;
const PLAIN_LETTERS = new Map([
  ["’", "'"],
  ["ß", "ss"],
  ["ø", "o"],
  ["ł", "l"],
  ["đ", "d"],
  ["æ", "ae"],
  ["œ", "oe"],
  ["ı", "i"],
  ["þ", "th"],
  ["ð", "d"],
]);
