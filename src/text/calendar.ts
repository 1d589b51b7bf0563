/**
 * Names of the months, January first, in the languages people mix, with their accents and as typed without. Left out:
 * gen and marco, which are more often a generation and a man.
 */
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

/** Names of the days of the week, Sunday first. */
const WEEKDAY_NAMES = [
  "sunday sonntag dimanche domingo domenica zondag 星期日 星期天 周日 日曜日",
  "monday montag lundi lunes lunedi segunda-feira maandag 星期一 周一 月曜日",
  "tuesday dienstag mardi martes martedi terca-feira dinsdag 星期二 周二 火曜日",
  "wednesday mittwoch mercredi miercoles mercoledi quarta-feira woensdag 星期三 周三 水曜日",
  "thursday donnerstag jeudi jueves giovedi quinta-feira donderdag 星期四 周四 木曜日",
  "friday freitag vendredi viernes venerdi sexta-feira vrijdag 星期五 周五 金曜日",
  "saturday samstag sonnabend samedi sabado sabato zaterdag 星期六 周六 土曜日",
];

/** Words for a day near today, with how many days it lies from it. Left out: hier and morgen, which mean more than that. */
const DAY_NAMES: readonly (readonly [string, number])[] = [
  ["today heute aujourd'hui hoy oggi hoje vandaag 今天 今日", 0],
  ["yesterday gestern ayer ieri ontem gisteren 昨天 昨日", -1],
  ["vorgestern avant-hier anteayer anteontem 前天 一昨日", -2],
  ["tomorrow demain amanha domani 明天 明日", 1],
];

/** Phrases for a span before this one; `week`, `month` and `year` are those of the calendar. */
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
export const MONTHS: ReadonlyMap<string, number> = numbered(MONTH_NAMES, 1);
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
