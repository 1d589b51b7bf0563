import { canonical, isUnspaced, wordsIn } from "./canonical.ts";
import { mixedStem } from "./stems.ts";

/** The content stems of a text; pairs of characters in scripts without spaces. */
export function stemsOf(text: string): string[] {
  const stems: string[] = [];
  let before = "";
  let beforeEnd = -1;
  for (const { word, index } of wordsIn(canonical(text))) {
    if (!isUnspaced(word)) {
      if (!smallWords().has(word)) stems.push(mixedStem(word));
      continue;
    }
    if (beforeEnd === index && !STOP_SIGNS.test(before) && !STOP_SIGNS.test(word)) stems.push(before + word);
    before = word;
    beforeEnd = index + word.length;
  }
  return stems;
}

/** Characters that only negate, insist or join; negation is compared separately. */
const UNSPACED_FRAME =
  /不[要能得许可]?|没有?|[别勿莫]|禁止|严禁|避免|绝对|必须|务必|一定|必ず|絶対|常に|[\u3040-\u309f]/gu;
/** Words that negate or insist, by their stems. */
const frameStems = once(
  () =>
    new Set(
      `never always avoid forbid forbidden prohibited none nobody nothing cannot must only niemals nie verboten immer
  jamais toujours nunca siempre keinesfalls`
        .split(/\s+/u)
        .map(mixedStem),
    ),
);

/** The content words in order; in scripts without spaces, characters. Numbers are no words. */
export function tokensOf(text: string): string[] {
  const tokens: string[] = [];
  for (const { word } of wordsIn(canonical(text.replace(UNSPACED_FRAME, " ")))) {
    if (isUnspaced(word)) {
      if (!STOP_SIGNS.test(word)) tokens.push(word);
      continue;
    }
    const stem = mixedStem(word);
    if (!smallWords().has(word) && !frameStems().has(stem) && !/^\d+$/u.test(word)) tokens.push(stem);
  }
  return tokens;
}

/** Words with a common prefix of this length are taken as equal: compounds and unlisted endings. */
const KIN_CHARS = 6;

export interface StemSet {
  has(stem: string): boolean;
}

