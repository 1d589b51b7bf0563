import { fold, foldWidth } from "../text/canonical.ts";
import { DAYS, daysIn, monthsIn, monthsOfYearsIn, SPANS, type Span, WEEKDAYS } from "../text/dates.ts";

/** The terms of a time: day, month, month of any year, year, day of the week. */
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

/** The terms of explicit dates in a text: 2023-05-08, 8.5.2023, May 8th, 8 mai 2023, 2023年5月8日, in May 2023. */
export function datesNamedIn(text: string): ReadonlySet<string> {
  const terms = new Set<string>();
  // Every form has a number, most texts have none.
  if (!/\d/.test(text)) return terms;
  const plain = foldWidth(text.slice(0, TEXT_CHARS_MAX)).normalize("NFC");
  for (const { year, month, day } of daysIn(plain)) {
    if (year === undefined) terms.add(`@${two(month)}`);
    else terms.add(`@${year}-${two(month)}-${two(day)}`).add(`@${year}-${two(month)}`);
  }
  for (const { year, month } of monthsOfYearsIn(plain)) terms.add(`@${year}-${two(month)}`);
  return terms;
}

/** The terms of dates in a query, explicit or relative: yesterday, last week, on Friday. */
export function datesAskedFor(query: string, nowMs: number): ReadonlySet<string> {
  const terms = new Set(datesNamedIn(query));
  const plain = fold(query.slice(0, TEXT_CHARS_MAX));
  for (const [name, days] of DAYS) if (holds(plain, name)) terms.add(`@${isoDay(new Date(nowMs + days * DAY_MS))}`);
  for (const [ago] of plain.matchAll(AGO)) {
    const days = Number.parseInt(ago, 10) * (/we|wo/.test(ago) ? 7 : 1);
    if (days <= DAYS_AGO_MAX) terms.add(`@${isoDay(new Date(nowMs - days * DAY_MS))}`);
  }
  for (const [name, span] of SPANS) if (holds(plain, name)) addSpan(terms, span, nowMs);
  for (const [name, weekday] of WEEKDAYS) if (holds(plain, name)) terms.add(`@day${weekday}`);
  for (const month of monthsIn(query)) terms.add(`@${two(month)}`);
  return terms;
}

const DAY_MS = 86_400_000;
const DAYS_AGO_MAX = 4_000;
const TEXT_CHARS_MAX = 20_000;
const AGO = /\d{1,4} (?:days?|weeks?)(?= ago)|(?<=vor )\d{1,4} (?:tagen|wochen)/g;

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

/** Whether a text contains a name as whole words; scripts without spaces have no such words. */
function holds(text: string, name: string): boolean {
  const at = text.indexOf(name);
  if (at < 0 || name.charCodeAt(0) > 0x2e80) return at >= 0;
  return !/[\p{L}\p{N}]/u.test(text.charAt(at - 1)) && !/[\p{L}\p{N}]/u.test(text.charAt(at + name.length));
}

function isoDay(date: Date): string {
  return date.toISOString().slice(0, 10);
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}
