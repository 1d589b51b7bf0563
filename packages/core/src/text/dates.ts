import { matchesOf } from "./canonical.ts";

/** Month names in several languages, January first. Omitted: gen and marco, which mostly mean something else. */
const MONTH_NAMES = [
  "january jan januar jän janvier janv enero ene gennaio janeiro januari",
  "february feb februar février fevrier févr fevr fev febrero febbraio fevereiro februari",
  "march mar märz marz mär mars marzo março maart",
  "april apr avril avr abril abr aprile",
  "may mai mayo maggio maio mei",
  "june jun juni juin junio giugno junho",
  "july jul juli juillet juil julio luglio julho",
  "august aug août aout agosto augustus",
  "september sep sept septembre septiembre settembre setembro",
  "october oct oktober okt octobre octubre ottobre outubro",
  "november nov novembre noviembre novembro",
  "december dec dezember dez décembre decembre déc diciembre dic dicembre dezembro",
];

const WEEKDAY_NAMES = [
  "sunday sonntag dimanche domingo domenica zondag 星期日 星期天 周日 日曜日",
  "monday montag lundi lunes lunedi segunda-feira maandag 星期一 周一 月曜日",
  "tuesday dienstag mardi martes martedi terca-feira dinsdag 星期二 周二 火曜日",
  "wednesday mittwoch mercredi miercoles mercoledi quarta-feira woensdag 星期三 周三 水曜日",
  "thursday donnerstag jeudi jueves giovedi quinta-feira donderdag 星期四 周四 木曜日",
  "friday freitag vendredi viernes venerdi sexta-feira vrijdag 星期五 周五 金曜日",
  "saturday samstag sonnabend samedi sabado sabato zaterdag 星期六 周六 土曜日",
];

/** Words for a day near today, with its distance. Omitted: hier and morgen, which are ambiguous. */
const DAY_NAMES: readonly (readonly [string, number])[] = [
  ["today heute aujourd'hui hoy oggi hoje vandaag 今天 今日", 0],
  ["yesterday gestern ayer ieri ontem gisteren 昨天 昨日", -1],
  ["vorgestern avant-hier anteayer anteontem 前天 一昨日", -2],
  ["tomorrow demain amanha domani 明天 明日", 1],
];

/** Phrases for a previous span; `week`, `month` and `year` are calendar spans. */
const SPAN_NAMES: readonly (readonly [string, Span])[] = [
  [
    "last week|letzte woche|semaine derniere|semana pasada|settimana scorsa|semana passada|vorige week|上周|先週",
    "week",
  ],
  ["last month|letzten monat|mois dernier|mes pasado|mese scorso|mes passado|vorige maand|上个月|先月", "month"],
  ["last year|letztes jahr|annee derniere|ano pasado|anno scorso|ano passado|vorig jaar|去年", "year"],
  ["this week|diese woche|cette semaine|esta semana|questa settimana|deze week|这周|今週", "this_week"],
  ["this month|diesen monat|ce mois|este mes|questo mese|deze maand|这个月|今月", "this_month"],
];

export type Span = "week" | "month" | "year" | "this_week" | "this_month";

/** From 1 to 12, by any of its names. */
const MONTHS: ReadonlyMap<string, number> = numbered(MONTH_NAMES, 1);
/** From 0, Sunday, to 6. */
export const WEEKDAYS: ReadonlyMap<string, number> = numbered(WEEKDAY_NAMES, 0);
export const DAYS: ReadonlyMap<string, number> = new Map(
  DAY_NAMES.flatMap(([names, days]) => names.split(" ").map((name) => [name, days] as const)),
);
export const SPANS: ReadonlyMap<string, Span> = new Map(
  SPAN_NAMES.flatMap(([names, span]) => names.split("|").map((name) => [name, span] as const)),
);

function numbered(rows: readonly string[], first: number): Map<string, number> {
  return new Map(rows.flatMap((names, index) => names.split(" ").map((name) => [name, index + first] as const)));
}

/** A number in a text: what it proves in a source, and what proves it in a summary. */
export interface Figure {
  readonly text: string;
  readonly start: number;
  readonly offers: readonly string[];
  /** One of these is enough. */
  readonly needs: readonly string[];
}

interface Form {
  readonly form: RegExp;
  readonly read: (groups: string[]) => readonly Day[];
  /** Without a year it may be a version or a chapter. */
  readonly needsYear?: boolean;
  /** The group of what comes before the match and belongs to it. */
  readonly before?: number;
}

const MONTH = [...MONTHS.keys()].sort((a, b) => b.length - a.length).join("|");
/** A possible month name, to be looked up: an alternation of a hundred names is slow. */
const WORD_OF_MONTH = "[a-zäçéû]{3,10}";
const OF_YEAR = "(?:of\\s|de\\s|del\\s)?";

