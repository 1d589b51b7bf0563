import type { Clock } from "../../../ports/clock.ts";
import { foldWidth } from "../../../text/canonical.ts";
import { momentsIn } from "../../../text/dates.ts";
import { withDigits } from "../../../text/number-words.ts";
import { keyOf, type Numeral, numeralsIn, type Reading } from "../../../text/numbers.ts";
import { BARE_BASES } from "../../../text/units.ts";

/** Numbers of a line that are combined with each other; a longer line is a table, and its pairs prove anything. */
const OPERANDS_MAX = 12;
/** Numbers of a line that are looked at to find those. */
const NUMERALS_MAX = 200;
/** Quotients of small counts come out as anything. */
const RATE_MIN = 100;
const ROUNDED_DIGITS_MAX = 5;
/** How far a result may be off for having been rounded. */
const TOLERANCE = 0.006;
/** Digits a number needs to be taken for a rounded one without a word that says so. */
const DIGITS_BARE_MIN = 3;
const DIGITS_WITH_UNIT_MIN = 2;
const ABOUT =
  /(?:[~≈±<>≥≤]|(?<!\p{L})(?:about|around|approx(?:imately|\.)?|roughly|nearly|almost|over|more than|less than|under|some|ca\.?|circa|rund|etwa|ungefähr|knapp|über|fast|gut|environ|presque|près de|plus de|moins de)|约|大约|近|超过|約|ほぼ|およそ)\s*\p{Sc}?$/iu;
const ABOUT_CHARS = 16;

/** The rounded forms of every number of a source, by the digits they keep. */
export async function roundingsOf(texts: readonly string[], breathe: Clock["breathe"]): Promise<ReadonlySet<string>> {
  const readings = new Map<string, Reading>();
  for (const text of texts) {
    await breathe();
    for (const numeral of numeralsIn(withDigits(foldWidth(text)))) {
      for (const reading of numeral.readings) readings.set(`${reading.dimension} ${reading.value}`, reading);
    }
  }
  const roundings = new Set<string>();
  for (const reading of readings.values()) {
    await breathe();
    for (let digits = 1; digits <= ROUNDED_DIGITS_MAX; digits += 1) roundings.add(roundedKey(reading, digits));
  }
  return roundings;
}

/** Whether a number is one of the source with fewer digits; short of digits it must be marked as "about". */
export function isRounded(numeral: Numeral, line: string, roundings: ReadonlySet<string>): boolean {
  const { digits, readings, isShort } = numeral;
  const isMarked = isShort || ABOUT.test(line.slice(Math.max(0, numeral.start - ABOUT_CHARS), numeral.start));
  const hasUnit = readings.some(({ dimension }) => dimension !== "");
  const digitsMin = isMarked ? 1 : hasUnit ? DIGITS_WITH_UNIT_MIN : DIGITS_BARE_MIN;
  if (digits < digitsMin || digits > ROUNDED_DIGITS_MAX) return false;
  return readings.flatMap(withBareBases).some((reading) => roundings.has(roundedKey(reading, digits)));
}

/** `p95_ms: 5110` has no unit of its own, and is what "5.1 s" was rounded from. */
function withBareBases(reading: Reading): Reading[] {
  const bases = BARE_BASES[reading.dimension] ?? [];
  return [reading, ...bases.map((base) => ({ dimension: "", value: reading.value / base }))];
}

function roundedKey({ dimension, value }: Reading, digits: number): string {
  return `${digits} ${dimension} ${keyOf(Number(value.toPrecision(digits)))}`;
}

/** What a line offers to reckon with. */
export interface Operands {
  readonly numerals: readonly Numeral[];
  readonly clocks: readonly number[];
  readonly days: readonly number[];
}

/** The numbers of a line that are known, and its moments; nothing when there are too many. */
export function operandsOf(line: string, isKnown: (numeral: Numeral) => boolean): Operands {
  const numerals = numeralsIn(foldWidth(line)).slice(0, NUMERALS_MAX).filter(isKnown);
  const { clocks, days } = momentsIn(line);
  return { numerals: upTo(numerals), clocks: upTo(clocks), days: upTo(days) };
}

function upTo<T>(items: readonly T[]): readonly T[] {
  return items.length <= OPERANDS_MAX ? items : [];
}

/**
 * Whether a number is the sum, difference, product, quotient or share of others of its own line, or the time between
 * two moments of it. A total whose parts stand elsewhere cannot be told from an invented one, and is taken for that.
 */
export function isDerived(numeral: Numeral, { numerals, clocks, days }: Operands): boolean {
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
  // A bare operand takes the unit of the result: "€30 (50 minus 20)".
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
  return Number.isFinite(value) && Math.abs(value - target) <= Math.abs(target) * TOLERANCE;
}
