import { fold, UNSPACED_RUNS } from "../../text/canonical.ts";
import { stem } from "../../text/stems.ts";
import { tokensIn } from "../../text/terms.ts";
import { QUESTION_WORDS } from "../../text/words.ts";
import type { Passage } from "./conversation.ts";

/** Further terms are ignored: a question is short, and a match is stored as bits of one number. */
const QUERY_TERMS_MAX = 30;
/** The share of the question's weight that an answer must have. */
export const COVERAGE_MIN = 0.5;
const SHORT_CHARS = 160;

interface QueryTerm {
  readonly term: string;
  /** A name or number: a passage about another one must not answer. */
  readonly isName: boolean;
}

type Query = readonly QueryTerm[];

interface Match {
  readonly passage: Passage;
  readonly coverage: number;
  readonly score: number;
}

const CORRECTION =
  /^(?:(?:oh|wait|hm+|sorry|no)[,.! ]+)*(?:actually|correction|no,|sorry,|i meant|i was wrong|update:|scratch that|from now on|instead)|\b(?:is now|are now|changed to|moved to|renamed to|not [\w./-]+ (?:but|any ?more)|instead of)\b/iu;

export function queryOf(text: string): Query {
  const terms = new Map<string, QueryTerm>();
  for (const [index, token] of tokensIn(text).entries()) {
    if (isStopWord(token)) continue;
    const found: string[] = [];
    collectTerms(token, found);
    const isName = found.length === 1 && (/\d/u.test(token) || (index > 0 && /^\p{Lu}/u.test(token)));
    for (const term of found) if (!terms.has(term)) terms.set(term, { term, isName });
  }
  return [...terms.values()].slice(0, QUERY_TERMS_MAX);
}

/** Whether a sentence takes back an earlier one. */
export function isCorrection(sentence: string): boolean {
  return CORRECTION.test(sentence);
}

/** Every passage that shares a term with the query, best first; of equals the newest. */
export function rankPassages(query: Query, passages: readonly Passage[]): Match[] {
  const bits = readBits(query, passages);
  const weights = weighTerms(query, bits);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const matches: Match[] = [];
  for (const [index, passage] of passages.entries()) {
    const held = bits[index] ?? 0;
    if (held === 0) continue;
    const coverage = weightOf(held, weights) / total;
    // Of two passages that say as much, the shorter one is the clearer answer.
    const brevity = passage.text.length <= SHORT_CHARS ? 0.01 : 0;
    // The user's statements rank before a newer tool output.
    const trust = passage.source.kind === "tool" ? 0 : 0.05;
    matches.push({ passage, coverage, score: coverage + brevity + trust });
  }
  return matches.sort((a, b) => b.score - a.score || b.passage.order - a.passage.order);
}

function readBits(query: Query, passages: readonly Passage[]): number[] {
  const places = new Map(query.map(({ term }, index) => [term, 1 << index]));
  return passages.map((passage) => {
    let held = 0;
    for (const term of cachedTerms(passage)) held |= places.get(term) ?? 0;
    return held;
  });
}

/** A schema asks the same passages once per field; reading them is what takes the time. */
const termsByPassage = new WeakMap<Passage, readonly string[]>();

function cachedTerms(passage: Passage): readonly string[] {
  const known = termsByPassage.get(passage);
  if (known !== undefined) return known;
  const terms = termsOf(passage.text);
  termsByPassage.set(passage, terms);
  return terms;
}

/** Rare terms weigh more; a name that occurs nowhere makes the question unanswerable. */
function weighTerms(query: Query, bits: readonly number[]): number[] {
  return query.map(({ isName }, index) => {
    const bit = 1 << index;
    const count = bits.reduce((sum, held) => sum + ((held & bit) === 0 ? 0 : 1), 0);
    const weight = Math.log(1 + (bits.length + 1) / (Math.max(count, 1) + 0.5));
    return count > 0 ? weight : weight * (isName ? 2 : 0.5);
  });
}

function weightOf(held: number, weights: readonly number[]): number {
  return weights.reduce((sum, weight, index) => ((held & (1 << index)) === 0 ? sum : sum + weight), 0);
}

const NON_ASCII = /[\u0080-\uffff]/;
const COMPOUND = /[^A-Za-z0-9]|[a-z0-9][A-Z]/;
/** An endless token (base64, a minified line) has no meaning and would cost as much as a page. */
const TOKEN_CHARS_MAX = 120;

/** Whether a token only asks or joins, and is no term. */
export function isStopWord(token: string): boolean {
  return QUESTION_WORDS.has(token.toLowerCase().replace("’", "'"));
}

/** The search terms of a text: stems without stop words; identifiers whole and in parts. */
export function termsOf(text: string): string[] {
  const terms: string[] = [];
  for (const token of tokensIn(text)) collectTerms(token, terms);
  return terms;
}

function collectTerms(token: string, into: string[]): void {
  if (NON_ASCII.test(token)) {
    collectForeign(token, into);
    return;
  }
  if (token.length > TOKEN_CHARS_MAX) return;
  const lower = token.toLowerCase();
  if (QUESTION_WORDS.has(lower)) return;
  if (!COMPOUND.test(token)) {
    into.push(stem(lower));
    return;
  }
  into.push(lower.replace(/'s$/u, ""));
  const file = lower.slice(lower.lastIndexOf("/") + 1);
  if (file !== lower && file.includes(".")) into.push(file);
  for (const part of token.split(/[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])/u)) {
    const word = part.toLowerCase();
    if (word.length > 1 && !QUESTION_WORDS.has(word)) into.push(stem(word));
  }
}

/** Scripts without spaces give pairs of characters; accents are dropped, and emoji ignored. */
function collectForeign(token: string, into: string[]): void {
  if (!/[\p{L}\p{N}]/u.test(token)) return;
  const plain = fold(token);
  if (QUESTION_WORDS.has(plain)) return;
  for (const [run] of plain.matchAll(UNSPACED_RUNS)) {
    if (run.length === 1) into.push(run);
    for (let at = 0; at + 1 < run.length; at += 1) into.push(run.slice(at, at + 2));
  }
  for (const rest of plain.replace(UNSPACED_RUNS, " ").split(" ")) {
    if (rest !== "") into.push(stem(rest.replace(/'s$/u, "")));
  }
}
