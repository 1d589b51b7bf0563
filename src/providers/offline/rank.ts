import { tokensIn } from "../../text/terms.ts";
import { isRequest } from "./asks.ts";
import type { Passage } from "./conversation.ts";
import { collectTerms, isStopWord, termsOf } from "./words.ts";

/** Terms beyond this are ignored: a question is short, and a match is kept as bits of one number. */
const QUERY_TERMS_MAX = 30;
/** A passage must hold this share of the question's weight to answer it. */
export const COVERAGE_MIN = 0.5;
/** A correction may be terser than what it corrects. */
const CORRECTION_COVERAGE_MIN = 0.3;
const SHORT_CHARS = 160;

interface QueryTerm {
  readonly term: string;
  /** A name or number: a passage that is about another one must not answer. */
  readonly isName: boolean;
}

export interface Query {
  readonly terms: readonly QueryTerm[];
  /** Shape of what would answer, such as a number for "how many". */
  readonly wanted: RegExp | undefined;
}

export interface Match {
  readonly passage: Passage;
  /** Share of the question's weight that the passage holds, 0 to 1. */
  readonly coverage: number;
  readonly score: number;
  /** Which terms it holds, one bit each. */
  readonly bits: number;
}

const WANTED: readonly (readonly [RegExp, RegExp])[] = [
  [/\bhow (?:many|much|long|old|far|big|often)\b|\b(?:port|number|version|count)\b/iu, /\d/u],
  [/\bwhen\b|\bwhat (?:time|day|date)\b/iu, /\d|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|tomorrow|yesterday/iu],
  [/\bwhere\b|\bwhich (?:file|path|folder|directory)\b/iu, /[\w.]\/[\w.]|\b(?:in|at|on|under|inside|near)\b/iu],
  [/\bwhy\b/iu, /\b(?:because|since|so that|due to|as it|in order)\b/iu],
  [/\bwho\b/iu, /\s\p{Lu}\p{Ll}+/u],
];

const CORRECTION =
  /^(?:(?:oh|wait|hm+|sorry|no)[,.! ]+)*(?:actually|correction|no,|sorry,|i meant|i was wrong|update:|scratch that|from now on|instead)|\b(?:is now|are now|changed to|moved to|renamed to|not [\w./-]+ (?:but|any ?more)|instead of)\b/iu;
const REFERS_BACK = /\b(?:it|it's|it’s|its|that|that's|this)\b/iu;
const SELF_NAMING = /\b(?:I am|I'm|I’m|call me) \p{Lu}\p{Ll}+/u;

/** Reads a question as weighted terms. */
export function queryOf(text: string): Query {
  const asked = text.replace(/\bwho am i\b|\bwhat am i called\b/giu, "my name");
  const terms = new Map<string, QueryTerm>();
  for (const [index, token] of tokensIn(asked).entries()) {
    if (isStopWord(token)) continue;
    const found: string[] = [];
    collectTerms(token, found);
    const isName = found.length === 1 && (/\d/u.test(token) || (index > 0 && /^\p{Lu}/u.test(token)));
    for (const term of found) if (!terms.has(term)) terms.set(term, { term, isName });
  }
  const wanted = WANTED.find(([asks]) => asks.test(text))?.[1];
  return { terms: [...terms.values()].slice(0, QUERY_TERMS_MAX), wanted };
}

/** Whether a sentence takes back something said before it. */
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
    const fit = query.wanted?.test(passage.text) ? 0.15 : 0;
    // Of two that say as much, the one that says little besides is the clearer answer.
    const brevity = passage.text.length <= SHORT_CHARS ? 0.01 : 0;
    // What the user says about a thing goes before a newer output that mentions it.
    const trust = passage.source.kind === "tool" ? 0 : 0.05;
    matches.push({ passage, coverage, score: coverage + fit + brevity + trust, bits: held });
  }
  return matches.sort((a, b) => b.score - a.score || b.passage.order - a.passage.order);
}

/** The passages that answer a query: the best, corrected where the user corrected it, and one that completes it. */
export function findAnswers(query: Query, passages: readonly Passage[]): Match[] {
  const ranked = rankPassages(query, passages);
  const first = ranked.find((match) => match.coverage >= COVERAGE_MIN);
  if (first === undefined) return [];
  const best = correct(first, ranked);
  if (best !== first) return [best];
  const missing = (match: Match) => match.bits & ~first.bits;
  const second = ranked.find((match) => missing(match) !== 0 && match.score >= first.score * 0.6);
  return second !== undefined && first.coverage < 0.95 && !isCorrection(second.passage.text)
    ? [first, second]
    : [first];
}

/** The newest correction of a passage, or the passage itself. */
function correct(match: Match, ranked: readonly Match[]): Match {
  let newest = match;
  for (const other of ranked) {
    const isLater = other.passage.order > newest.passage.order;
    if (!isLater || other.coverage < CORRECTION_COVERAGE_MIN || (other.bits & match.bits) === 0) continue;
    if (isCorrection(other.passage.text)) newest = other;
  }
  return newest;
}

function readBits({ terms }: Query, passages: readonly Passage[]): number[] {
  const places = new Map(terms.map(({ term }, index) => [term, 1 << index]));
  let before = 0;
  return passages.map((passage) => {
    const { text, source } = passage;
    let held = 0;
    for (const term of rememberedTerms(passage)) held |= places.get(term) ?? 0;
    if (SELF_NAMING.test(text)) held |= places.get("nam") ?? places.get("name") ?? 0;
    // "Actually it's 8443." is about whatever was said just before.
    if (source.kind === "user" && isCorrection(text) && REFERS_BACK.test(text)) held |= before;
    if (source.kind === "user" && !isRequest(text)) before = held;
    return held;
  });
}

/** A schema asks the same passages once a field; reading them is what takes the time. */
const termsByPassage = new WeakMap<Passage, readonly string[]>();

function rememberedTerms(passage: Passage): readonly string[] {
  const known = termsByPassage.get(passage);
  if (known !== undefined) return known;
  const terms = termsOf(passage.text);
  termsByPassage.set(passage, terms);
  return terms;
}

/** Rare terms weigh more. One that occurs nowhere weighs half, unless it is a name: then the answer is not here. */
function weighTerms({ terms }: Query, bits: readonly number[]): number[] {
  return terms.map(({ isName }, index) => {
    const bit = 1 << index;
    const count = bits.reduce((sum, held) => sum + ((held & bit) === 0 ? 0 : 1), 0);
    const weight = Math.log(1 + (bits.length + 1) / (Math.max(count, 1) + 0.5));
    return count > 0 ? weight : weight * (isName ? 2 : 0.5);
  });
}

function weightOf(held: number, weights: readonly number[]): number {
  return weights.reduce((sum, weight, index) => ((held & (1 << index)) === 0 ? sum : sum + weight), 0);
}