const FORMS: readonly Form[] = [
  {
    form: /(?<!\d)(\d{4})(?:[-/.]|\s?年\s?)(\d{1,2})(?:[-/.]|\s?月\s?)(\d{1,2})(?:(?!\d)|日)/gu,
    read: ([year, month, day]) => [dayOf(year, month, day)],
  },
  {
    form: /(?<!\d\s?年\s?|[\d月])(\d{1,2})\s?月\s?(\d{1,2})\s?[日号]/gu,
    read: ([month, day]) => [dayOf(undefined, month, day)],
  },
  {
    form: /(?<![\d.])(\d{1,2})\.\s?(\d{1,2})\.(?:\s?(\d{4}|\d{2}(?!\d)))?(?![\d.]\d)/gu,
    read: ([day, month, year]) => [dayOf(year, month, day)],
    needsYear: true,
  },
  {
    form: /(?<![\d/-])(\d{1,2})([/-])(\d{1,2})\2(\d{4})(?!\d)/gu,
    read: ([a, , b, year]) => [dayOf(year, a, b), dayOf(year, b, a)],
  },
  {
    // After other words two numbers are more often a fraction.
    form: /(?<=(?<!\p{L})(?:on|until|since|due|am|bis|seit|vom|le|el|hasta|desde|em|até)\s)(?!24\/7)(\d{1,2})\/(\d{1,2})(?![\d/])/giu,
    read: ([a, b]) => [dayOf(undefined, a, b), dayOf(undefined, b, a)],
    needsYear: true,
  },
  {
    form: new RegExp(
      `(?<![\\d\\p{L}])(\\d{1,2})(?:st|nd|rd|th|er|\\.|º)?\\s(?:of\\s|de\\s|di\\s)?(${WORD_OF_MONTH})(?![\\p{L}\\d_])\\.?,?(?:\\s${OF_YEAR}(\\d{4}))?`,
      "giu",
    ),
    read: ([day, month, year]) => [dayOf(year, month, day)],
  },
  {
    // The name is looked for from its number backwards: most words have none.
    form: /(\d{1,2})(?<=((?<!\p{L})(\p{L}{3,10})\.?\s)\d{1,2})(?:st|nd|rd|th)?(?![\d\p{L}:]|\.\d)(?:,?\s(\d{4}))?/giu,
    read: ([day, , month, year]) => [dayOf(year, month, day)],
    before: 2,
  },
];
const MONTH_OF_YEAR = new RegExp(`(?<!\\p{L})(${MONTH})\\.?,?\\s${OF_YEAR}((?:19|20)\\d\\d)(?!\\d)`, "giu");
/** A month alone counts only after such a word: "may" is more often a verb, "mar" a sea. */
const IN_MONTH = new RegExp(
  `(?<!\\p{L})(?:in|im|en|em|last|since|during|by|until|seit|letzten)\\s+(${MONTH})(?!\\p{L})`,
  "giu",
);

const CLOCK =
  /(?<![\d:.])(?:(午前|上午|早上|凌晨|午後|下午|晚上)\s?)?(\d{1,2})(?::|\s?h\s?|\s?[时時点]\s?)([0-5]\d)(?:(?::|\s?分\s?)([0-5]\d)(?:[.,]\d+)?)?(?![\d:])(?:\s?([ap])(?:\.\s?)?m\b\.?)?/giu;
const HOUR =
  /(?<![\d:.,])(?:(午前|上午|早上|凌晨|午後|下午|晚上)\s?(\d{1,2})\s?[时時点](?!\s?\d)|(\d{1,2})\s?(?:([ap])(?:\.\s?)?m\b\.?|(?:uhr|heures)(?!\p{L})|(?:h|点)(?!\p{L}|\s?\d)|[时時](?![间間]|\s?\d)))/giu;
/** "at 9": an hour in a source, too little in a summary. */
const BARE_HOUR =
  /(\d{1,2})(?<=(?<!\p{L})(?:at|by|until|from|um|gegen|ab|bis|à|vers|dès)\s\d{1,2})(?![\d:%]|[.,]\d|\s?[ap](?:\.\s?)?m\b)/giu;
const GERMAN_CLOCK = /(?<![\d:.])(\d{1,2})\.([0-5]\d)\sUhr/giu;

export interface Day {
  readonly year: number | undefined;
  readonly month: number;
  readonly day: number;
}

/** The dates and times of a text in common forms. */
export function datesIn(text: string): Figure[] {
  const figures: Figure[] = [];
  if (!/\d/.test(text)) return figures;
  for (const mention of mentionsIn(text)) figures.push(dayFigure(mention));
  for (const match of matchesOf(CLOCK, text)) {
    const [, before, hour = "", minute = "", second, after] = match;
    figures.push(clockFigure(match, hours(Number(hour), before ?? after), second ? `${minute}:${second}` : minute));
  }
  for (const match of matchesOf(GERMAN_CLOCK, text))
    figures.push(clockFigure(match, [Number(match[1])], match[2] ?? ""));
  for (const match of matchesOf(HOUR, text)) {
    const [, before, named, hour, after] = match;
    figures.push(clockFigure(match, hours(Number(named ?? hour), before ?? after), "00"));
  }
  return figures;
}

