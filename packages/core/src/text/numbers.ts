import { foldWidth, matchesOf } from "./canonical.ts";
import { collectBareHours, datesIn, type Figure } from "./dates.ts";
import { withDigits } from "./number-words.ts";
import { remembered } from "./remembered.ts";
import { BARE_BASES, multiplierOf, ratesOf, type Unit, unitsOf } from "./units.ts";
import { stemsOf } from "./words.ts";

/** A number with all its possible meanings. */
export interface Numeral extends Figure {
  /** Each reading in the smallest unit of its dimension, "" for none. */
  readonly readings: readonly Reading[];
  /** The value as written, with its multiplier, without its unit. */
  readonly raw: number;
  /** Whether to account for it: a bare small integer is only a count. */
  readonly isSpecific: boolean;
  readonly digits: number;
  /** Written short, as `1.2k`: rounded. */
  readonly isShort: boolean;
}

export interface Reading {
  readonly dimension: string;
  readonly value: number;
}

/** From here on an integer is a specific by itself. */
const SPECIFIC_MIN = 100;

const SPOKEN_SCRIPT = "\\p{Script=Latin}\\p{Script=Greek}\\p{Script=Cyrillic}";
const NUMBER = new RegExp(
  `(?<![${SPOKEN_SCRIPT}\\p{N}_])(?<!\\d[.:])(US\\$|\\p{Sc}|USD|EUR|CHF|GBP|JPY|CNY|RMB)?(\\s?)(\\d{1,3}(?:([,.'’\\u00a0\\u202f ])\\d{3})(?:\\4\\d{3})*(?!\\d)(?:[.,]\\d+(?!\\d|[.,]\\d))?|\\d+(?:[.,]\\d+)?)(?!\\d|\\.\\d)`,
  "gu",
);
const VERSION = /(?<![\p{N}.])\d+(?:\.\d+){2,}/gu;
const UNIT =
  /([ \u00a0\u202f\-]?)(?:(%|‰|°[CF]|℃|\p{Sc}|[[\p{L}µ]--[\u3040-\u30ff\u3400-\u9fff]]+[²2]?)(?:(?:\/| (?:per|pro|par|por) )(\p{L}+))?|([\u3040-\u30ff\u3400-\u9fff]+))/vy;
/** Single letters that are units after a space. */
const SPACED_LETTERS = new Set(["s", "h", "m", "g", "l", "w", "A", "V", "W"]);
const UNIT_SIGNS_MAX = 4;

/** The figures of a text to account for: numbers, dates and times. */
export function figuresIn(text: string): readonly (Figure | Numeral)[] {
  const folded = foldWidth(text);
  const dates = datesIn(folded);
  const isTaken = takenBy(dates);
  return [...dates, ...numeralsIn(folded).filter((one) => one.isSpecific && !isTaken(one.start, one.text.length))];
}

/** What proves each figure of a short text; cached, since it is asked repeatedly. */
export const needsIn = remembered({ entriesMax: 20_000 }, (text): readonly (readonly string[])[] =>
  figuresIn(text).map((figure) => figure.needs),
);

/** The numbers of a text, including bare small ones; dates and versions are not excluded. */
export function numeralsIn(folded: string): Numeral[] {
  const numerals: Numeral[] = [];
  if (!HAS_DIGIT.test(folded)) return numerals;
  // `1600x1000` is two numbers without a unit.
  const text = folded.replace(/(?<=\d)x(?=\d)/gu, "×");
  for (const match of matchesOf(NUMBER, text)) {
    const numeral = readNumeral(text, match);
    if (numeral !== undefined) numerals.push(numeral);
  }
  return numerals;
}

/** Everything the numbers and number words of a text prove. */
export function collectOffers(text: string, into: Set<string>): void {
  const folded = withDigits(foldWidth(text));
  if (!HAS_DIGIT.test(folded)) return;
  for (const date of datesIn(folded)) for (const offer of date.offers) into.add(offer);
  collectBareHours(folded, into);
  for (const numeral of numeralsIn(folded)) for (const offer of numeral.offers) into.add(offer);
  for (const [version] of matchesOf(VERSION, folded)) collectVersion(version, into);
}

/** `3.11.4` proves 3.11 and any long part. */
function collectVersion(version: string, into: Set<string>): void {
  const parts = version.split(".");
  into.add(`any:${keyOf(Number(`${parts[0]}.${parts[1]}`))}`);
  for (const part of parts) if (Number(part) >= SPECIFIC_MIN) into.add(`any:${keyOf(Number(part))}`);
}

const DIGITS_MAX = 12;

/** A value as text, without binary rounding noise. */
export function keyOf(value: number): string {
  const text = String(value);
  // Short texts have no noise, and rounding is ten times as slow.
  const isExact = text.length <= DIGITS_MAX || Number.isSafeInteger(value);
  return isExact ? text : String(Number(value.toPrecision(DIGITS_MAX)));
}

