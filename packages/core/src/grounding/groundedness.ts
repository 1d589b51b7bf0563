import type { SpecificKind } from "../contract/compaction.ts";
import type { Message } from "../contract/message.ts";
import type { Clock } from "../ports/clock.ts";
import { atomsIn } from "../text/atoms.ts";
import { canonicalPiece, foldWidth, isUnspaced, matchesOf, wordsIn } from "../text/canonical.ts";
import { momentsIn } from "../text/dates.ts";
import { withDigits } from "../text/number-words.ts";
import { keyOf, type Numeral, numeralsIn, type Reading } from "../text/numbers.ts";
import { BARE_BASES } from "../text/units.ts";
import { languageOf, stemSet, stemsOf } from "../text/words.ts";
import { type Block, blocksOf, cutSentences } from "./cut-sentences.ts";
import { textsOf } from "./exactness.ts";
import { indexFacts, indexSentences, lazily, type PhraseIndex, type Sentences } from "./occurrence.ts";
import { type Unmarked, unmarkedIn } from "./specifics.ts";

/** Content of a summary that its source does not contain. */
export interface Invented {
  readonly kind: SpecificKind | "quote" | "claim";
  readonly text: string;
  /** The sentence, heading or row that contains it, literally. */
  readonly sentence: string;
}

/** A summary checked against its source. */
export interface Checked {
  readonly invented: readonly Invented[];
  /** Sentences whose claims words and numbers alone cannot prove. */
  readonly unverified: readonly string[];
  /** Of them, those that a sentence of the source excludes, or whose words are not in it. */
  readonly doubtful: readonly string[];
}

interface Source {
  readonly index: PhraseIndex;
  hasPhrase(piece: string): boolean;
  hasStem(stem: string): boolean;
  sentences(): Promise<Sentences>;
  roundings(): Promise<Roundings>;
  /** An upper bound of the things that the source lists. */
  pieces(): Promise<number>;
}

/** Separates countable things. */
const PIECE_END = /[\n.,;:!?|、。，；：！？]+\s*|\s(?:and|und|et|y)\s/u;
/** `2026-01-05T10:30`, of a timestamp. */
const MINUTE_CHARS = 16;
/** In a longer line every number follows from some others, so its sentences are judged separately. */
const LINE_CHARS_MAX = 4_000;