interface Mention {
  readonly text: string;
  readonly start: number;
  readonly days: readonly Day[];
  readonly needsYear: boolean;
}

function mentionsIn(text: string): readonly Mention[] {
  const mentions: Mention[] = [];
  for (const { form, read, needsYear = false, before } of FORMS) {
    for (const match of matchesOf(form, text)) {
      const days = read(match.slice(1)).filter(({ month, day }) => month >= 1 && month <= 12 && day >= 1 && day <= 31);
      const lead = before === undefined ? "" : (match[before] ?? "");
      if (days.length > 0) mentions.push({ text: lead + match[0], start: match.index - lead.length, days, needsYear });
    }
  }
  return mentions;
}

/** The explicit days in a text: 2023-05-08, 8.5.2023, May 8th, 8 mai 2023, 2023年5月8日. */
export function daysIn(text: string): readonly Day[] {
  return mentionsIn(text).flatMap(({ days, needsYear }) => days.filter(({ year }) => year !== undefined || !needsYear));
}

export function monthsOfYearsIn(text: string): readonly Omit<Day, "day">[] {
  // Searching for a year is ten times as fast as for a month name.
  if (!/(?:19|20)\d\d/.test(text)) return [];
  return matchesOf(MONTH_OF_YEAR, text).map(([, month, year]) => dayOf(year, month));
}

/** The months without a year: since May. */
export function monthsIn(text: string): readonly number[] {
  return matchesOf(IN_MONTH, text).map(([, month]) => dayOf(undefined, month).month);
}

const MINUTE_MS = 60_000;

/** Times of day and days of a text in milliseconds: their distance is a duration. */
export function momentsIn(text: string): { readonly clocks: readonly number[]; readonly days: readonly number[] } {
  const clocks = matchesOf(CLOCK, text).map(([, , hour, minute]) => (Number(hour) * 60 + Number(minute)) * MINUTE_MS);
  const days = mentionsIn(text).flatMap((mention) => mention.days);
  const years = days.flatMap(({ year }) => (year === undefined ? [] : [year]));
  const scaled = days.map(({ year, month, day }) => Date.UTC(year ?? years[0] ?? 2_001, month - 1, day));
  return { clocks, days: scaled };
}

export function collectBareHours(text: string, into: Set<string>): void {
  for (const [, hour = ""] of matchesOf(BARE_HOUR, text)) {
    for (const meant of hours(Number(hour), undefined)) into.add(`clock:${meant}:00`);
  }
}

function dayOf(year: string | undefined, month = "", day = ""): Day {
  const full = year === undefined ? undefined : Number(year) + (year.length === 2 ? 2_000 : 0);
  return { year: full, month: MONTHS.get(month.toLowerCase()) ?? Number(month), day: Number(day) };
}

function dayFigure({ text, start, days }: Mention): Figure {
  const offered = days.flatMap(({ year, month, day }) => [
    `day:${month}-${day}`,
    year === undefined ? `yearless:${month}-${day}` : `date:${year}-${month}-${day}`,
  ]);
  const needed = days.flatMap(({ year, month, day }) =>
    year === undefined ? [`day:${month}-${day}`] : [`date:${year}-${month}-${day}`, `yearless:${month}-${day}`],
  );
  const either = (keys: readonly string[]) => keys.map((key) => `either ${key}`);
  // 3/4 may be April 3 or March 4, and differs from 4/3.
  const inOrder = (keys: readonly string[]) => keys.slice(0, keys.length / 2).map((key) => `in order ${key}`);
  const isEither = days.length > 1;
  const offers = isEither ? [...inOrder(offered), ...either(offered)] : offered;
  const needs = isEither ? [...inOrder(needed), ...needed] : [...needed, ...either(needed)];
  const years = days[0]?.year === undefined ? [] : [`any:${days[0].year}`];
  return { text: withoutTail(text), start, offers: [...offers, ...years], needs };
}

/** The stop of "27.10." belongs to the date, that of "2 May." to the sentence. */
function withoutTail(text: string): string {
  return text.replace(/(?<![\s,])[\s,]+$|(?<=\p{L}{3})\.,?$/gu, "");
}

/** Without am or pm a small hour may be either. */
function hours(hour: number, half: string | undefined): number[] {
  if (half === undefined || hour > 12) return hour < 12 ? [hour, hour + 12] : [hour];
  const base = hour % 12;
  return [/^(?:p|午後|下午|晚上)$/iu.test(half) ? base + 12 : base];
}

function clockFigure(match: RegExpExecArray, hoursMeant: readonly number[], rest: string): Figure {
  const needs = hoursMeant.map((hour) => `clock:${hour}:${rest}`);
  const offers = [...needs, ...hoursMeant.map((hour) => `clock:${hour}:${rest.slice(0, 2)}`)];
  return { text: withoutTail(match[0]), start: match.index, offers, needs };
}