const HAS_DIGIT = /\d/;
const ONLY_DIGITS = /^\d+$/;

/** A sign directly before a number, not after a word or between two numbers: `3-5`, `3 -5`, `Q-5`, `6月-8月`. */
const SIGN = /(?<![[\p{L}\p{N}_\)\]%°]--[\u3040-\u30ff\u3400-\u9fff]]|[\p{N}%°]\s|\p{N}\s?[年月日号时時点分])[\-–−]$/v;
const BEFORE_SIGN_CHARS = 4;

function readNumeral(text: string, match: RegExpExecArray): Numeral | undefined {
  const [whole, currency, gap = "", digits = ""] = match;
  const after = readUnit(text, match.index + whole.length);
  if (after === undefined) return undefined;
  const units = currency === undefined ? after.units : [...unitsOf(currency), ...after.units];
  const first = match.index + (currency === undefined ? gap.length : 0);
  const isNegative = SIGN.test(text.slice(Math.max(0, first - BEFORE_SIGN_CHARS), first));
  const factor = isNegative ? -after.factor : after.factor;
  const raws = valuesOf(digits).map((value) => value * factor);
  const start = isNegative ? first - 1 : first;
  const isBare = units.length === 0;
  const isWhole = ONLY_DIGITS.test(digits) && after.factor === 1;
  return new WrittenNumber({
    text: text.slice(start, after.end),
    start,
    readings: isBare ? raws.map((value) => ({ dimension: "", value })) : readingsOf(raws, units),
    units,
    written: digits,
    raws,
    isBare,
    isCounting: isBare && after.isNoun,
    isShort: after.factor !== 1,
    isSpecific: !isBare || !isWhole || Number(digits) >= SPECIFIC_MIN,
  });
}

interface Parts extends Pick<Numeral, "text" | "start" | "readings" | "isShort" | "isSpecific"> {
  readonly written: string;
  readonly raws: readonly number[];
  readonly units: readonly Unit[];
  readonly isBare: boolean;
  readonly isCounting: boolean;
}

