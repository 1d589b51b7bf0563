/** A number as it is found: what it proves when a source holds it, and what would prove it when a summary does. */
export interface Figure {
  readonly text: string;
  readonly start: number;
  readonly offers: readonly string[];
  /** One of these suffices. */
  readonly needs: readonly string[];
}

const MONTHS = new Map<string, number>();
for (const [index, names] of [
  "january jan januar jän janvier janv",
  "february feb februar février févr",
  "march mar märz mär mars",
  "april apr avril avr",
  "may mai",
  "june jun juni juin",
  "july jul juli juillet juil",
  "august aug août",
  "september sep sept septembre",
  "october oct oktober okt octobre",
  "november nov novembre",
  "december dec dezember dez décembre déc",
].entries()) {
  for (const name of names.split(" ")) MONTHS.set(name, index + 1);
}
const MONTH = [...MONTHS.keys()].sort((a, b) => b.length - a.length).join("|");

const FORMS: readonly { readonly form: RegExp; readonly read: (groups: string[]) => readonly Day[] }[] = [
  {
    form: /(?<!\d)(\d{4})(?:[-/.]|\s?年\s?)(\d{1,2})(?:[-/.]|\s?月\s?)(\d{1,2})(?:(?!\d)|日)/gu,
    read: ([year, month, day]) => [dayOf(year, month, day)],
  },
  {
    form: /(?<![\d月])(\d{1,2})\s?月\s?(\d{1,2})\s?[日号]/gu,
    read: ([month, day]) => [dayOf(undefined, month, day)],
  },
  {
    form: /(?<![\d.])(\d{1,2})\.\s?(\d{1,2})\.(?:\s?(\d{4}|\d{2}(?!\d)))?(?![\d.]\d)/gu,
    read: ([day, month, year]) => [dayOf(year, month, day)],
  },
  {
    form: /(?<![\d/])(\d{1,2})\/(\d{1,2})\/(\d{4})(?!\d)/gu,
    read: ([a, b, year]) => [dayOf(year, a, b), dayOf(year, b, a)],
  },
  {
    form: new RegExp(
      `(?<![\\d\\p{L}])(\\d{1,2})(?:st|nd|rd|th|er|\\.)?\\s(?:of\\s)?(${MONTH})\\b\\.?,?(?:\\s(\\d{4}))?`,
      "giu",
    ),
    read: ([day, month, year]) => [dayOf(year, month, day)],
  },
  {
    form: new RegExp(
      `(?<!\\p{L})(${MONTH})\\.?\\s(\\d{1,2})(?:st|nd|rd|th)?(?![\\d\\p{L}:]|\\.\\d)(?:,?\\s(\\d{4}))?`,
      "giu",
    ),
    read: ([month, day, year]) => [dayOf(year, month, day)],
  },
];

const CLOCK =
  /(?<![\d:.])(\d{1,2})(?::|\s?h\s?|\s?[时時点]\s?)([0-5]\d)(?:(?::|\s?分\s?)([0-5]\d)(?:[.,]\d+)?)?(?![\d:])(?:\s?([ap])\.?m\b\.?)?/giu;
const HOUR = /(?<![\d:.,])(\d{1,2})\s?(?:([ap])\.?m\b\.?|(uhr|heures)(?!\p{L})|(?:h|[时時点])(?!\p{L}|\s?\d))/giu;
/** "at 9": an hour in a source, too little to be one in a summary. */
const BARE_HOUR = /(?<!\p{L})(?:at|by|until|from|um|gegen|ab|bis|à|vers|dès)\s(\d{1,2})(?![\d:%]|[.,]\d)/giu;
const GERMAN_CLOCK = /(?<![\d:.])(\d{1,2})\.([0-5]\d)\sUhr/giu;

interface Day {
  readonly year: number | undefined;
  readonly month: number;
  readonly day: number;
}

