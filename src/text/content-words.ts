import { canonical, isUnspaced, wordsIn } from "./canonical.ts";

/** Words that say little by themselves, in the languages most talked to an agent; others weigh a little too much. */
const STOP_WORDS = {
  en: `a an the and or but if then else of to in on at by for from with without into onto over under about as is are was were
    be been being am do does did doing done have has had having will would shall should can could may might must not no nor
    only own same so than too very just also again all any both each few more most other some such this that these those it
    its he she they them their his her him we us our you your i me my mine which who whom whose what when where why how there
    here now up down out off per via while because until during before after above below between through still yet already
    please want wants wanted need needs needed ask asks asked asking say says said request requests requested require requires
    required like likes use uses used using make makes made get gets got new one ones thing things way user users work works
    working worked logic code approach handling behaviour behavior issue issues problem problems task tasks help let lets
    dont doesnt didnt isnt arent wasnt wont cant im ive ill id were youre its thats whats first last next several part parts`,
  de: `der die das den dem des ein eine einen einem einer eines und oder aber wenn dann als wie von zu zum zur im in ins an am auf
    bei mit ohne für aus nach vor über unter um durch gegen ist sind war waren wird werden wurde wurden sein hat haben hatte
    hatten kann können könnte soll sollen sollte muss müssen darf dürfen will wollen möchte möchten nicht kein keine keinen
    nur auch noch schon sehr mehr so dass daß ob weil da es er sie wir ihr ich du man mich mir dich dir uns euch ihm ihn ihnen
    sich mein dein unser dieser diese dieses diesen jeder jede jedes alle was wer wo wann warum bitte nutzer benutzer kunde
    kundin wünscht verlangt bat sagte fragte bittet gebeten gesagt hier jetzt immer etwa beim vom`,
  fr: `le la les l un une des du de d et ou mais si alors comme que qui quoi dont où au aux en dans sur sous par pour avec sans
    ce cet cette ces ça cela est sont était étaient être été a ont avait avoir eu peut peuvent doit doivent ne pas plus n non
    je tu il elle on nous vous ils elles me te se lui leur y mon ton son ma ta sa mes tes ses notre votre nos vos leurs
    utilisateur utilisatrice client cliente veut souhaite voudrait demande demandé dit très aussi encore déjà tout tous toute
    toutes quand pourquoi comment bien même entre après avant chez vers s il te plaît`,
} as const;
type Language = keyof typeof STOP_WORDS | "unspaced" | "unknown";

const STOP_SETS = Object.entries(STOP_WORDS).map(
  ([language, words]) => [language as Language, new Set(canonical(words).split(/\s+/u))] as const,
);
const STOP = new Set(STOP_SETS.flatMap(([, words]) => [...words]));
/** Function signs of Chinese and Japanese: a pair that holds one says nothing. */
const STOP_SIGNS =
  /[的了是在和与及也都就把被让给对为以而或但这那其请要将会我你他她它们很到得着过吗呢吧のはがをにでともやへかなねよでするしたますいくださそれこれう]/u;

/** Longest first; a stem keeps at least three letters. */
const ENDINGS =
  /(?:ifications?|ified|ifying|ify|ifies|izations?|isations?|ising|izing|ised|ized|ises|izes|ise|ize|ations?|ating|ated|ates|ate|ungen|ung|ments?|ions?|ings?|ness|ement|ies|ers|ees|ens|ons|ent|ed|er|en|em|es|ez|ee|ly|al|e|s|y|n|t)$/u;
const STEM_CHARS_MIN = 3;
/** Words that share this much of a beginning are taken for one: compounds and endings that no list knows. */
const KIN_CHARS = 6;

/** The stems that carry a text's meaning; pairs of signs where a script has no spaces. */
export function stemsOf(text: string): string[] {
  const stems: string[] = [];
  let before = "";
  let beforeEnd = -1;
  for (const { 0: word, index } of wordsIn(canonical(text))) {
    if (!isUnspaced(word)) {
      if (!STOP.has(word)) stems.push(stemOf(word));
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
    .map(stemOf),
);

/** The words that say something, in their order; where a script has no spaces, its signs. Numbers are not words. */
export function tokensOf(text: string): string[] {
  const tokens: string[] = [];
  for (const { 0: word } of wordsIn(canonical(text.replace(UNSPACED_FRAME, " ")))) {
    if (isUnspaced(word)) {
      if (!STOP_SIGNS.test(word)) tokens.push(word);
      continue;
    }
    const stem = stemOf(word);
    if (!STOP.has(word) && !FRAME.has(stem) && !/^\d+$/u.test(word)) tokens.push(stem);
  }
  return tokens;
}

/** A word without accents and endings; what holds a digit or an underscore is a name and stays. */
function stemOf(word: string): string {
  if (/[\d_]/u.test(word)) return word;
  const plain = word.normalize("NFD").replace(/\p{M}/gu, "");
  const stem = plain.replace(ENDINGS, "");
  const base = stem.length >= STEM_CHARS_MIN ? stem : plain;
  // Once more, so that `insist` and `insisted` meet: the first round took `ed` from one and `t` from the other.
  return base.replace(/(?<=\p{L}{4})[esynt]$/u, "").replace(/([^aeiou])\1$/u, "$1");
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
      for (const [language, words] of STOP_SETS)
        if (words.has(word)) counts.set(language, (counts.get(language) ?? 0) + 1);
  }
  const [first, second] = [...counts].sort((a, b) => b[1] - a[1]);
  if (first === undefined || first[1] < 2 || first[1] === second?.[1]) return "unknown";
  return first[0];
}