/** Finds names, addresses, numbers and quotations that do not occur in the source, and unproven claims. */
export async function checkSummary(
  summary: string,
  source: readonly Message[],
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<Checked> {
  // To the minute: a busy context has thousands of timestamps, few of them apart.
  const moments = new Set(source.map((message) => message.created_at.slice(0, MINUTE_CHARS)));
  const texts = [...source.flatMap(textsOf), ...moments];
  const sourceRead = await readSource(texts, yieldToEventLoop);
  // A translated quotation is no invention, and cannot be verified by its words.
  const isTranslated = isTranslation(summary, texts);
  const invented: Invented[] = [];
  const unverified = new Set<string>();
  const doubtful = new Set<string>();
  for (const block of blocksOf(summary)) {
    const isLine = block.end - block.start <= LINE_CHARS_MAX;
    const whole = isLine ? lineOf(summary.slice(block.start, block.end), sourceRead) : undefined;
    for (const { text: sentence } of block.sentences) {
      await yieldToEventLoop();
      const line = whole ?? lineOf(sentence, sourceRead);
      const found: Omit<Invented, "sentence">[] = [
        ...(await inventedAtoms(sentence, line, sourceRead)),
        ...inventedCode(sentence, sourceRead),
        ...(await inventedUnmarked(sentence, line, sourceRead)),
      ];
      if (!isTranslated) found.push(...inventedQuotes(sentence, sourceRead));
      for (const { kind, text } of found) invented.push({ kind, text, sentence });
      if (found.length > 0 || !isClaim(block, sentence, sourceRead)) continue;
      unverified.add(sentence);
      if (!isTranslated && block.kind !== "row" && (await isDoubtful(sentence, sourceRead))) doubtful.add(sentence);
    }
  }
  return { invented, unverified: [...unverified], doubtful: [...doubtful] };
}

/** With fewer of its words in the source, a sentence without a specific cannot be found there. */
const FOUND_SHARE_MIN = 0.2;

async function isDoubtful(sentence: string, source: Source): Promise<boolean> {
  if ((await source.sentences()).opposes(sentence)) return true;
  const stems = stemsOf(sentence);
  return atomsIn(sentence).length === 0 && shareOf(stems, source.hasStem) < FOUND_SHARE_MIN;
}

/** Fewer words beside a specific are its label: "Port: 8443". */
const CLAIM_WORDS_MIN = 2;

/** Whether a sentence claims something; headings, code and sentences of the source do not. */
function isClaim({ kind }: Block, sentence: string, source: Source): boolean {
  if (kind === "heading" || kind === "code" || source.index.hasSentence(sentence)) return false;
  let words = foldWidth(sentence).replace(CODE, " ");
  for (const { text } of atomsIn(words)) words = words.replace(text, " ");
  return stemsOf(words).length >= CLAIM_WORDS_MIN;
}

/** Removes sentences, bullets and rows with invented content, and blocks that become empty. */
export function cutInvented(summary: string, invented: readonly Invented[]): string {
  const sentences = new Set(invented.map(({ sentence }) => sentence));
  return cutSentences(summary, (sentence) => sentences.has(sentence));
}

async function readSource(texts: readonly string[], yieldToEventLoop: Clock["yieldToEventLoop"]): Promise<Source> {
  const index = await indexFacts(texts, yieldToEventLoop);
  const stems = await stemSet(texts, yieldToEventLoop);
  return {
    index,
    hasPhrase: index.hasPhrase,
    hasStem: stems.has,
    sentences: lazily(() => indexSentences(texts, yieldToEventLoop)),
    roundings: lazily(() => roundingsOf(texts, yieldToEventLoop)),
    pieces: lazily(async () => {
      const pieces = new Set<string>();
      for (const text of texts) {
        await yieldToEventLoop();
        for (const piece of text.split(PIECE_END)) pieces.add(piece);
      }
      return pieces.size;
    }),
  };
}

function isTranslation(summary: string, texts: readonly string[]): boolean {
  const [own, other] = [languageOf([summary]), languageOf(texts)];
  return own !== other && own !== "unknown" && other !== "unknown";
}

/** A line of the summary; its numbers are read on demand. */
interface Line {
  readonly text: string;
  numerals(): ReadonlyMap<string, Numeral>;
  operands(): Operands;
}

function lineOf(text: string, source: Source): Line {
  const isKnown = (one: Numeral): boolean => !one.isSpecific || source.index.has({ kind: "number", text: one.text });
  return {
    text,
    numerals: lazily(() => new Map(numeralsIn(foldWidth(text)).map((numeral) => [numeral.text, numeral]))),
    operands: lazily(() => operandsOf(text, isKnown)),
  };
}

async function inventedAtoms(sentence: string, line: Line, source: Source): Promise<Omit<Invented, "sentence">[]> {
  const found: Omit<Invented, "sentence">[] = [];
  for (const { kind, text } of atomsIn(sentence)) {
    // An option is looked up with its value, among the unmarked ones.
    if (text.startsWith("--") || source.index.has({ kind, text })) continue;
    const isKnown =
      kind === "number" ? await isWorkedOut(line.numerals().get(text), line, source) : isPutTogether(text, source);
    if (!isKnown) found.push({ kind, text });
  }
  return found;
}

/** Whether a number is a rounded number of the source, or follows from others of its line. */
async function isWorkedOut(numeral: Numeral | undefined, line: Line, source: Source): Promise<boolean> {
  if (numeral === undefined) return false;
  return isRounded(numeral, line.text, await source.roundings()) || isDerived(numeral, line.operands());
}

/** Whether a name is a path whose parts occur (a folder, and a file in it), or a spelling of words that do. */
function isPutTogether(text: string, source: Source): boolean {
  const piece = canonicalPiece(text);
  const segments = piece.split(/[/:]/u);
  for (let at = 1; at < segments.length; at += 1) {
    const [head, tail] = [segments.slice(0, at).join("/"), segments.slice(at).join("/")];
    if (head !== "" && source.hasPhrase(head) && source.hasPhrase(tail)) return true;
  }
  const words = text.replace(/(?<=[\p{Ll}\d])(?=\p{Lu})|_/gu, " ").trim();
  if (/\s/u.test(words) && source.hasPhrase(canonicalPiece(words))) return true;
  // `postgres` matches "PostgreSQL".
  return /^\p{L}+$/u.test(text) && stemsOf(text).every(source.hasStem);
}

const CODE = /(?<!`)`([^`\n]+)`(?!`)/gu;
/** The share of words that a shortened command or quotation must have in the source. */
const WORDS_SHARE_MIN = 0.8;

/** Text in backticks is a name or a command, whatever its form. */
function inventedCode(sentence: string, source: Source): Omit<Invented, "sentence">[] {
  const found: Omit<Invented, "sentence">[] = [];
  for (const [, body = ""] of matchesOf(CODE, sentence)) {
    const piece = canonicalPiece(body);
    const words = wordsIn(piece).map(({ word }) => word);
    if (words.length === 0 || /^\d{1,2}$/u.test(piece) || atomsIn(body).some(({ text }) => text === body)) continue;
    if (source.hasPhrase(piece) || shareOf(words, (word) => source.hasPhrase(word)) >= WORDS_SHARE_MIN) continue;
    found.push({ kind: /\s/u.test(body.trim()) ? "command" : "identifier", text: body });
  }
  return found;
}

/** Unmarked names and commands, and counts of unnamed things. */
async function inventedUnmarked(sentence: string, line: Line, source: Source): Promise<Omit<Invented, "sentence">[]> {
  const bare = sentence.replace(CODE, (code) => " ".repeat(code.length));
  const found: Omit<Invented, "sentence">[] = [];
  for (const one of unmarkedIn(bare)) {
    const { kind, text, spellings } = one;
    const isHeld = kind === "number" ? await isCounted(one, line, source) : spellings.some(source.hasPhrase);
    if (!isHeld) found.push({ kind, text });
  }
  return found;
}

async function isCounted({ text, stems }: Unmarked, line: Line, source: Source): Promise<boolean> {
  const [numeral] = numeralsIn(text);
  if (numeral === undefined || source.index.has({ kind: "number", text }) || stems.some(source.hasStem)) return true;
  // The writer may have counted listed things: eleven pasted clauses are "eleven articles".
  return numeral.raw <= (await source.pieces()) || isWorkedOut(numeral, line, source);
}

const QUOTED =
  /[“„«「『]\s?([^“”„«»「」『』\n]+?)\s?[”“»」』]|(?<![\p{L}\p{N}])"([^"\n]+)"(?![\p{L}\p{N}])|(?<=^|[\s(:])['‘]([^'’\n]+)['’](?=$|[\s.,;:)!?])/gu;
/** Shorter quotations are names or scare quotes; their words need not be adjacent. */
const QUOTE_WORDS_MIN = 3;
const QUOTE_SIGNS_MIN = 6;

function inventedQuotes(sentence: string, source: Source): Omit<Invented, "sentence">[] {
  const found: Omit<Invented, "sentence">[] = [];
  for (const [, curly, straight, single] of sentence
    .replace(CODE, (code) => " ".repeat(code.length))
    .matchAll(QUOTED)) {
    // One word in single quotes is a name, or text between two apostrophes.
    if (single !== undefined && !/\s/u.test(single.trim())) continue;
    const quote = curly ?? straight ?? single ?? "";
    const parts = quote.split(/…|\.{3}|\[[^[\]]*\]/u).filter((part) => part.trim() !== "");
    if (!parts.every((part) => isQuoted(part, source))) found.push({ kind: "quote", text: quote });
  }
  return found;
}

/** A longer quotation must occur literally; of a short one each word must, in some form. */
function isQuoted(part: string, source: Source): boolean {
  const piece = canonicalPiece(part);
  if (piece === "" || source.hasPhrase(piece)) return true;
  const length = wordsIn(piece).length;
  const isLong = length >= (isUnspaced(piece) ? QUOTE_SIGNS_MIN : QUOTE_WORDS_MIN);
  return !isLong && stemsOf(piece).every((stem) => source.hasStem(stem));
}

function shareOf<T>(items: readonly T[], isHeld: (item: T) => boolean): number {
  return items.filter(isHeld).length / items.length;
}

/** A line with more numbers is a table whose pairs would prove anything. */
const OPERANDS_MAX = 12;
const NUMERALS_MAX = 200;
/** Quotients of small counts can be any number. */
const RATE_MIN = 100;
const ROUNDED_DIGITS_MAX = 5;
/** Rounding tolerance. */
const TOLERANCE = 0.006;
/** Digits that a rounded number needs without a word that says so. */
const DIGITS_BARE_MIN = 3;
const DIGITS_WITH_UNIT_MIN = 2;
const ABOUT =
  /(?:[~≈±<>≥≤]|(?<!\p{L})(?:about|around|approx(?:imately|\.)?|roughly|nearly|almost|over|more than|less than|under|some|ca\.?|circa|rund|etwa|ungefähr|knapp|über|fast|gut|environ|presque|près de|plus de|moins de)|约|大约|近|超过|約|ほぼ|およそ)\s*\p{Sc}?$/iu;
const ABOUT_CHARS = 16;

interface Roundings {
  /** Whether some number rounded to this many digits matches. */
  has(reading: Reading, digits: number): boolean;
}

/** Every number of a source, by dimension. */
async function roundingsOf(texts: readonly string[], yieldToEventLoop: Clock["yieldToEventLoop"]): Promise<Roundings> {
  const values = new Map<string, Set<number>>();
  for (const text of texts) {
    await yieldToEventLoop();
    for (const { readings } of numeralsIn(withDigits(foldWidth(text)))) {
      for (const { dimension, value } of readings) {
        const known = values.get(dimension) ?? new Set();
        // "It fell by 12 %" is rounded from -12.3 %.
        values.set(dimension, known.add(value).add(Math.abs(value)));
      }
    }
  }
  const rising = new Map<string, Float64Array>();
  for (const [dimension, all] of values) rising.set(dimension, Float64Array.from(all).sort());
  const has = ({ dimension, value }: Reading, digits: number): boolean => {
    const all = rising.get(dimension);
    if (all === undefined) return false;
    const rounded = Number(value.toPrecision(digits));
    // Half of its last digit, plus a margin for binary fractions.
    const reach = 0.51 * 10 ** (Math.floor(Math.log10(Math.abs(rounded) || 1)) + 1 - digits);
    for (let at = firstFrom(all, rounded - reach); at < all.length; at += 1) {
      const other = all[at] ?? Number.NaN;
      if (other > rounded + reach) return false;
      if (keyOf(Number(other.toPrecision(digits))) === keyOf(rounded)) return true;
    }
    return false;
  };
  return { has };
}

/** Index of the first number that is not below a bound. */
function firstFrom(rising: Float64Array, least: number): number {
  let [low, high] = [0, rising.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rising[middle] ?? 0) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Whether a number is a rounded number of the source; with few digits it must be marked as "about". */
function isRounded(numeral: Numeral, line: string, roundings: Roundings): boolean {
  const { digits, readings, isShort } = numeral;
  const isMarked = isShort || ABOUT.test(line.slice(Math.max(0, numeral.start - ABOUT_CHARS), numeral.start));
  const hasUnit = readings.some(({ dimension }) => dimension !== "");
  const digitsMin = isMarked ? 1 : hasUnit ? DIGITS_WITH_UNIT_MIN : DIGITS_BARE_MIN;
  if (digits < digitsMin || digits > ROUNDED_DIGITS_MAX) return false;
  return readings.flatMap(withBareBases).some((reading) => roundings.has(reading, digits));
}

/** `p95_ms: 5110` has no unit, and "5.1 s" was rounded from it. */
function withBareBases(reading: Reading): Reading[] {
  const bases = BARE_BASES[reading.dimension] ?? [];
  return [reading, ...bases.map((base) => ({ dimension: "", value: reading.value / base }))];
}

interface Operands {
  readonly numerals: readonly Numeral[];
  readonly clocks: readonly number[];
  readonly days: readonly number[];
}

/** The known numbers of a line and its times; none if there are too many. */
function operandsOf(line: string, isKnown: (numeral: Numeral) => boolean): Operands {
  const numerals = numeralsIn(foldWidth(line)).slice(0, NUMERALS_MAX).filter(isKnown);
  const { clocks, days } = momentsIn(line);
  return { numerals: upTo(numerals), clocks: upTo(clocks), days: upTo(days) };
}

function upTo<T>(items: readonly T[]): readonly T[] {
  return items.length <= OPERANDS_MAX ? items : [];
}

/**
 * Whether a number is the sum, difference, product, quotient or share of others in its line, or the time between two
 * moments. A total whose parts are elsewhere counts as invented.
 */
function isDerived(numeral: Numeral, { numerals, clocks, days }: Operands): boolean {
  const operands = numerals.flatMap(({ readings }) => readings.slice(0, 1));
  const raws = numerals.map(({ raw }) => raw);
  return (
    numeral.readings.some((target) => isCombined(target, operands) || isBetween(target, [clocks, days])) ||
    // Rates cross units: 1342 events at 50 a minute are 27 minutes.
    raws.some((a) => a >= RATE_MIN && raws.some((b) => b > 1 && a !== b && isNear(a / b, numeral.raw)))
  );
}

function isBetween(target: Reading, scales: readonly (readonly number[])[]): boolean {
  if (target.dimension !== "time") return false;
  return scales.some((moments) => moments.some((a) => moments.some((b) => a > b && isNear(a - b, target.value))));
}

function isCombined(target: Reading, operands: readonly Reading[]): boolean {
  // An operand without a unit takes that of the result: "€30 (50 minus 20)".
  const meant = operands.map((one) => (one.dimension === "" ? { ...one, dimension: target.dimension } : one));
  const alike = meant.filter(({ dimension }) => dimension === target.dimension);
  const sum = alike.reduce((total, { value }) => total + value, 0);
  if (alike.length > 1 && isNear(sum, target.value)) return true;
  if (alike.some((a) => alike.some((b) => a !== b && isNear(Math.abs(a.value - b.value), target.value)))) return true;
  return operands.some((a, at) =>
    operands.some(
      (b, other) => at !== other && resultsOf(a, b, target.dimension).some((value) => isNear(value, target.value)),
    ),
  );
}

function resultsOf(a: Reading, b: Reading, dimension: string): number[] {
  const results: number[] = [];
  if (a.dimension === b.dimension && a.dimension === dimension)
    results.push(a.value + b.value, Math.abs(a.value - b.value));
  if (a.dimension === dimension && b.dimension === "") results.push(a.value * b.value, a.value / b.value);
  if (a.dimension === dimension && b.dimension === "share")
    results.push((a.value * b.value) / 100, a.value * (1 - b.value / 100), a.value * (1 + b.value / 100));
  if (dimension === "share" && a.dimension === b.dimension)
    results.push((100 * a.value) / b.value, (100 * Math.abs(a.value - b.value)) / b.value);
  return results;
}

function isNear(value: number, target: number): boolean {
  return Number.isFinite(value) && Math.abs(Math.abs(value) - Math.abs(target)) <= Math.abs(target) * TOLERANCE;
}