/** The dates and times of a text, in the forms people write them. */
export function datesIn(text: string): Figure[] {
  const figures: Figure[] = [];
  if (!/\d/u.test(text)) return figures;
  for (const { form, read } of FORMS) {
    for (const match of text.matchAll(form)) {
      const days = read(match.slice(1)).filter(({ month, day }) => month >= 1 && month <= 12 && day >= 1 && day <= 31);
      if (days.length > 0) figures.push(dayFigure(match, days));
    }
  }
  for (const match of text.matchAll(CLOCK)) {
    const [, hour = "", minute = "", second, half] = match;
    figures.push(clockFigure(match, hours(Number(hour), half), second ? `${minute}:${second}` : minute));
  }
  for (const match of text.matchAll(GERMAN_CLOCK)) figures.push(clockFigure(match, [Number(match[1])], match[2] ?? ""));
  for (const match of text.matchAll(HOUR)) figures.push(clockFigure(match, hours(Number(match[1]), match[2]), "00"));
  return figures;
}

const MINUTE_MS = 60_000;

/** The times of day and the days of a text on one scale each, in milliseconds: their distance is a duration. */
export function momentsIn(text: string): { readonly clocks: readonly number[]; readonly days: readonly number[] } {
  const clocks = [...text.matchAll(CLOCK)].map(([, hour, minute]) => (Number(hour) * 60 + Number(minute)) * MINUTE_MS);
  const days = FORMS.flatMap(({ form, read }) => [...text.matchAll(form)].flatMap((match) => read(match.slice(1))));
  const years = days.flatMap(({ year }) => (year === undefined ? [] : [year]));
  const scaled = days.map(({ year, month, day }) => Date.UTC(year ?? years[0] ?? 2_001, month - 1, day));
  return { clocks, days: scaled };
}

/** What "at 9" proves. */
export function collectBareHours(text: string, into: Set<string>): void {
  for (const [, hour = ""] of text.matchAll(BARE_HOUR)) {
    for (const meant of hours(Number(hour), undefined)) into.add(`clock:${meant}:00`);
  }
}

function dayOf(year: string | undefined, month = "", day = ""): Day {
  const full = year === undefined ? undefined : Number(year) + (year.length === 2 ? 2_000 : 0);
  return { year: full, month: MONTHS.get(month.toLowerCase()) ?? Number(month), day: Number(day) };
}

function dayFigure(match: RegExpExecArray, days: readonly Day[]): Figure {
  const offers = days.flatMap(({ year, month, day }) =>
    year === undefined
      ? [`day:${month}-${day}`, `yearless:${month}-${day}`]
      : [`day:${month}-${day}`, `date:${year}-${month}-${day}`, `any:${year}`],
  );
  const needs = days.flatMap(({ year, month, day }) =>
    year === undefined ? [`day:${month}-${day}`] : [`date:${year}-${month}-${day}`, `yearless:${month}-${day}`],
  );
  return { text: withoutTail(match[0]), start: match.index, offers, needs };
}

/** The stop of "27.10." belongs to the date, that of "2 May." to the sentence. */
function withoutTail(text: string): string {
  return text.replace(/(?<![\s,])[\s,]+$|(?<=\p{L}{3})\.,?$/gu, "");
}

/** The hours meant: without am or pm a small hour may be either. */
function hours(hour: number, half: string | undefined): number[] {
  if (half === undefined) return hour < 12 ? [hour, hour + 12] : [hour];
  const base = hour % 12;
  return [half.toLowerCase() === "p" ? base + 12 : base];
}

function clockFigure(match: RegExpExecArray, hoursMeant: readonly number[], rest: string): Figure {
  const needs = hoursMeant.map((hour) => `clock:${hour}:${rest}`);
  const offers = [...needs, ...hoursMeant.map((hour) => `clock:${hour}:${rest.slice(0, 2)}`)];
  return { text: withoutTail(match[0]), start: match.index, offers, needs };
}
