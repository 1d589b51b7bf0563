import { DAYS, MONTHS, SPANS, type Span, WEEKDAYS } from "../text/calendar.ts";

/** The terms by which a moment is found: its day, its month, its month in any year, its year, its day of the week. */
export function dateTermsOf(atMs: number): readonly string[] {
  const date = new Date(atMs);
  if (Number.isNaN(date.getTime())) return [];
  const day = isoDay(date);
  return [
    `@${day}`,
    `@${day.slice(0, -3)}`,
    `@${day.slice(-5, -3)}`,
    `@${day.slice(0, -6)}`,
    `@day${date.getUTCDay()}`,
  ];
}

/** The terms of the dates a text names outright: 2023-05-08, 8.5.2023, May 8th, 8 mai 2023, 2023年5月8日, in May 2023. */
export function datesNamedIn(text: string): ReadonlySet<string> {
  const terms = new Set<string>();
  // Every form has a number in it, most texts have none.
  if (!/\d/.test(text)) return terms;
  const plain = foldForDates(text);
  for (const [, year = "", month = "", day = ""] of plain.matchAll(YEAR_FIRST)) {
    addDay(terms, { year: Number(year), month: Number(month), day: Number(day) });
  }
  for (const [, day = "", month = "", year = ""] of plain.matchAll(DAY_FIRST)) {
    addDay(terms, { year: Number(year), month: Number(month), day: Number(day) });
  }
  for (const [, before, name = "", after, year] of plain.matchAll(NAMED_MONTH)) {
    const month = MONTHS.get(name);
    if (month === undefined) continue;
    addNamed(terms, { month, day: Number(before ?? after ?? 0), year: Number(year ?? 0) });
  }
  return terms;
}

/** The terms of the dates a question asks for, named outright or counted from now: yesterday, last week, on Friday. */
export function datesAskedFor(query: string, nowMs: number): ReadonlySet<string> {
  const terms = new Set(datesNamedIn(query));
  const plain = foldForDates(query);
  for (const [name, days] of DAYS) if (holds(plain, name)) terms.add(`@${isoDay(new Date(nowMs + days * DAY_MS))}`);
  for (const [ago] of plain.matchAll(AGO)) {
    const days = Number.parseInt(ago, 10) * (/we|wo/.test(ago) ? 7 : 1);
    if (days <= DAYS_AGO_MAX) terms.add(`@${isoDay(new Date(nowMs - days * DAY_MS))}`);
  }
  for (const [name, span] of SPANS) if (holds(plain, name)) addSpan(terms, span, nowMs);
  for (const [name, weekday] of WEEKDAYS) if (holds(plain, name)) terms.add(`@day${weekday}`);
  for (const [, name = ""] of plain.matchAll(IN_MONTH)) {
    const month = MONTHS.get(name);
    if (month !== undefined) terms.add(`@${two(month)}`);
  }
  return terms;
}

const DAY_MS = 86_400_000;
const DAYS_AGO_MAX = 4_000;
const TEXT_CHARS_MAX = 20_000;

const YEAR_FIRST = /(?<!\d)((?:19|20)\d\d)(?:[-/.]|年)(\d{1,2})(?:[-/.]|月)(\d{1,2})(?!\d)/g;
const DAY_FIRST = /(?<!\d)(\d{1,2})\.\s?(\d{1,2})\.\s?((?:19|20)\d\d)(?!\d)/g;
const NAMES = [...MONTHS.keys()].sort((a, b) => b.length - a.length).join("|");
const NAMED_MONTH = new RegExp(
  `(?<![\\p{L}\\d])(?:(\\d{1,2})(?:st|nd|rd|th|er|\\.|º)?\\s+(?:of\\s+|de\\s+|di\\s+)?)?(${NAMES})\\.?(?!\\p{L})` +
    `(?:\\s+(\\d{1,2})(?:st|nd|rd|th)?(?![\\d:]))?(?:,?\\s+(?:of\\s+|de\\s+|del\\s+)?((?:19|20)\\d\\d)(?!\\d))?`,
  "gu",
);
/** A month alone is one only after such a word: "may" is more often a verb, "mar" a sea. */
const IN_MONTH = new RegExp(
  `(?<!\\p{L})(?:in|im|en|em|last|since|during|by|until|seit|letzten)\\s+(${NAMES})(?!\\p{L})`,
  "gu",
);
const AGO = /\d{1,4} (?:days?|weeks?)(?= ago)|(?<=vor )\d{1,4} (?:tagen|wochen)/g;

interface CalendarDay {
  readonly year: number;
  readonly month: number;
  readonly day: number;
}

function addDay(terms: Set<string>, { year, month, day }: CalendarDay): void {
  if (month < 1 || month > 12 || day < 1 || day > 31) return;
  terms.add(`@${year}-${two(month)}-${two(day)}`);
  terms.add(`@${year}-${two(month)}`);
}

/** Zero stands for what was not said. */
function addNamed(terms: Set<string>, { year, month, day }: CalendarDay): void {
  if (year !== 0 && day !== 0) addDay(terms, { year, month, day });
  else if (year !== 0) terms.add(`@${year}-${two(month)}`);
  else if (day !== 0) terms.add(`@${two(month)}`);
}

function addSpan(terms: Set<string>, span: Span, nowMs: number): void {
  const now = new Date(nowMs);
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  const sinceMonday = (now.getUTCDay() + 6) % 7;
  switch (span) {
    case "year":
      terms.add(`@${year - 1}`);
      return;
    case "month":
      terms.add(`@${isoDay(new Date(Date.UTC(year, month - 1, 1))).slice(0, -3)}`);
      return;
    case "this_month":
      terms.add(`@${isoDay(now).slice(0, -3)}`);
      return;
    case "week":
    case "this_week": {
      const monday = nowMs - (sinceMonday + (span === "week" ? 7 : 0)) * DAY_MS;
      for (let day = 0; day < 7; day += 1) terms.add(`@${isoDay(new Date(monday + day * DAY_MS))}`);
    }
  }
}

/** Whether a text has a name in it as words of their own; scripts without spaces have no such words. */
function holds(text: string, name: string): boolean {
  const at = text.indexOf(name);
  if (at < 0 || name.charCodeAt(0) > 0x2e80) return at >= 0;
  return !/[\p{L}\p{N}]/u.test(text.charAt(at - 1)) && !/[\p{L}\p{N}]/u.test(text.charAt(at + name.length));
}

function foldForDates(text: string): string {
  const cut = text.slice(0, TEXT_CHARS_MAX).toLowerCase();
  return cut
    .normalize("NFKD")
    .replace(/[\u0300-\u036f]/g, "")
    .normalize("NFC");
}

function isoDay(date: Date): string {
  return date.toISOString().slice(0, 10);
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}
