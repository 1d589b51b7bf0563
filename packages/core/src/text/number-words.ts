import { matchesOf } from "./canonical.ts";

/** Small number words: a summary writes "two weeks" as "2 weeks". */
const SMALL = new Map<string, number>();
for (const names of [
  "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty",
  "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn zwanzig",
  "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit dix-neuf vingt",
]) {
  for (const [value, name] of names.split(" ").entries()) SMALL.set(name, value);
}
for (const [names, step] of [
  ["thirty forty fifty sixty seventy eighty ninety", 10],
  ["dreißig vierzig fünfzig sechzig siebzig achtzig neunzig", 10],
  ["trente quarante cinquante soixante", 10],
] as const) {
  for (const [index, name] of names.split(" ").entries()) SMALL.set(name, 30 + index * step);
}
/** Articles mean one, unless a number comes before them ("half a million"). */
const ARTICLES = new Set(["a", "an", "ein", "eine", "einen", "einer", "une"]);
for (const name of ARTICLES) SMALL.set(name, 1);
SMALL.set("half", 0.5);

const SCALES = new Map<string, number>();
for (const [names, scale] of [
  ["dozen dutzend", 12],
  ["hundred hundert cent cents", 100],
  ["thousand tausend mille", 1e3],
  ["million millionen millions", 1e6],
] as const) {
  for (const name of names.split(" ")) SCALES.set(name, scale);
}
const UNSPACED_DIGITS = new Map([..."零一二三四五六七八九"].map((sign, value) => [sign, value] as const));
UNSPACED_DIGITS.set("两", 2).set("〇", 0);
const UNSPACED_SCALES = new Map([
  ["十", 10],
  ["百", 100],
  ["千", 1e3],
  ["万", 1e4],
]);

const NAMES = [...SMALL.keys(), ...SCALES.keys()].sort((a, b) => b.length - a.length).join("|");
/** Compounds such as `zweihundert` and `twenty-five`; longer phrases are no numbers. */
const PHRASE = new RegExp(
  `(?<!\\p{L}|\\d[\\s-]?)(?:${NAMES})(?:(?:[\\s-]|\\sand\\s)?(?:${NAMES})){0,8}(?:\\sand\\sa\\shalf)?(?![\\p{L}\\d])`,
  "giu",
);
const PART = new RegExp(NAMES, "giu");
const UNSPACED_PHRASE = /(?<![\d零〇一二三四五六七八九十百千万两]\s?)[零〇一二三四五六七八九十百千万两]{1,9}/gu;

export function withDigits(text: string): string {
  return text.replace(PHRASE, spokenValue).replace(UNSPACED_PHRASE, (phrase) => ` ${unspacedValue(phrase)} `);
}

function spokenValue(phrase: string): string {
  let total = 0;
  let part = 0;
  for (const [word] of matchesOf(PART, phrase.toLowerCase())) {
    const scale = SCALES.get(word);
    if (scale === undefined) {
      if (part === 0 || !ARTICLES.has(word)) part += SMALL.get(word) ?? 0;
      continue;
    }
    part = (part === 0 ? 1 : part) * scale;
    if (scale >= 1e3) {
      total += part;
      part = 0;
    }
  }
  return String(total + part);
}

function unspacedValue(phrase: string): number {
  let total = 0;
  let part = 0;
  let digit: number | undefined;
  for (const sign of phrase) {
    const scale = UNSPACED_SCALES.get(sign);
    if (scale === undefined) digit = (digit ?? 0) * 10 + (UNSPACED_DIGITS.get(sign) ?? 0);
    else if (scale === 1e4) {
      total = (total + part + (digit ?? 0)) * scale;
      part = 0;
      digit = undefined;
    } else {
      part += (digit ?? 1) * scale;
      digit = undefined;
    }
  }
  return total + part + (digit ?? 0);
}