/** A class with lazy fields, because a table has thousands of numbers. */
class WrittenNumber implements Numeral {
  readonly text: string;
  readonly start: number;
  readonly readings: readonly Reading[];
  readonly raw: number;
  readonly isSpecific: boolean;
  readonly isShort: boolean;
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.text = parts.text;
    this.start = parts.start;
    this.readings = parts.readings;
    this.raw = parts.raws[0] ?? 0;
    this.isSpecific = parts.isSpecific;
    this.isShort = parts.isShort;
    this.#parts = parts;
  }

  get digits(): number {
    return this.#parts.written.replace(/\D/gu, "").replace(/^0+|(?<!0)0+$/gu, "").length;
  }

  get offers(): readonly string[] {
    const { written } = this.#parts;
    return offersOf({ ...this.#parts, pieces: /[,. ]/u.test(written) ? written.split(/[^\d]/u).map(Number) : [] });
  }

  get needs(): readonly string[] {
    const { isBare, raws, units, written } = this.#parts;
    // A fraction rarely ends in zero: 1,500 is rather 1500 than 1.5.
    const likely = written.endsWith("0") ? raws.slice(0, 1) : raws;
    return isBare ? likely.map((raw) => `any:${keyOf(raw)}`) : needsOf(likely, readingsOf(likely, units));
  }
}

function readingsOf(raws: readonly number[], units: readonly Unit[]): Reading[] {
  return units.flatMap(({ dimension, factors }) =>
    raws.flatMap((raw) => factors.map((factor) => ({ dimension, value: raw * factor }))),
  );
}

interface Offered extends Pick<Parts, "raws" | "readings" | "isBare" | "isCounting"> {
  /** The parts of a grouped number: `120,450` in a table row is two numbers. */
  readonly pieces: readonly number[];
}

function offersOf({ raws, readings, isBare, isCounting, pieces }: Offered): string[] {
  const keys = [...raws, ...pieces].map(keyOf);
  const offers = keys.map((key) => `any:${key}`);
  if (!isBare) return [...offers, ...readings.map(({ dimension, value }) => `${dimension}:${keyOf(value)}`)];
  const bare = keys.map((key) => `bare:${key}`);
  return isCounting ? [...offers, ...bare] : [...offers, ...bare, ...keys.map((key) => `alone:${key}`)];
}

/** The same measure in any unit, or the bare number; a small one only if it does not count something else. */
function needsOf(raws: readonly number[], readings: readonly Reading[]): string[] {
  const needs = readings.map(({ dimension, value }) => `${dimension}:${keyOf(value)}`);
  for (const raw of raws) {
    const isSmall = Number.isInteger(raw) && Math.abs(raw) < SPECIFIC_MIN;
    needs.push(`${isSmall ? "alone" : "bare"}:${keyOf(raw)}`);
  }
  for (const { dimension, value } of readings) {
    for (const base of BARE_BASES[dimension] ?? []) {
      if (Math.abs(value / base) >= SPECIFIC_MIN) needs.push(`bare:${keyOf(value / base)}`);
    }
    if (dimension === "share") needs.push(`bare:${keyOf(value / 100)}`);
  }
  return needs;
}

/** The values of a digit string: `1.200` is 1200 or 1.2. */
function valuesOf(digits: string): number[] {
  if (ONLY_DIGITS.test(digits)) return [Number(digits)];
  const values = new Set<number>();
  if (/^[1-9]\d{0,2}(?:([,.'’\u00a0\u202f ])\d{3})(?:\1\d{3})*$/u.test(digits))
    values.add(Number(digits.replace(/\D/gu, "")));
  const [, head = "", tail] = /^(.*?)(?:[.,](\d+))?$/u.exec(digits) ?? [];
  const whole = head.replace(/\D/gu, "");
  // 19 is never written as 19,000, so only the reading as thousands remains.
  const isRound = values.size > 0 && /^0+$/u.test(tail ?? "");
  if (!isRound && (values.size === 0 || !/\D/u.test(head)))
    values.add(Number(tail === undefined ? whole : `${whole}.${tail}`));
  return [...values];
}

interface After {
  readonly end: number;
  readonly factor: number;
  readonly units: readonly Unit[];
  /** Whether a counted noun follows. */
  readonly isNoun: boolean;
}

/** Reads multiplier and unit; undefined if letters make the digits part of a name, as in `3D`. */
function readUnit(text: string, at: number): After | undefined {
  const first = unitAt(text, at);
  if (first === undefined) return { end: at, factor: 1, units: [], isNoun: false };
  if (first.factor === 1) {
    if (first.units.length > 0) return { end: first.end, factor: 1, units: first.units, isNoun: false };
    return first.isAttached ? undefined : { end: at, factor: 1, units: [], isNoun: first.isNoun };
  }
  const second = unitAt(text, text[first.end] === "." ? first.end + 1 : first.end);
  if (second !== undefined && second.units.length > 0) return { ...second, factor: first.factor, isNoun: false };
  return { end: first.end, factor: first.factor, units: [], isNoun: second?.isNoun ?? false };
}

interface UnitWord {
  readonly end: number;
  readonly factor: number;
  readonly units: readonly Unit[];
  readonly isAttached: boolean;
  readonly isNoun: boolean;
}

function unitAt(text: string, at: number): UnitWord | undefined {
  UNIT.lastIndex = at;
  const match = UNIT.exec(text);
  if (match === null) return undefined;
  const [whole, gap = "", name = "", per = "", unspaced] = match;
  if (unspaced !== undefined) return unspacedUnit(unspaced, at + gap.length);
  const isLone = gap === " " && name.length === 1 && /\p{L}/u.test(name) && !SPACED_LETTERS.has(name);
  const rates = per === "" || isLone ? [] : ratesOf(name, per);
  const units = isLone ? [] : rates.length > 0 ? rates : unitsOf(name);
  const end = rates.length > 0 ? at + whole.length : at + gap.length + name.length;
  const isMoney = /^\p{Sc}/u.test(text.slice(end, end + 1));
  const factor = gap === "" || name.length > 1 || isMoney ? multiplierOf(name) : undefined;
  const isNoun = units.length === 0 && factor === undefined && isContentWord(name);
  const isKnown = units.length > 0 || factor !== undefined;
  return { end: isKnown ? end : at, factor: factor ?? 1, units, isAttached: gap === "", isNoun };
}

/** Cached: words after numbers repeat. */
const isContentWord = remembered({ entriesMax: 20_000 }, (word) => stemsOf(word).length > 0);

/** The longest prefix of a run without spaces that is a unit or a multiplier. */
function unspacedUnit(run: string, from: number): UnitWord {
  for (let length = Math.min(UNIT_SIGNS_MAX, run.length); length > 0; length -= 1) {
    const name = run.slice(0, length);
    const units = unitsOf(name);
    const factor = multiplierOf(name);
    if (units.length === 0 && factor === undefined) continue;
    return { end: from + length, factor: factor ?? 1, units, isAttached: false, isNoun: false };
  }
  return { end: from, factor: 1, units: [], isAttached: false, isNoun: true };
}

/** Whether a span is inside one of the figures; starts may be in any order. */
export function takenBy(spans: readonly { readonly start: number; readonly text: string }[]) {
  if (spans.length === 0) return () => false;
  const sorted = spans.map(({ start, text }) => [start, start + text.length] as const).sort((a, b) => a[0] - b[0]);
  const ends: number[] = [];
  for (const [, end] of sorted) ends.push(Math.max(end, ends.at(-1) ?? 0));
  return (start: number, length: number): boolean => {
    let low = 0;
    let high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sorted[middle]?.[0] ?? 0) < start + length) low = middle + 1;
      else high = middle;
    }
    return low > 0 && (ends[low - 1] ?? 0) > start;
  };
}
