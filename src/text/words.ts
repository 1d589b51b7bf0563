import { canonical, isUnspaced, wordsIn } from "./canonical.ts";
import { mixedStem } from "./stems.ts";
import { SMALL_WORDS } from "./stop-words.ts";

type Language = keyof typeof SMALL_WORDS | "unspaced" | "unknown";

const SMALL_SETS = Object.entries(SMALL_WORDS) as readonly (readonly [Language, ReadonlySet<string>])[]; // by its type
const SMALL = new Set(SMALL_SETS.flatMap(([, words]) => [...words]));
/** Function signs of Chinese and Japanese: a pair that holds one says nothing. */
const STOP_SIGNS =
  /[的了是在和与及也都就把被让给对为以而或但这那其请要将会我你他她它们很到得着过吗呢吧のはがをにでともやへかなねよでするしたますいくださそれこれう]/u;

/** Words that share this much of a beginning are taken for one: compounds and endings that no list knows. */
const KIN_CHARS = 6;

/** The stems that carry a text's meaning; pairs of signs where a script has no spaces. */
export function stemsOf(text: string): string[] {
  const stems: string[] = [];
  let before = "";
  let beforeEnd = -1;
  for (const { 0: word, index } of wordsIn(canonical(text))) {
    if (!isUnspaced(word)) {
      if (!SMALL.has(word)) stems.push(mixedStem(word));
      continue;
    }
    if (beforeEnd === index && !STOP_SIGNS.test(before) && !STOP_SIGNS.test(word)) stems.push(before + word);
    before = word;
    beforeEnd = index + word.length;
  }
  return stems;
}

/** Signs that only deny, insist or join; what they deny is compared as polarity. */
const UNSPACED_FRAME =
  /不[要能得许可]?|没有?|[别勿莫]|禁止|严禁|避免|绝对|必须|务必|一定|必ず|絶対|常に|[\u3040-\u309f]/gu;
/** Words that deny or insist, by their stems. */
const FRAME = new Set(
  `never always avoid forbid forbidden prohibited none nobody nothing cannot must only niemals nie verboten immer
  jamais toujours nunca siempre keinesfalls`
    .split(/\s+/u)
    .map(mixedStem),
);

/** The words that say something, in their order; where a script has no spaces, its signs. Numbers are not words. */
export function tokensOf(text: string): string[] {
  const tokens: string[] = [];
  for (const { 0: word } of wordsIn(canonical(text.replace(UNSPACED_FRAME, " ")))) {
    if (isUnspaced(word)) {
      if (!STOP_SIGNS.test(word)) tokens.push(word);
      continue;
    }
    const stem = mixedStem(word);
    if (!SMALL.has(word) && !FRAME.has(stem) && !/^\d+$/u.test(word)) tokens.push(stem);
  }
  return tokens;
}

export interface StemSet {
  has(stem: string): boolean;
}

/** Stems of many texts, found also by a long common beginning. */
export async function stemSet(texts: readonly string[], breathe: () => Promise<void> | undefined): Promise<StemSet> {
  const stems = new Set<string>();
  const beginnings = new Set<string>();
  for (const text of texts) {
    await breathe();
    for (const stem of stemsOf(text)) {
      if (stems.has(stem)) continue;
      stems.add(stem);
      if (stem.length >= KIN_CHARS) beginnings.add(stem.slice(0, KIN_CHARS));
    }
  }
  return {
    has: (stem) => stems.has(stem) || (stem.length >= KIN_CHARS && beginnings.has(stem.slice(0, KIN_CHARS))),
  };
}

/** Enough of a text to tell its language by. */
const LANGUAGE_CHARS = 20_000;

function beginningOf(texts: readonly string[]): string {
  let beginning = "";
  for (const text of texts) {
    beginning += `${text.slice(0, LANGUAGE_CHARS)}\n`;
    if (beginning.length >= LANGUAGE_CHARS) break;
  }
  return beginning.slice(0, LANGUAGE_CHARS);
}

/** The language most of some texts are in, by its small words; `unknown` when nothing stands out. */
export function languageOf(texts: readonly string[]): Language {
  const counts = new Map<Language, number>();
  for (const [word] of wordsIn(canonical(beginningOf(texts)))) {
    if (isUnspaced(word)) counts.set("unspaced", (counts.get("unspaced") ?? 0) + 0.5);
    else
      for (const [language, words] of SMALL_SETS)
        if (words.has(word)) counts.set(language, (counts.get(language) ?? 0) + 1);
  }
  const [first, second] = [...counts].sort((a, b) => b[1] - a[1]);
  if (first === undefined || first[1] < 2 || first[1] === second?.[1]) return "unknown";
  return first[0];
}