/** The stems of many texts, also matched by a long common prefix. */
export async function stemSet(
  texts: readonly string[],
  yieldToEventLoop: () => Promise<void> | undefined,
): Promise<StemSet> {
  const stems = new Set<string>();
  const beginnings = new Set<string>();
  for (const text of texts) {
    await yieldToEventLoop();
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

/** Enough text to detect its language. */
const LANGUAGE_CHARS = 20_000;

/** The main language of some texts by its function words; `unknown` if unclear. */
export function languageOf(texts: readonly string[]): Language {
  const counts = new Map<Language, number>();
  for (const { word } of wordsIn(canonical(beginningOf(texts)))) {
    if (isUnspaced(word)) counts.set("unspaced", (counts.get("unspaced") ?? 0) + 0.5);
    else
      for (const [language, words] of smallSets())
        if (words.has(word)) counts.set(language, (counts.get(language) ?? 0) + 1);
  }
  const [first, second] = [...counts].sort((a, b) => b[1] - a[1]);
  if (first === undefined || first[1] < 2 || first[1] === second?.[1]) return "unknown";
  return first[0];
}

function beginningOf(texts: readonly string[]): string {
  let beginning = "";
  for (const text of texts) {
    beginning += `${text.slice(0, LANGUAGE_CHARS)}\n`;
    if (beginning.length >= LANGUAGE_CHARS) break;
  }
  return beginning.slice(0, LANGUAGE_CHARS);
}

/** Function words: no text is about them, but a query may consist of nothing else. */
const GRAMMAR = `a about after again all also am an and any are aren't as at be because been before being but by can
  can't could couldn't did didn't do does doesn't doing don't for from had hadn't has hasn't have haven't having he
  he's her here hers him his how how's i i'd i'll i'm i've if in into is isn't it it's its itself just let's may me
  might more most my myself no not of off on only or other our ours out over own please same shall she she's should
  so some such than that that's the their theirs them then there there's these they they're this those through to too
  up us very was wasn't we we'd we'll we're we've were weren't what what's when where where's which while who who's
  whom whose why will with won't would wouldn't you you'd you'll you're you've your yours`;
/** Function words that limit or place a statement. */
const BOUNDING = `above already below between both down during each else few mine much must nor now one onto ought
  per still under until via when's without yet yourself`;
/** Verbs for wanting, saying and having. */
const BARE = "get got let need say said thing things use used uses using want";
/** Words of reminders and courtesy. */
const ASKING = `actually called correction dont find give hello hey hi kindly know look mention mentioned note noted
  ok okay quick recall remember remind search show sure tell thank thanks today told well yes`;
/** Words of any report about work with an agent, which summaries exchange for each other. */
const REPORTING = `ask asks asked asking request requests requested require requires required wants wanted needs
  needed says like likes make makes made gets new ones way user users work works working worked logic code approach
  handling behaviour behavior issue issues problem problems task tasks help done first last next several part parts`;
const GERMAN = `der die das den dem des ein eine einen einem einer eines und oder aber wenn dann als wie von zu zum
  zur im in ins an am auf bei mit ohne für aus nach vor über unter um durch gegen ist sind war waren wird werden
  wurde wurden sein hat haben hatte hatten kann kannst können könnte könntest soll sollen sollte muss müssen darf dürfen will wollen
  möchte möchten nicht kein keine keinen nur auch noch schon sehr mehr so dass daß ob weil da es er sie wir ihr ich
  du man mich mir dich dir uns euch ihm ihn ihnen sich mein dein unser dieser diese dieses diesen jeder jede jedes
  alle was wer wo wann warum bitte nutzer benutzer kunde kundin wünscht verlangt bat sagte fragte bittet gebeten
  gesagt hier jetzt immer etwa beim vom`;
const FRENCH = `le la les l un une des du de d et ou mais si alors comme que qui quoi dont où au aux en dans sur sous
  par pour avec sans t peux pouvez ce cet cette ces ça cela est sont était étaient être été a ont avait avoir eu peut peuvent doit
  doivent ne pas plus n non je tu il elle on nous vous ils elles me te se lui leur y mon ton son ma ta sa mes tes ses
  notre votre nos vos leurs utilisateur utilisatrice client cliente veut souhaite voudrait demande demandé dit très
  aussi encore déjà tout tous toute toutes quand pourquoi comment bien même entre après avant chez vers s il te plaît`;

/** For search: treating `without` or `code` as stop words finds less (RealMem: R@5 20.2 instead of 20.5). */
export const FUNCTION_WORDS: ReadonlySet<string> = setOf(GRAMMAR);

/** For answering: words of a question that are not its topic. */
export const QUESTION_WORDS: ReadonlySet<string> = setOf(GRAMMAR, BOUNDING, BARE, ASKING);

/** For comparing texts in canonical form; `find` and `search` are actions there and stay. */
const SMALL_WORDS = { en: [GRAMMAR, BOUNDING, BARE, REPORTING].join(" "), de: GERMAN, fr: FRENCH } as const;

/** Words in canonical form and stems take time to compute, so that is done when the first text is read. */
function once<T>(compute: () => T): () => T {
  let value: T | undefined;
  return () => {
    value ??= compute();
    return value;
  };
}

function setOf(...lists: readonly string[]): ReadonlySet<string> {
  return new Set(lists.flatMap((words) => words.split(/\s+/u)));
}

type Language = keyof typeof SMALL_WORDS | "unspaced" | "unknown";

const smallSets = once(() =>
  // The keys of the table are languages.
  Object.entries(SMALL_WORDS).map(([language, words]) => [language as Language, setOf(canonical(words))] as const),
);
const smallWords = once(() => new Set(smallSets().flatMap(([, words]) => [...words])));
/** Function characters of Chinese and Japanese: a pair with one has no content. */
const STOP_SIGNS =
  /[的了是在和与及也都就把被让给对为以而或但这那其请要将会我你他她它们很到得着过吗呢吧のはがをにでともやへかなねよでするしたますいくださそれこれう]/u;
