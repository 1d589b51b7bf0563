import { remembered } from "./remembered.ts";

/** The stem of a lower-case English word; a word with other characters is unchanged. */
export function stem(word: string): string {
  return word.length < 3 || !PLAIN.test(word) ? word : plainStem(word);
}

const plainStem = remembered({ entriesMax: 20_000 }, (word) => porter(IRREGULAR.get(word) ?? word));

/** The same for mixed languages: also removes German and French endings. */
export function mixedStem(word: string): string {
  // A word with a digit or underscore is a name.
  if (/[\d_]/u.test(word)) return word;
  const plain = /[^\0-\x7f]/.test(word) ? word.normalize("NFD").replace(/\p{M}/gu, "") : word;
  const english = stem(plain);
  const cut = english.replace(FOREIGN_ENDINGS, "");
  return cut.length >= STEM_CHARS_MIN ? cut : english;
}

/** Longest first; a stem keeps at least three letters. */
const FOREIGN_ENDINGS = /(?:ungen|ung|ent|ees|en|em|er|es|ez|n|t)$/u;
const STEM_CHARS_MIN = 3;
const PLAIN = /^[a-z]+$/;

/** Irregular forms: each group is the word, then its forms. */
const IRREGULAR = new Map(
  `go went gone, buy bought, bring brought, think thought, teach taught, catch caught, fight fought, seek sought,
  feel felt, leave left, keep kept, sleep slept, meet met, send sent, spend spent, lend lent, build built, lose lost,
  make made, pay paid, say said, sell sold, tell told, find found, hold held, hear heard, lead led, stand stood,
  understand understood, win won, begin began begun, break broke broken, choose chose chosen, come came, draw drew drawn,
  drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen, fly flew flown, forget forgot forgotten,
  forgive forgave forgiven, freeze froze frozen, give gave given, grow grew grown, hide hid hidden, know knew known,
  ride rode ridden, ring rang rung, rise rose risen, run ran, see saw seen, shake shook shaken, sing sang sung,
  sink sank sunk, speak spoke spoken, steal stole stolen, swim swam swum, take took taken, throw threw thrown,
  wake woke woken, wear wore worn, write wrote written, become became, bite bit bitten, blow blew blown, bend bent,
  bind bound, breed bred, deal dealt, dig dug, feed fed, flee fled, hang hung, lay laid, mean meant, shoot shot,
  show shown, slide slid, stick stuck, strike struck, sweep swept, swear swore sworn, tear tore torn, weep wept,
  overcome overcame, learn learnt, dream dreamt, burn burnt, light lit, get got gotten, child children, man men,
  woman women, person people, foot feet, tooth teeth, mouse mice, goose geese, wife wives, knife knives, half halves`
    .split(",")
    .flatMap((group) => {
      const [base = "", ...forms] = group.trim().split(/\s+/);
      return forms.map((form) => [form, base] as const);
    }),
);

const CONSONANT = "[^aeiou]";
const VOWEL = "[aeiouy]";
const CONSONANTS = `${CONSONANT}[^aeiouy]*`;
const VOWELS = `${VOWEL}[aeiou]*`;
/** Measures of Porter's paper: the number of vowel–consonant pairs of a stem. */
const SOME = new RegExp(`^(${CONSONANTS})?${VOWELS}${CONSONANTS}`);
const ONE = new RegExp(`^(${CONSONANTS})?${VOWELS}${CONSONANTS}(${VOWELS})?$`);
const TWO = new RegExp(`^(${CONSONANTS})?${VOWELS}${CONSONANTS}${VOWELS}${CONSONANTS}`);
const HAS_VOWEL = new RegExp(`^(${CONSONANTS})?${VOWEL}`);
const SHORT = new RegExp(`^${CONSONANTS}${VOWEL}[^aeiouwxy]$`);

const STEP_2 = swaps(
  `ational ate,tional tion,enci ence,anci ance,izer ize,bli ble,alli al,entli ent,eli e,ousli ous,ization ize,ation ate,
  ator ate,alism al,iveness ive,fulness ful,ousness ous,aliti al,iviti ive,biliti ble,logi log`,
);
const STEP_3 = swaps("icate ic,ative,alize al,iciti ic,ical ic,ful,ness");
const STEP_2_END = new RegExp(`^(.+?)(${[...STEP_2.keys()].join("|")})$`);
const STEP_3_END = new RegExp(`^(.+?)(${[...STEP_3.keys()].join("|")})$`);
const STEP_4_END = /^(.+?)(al|ance|ence|er|ic|able|ible|ant|ement|ment|ent|ou|ism|ate|iti|ous|ive|ize)$/;

function swaps(rules: string): ReadonlyMap<string, string> {
  return new Map(rules.split(/,\s*/).map((rule) => [rule.split(" ")[0] ?? "", rule.split(" ")[1] ?? ""]));
}

/** M. F. Porter, An algorithm for suffix stripping, 1980. */
function porter(word: string): string {
  // A leading y is a consonant.
  let stem = word.startsWith("y") ? `Y${word.slice(1)}` : word;
  stem = dropPlural(stem);
  stem = dropTense(stem);
  const beforeY = /^(.+?)y$/.exec(stem)?.[1];
  if (beforeY !== undefined && HAS_VOWEL.test(beforeY)) stem = `${beforeY}i`;
  stem = swapEnding(stem, STEP_2_END, STEP_2);
  stem = swapEnding(stem, STEP_3_END, STEP_3);
  stem = dropSuffix(stem);
  const beforeE = /^(.+?)e$/.exec(stem)?.[1];
  if (beforeE !== undefined && (TWO.test(beforeE) || (ONE.test(beforeE) && !SHORT.test(beforeE)))) stem = beforeE;
  if (stem.endsWith("ll") && TWO.test(stem)) stem = stem.slice(0, -1);
  return stem.toLowerCase();
}

function dropPlural(word: string): string {
  if (/^.+?(?:ss|i)es$/.test(word)) return word.slice(0, -2);
  return /^.+?[^s]s$/.test(word) ? word.slice(0, -1) : word;
}

function dropTense(word: string): string {
  const beforeEed = /^(.+?)eed$/.exec(word)?.[1];
  if (beforeEed !== undefined) return SOME.test(beforeEed) ? word.slice(0, -1) : word;
  const rest = /^(.+?)(?:ed|ing)$/.exec(word)?.[1];
  if (rest === undefined || !HAS_VOWEL.test(rest)) return word;
  if (/(?:at|bl|iz)$/.test(rest)) return `${rest}e`;
  if (/([^aeiouylsz])\1$/.test(rest)) return rest.slice(0, -1);
  return SHORT.test(rest) ? `${rest}e` : rest;
}

function swapEnding(word: string, ending: RegExp, rules: ReadonlyMap<string, string>): string {
  const [, rest = "", end = ""] = ending.exec(word) ?? [];
  return rest !== "" && SOME.test(rest) ? rest + (rules.get(end) ?? "") : word;
}

function dropSuffix(word: string): string {
  const rest = STEP_4_END.exec(word)?.[1];
  if (rest !== undefined) return TWO.test(rest) ? rest : word;
  const beforeIon = /^(.+?[st])ion$/.exec(word)?.[1];
  return beforeIon !== undefined && TWO.test(beforeIon) ? beforeIon : word;
}
